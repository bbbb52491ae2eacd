"""The inbox: where facts wait until the loop is ready for them."""

import asyncio
import contextlib
from collections import deque
from collections.abc import Callable

from scheduler.model.fact import Fact

Message = Fact | Callable[[], None]
"""A fact, or something that a task wants done by the loop, the only writer."""


class Inbox:
    """Facts and requests in order of arrival."""

    def __init__(self) -> None:
        self._messages: deque[Message] = deque()
        self._stirred = asyncio.Event()

    def __len__(self) -> int:
        return len(self._messages)

    def put(self, message: Message) -> None:
        """Leave *message* for the loop."""
        self._messages.append(message)
        self._stirred.set()

    def take(self) -> Message | None:
        """Return the oldest message, if there is one."""
        return self._messages.popleft() if self._messages else None

    def stir(self) -> None:
        """Wake the loop without a message."""
        self._stirred.set()

    async def wait(self, timeout_seconds: float | None) -> None:
        """Return when something came in, or after *timeout_seconds*."""
        if not self._stirred.is_set():
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._stirred.wait(), timeout_seconds)
        self._stirred.clear()
