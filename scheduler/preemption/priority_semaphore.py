"""A semaphore that wakes the waiter of the highest priority first; asyncio's is first come."""

import asyncio
import heapq
import itertools
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class PrioritySemaphore:
    """A semaphore whose waiters are sorted by priority; of equals the earliest is first.

    Args:
        slots: How often it may be acquired at once.
    """

    def __init__(self, slots: int) -> None:
        assert slots > 0, "without a slot, every waiter would wait for ever"
        self._slots = self._free = slots
        self._numbers = itertools.count()
        self._waiting: list[tuple[int, int, asyncio.Future[None]]] = []

    @asynccontextmanager
    async def acquire(self, priority: int) -> AsyncIterator[None]:
        """Wait for a free slot, and release it at the end of the block."""
        if self._free:
            self._free -= 1
        else:
            await self._wait(priority)
        try:
            yield
        finally:
            self._release()

    async def _wait(self, priority: int) -> None:
        slot: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        heapq.heappush(self._waiting, (-priority, next(self._numbers), slot))
        try:
            await slot
        except asyncio.CancelledError:
            if not slot.cancelled():  # a slot was handed over in the same iteration: pass it on
                self._release()
            raise

    def _release(self) -> None:
        while self._waiting:
            *_, slot = heapq.heappop(self._waiting)
            if not slot.done():
                slot.set_result(None)
                return
        self._free += 1
        assert self._free <= self._slots, "a slot was released twice"
