"""How the runner's work becomes metrics."""

import random
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from time import perf_counter
from types import TracebackType
from typing import Final

from scheduler.framework.observer import SILENT, Ending, Observer
from scheduler.observe.metrics import Metrics

SAMPLED_SHARE: Final = 0.1
_NOTHING: Final = nullcontext()


class CycleObserver:
    """The Observer of one profile.

    Each run of an extension point is timed. Single plugins are timed in one cycle of ten, drawn
    anew for each: two clock readings a plugin would otherwise cost as much as a small plugin does.
    Ask ``sampled`` to save even the call.

    Args:
        metrics: Where it goes.
        profile: The profile's scheduler name.
        draw: Returns a number from 0 to 1 for each cycle.
    """

    def __init__(
        self, metrics: Metrics, profile: str, draw: Callable[[], float] = random.random
    ) -> None:
        self._metrics = metrics
        self._profile = profile
        self._draw = draw
        self.sampled = False

    def begin_cycle(self) -> None:
        """Draw whether the plugins of the next cycle are timed."""
        self.sampled = self._draw() < SAMPLED_SHARE

    def extension_point(self, point: str) -> AbstractContextManager[Ending]:
        """Enclose one run of an extension point, as in ``PreFilter``."""
        return _Timed(lambda status, seconds: self.point_ended(point, status, seconds))

    def plugin(self, point: str, plugin: str) -> AbstractContextManager[object]:
        """Enclose one plugin's turn."""
        if not self.sampled:
            return _NOTHING
        return _Timed(
            lambda status, seconds: self._metrics.plugin_ended(plugin, point, status, seconds)
        )

    def asked(self, point: str, plugin: str, times: int) -> None:
        """Count questions to a plugin; a node is one. Upstream counts none at PostFilter."""
        if point == "PostFilter":
            if plugin == "DefaultPreemption":
                self._metrics.preemption_tried()
            return
        self._metrics.plugin_asked(plugin, point, self._profile, times)

    def unmeasured(self) -> Observer:
        """Measure nothing within a plugin's turn: it is part of that."""
        return SILENT

    def paused(self, point: str, plugin: str) -> None:
        """Each turn of a plugin that pauses is timed by itself."""

    def point_ended(self, point: str, status: str, seconds: float) -> None:
        """Record a run of an extension point that was timed elsewhere."""
        self._metrics.extension_point_ended(point, status, self._profile, seconds)


class _Timed:
    """Times a block; what raised counts as Error, as upstream's status does.

    A generator that is left early did not raise: whoever asked has heard enough.
    """

    __slots__ = ("_begin", "_record", "_status")

    def __init__(self, record: Callable[[str, float], None]) -> None:
        self._record = record
        self._status = "Success"

    def __enter__(self) -> Ending:
        self._begin = perf_counter()
        return self._end_as

    def _end_as(self, status: str) -> None:
        self._status = status

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        well = kind is None or kind is GeneratorExit
        self._record(self._status if well else "Error", perf_counter() - self._begin)
