"""Waiting for what other processes do: they tell nobody, so we ask until it is so."""

import asyncio
import time
from collections.abc import Callable
from typing import Final, TypeVar

T = TypeVar("T")

_POLL_SECONDS: Final = 0.03


class NotInTimeError(AssertionError):
    """What was waited for did not come to be."""


def until(
    holds: Callable[[], T],
    what: str = "",
    *,
    seconds: float,
    poll_seconds: float = _POLL_SECONDS,
) -> T:
    """Ask until *holds* returns something true, and return that.

    Args:
        what: What is waited for, for the message.
        seconds: How long at most.
        poll_seconds: How long from an answer to the next question.

    Raises:
        NotInTimeError: If it takes longer.
    """
    deadline = time.monotonic() + seconds
    while not (answer := holds()):
        _check(deadline, what or repr(holds), seconds)
        time.sleep(poll_seconds)  # who is waited for shares these cores, and tells nobody
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
