"""The inbox: facts and results, in order of arrival, until the loop applies them."""

import asyncio
import contextlib
from collections import deque
from collections.abc import Callable

from scheduler.model.fact import Fact

Message = Fact | Callable[[], None]
"""A fact, or a function for the loop to call: tasks report so, since only the loop writes."""


class Inbox:
    """Facts and calls in order of arrival."""

    def __init__(self) -> None:
        self._messages: deque[Message] = deque()
        self._woken = asyncio.Event()

    def __len__(self) -> int:
        return len(self._messages)

    def put(self, message: Message) -> None:
        """Append *message*, and wake the loop."""
        self._messages.append(message)
        self._woken.set()

    def take(self) -> Message | None:
        """Remove and return the oldest message; None if there is none."""
        return self._messages.popleft() if self._messages else None

    def wake(self) -> None:
        """Wake the loop without a message."""
        self._woken.set()

    async def wait(self, timeout_seconds: float | None) -> None:
        """Return after the next ``put`` or ``wake``, or after *timeout_seconds*."""
        if not self._woken.is_set():
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._woken.wait(), timeout_seconds)
        self._woken.clear()
