"""The rate limit of requests: a token bucket, as in client-go."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Final

QPS_DEFAULT: Final = 50.0
BURST_DEFAULT: Final = 100


class RateLimiter:
    """A bucket of *burst* tokens, refilled with *qps* tokens a second; first come, first served.

    Each event loop has its own, since nothing here is locked.

    Args:
        qps: Requests a second in the long run; negative for no limit, 0 for the default.
        burst: Requests that may be sent at once after a quiet time; 0 for the default.
        clock: A monotonic clock in seconds.
        sleep: How to wait.
    """

    def __init__(
        self,
        qps: float = QPS_DEFAULT,
        burst: int = BURST_DEFAULT,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._qps = qps or QPS_DEFAULT
        self.limits: Final = self._qps >= 0
        """Whether there is a limit at all."""
        self._burst = float(burst or BURST_DEFAULT)
        self._clock = clock
        self._sleep = sleep
        self._tokens = self._burst
        self._filled_at = clock()

    async def acquire(self) -> None:
        """Take one token; wait for it behind everybody who came before."""
        if not self.limits:
            return
        now = self._clock()
        self._tokens = min(self._burst, self._tokens + (now - self._filled_at) * self._qps)
        self._filled_at = now
        # A count below zero is a reservation: so many tokens must be refilled before this request.
        self._tokens -= 1
        if self._tokens < 0:
            try:
                await self._sleep(-self._tokens / self._qps)
            except asyncio.CancelledError:
                self._tokens += 1  # the token that was reserved goes back
                raise
