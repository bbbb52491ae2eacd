"""Several workers that share a list of things to do."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable

T = TypeVar("T")


async def act_on_all(act: Callable[[T], Awaitable[None]], items: Iterable[T], workers: int) -> None:
    """Act on every item, on as many at a time as there are *workers*."""
    waiting = iter(items)

    async def work() -> None:
        for item in waiting:
            await act(item)

    async with asyncio.TaskGroup() as group:
        for _ in range(workers):
            group.create_task(work())
