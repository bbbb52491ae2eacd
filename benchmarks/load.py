"""Creates the objects of a workload, and keeps its background going."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import time
from typing import TYPE_CHECKING, Final

from benchmarks.objects import (
    churned,
    measured_pods,
    namespaces,
    nodes,
    probe,
    running_pods,
    services,
)
from benchmarks.workload import Churn, Deletions
from hack.api import NotFoundError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterable

    from benchmarks.fast_client import FastClient
    from benchmarks.objects import Post
    from benchmarks.workload import Workload

WRITERS: Final = 30
"""How many requests that create are under way at once; upstream's number."""
_PROBE_NAMESPACE: Final = "default"
_PROBE_POLL_SECONDS: Final = 0.1
_NOW: Final = b'{"gracePeriodSeconds": 0}'


class Load:
    """Writes to one control plane.

    Args:
        client: With as many connections as there are writers.
        scheduler: ``spec.schedulerName`` of the pods.
        created: Is called with what is created and its count so far.
    """

    def __init__(
        self,
        client: FastClient,
        workload: Workload,
        scheduler: str,
        created: Callable[[str, int], None],
    ) -> None:
        self.answered: dict[str, float] = {}
        """When the creation of each measured pod was answered, by name; monotonic seconds."""
        self._client = client
        self._workload = workload
        self._scheduler = scheduler
        self._created = created

    async def prepare(self) -> None:
        """Create everything that is there before the measurement."""
        await self._create("nodes", nodes(self._workload))
        await self._create("namespaces", namespaces(self._workload))
        await self._create("services", services(self._workload))
        await self._create("running pods", running_pods(self._workload, self._scheduler))

    async def probe(self) -> None:
        """Return once the scheduler has bound a pod that requests nothing; delete it again."""
        post = probe(self._scheduler, _PROBE_NAMESPACE)
        await self._client.request("POST", post.path, post.body)
        path = f"{post.path}/{post.name}"
        async for _ in _turns(_PROBE_POLL_SECONDS):
            if b'"nodeName":' in await self._client.request("GET", path):
                break
        await self._client.request("DELETE", path, _NOW)

    async def create_measured(self, count: int, per_second: float | None = None) -> None:
        """Create the measured pods: as fast as possible, or so many a second."""
        posts = measured_pods(self._workload, self._scheduler, count)
        if per_second is None:
            await self._client.gather(self._create_measured, posts)
            return
        async with asyncio.TaskGroup() as group:
            async for _ in _turns(1 / per_second):
                post = next(posts, None)
                if post is None:
                    return
                group.create_task(self._create_measured(post))

    async def keep_going(self) -> None:
        """Carry out what goes on in the background; cancel it when the run ends."""
        async with asyncio.TaskGroup() as group:
            for churn in self._workload.of(Churn):
                group.create_task(self._churn(churn))
            for deletions in self._workload.of(Deletions):
                group.create_task(self._delete(deletions))

    async def _create_measured(self, post: Post) -> None:
        await self._client.request("POST", post.path, post.body)
        self.answered[post.name] = time.monotonic()
        self._created("measured pods", len(self.answered))

    async def _create(self, what: str, posts: Iterable[Post]) -> None:
        count = 0

        async def create(post: Post) -> None:
            nonlocal count
            await self._client.request("POST", post.path, post.body)
            count += 1
            self._created(what, count)

        await self._client.gather(create, posts)

    async def _churn(self, churn: Churn) -> None:
        async for turn in _turns(churn.every_seconds):
            index = turn // 2 if churn.recreate else turn
            for post in churned(self._workload, churn, self._scheduler, index):
                if churn.recreate and turn % 2:
                    await self._delete_now(f"{post.path}/{post.name}")
                else:
                    await self._client.request("POST", post.path, post.body)

    async def _delete(self, deletions: Deletions) -> None:
        """Delete pods with the grace period that they have."""
        posts = (
            post
            for post in running_pods(self._workload, self._scheduler)
            if post.name.rpartition("-")[0] == deletions.of
        )
        async for _ in _turns(1 / deletions.per_second):
            post = next(posts, None)
            if post is None:
                return
            with contextlib.suppress(NotFoundError):
                await self._client.request("DELETE", f"{post.path}/{post.name}")

    async def _delete_now(self, path: str) -> None:
        with contextlib.suppress(NotFoundError):
            await self._client.request("DELETE", path, _NOW)


async def _turns(seconds: float) -> AsyncIterator[int]:
    """Yield 0, 1, 2 and on, one every so many seconds; a late one does not delay the next."""
    began = time.monotonic()
    for turn in itertools.count():
        await asyncio.sleep(max(0.0, began + turn * seconds - time.monotonic()))
        yield turn
