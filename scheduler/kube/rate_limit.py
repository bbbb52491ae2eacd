"""How fast requests may leave: a token bucket, as in client-go."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Final

QPS_DEFAULT: Final = 50.0
BURST_DEFAULT: Final = 100


class RateLimiter:
    """A bucket of *burst* tokens, refilled with *qps* tokens a second; first come, first served.

    One serves one event loop; threads have their own.

    Args:
        qps: Requests a second in the long run; negative for no limit, 0 for the default.
        burst: Requests that may leave at once after a quiet time; 0 for the default.
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
        self._burst = float(burst or BURST_DEFAULT)
        self._clock = clock
        self._sleep = sleep
        self._tokens = self._burst
        self._filled_at = clock()

    @property
    def limits(self) -> bool:
        """Whether there is a limit at all."""
        return self._qps >= 0

    async def acquire(self) -> None:
        """Take one token; wait for it behind everybody who came before."""
        if not self.limits:
            return
        self._refill()
        # Going below zero is a reservation: the debt says how many tokens must flow before ours
        # does.
        self._tokens -= 1
        if self._tokens < 0:
            await self._wait(-self._tokens / self._qps)

    def _refill(self) -> None:
        now = self._clock()
        self._tokens = min(self._burst, self._tokens + (now - self._filled_at) * self._qps)
        self._filled_at = now

    async def _wait(self, seconds: float) -> None:
        try:
            await self._sleep(seconds)
        except asyncio.CancelledError:
            self._tokens += 1
            raise
