"""Shows how far a benchmark is: a bar on a terminal, a line a step elsewhere."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Final, TextIO

if TYPE_CHECKING:
    from collections.abc import Callable

_WIDTH: Final = 24
_REDRAW_SECONDS: Final = 0.1
_CLEAR: Final = "\r\x1b[K"


class Progress:
    """One bar for all runs, and under its last words what the present run does.

    Args:
        runs: How many runs there will be.
        out: Where it is written.
        clock: Monotonic seconds.
    """

    def __init__(
        self,
        runs: int,
        out: TextIO = sys.stderr,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._runs = runs
        self._out = out
        self._clock = clock
        self._done = 0
        self._label = ""
        self._drawn = float("-inf")
        self._bar = out.isatty()
        self._began = clock()

    def begin(self, label: str) -> None:
        """Say which run begins."""
        self._label = label
        if not self._bar:
            self._out.write(f"[{self._done + 1}/{self._runs}] {label}\n")
            self._out.flush()

    def step(self, what: str, count: int) -> None:
        """Say what the run does and how often it has done it; called often, drawn seldom."""
        now = self._clock()
        if self._bar and now - self._drawn >= _REDRAW_SECONDS:
            self._drawn = now
            self._draw(f"{what} {count:,}")

    def end(self, line: str) -> None:
        """Say what the run came to: a line that stays."""
        self._done += 1
        self._out.write(f"{_CLEAR if self._bar else ''}{line}\n")
        if self._bar and self._done < self._runs:
            self._draw("")
        self._out.flush()

    def _draw(self, what: str) -> None:
        self._out.write(f"{_CLEAR}{self.bar()} {self._label} {what}")
        self._out.flush()

    def bar(self) -> str:
        """Return the bar itself, with how much time is left if all runs take equally long."""
        filled = round(_WIDTH * self._done / max(1, self._runs))
        left = ""
        if self._done:
            took = self._clock() - self._began
            minutes = took / self._done * (self._runs - self._done) / 60
            left = f", {minutes:.0f} min left"
        return f"[{'#' * filled}{'.' * (_WIDTH - filled)}] {self._done}/{self._runs}{left}"
