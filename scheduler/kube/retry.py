"""Trying a request again: how long to wait in between, how often, and until when.

A 429 says that nothing was done and names the time of the next try, so it is always waited out.
Any other failure is repeated only where the caller says so, since only the caller knows whether
its request may be made twice.
"""

import asyncio
import math
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Final, TypeVar

from scheduler.errors import Abandoned, ApiError, Throttled

T = TypeVar("T")

_EXPONENT_MAXIMUM: Final = 30
"""Doubling ends here: 2.0 ** 1024 overflows, and a watch may fail more often than that."""


@dataclass(frozen=True, slots=True)
class Backoff:
    """Pauses that grow with each failure in a row, and are spread at random.

    Args:
        seconds_initial: After the first failure.
        seconds_maximum: Where growth ends; the spread comes on top.
        factor: How much longer each pause is than the one before.
        spread: Each pause is multiplied by a random factor between these two, so that clients that
            failed together do not return together.
    """

    seconds_initial: float
    seconds_maximum: float = math.inf
    factor: float = 2.0
    spread: tuple[float, float] = (1.0, 1.0)

    def seconds(self, failures: int, rng: random.Random) -> float:
        """Return the pause after as many *failures* before the last one."""
        assert failures >= 0
        exponential = self.seconds_initial * self.factor ** min(failures, _EXPONENT_MAXIMUM)
        return _spread(min(exponential, self.seconds_maximum), self.spread, rng)


@dataclass(frozen=True, slots=True)
class RetrySettings:
    """How one kind of request is tried again.

    Args:
        backoff: The pauses after failures other than a 429.
        tries_maximum: How many tries may fail in this way; None for no limit.
        throttled_seconds_maximum: The limit on the sum of all Retry-After times.
        throttled_spread: The factor on the time that a 429 names, as in `Backoff`.
        throttled_is_try: Whether a 429 counts among the tries.
        sleep: How to wait.
        rng: The source of the spread.
    """

    backoff: Backoff = Backoff(1.0)
    tries_maximum: int | None = None
    throttled_seconds_maximum: float = math.inf
    throttled_spread: tuple[float, float] = (1.0, 1.0)
    throttled_is_try: bool = False
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    rng: random.Random = field(default_factory=random.Random)


THROTTLED_ONLY: Final = RetrySettings(
    # All clients that get a 429 at one moment get the same Retry-After, so each adds a little.
    throttled_seconds_maximum=60.0,
    throttled_spread=(1.0, 1.1),
)
"""For a request that is repeated after a 429 and after nothing else."""


class Tries:
    """The tries of one operation: how many failed, and the sum of the Retry-After times.

    Args:
        settings: How often and how long.
        on_throttled: Called with the seconds of each 429.
    """

    __slots__ = ("_failures", "_on_throttled", "_settings", "_throttled_seconds")

    def __init__(
        self, settings: RetrySettings, on_throttled: Callable[[float], None] = lambda _: None
    ) -> None:
        # wait_after compares for equality, so a maximum of 0 would never be reached.
        assert settings.tries_maximum is None or settings.tries_maximum > 0, "no try is allowed"
        self._settings = settings
        self._on_throttled = on_throttled
        self._failures = 0
        self._throttled_seconds = 0.0

    async def wait_after(self, error: ApiError) -> bool:
        """Wait until the next try after *error* is due; return False if no try is left."""
        settings = self._settings
        if not isinstance(error, Throttled) or settings.throttled_is_try:
            self._failures += 1
            if self._failures == settings.tries_maximum:
                return False
        if isinstance(error, Throttled):
            self._on_throttled(error.retry_after_seconds)
            self._throttled_seconds += error.retry_after_seconds
            if self._throttled_seconds > settings.throttled_seconds_maximum:
                return False
            seconds = _spread(error.retry_after_seconds, settings.throttled_spread, settings.rng)
        else:
            seconds = settings.backoff.seconds(self._failures - 1, settings.rng)
        await settings.sleep(seconds)
        return True


async def retry(
    request: Callable[[], Awaitable[T]],
    settings: RetrySettings = THROTTLED_ONLY,
    *,
    repeats: Callable[[ApiError], bool] = lambda _: False,
    wanted: Callable[[], bool] = lambda: True,
    on_throttled: Callable[[float], None] = lambda _: None,
) -> T:
    """Make *request*, and make it again after a 429 and after what *repeats* accepts.

    Args:
        request: Makes one try.
        settings: How often it is tried, and the pauses in between.
        repeats: Whether the request may be made again after an error other than a 429.
        wanted: Whether the result is still wanted; called before each try but the first.
        on_throttled: Called with the seconds of each 429.

    Raises:
        Abandoned: If the result is not wanted any more; it carries the text of the last failure.
        ApiError: The last failure, if it must not be repeated or no try is left.
    """
    tries: Tries | None = None  # most requests need no second try
    while True:
        try:
            return await request()
        except ApiError as error:
            tries = tries or Tries(settings, on_throttled)
            may_repeat = isinstance(error, Throttled) or repeats(error)
            if not may_repeat or not await tries.wait_after(error):
                raise
            if not wanted():
                raise Abandoned(str(error), status=error.status, reason=error.reason) from error


def _spread(seconds: float, spread: tuple[float, float], rng: random.Random) -> float:
    """Multiply *seconds* by a random factor within *spread*."""
    least, most = spread
    assert 0 < least <= most, f"not a range of positive factors: {spread}"
    # Nothing is drawn where nothing is spread: simulations replay the same draws.
    return seconds if least == most else seconds * rng.uniform(least, most)
