"""Asking again at the time that the API server names: a 429 is an appointment, not a failure."""

import asyncio
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Final

from scheduler.errors import Throttled


@dataclass(frozen=True, slots=True)
class ThrottlePacing:
    """For how long a server may put us off, in all."""

    seconds_maximum: float = 60.0
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    rng: random.Random = field(default_factory=random.Random)


DEFAULT_PACING: Final = ThrottlePacing()


async def keep_appointments(
    request: Callable[[], Awaitable[bytes]],
    *,
    wanted: Callable[[], bool] = lambda: True,
    told: Callable[[float], None] = lambda _: None,
    pacing: ThrottlePacing = DEFAULT_PACING,
) -> bytes:
    """Make *request*, and again each time that the server names, until it is let in.

    Args:
        request: Changes nothing where it is answered with 429.
        wanted: Asked before each repetition whether this is still to be done.
        told: Hears each time for how many seconds the server puts us off.
        pacing: For how long it may, in all.

    Raises:
        Throttled: If that takes too long in all, or if it is not wanted any more.
        ApiError: Whatever else *request* raises.
    """
    waited = 0.0
    while True:
        try:
            return await request()
        except Throttled as later:
            seconds = later.retry_after_seconds
            told(seconds)
            waited += seconds
            if waited > pacing.seconds_maximum:
                raise
            # Everybody who was turned away was told the same moment.
            await pacing.sleep(seconds * pacing.rng.uniform(1.0, 1.1))
            if not wanted():
                raise
