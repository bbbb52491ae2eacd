"""A semaphore that lets the most important waiter in first."""

import asyncio
import heapq
import itertools
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class PrioritySemaphore:
    """A semaphore whose waiters are sorted by priority; of equals the earliest is first.

    Args:
        slots: How many holders there may be at once.
    """

    def __init__(self, slots: int) -> None:
        assert slots > 0, "without a slot, everyone would wait for ever"
        self._free = slots
        self._numbers = itertools.count()
        self._waiting: list[tuple[int, int, asyncio.Future[None]]] = []

    @asynccontextmanager
    async def acquire(self, priority: int) -> AsyncIterator[None]:
        """Enclose what is done while holding a slot, once one is free."""
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
            if not slot.cancelled():  # it was handed over in the same moment
                self._release()
            raise

    def _release(self) -> None:
        while self._waiting:
            *_, slot = heapq.heappop(self._waiting)
            if not slot.done():
                slot.set_result(None)
                return
        self._free += 1
