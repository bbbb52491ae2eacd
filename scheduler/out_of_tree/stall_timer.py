"""A timer that breaks into a plugin which does not come to an end.

The interval timer of the process rings in the main thread, between two bytecodes, and raises there.
That works under any event loop, and it has one limit: a loop in C (one call into NumPy, a blocking
system call that is repeated) is broken only when it returns to Python.
"""

import signal
import threading
import time
from collections.abc import Collection, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from types import FrameType, TracebackType
from typing import Final

from scheduler.errors import PluginError
from scheduler.framework.observer import Silent

SECONDS: Final = 1.0
"""How long one answer may take, where nobody says otherwise."""
_ASKING: Final = "scheduler.framework.invoke"
# Raising while these are at work could leave a column half built, and a turn half ended.
_NOT_NOW: Final = ("scheduler.snapshot", "scheduler.model", "scheduler.loop", "scheduler.observe")
_SOON_SECONDS: Final = 0.005


class Stalled(BaseException):
    """Raised inside a plugin: no Exception, since plugins may catch those."""


class StallTimer:
    """Raises Stalled in whoever is between ``enter`` and ``leave`` for too long.

    Until it is installed, and on a platform without interval timers, it does nothing.

    Args:
        seconds: How long is too long; 0 for ever.
    """

    def __init__(self, seconds: float = SECONDS) -> None:
        self.seconds = seconds
        self._depth = 0
        self._installed = False

    def install(self) -> None:
        """Take the alarm signal over; only the main thread can."""
        if self._can_install:
            signal.signal(signal.SIGALRM, self._ring)
            self._installed = True

    @property
    def _can_install(self) -> bool:
        return (
            self.seconds > 0
            and hasattr(signal, "setitimer")
            and threading.current_thread() is threading.main_thread()
        )

    @contextmanager
    def borrowed(self) -> Iterator[None]:
        """Install the timer for a while; whoever had the alarm gets it back, and what was left."""
        if not self._can_install:
            yield
            return
        handler = signal.getsignal(signal.SIGALRM)
        left, interval = signal.setitimer(signal.ITIMER_REAL, 0.0)
        began = time.monotonic()
        self.install()
        try:
            yield
        finally:
            self._installed = False
            signal.signal(signal.SIGALRM, signal.SIG_DFL if handler is None else handler)
            if left:
                remaining = max(left - (time.monotonic() - began), _SOON_SECONDS)
                signal.setitimer(signal.ITIMER_REAL, remaining, interval)

    def enter(self) -> None:
        """Begin to count, unless a turn around this one counts already."""
        self._depth += 1
        if self._depth == 1 and self._installed:
            # It rings again and again: a plugin may survive the first time in a bare except.
            signal.setitimer(signal.ITIMER_REAL, self.seconds, self.seconds)

    def leave(self) -> None:
        """Stop counting."""
        self._depth -= 1
        if self._depth == 0 and self._installed:
            signal.setitimer(signal.ITIMER_REAL, 0.0)

    def blame(self, plugin: str, point: str) -> PluginError:
        """Return what *plugin* is told when it was broken off."""
        return PluginError(plugin, f"stalled: it gave no answer in {point} for {self.seconds:g}s")

    def _ring(self, _signal: int, frame: FrameType | None) -> None:
        if not self._depth:
            return
        while frame is not None and frame.f_globals.get("__name__") != _ASKING:
            if str(frame.f_globals.get("__name__")).startswith(_NOT_NOW):
                signal.setitimer(signal.ITIMER_REAL, _SOON_SECONDS, self.seconds)
                return
            frame = frame.f_back
        if frame is not None:
            raise Stalled


class PluginTimeout(Silent):
    """Breaks off the *out_of_tree* plugins that give no answer in time, and does no more.

    For whom nothing follows from it but an error: in the loop PluginCare counts such failures.
    """

    def __init__(self, out_of_tree: Collection[str], timer: StallTimer) -> None:
        self._out_of_tree = out_of_tree
        self._timer = timer

    def plugin(self, point: str, plugin: str) -> AbstractContextManager[object]:
        """Enclose one plugin's turn."""
        if plugin not in self._out_of_tree:
            return nullcontext()
        return _Turn(self._timer, point, plugin)


class _Turn:
    """One turn of an out-of-tree plugin."""

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
            raise self._timer.blame(self._plugin, self._point) from None
