"""Reports the outcome of a changed configuration: a log line, metrics, and an event."""

import time
from collections.abc import Callable
from typing import Final

from scheduler.config.change import Outcome, Result
from scheduler.config.configuration import SchedulerConfiguration
from scheduler.kube.events import Event, Reference, configuration_judged
from scheduler.loop.core import AppliedConfiguration
from scheduler.observe import event_names, families
from scheduler.observe.logs import get_logger
from scheduler.observe.metrics import Metrics

log = get_logger()

_STAYS: Final = "what was in force before stays in force"


class Report:
    """Reports the outcomes of configurations.

    Args:
        metrics: Counts them.
        record: Writes an event.
        this_pod: This process's pod, which events about a file refer to.
        configuration: The one that the process starts with.
        wall: Unix seconds, only for the metric of the last change.
    """

    def __init__(
        self,
        metrics: Metrics,
        record: Callable[[Event], None],
        this_pod: Reference,
        configuration: SchedulerConfiguration,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self._metrics = metrics
        self._record = record
        self._this_pod = this_pod
        self._wall = wall
        self._applied_at = wall()
        self._fingerprint = configuration.fingerprint
        self._refused: set[str] = set()
        self._last: dict[str, Outcome] = {}
        metrics.read(families.CONFIGURATION_TIMESTAMP, self._read_applied_at)
        metrics.read(families.CONFIGURATION_GOOD, self._read_good)
        metrics.read(families.CONFIGURATION_INFO, lambda: {self._fingerprint: 1.0})
        log.info(
            event_names.CONFIGURATION_LOADED,
            profiles=list(configuration.names),
            fingerprint=configuration.fingerprint,
        )
        _log_warnings(configuration)

    def _read_applied_at(self) -> dict[tuple[str, ...], float]:
        return {(): self._applied_at}

    def _read_good(self) -> dict[tuple[str, ...], float]:
        return {(): float(not self._refused)}

    def applied(self, configuration: SchedulerConfiguration, applied: AppliedConfiguration) -> None:
        """Report a configuration that is in force from now on."""
        self._applied_at = self._wall()
        self._fingerprint = configuration.fingerprint
        log.info(
            event_names.CONFIGURATION_APPLIED,
            profiles=list(configuration.names),
            fingerprint=configuration.fingerprint,
            pods_taken=applied.adopted,
            pods_left=applied.dismissed,
        )
        _log_warnings(configuration)

    def judged(self, source: str, outcome: Outcome) -> None:
        """Count a configuration, and log why it is not in force if it is not."""
        if outcome.result.is_transient and self._last.get(source) == outcome:
            return  # it was tried again, and nothing is new
        self._last[source] = outcome
        self._metrics.count(families.CONFIGURATIONS, source, outcome.result)
        # One source says nothing about another: a file that stays as it was makes no object good.
        if outcome.good:
            self._refused.discard(source)
        else:
            self._refused.add(source)
            log.error(
                event_names.CONFIGURATION_REFUSED,
                source=source,
                result=outcome.result,
                problems=list(outcome.problems),
                remedy=f"correct it; {_STAYS}",
            )
        if source == "file" and outcome.result is not Result.UNCHANGED:
            self._record(configuration_judged(self._this_pod, outcome))

    def forget(self, source: str) -> None:
        """Forget the last outcome of *source*, which no longer exists."""
        self._refused.discard(source)
        self._last.pop(source, None)

    def watch_failed(self, source: str, problem: Exception, again_in_seconds: float) -> None:
        """Log that a defect of ours ended the watch of *source*, which starts again later."""
        self._refused.add(source)
        log.error(
            event_names.CONFIGURATION_UNFOLLOWED,
            source=source,
            error=repr(problem),
            remedy=f"report it, with this line; {_STAYS}",
            again_in_seconds=again_in_seconds,
            exc_info=problem,
        )


def _log_warnings(configuration: SchedulerConfiguration) -> None:
    if configuration.ignored_fields:
        log.warning(
            event_names.CONFIGURATION_IGNORED,
            fields=list(configuration.ignored_fields),
            why="they have no meaning here",
        )
    if configuration.missing_defaults:
        log.warning(
            event_names.DEFAULT_PLUGINS_MISSED, plugins=list(configuration.missing_defaults)
        )
