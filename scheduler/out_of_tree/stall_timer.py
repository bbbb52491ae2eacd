"""A timer that interrupts an out-of-tree plugin which does not return.

The process's interval timer raises SIGALRM in the main thread, between two bytecodes, and the
handler raises an exception there. That works under any event loop, and it has one limit: C code
(one call into NumPy, a blocking system call that is repeated) is interrupted only when it returns
to Python. A plugin in a thread of its own could be abandoned, but not be ended.
"""

import signal
import threading
import time
from collections.abc import Collection, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from types import FrameType, TracebackType
from typing import Final

from scheduler.errors import PluginError
from scheduler.framework.invoke import call_plugin
from scheduler.framework.observer import Silent

SECONDS: Final = 1.0
"""How long one call of a plugin may take, unless --plugin-timeout says otherwise."""

_OURS: Final = __name__.partition(".")[0]
INTERRUPTIBLE: Final = frozenset({"cycle", "framework", "plugins", "testing"})
"""The rooms of ours that may be interrupted: they pass calls on to a plugin, or compute for it, and
have no state of their own. In any other (also in one that is added later) an interruption could
leave a column half built, an assumed pod half forgotten or a timer that nobody stops."""
_SOON_SECONDS: Final = 0.005


class Stalled(BaseException):
    """Raised inside a plugin: no Exception, since plugins may catch those."""


class StallTimer:
    """Raises Stalled in code that stays too long between ``enter`` and ``leave``.

    Until it is installed, and on a platform without interval timers, it does nothing.

    Args:
        seconds: How long is too long; 0 for no limit.
    """

    def __init__(self, seconds: float = SECONDS) -> None:
        self.seconds = seconds
        self._depth = 0
        self._installed = False

    def install(self) -> None:
        """Handle the alarm signal from now on; only the main thread can."""
        assert self._depth == 0, "installed during a plugin's call, which would have no limit"
        if self._can_install:
            signal.signal(signal.SIGALRM, self._on_alarm)
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
        """Install the timer for a while, then restore the earlier handler and its remaining time.

        A test runner may use the alarm for its own time limit, as pytest-timeout does.
        """
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
            assert self._depth == 0, "a plugin's call goes on after the check of the plugin"
            self._installed = False
            signal.signal(signal.SIGALRM, signal.SIG_DFL if handler is None else handler)
            if left:
                remaining = max(left - (time.monotonic() - began), _SOON_SECONDS)
                signal.setitimer(signal.ITIMER_REAL, remaining, interval)

    def enter(self) -> None:
        """Start the time of a plugin's call; one within another call shares that one's time."""
        self._depth += 1
        if self._depth == 1 and self._installed:
            # The alarm repeats: a plugin may swallow the first one in a bare except.
            signal.setitimer(signal.ITIMER_REAL, self.seconds, self.seconds)

    def leave(self) -> None:
        """End the time of a plugin's call."""
        assert self._depth > 0, "more calls of plugins ended than began"
        self._depth -= 1
        if self._depth == 0 and self._installed:
            signal.setitimer(signal.ITIMER_REAL, 0.0)

    def error_of(self, plugin: str, point: str) -> PluginError:
        """Return the error of *plugin* after it was interrupted."""
        return PluginError(plugin, f"stalled: it gave no answer in {point} for {self.seconds:g}s")

    def _on_alarm(self, _signal: int, frame: FrameType | None) -> None:
        """Raise in the plugin, or try again soon if it is in code that must not be interrupted."""
        if not self._depth:
            return
        # The innermost call_plugin is the one to blame: whatever lies above it waits for it.
        while frame is not None and frame.f_code is not call_plugin.__code__:
            if not _may_be_interrupted(frame):
                signal.setitimer(signal.ITIMER_REAL, _SOON_SECONDS, self.seconds)
                return
            frame = frame.f_back
        if frame is not None:
            raise Stalled


def _may_be_interrupted(frame: FrameType) -> bool:
    """Tell whether *frame* is out-of-tree code, or code of ours without state.

    A frame belongs to the package that its module was imported into, whatever its file is called.
    """
    package: str = frame.f_globals.get("__package__") or ""
    top, _, rest = package.partition(".")
    return top != _OURS or rest.partition(".")[0] in INTERRUPTIBLE


class PluginTimeout(Silent):
    """Interrupts the *out_of_tree* plugins that give no answer in time, and does no more.

    For callers to whom a stalled plugin is only an error, such as ``explain`` and ``check_plugin``;
    in the loop PluginSupervisor counts such failures.
    """

    def __init__(self, out_of_tree: Collection[str], timer: StallTimer) -> None:
        self._out_of_tree = out_of_tree
        self._timer = timer

    def plugin(self, point: str, plugin: str) -> AbstractContextManager[object]:
        """Enclose one call of a plugin."""
        if plugin not in self._out_of_tree:
            return nullcontext()
        return _TimedCall(self._timer, point, plugin)


class _TimedCall:
    """One call of an out-of-tree plugin."""

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
            raise self._timer.error_of(self._plugin, self._point) from None
