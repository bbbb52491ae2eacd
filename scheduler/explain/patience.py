"""Plugins by users, asked against the clock: an explanation must come to an end, too."""

from collections.abc import Collection
from contextlib import AbstractContextManager, nullcontext
from types import TracebackType
from typing import Final

from scheduler.errors import PluginError
from scheduler.framework.observer import Silent
from scheduler.stall_timer import Stalled, StallTimer

SECONDS: Final = 1.0
"""How long one answer may take: as long as the scheduler gives by default."""


class Patience(Silent):
    """Breaks off the *foreign* plugins that give no answer in time."""

    def __init__(self, foreign: Collection[str], timer: StallTimer) -> None:
        self._foreign = foreign
        self._timer = timer

    def plugin(self, point: str, plugin: str) -> AbstractContextManager[object]:
        """Enclose one plugin's turn."""
        if plugin not in self._foreign:
            return nullcontext()
        return _Turn(self._timer, point, plugin)


class _Turn:
    """One turn of a foreign plugin."""

    def __init__(self, timer: StallTimer, point: str, plugin: str) -> None:
        self._timer = timer
        self._point = point
        self._plugin = plugin

    def __enter__(self) -> None:
        self._timer.enter()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._timer.leave()
        if isinstance(error, Stalled):
            seconds = f"{self._timer.seconds:g}s"
            text = f"stalled: it gave no answer in {self._point} for {seconds}"
            raise PluginError(self._plugin, text) from None
