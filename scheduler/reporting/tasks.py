"""Tasks that act on behalf of the loop and report through the inbox."""

import asyncio
from collections.abc import Callable, Collection, Coroutine
from typing import Generic, TypeVar

from scheduler.reporting.inbox import Inbox

S = TypeVar("S")


class Tasks(Generic[S]):
    """Tasks that are under way, each with its subject, such as the pod that it binds.

    Only the loop writes to cache and queue, so a task reports its result as a function for the loop
    to call.
    """

    def __init__(self, inbox: Inbox) -> None:
        self._inbox = inbox
        self._subjects: dict[asyncio.Task[None], S] = {}

    def __len__(self) -> int:
        return len(self._subjects)

    @property
    def subjects(self) -> Collection[S]:
        """What the tasks under way are about."""
        return self._subjects.values()

    def start(self, subject: S, work: Coroutine[object, object, None]) -> None:
        """Begin *work* in a task of its own."""
        task = asyncio.get_running_loop().create_task(work)
        self._subjects[task] = subject
        task.add_done_callback(self._ended)

    def report(self, result: Callable[[], None]) -> None:
        """Have the loop call *result*, after all facts that arrived before."""
        self._inbox.put(result)

    def report_later(self, seconds: float, result: Callable[[], None]) -> None:
        """Have the loop call *result* after so many *seconds*."""
        asyncio.get_running_loop().call_later(seconds, self._inbox.put, result)

    async def finish(self, timeout_seconds: float) -> None:
        """Give tasks under way *timeout_seconds* to end, then cancel them."""
        tasks = tuple(self._subjects)
        if tasks:
            await asyncio.wait(tasks, timeout=timeout_seconds)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _ended(self, task: asyncio.Task[None]) -> None:
        del self._subjects[task]
        self._inbox.wake()  # the loop takes no pod while too many binds are in flight
        if not task.cancelled() and (bug := task.exception()) is not None:
            # A defect of ours ends the loop: nobody knows what else the task left half done.
            self._inbox.put(lambda: _raise(bug))


def _raise(bug: BaseException) -> None:
    raise bug
