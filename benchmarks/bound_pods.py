"""When pods were bound, as a watch sees it."""

from __future__ import annotations

import asyncio
import contextlib
import time
from typing import TYPE_CHECKING, Protocol

import msgspec

from benchmarks.objects import PODS

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable


class _Meta(msgspec.Struct):
    name: str = ""  # the Status of an ERROR has none


class _Pod(msgspec.Struct):
    metadata: _Meta


class _Event(msgspec.Struct):
    type: str
    object: _Pod


class Watches(Protocol):
    """What is needed of a client."""

    def watch(self, path: str) -> AsyncGenerator[bytes, None]:
        """Yield the lines of a watch until the server ends it."""
        ...


class BoundPods:
    """Watches one namespace until a number of pods are bound.

    Args:
        count: The number.
        seen: Is called with the number of bound pods whenever it has grown.

    Attributes:
        stamps: When each pod was first seen with a node, by name; monotonic seconds.
    """

    def __init__(
        self, client: Watches, namespace: str, count: int, seen: Callable[[int], None]
    ) -> None:
        self.stamps: dict[str, float] = {}
        self._client = client
        self._path = f"{PODS.format(namespace)}?watch=1&fieldSelector=spec.nodeName!%3D"
        self._count = count
        self._seen = seen

    async def watch(self) -> None:
        """Return once all are bound.

        The server may end a watch, and does so, with an ERROR or without, where it is not read fast
        enough; the next one begins with all that is bound.
        """
        decode = msgspec.json.Decoder(_Event).decode
        while len(self.stamps) < self._count:
            async with contextlib.aclosing(self._client.watch(self._path)) as lines:
                async for line in lines:
                    event = decode(line)
                    if event.type == "ERROR":
                        break
                    if event.type in {"ADDED", "MODIFIED"}:
                        self.stamps.setdefault(event.object.metadata.name, time.monotonic())
                        self._seen(len(self.stamps))
                    if len(self.stamps) >= self._count:
                        break

    async def wait(self, idle_seconds: float) -> bool:
        """Watch until all pods are bound, or none was for so long; return whether all are."""
        watching = asyncio.create_task(self.watch())
        try:
            while True:
                before = len(self.stamps)
                done, _ = await asyncio.wait({watching}, timeout=idle_seconds)
                if done:
                    await watching  # fails with the watch
                    return True
                if len(self.stamps) == before:
                    return False
        finally:
            watching.cancel()
