"""Taking turns: so many at a time, and of those who wait the most important is next."""

import asyncio
import heapq
import itertools
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class PrioritySemaphore:
    """A semaphore with a queue that is sorted: by priority, and of equals the earliest first.

    Args:
        places: How many may be inside at once.
    """

    def __init__(self, places: int) -> None:
        self._free = places
        self._numbers = itertools.count()
        self._waiting: list[tuple[int, int, asyncio.Future[None]]] = []

    @asynccontextmanager
    async def take(self, priority: int) -> AsyncIterator[None]:
        """Enclose what is done in a place of one's own, once there is one."""
        if self._free:
            self._free -= 1
        else:
            await self._wait(priority)
        try:
            yield
        finally:
            self._leave()

    async def _wait(self, priority: int) -> None:
        place: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        heapq.heappush(self._waiting, (-priority, next(self._numbers), place))
        try:
            await place
        except asyncio.CancelledError:
            if not place.cancelled():  # it was given in the same moment
                self._leave()
            raise

    def _leave(self) -> None:
        while self._waiting:
            *_, place = heapq.heappop(self._waiting)
            if not place.done():
                place.set_result(None)
                return
        self._free += 1
