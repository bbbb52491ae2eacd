"""Records the runs of extension points and the calls of plugins as metrics."""

import random
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from time import perf_counter
from types import TracebackType
from typing import Final

from scheduler.framework.observer import SILENT, Ending, Observer
from scheduler.observe import families
from scheduler.observe.metrics import Distributions, Metrics

SAMPLED_SHARE: Final = 0.1
_NOTHING: Final = nullcontext()


class CycleObserver:
    """The Observer of one profile.

    Each run of an extension point is timed. Single plugins are timed in one cycle of ten, as
    kube-scheduler does (pluginMetricsSamplePercent): two clock readings a plugin would otherwise
    cost as much as a small plugin does. A caller may check ``sampled`` and skip `plugin`.

    Args:
        metrics: Receives what is counted and timed.
        profile: The profile's scheduler name.
        draw: Returns a number from 0 to 1 for each cycle.
    """

    def __init__(
        self, metrics: Metrics, profile: str, draw: Callable[[], float] = random.random
    ) -> None:
        self._metrics = metrics
        self._point_durations = metrics.distributions(families.EXTENSION_POINT_DURATION)
        self._plugin_durations = metrics.distributions(families.PLUGIN_DURATION)
        self._evaluations = metrics.counts(families.PLUGIN_EVALUATIONS)
        self._profile = profile
        self._draw = draw
        self.sampled = False

    def begin_cycle(self) -> None:
        """Draw whether the plugins of the next cycle are timed."""
        self.sampled = self._draw() < SAMPLED_SHARE

    def extension_point(self, point: str) -> AbstractContextManager[Ending]:
        """Enclose one run of an extension point, as in ``PreFilter``."""
        return _Timed(self._point_durations, (point,), (self._profile,))

    def plugin(self, point: str, plugin: str) -> AbstractContextManager[object]:
        """Enclose one call of a plugin."""
        if not self.sampled:
            return _NOTHING
        return _Timed(self._plugin_durations, (plugin, point), ())

    def evaluated(self, point: str, plugin: str, times: int) -> None:
        """Count evaluations of a plugin, one for each node."""
        if point == "PostFilter":
            # Upstream counts no evaluation here; its preemption counts itself.
            if plugin == "DefaultPreemption":
                self._metrics.count(families.PREEMPTION_ATTEMPTS)
            return
        assert times >= 0, f"{plugin} cannot have been evaluated {times} times"
        self._evaluations[plugin, point, self._profile] += times

    def unmeasured(self) -> Observer:
        """Return an observer that measures nothing: the outer call's time includes inner calls."""
        return SILENT

    def paused(self, point: str, plugin: str) -> None:
        """Do nothing: each step of a plugin that pauses is timed by itself."""

    def point_ended(self, point: str, status: str, seconds: float) -> None:
        """Record a run of an extension point that was timed elsewhere."""
        self._point_durations[point, status, self._profile].observe(seconds)


class _Timed:
    """Times a block; if it raised, it counts as Error, as upstream's status does.

    A generator that is closed early (GeneratorExit) has not failed: its caller needed no more
    values.

    Args:
        durations: Receives the seconds.
        before: The values of the labels before that of the status.
        after: Those after it.
    """

    __slots__ = ("_after", "_before", "_began", "_durations", "_status")

    def __init__(
        self, durations: Distributions, before: tuple[str, ...], after: tuple[str, ...]
    ) -> None:
        self._durations = durations
        self._before = before
        self._after = after
        self._status = "Success"

    def __enter__(self) -> Ending:
        self._began = perf_counter()
        return self._end_as

    def _end_as(self, status: str) -> None:
        self._status = status

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        seconds = perf_counter() - self._began
        status = self._status if kind is None or kind is GeneratorExit else "Error"
        self._durations[(*self._before, status, *self._after)].observe(seconds)
