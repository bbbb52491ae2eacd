"""A watch on one Lease: it shows a standby each renewal at once, not only at the next read.

It only saves time: while the watch is forbidden, broken or silent, the candidate reads the Lease as
often as it would without a watch, and the watch is tried again.
"""

import asyncio
import contextlib
import random
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing
from typing import Final, Protocol

import msgspec

from scheduler.errors import ApiError, Forbidden, Rejected, SchedulerError, Unauthorized
from scheduler.kube.decode import ADDED, DELETED, MODIFIED
from scheduler.kube.election import JITTER, Lease, LeaseSettings, decode_lease
from scheduler.kube.requests import Requests

_REFUSALS: Final = (Forbidden, Unauthorized, Rejected)


class LeaseRequests(Requests, Protocol):
    """Requests, and the lines of a watch."""

    def watch(
        self, path: str, params: Mapping[str, str], *, silence_seconds: float
    ) -> AsyncGenerator[bytes]:
        """Yield the lines of a watch."""


class _Event(msgspec.Struct):
    type: str
    object: msgspec.Raw


_decode_event = msgspec.json.Decoder(_Event).decode


class LeaseWatch:
    """Waits for changes of the Lease; of several changes only the last one is returned.

    Args:
        requests: Where to watch.
        settings: Which Lease; a watch that is silent for its duration is opened anew.
        on_refused: Called once for each reason why we may not watch.
        rng: Jitter, so that standbys do not return at the same moment.
    """

    def __init__(
        self,
        requests: LeaseRequests,
        settings: LeaseSettings,
        *,
        on_refused: Callable[[ApiError], None],
        rng: random.Random,
    ) -> None:
        self._requests = requests
        self._settings = settings
        self._on_refused = on_refused
        self._rng = rng
        self._version = ""
        self._refusal = ""
        self._changes: list[Lease | None] = []
        self._changed = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    async def wait(self, version: str, seconds: float) -> list[Lease | None]:
        """Return the Lease after a change, None for a deletion; an empty list after *seconds*.

        Args:
            version: The version that is known. A watch that has to be opened begins there, so that
                an API server whose cache is older cannot send an older one.
            seconds: How long to wait.
        """
        self._version = version or self._version
        if self._task is None and self._version:
            self._task = asyncio.create_task(self._run())
            self._task.add_done_callback(lambda _: self._changed.set())
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._changed.wait()
        if self._task is not None and self._task.done():
            self._task.result()  # only a bug ends the task: raise it, and do not look like silence
        self._changed.clear()
        changes, self._changes = self._changes, []
        return changes

    async def close(self) -> None:
        """End the watch."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def _run(self) -> None:
        while True:
            pause = self._settings.retry_seconds * (1 + JITTER * self._rng.random())
            try:
                await self._follow()
            except _REFUSALS as problem:
                self._report_refusal(problem)
                pause = float(self._settings.lease_seconds)
            except (SchedulerError, msgspec.DecodeError):
                pass  # the next read fails by the same cause, and reports it
            await asyncio.sleep(pause)

    def _report_refusal(self, problem: ApiError) -> None:
        if str(problem) != self._refusal:
            self._refusal = str(problem)
            self._on_refused(problem)

    async def _follow(self) -> None:
        # A rule with resourceNames permits a watch only with this selector.
        params = {
            "fieldSelector": f"metadata.name={self._settings.name}",
            "resourceVersion": self._version,
        }
        watch = self._requests.watch(
            self._settings.collection, params, silence_seconds=float(self._settings.lease_seconds)
        )
        async with aclosing(watch) as lines:
            async for line in lines:
                event = _decode_event(line)
                if event.type in {ADDED, MODIFIED}:
                    self._note(decode_lease(event.object))
                elif event.type == DELETED:
                    self._note(None)
                else:
                    return  # an error: most likely the version is too old to begin at

    def _note(self, lease: Lease | None) -> None:
        self._changes = [lease]
        self._changed.set()
