"""Virtual time: waiting costs nothing, and an hour of backoff is over at once.

::

    def test_something():
        run(scenario())         # asyncio.sleep(600) inside it returns at once, ten minutes later

The loop runs whatever is ready; when nothing is, the clock jumps to the next timer. Each iteration
of the loop takes a microsecond, however long its code computes, so the same code sees the same
times on every machine.
"""

import asyncio
import functools
import selectors
from collections.abc import Callable, Coroutine
from typing import Any, Final, ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")

_ITERATION_SECONDS: Final = 1e-6


class NothingToWaitForError(RuntimeError):
    """Every task waits for another one, and no timer is set: on a real loop this would hang."""


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    """An event loop whose clock jumps to the next timer instead of waiting for it.

    It is meant for code without sockets; a socket that is ready is served, but none is waited for.
    """

    def __init__(self) -> None:
        self._now = 0.0
        super().__init__(_Jumping(self))

    def time(self) -> float:
        """Return the virtual time in seconds; it begins at 0."""
        return self._now

    def advance(self, seconds: float) -> None:
        """Let *seconds* pass."""
        # Timers of the same moment would otherwise fall on either side of a rounding error.
        self._now = round(self._now + seconds, 9)


class _Jumping(selectors.DefaultSelector):
    """A selector that advances the clock instead of waiting."""

    def __init__(self, loop: VirtualTimeLoop) -> None:
        super().__init__()
        self._loop = loop

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready = super().select(0)
        if not ready and timeout is None:
            raise NothingToWaitForError("no task is ready and no timer is set")
        # An iteration that takes no time would keep a task that waits for the next instant waiting.
        self._loop.advance(_ITERATION_SECONDS if ready else max(timeout or 0.0, _ITERATION_SECONDS))
        return ready


def run(main: Coroutine[Any, Any, R]) -> R:
    """Run *main* in virtual time and return what it returns."""
    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        return runner.run(main)


def in_virtual_time(test: Callable[P, Coroutine[Any, Any, R]]) -> Callable[P, R]:
    """Make a coroutine function an ordinary one that runs in virtual time: for tests."""

    @functools.wraps(test)
    def runs(*args: P.args, **kwargs: P.kwargs) -> R:
        return run(test(*args, **kwargs))

    return runs
