"""Compares cache and watches with the API server, and corrects what is wrong.

A watch delivers every change, so nothing differs unless a proxy dropped an event, or this process
has a bug. First the watches' stores are compared with the API server (`StoreComparer`), then the
cache with the stores.

kube-scheduler has the same comparer for debugging (SIGUSR2); it only logs what differs.
"""

import asyncio
import contextlib
import random
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any, Final, TypeVar

from scheduler.cache.cluster_cache import ClusterCache
from scheduler.errors import ApiError
from scheduler.kube.decode import Key, key_of
from scheduler.kube.reflector import Reflector
from scheduler.kube.requests import Reads
from scheduler.kube.slices import SLICE_OBJECTS
from scheduler.model.fact import Added, Deleted, Resource
from scheduler.model.node import Node
from scheduler.model.pod import Pod
from scheduler.observe import families
from scheduler.process.store_comparer import Kind, Sleep, StoreComparer
from scheduler.reporting.inbox import Inbox
from scheduler.reporting.telemetry import Telemetry

Compared = Node | Pod

T = TypeVar("T")

_SPREAD: Final = (0.5, 1.5)
"""Replicas that start together must not list the whole cluster together every time."""
_POLL_SECONDS: Final = 1.0


class CacheComparer:
    """Compares nodes and pods.

    Args:
        metadata: Lists the metadata of objects at the API server.
        requests: Lists whole objects at the API server.
        reflectors: The stores of the watches. Corrections pass through the reflectors, which send
            them on as facts.
        cache: Compared with the stores, once all facts are applied.
        inbox: Carries the comparison of the cache to the loop, which alone may read it.
        telemetry: Counts comparisons, and logs what was wrong.
        sleep: Waits before the second list, and while a watch lists.
        rng: Spreads the times of comparisons.
    """

    def __init__(
        self,
        metadata: Reads,
        requests: Reads,
        reflectors: Mapping[str, Reflector[Any]],
        cache: ClusterCache,
        inbox: Inbox,
        telemetry: Telemetry,
        *,
        sleep: Sleep = asyncio.sleep,
        rng: random.Random | None = None,
    ) -> None:
        self._stores = {
            resource: StoreComparer(metadata, requests, reflector, sleep=sleep)
            for resource, reflector in reflectors.items()
        }
        self._reflectors = reflectors
        self._sleep = sleep
        self._cache = cache
        self._inbox = inbox
        self._telemetry = telemetry
        self._rng = rng or random.Random()  # noqa: S311 - jitter

    async def run(self, seconds: float, compare_now: asyncio.Event) -> None:
        """Compare every *seconds* (0: never) and whenever *compare_now* is set, until cancelled.

        *seconds* is an average: each pause is half as long to half as long again, at random. A
        comparison waits until no watch lists.
        """
        while True:
            pause = seconds * self._rng.uniform(*_SPREAD)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(compare_now.wait(), pause or None)
            compare_now.clear()
            # A list under way is a comparison already. A second one beside it doubles the load of
            # an API server that has just started, and finds what the first is about to bring.
            while any(each.is_listing for each in self._reflectors.values()):
                await self._sleep(_POLL_SECONDS)
            await self.compare()

    async def compare(self) -> bool:
        """Compare once, correct what is wrong, and return whether anything was."""
        try:
            drifted = [await self._compare_store(resource) for resource in self._stores]
        except ApiError:
            self._telemetry.metrics.count(families.CACHE_COMPARISONS, "error")
            return False
        drifted.append(await self._compare_cache())
        result = "drifted" if any(drifted) else "equal"
        self._telemetry.metrics.count(families.CACHE_COMPARISONS, result)
        return any(drifted)

    async def _compare_store(self, resource: str) -> bool:
        """Compare a watch's store with the API server."""
        corrected: dict[Key, Kind] = {}
        try:
            await self._stores[resource].compare(corrected)
        finally:
            self._report(resource, corrected)
        return bool(corrected)

    def _report(self, resource: str, wrong: Mapping[Key, Kind]) -> None:
        kinds: tuple[Kind, ...] = ("missing", "redundant", "outdated")
        for kind in kinds:
            keys = sorted("/".join(filter(None, key)) for key, of in wrong.items() if of == kind)
            if keys:
                self._telemetry.cache_drifted(resource, kind, keys)

    # The cache against the watches' stores.

    async def _compare_cache(self) -> bool:
        """Compare object by object, in slices, so that pods are scheduled in between."""
        drifted = False
        for resource, reflector in self._reflectors.items():
            cached: Iterable[Compared] = (
                self._cache.nodes() if resource == Resource.NODE else self._cache.added()
            )
            every = [*cached, *reflector.store.values()]
            wrong: dict[Key, Kind] = {}
            for start in range(0, len(every), SLICE_OBJECTS):
                part = every[start : start + SLICE_OBJECTS]
                wrong |= await self._run_in_loop(partial(self._correct_cache, resource, part))
            self._report(resource, wrong)
            drifted = drifted or bool(wrong)
        return drifted

    async def _run_in_loop(self, compare: Callable[[], T]) -> T:
        """Let the loop run *compare* at a moment when no fact waits in the inbox.

        A fact that is in the store and not applied yet would look like drift.
        """
        result: asyncio.Future[T] = asyncio.get_running_loop().create_future()

        def run() -> None:
            if len(self._inbox):
                self._inbox.put(run)
            elif not result.done():
                result.set_result(compare())

        self._inbox.put(run)
        return await result

    def _correct_cache(self, resource: str, part: Iterable[Compared]) -> dict[Key, Kind]:
        """Compare the objects in *part* between cache and store, and correct the cache."""
        assert not len(self._inbox), "facts wait that are in the store and not in the cache"
        wrong: dict[Key, Kind] = {}
        for each in part:
            stored = self._stored(resource, each)
            cached = self._cached(each)
            if stored is not None and cached is None:
                wrong[key_of(each)] = "missing"
                self._inbox.put(Added(resource, stored))
            elif stored is None and cached is not None:
                wrong[key_of(each)] = "redundant"
                self._inbox.put(Deleted(resource, cached))
        return wrong

    def _stored(self, resource: str, each: Compared) -> Compared | None:
        """Return *each* as it is in the store, if it belongs into the cache."""
        stored: Compared | None = self._reflectors[resource].store.get(key_of(each))
        if stored is None or stored.metadata.uid != each.metadata.uid:
            return None
        return stored if isinstance(stored, Node) or stored.node_name else None

    def _cached(self, each: Compared) -> Compared | None:
        """Return *each* as the cache has it; an assumed pod is not in the store yet."""
        if isinstance(each, Node):
            node = self._cache.node(each.name)
            return node if node is not None and node.metadata.uid == each.metadata.uid else None
        return None if self._cache.is_assumed(each.uid) else self._cache.pod(each.uid)
