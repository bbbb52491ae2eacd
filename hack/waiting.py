"""Waiting for what other processes do: they send no event, so their state is polled."""

import asyncio
import time
from collections.abc import Callable
from typing import Final, TypeVar

T = TypeVar("T")

_POLL_SECONDS: Final = 0.03


class NotInTimeError(AssertionError):
    """The deadline passed before the condition held."""


def until(
    holds: Callable[[], T],
    what: str = "",
    *,
    seconds: float,
    poll_seconds: float = _POLL_SECONDS,
) -> T:
    """Poll *holds* until it returns something true, and return that.

    Args:
        what: The condition in words, for the message.
        seconds: The deadline.
        poll_seconds: The pause between two calls.

    Raises:
        NotInTimeError: If it takes longer.
    """
    deadline = time.monotonic() + seconds
    while not (answer := holds()):
        _check(deadline, what or repr(holds), seconds)
        time.sleep(poll_seconds)  # polling faster would slow the process that shares these cores
    return answer


async def until_async(
    holds: Callable[[], T],
    what: str = "",
    *,
    seconds: float,
    poll_seconds: float = _POLL_SECONDS,
) -> T:
    """Do as `until` does, and let other tasks run meanwhile."""
    deadline = time.monotonic() + seconds
    while not (answer := holds()):
        _check(deadline, what or repr(holds), seconds)
        await asyncio.sleep(poll_seconds)
    return answer


def _check(deadline: float, what: str, seconds: float) -> None:
    if time.monotonic() > deadline:
        raise NotInTimeError(f"still not so after {seconds:.0f} s: {what}")
