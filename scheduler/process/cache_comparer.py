"""Compares cache and watches with a fresh list, and corrects what is wrong.

A watch delivers every change, so nothing differs unless a proxy dropped an event, or this process
has a bug. An event that has not arrived yet is no drift. Whatever differs is therefore
compared a second time, with another list, and counts only if both versions are the same as before.

kube-scheduler has the same comparer for debugging (SIGUSR2); it only logs what differs.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, Literal, TypeVar

from scheduler.cache.cluster_cache import ClusterCache
from scheduler.errors import ApiError
from scheduler.kube.decode import Key, Unreadable, key_of
from scheduler.kube.listing import list_all
from scheduler.kube.object_store import equal
from scheduler.kube.reflector import Reflector
from scheduler.kube.requests import Requests
from scheduler.kube.slices import SLICE_OBJECTS
from scheduler.model.fact import Added, Deleted, Resource
from scheduler.model.node import Node
from scheduler.model.pod import Pod
from scheduler.observe import families
from scheduler.reporting.inbox import Inbox
from scheduler.reporting.telemetry import Telemetry

Kind = Literal["missing", "redundant", "outdated"]
Compared = Node | Pod

T = TypeVar("T")

SETTLE_SECONDS: Final = 5.0


@dataclass(frozen=True, slots=True)
class Suspect:
    """An object that differs between the watch's store and the server.

    Args:
        kind: What is wrong with the store.
        ours: The version in the store; empty if there is none.
        theirs: The version at the server; empty if there is none.
    """

    kind: Kind
    ours: str
    theirs: str


class CacheComparer:
    """Compares nodes and pods.

    Args:
        requests: Lists them at the API server.
        reflectors: The stores of the watches. Corrections pass through the reflectors, which send
            them on as facts.
        cache: Compared with the stores, once all facts are applied.
        inbox: Carries the comparison of the cache to the loop, which alone may read it.
        telemetry: Counts comparisons, and logs what was wrong.
        sleep: Waits before the second list.
    """

    def __init__(
        self,
        requests: Requests,
        reflectors: Mapping[str, Reflector[Any]],
        cache: ClusterCache,
        inbox: Inbox,
        telemetry: Telemetry,
        *,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._requests = requests
        self._reflectors = reflectors
        self._cache = cache
        self._inbox = inbox
        self._telemetry = telemetry
        self._sleep = sleep

    async def run(self, seconds: float, compare_now: asyncio.Event) -> None:
        """Compare every *seconds* (0: never) and whenever *compare_now* is set, until cancelled."""
        while True:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(compare_now.wait(), seconds or None)
            compare_now.clear()
            await self.compare()

    async def compare(self) -> bool:
        """Compare once, correct what is wrong, and return whether anything was."""
        try:
            drifted = [await self._compare(resource) for resource in self._reflectors]
        except ApiError:
            self._telemetry.metrics.count(families.CACHE_COMPARISONS, "error")
            return False
        drifted.append(await self._compare_cache())
        result = "drifted" if any(drifted) else "equal"
        self._telemetry.metrics.count(families.CACHE_COMPARISONS, result)
        return any(drifted)

    # The watches' stores against the API server.

    async def _compare(self, resource: str) -> bool:
        first, _ = await self._list_suspects(resource)
        if not first:
            return False
        # Most suspects are changes that the watch delivers in this time.
        await self._sleep(SETTLE_SECONDS)
        second, found = await self._list_suspects(resource)
        wrong = {key: suspect for key, suspect in second.items() if first.get(key) == suspect}
        for key in wrong:
            self._reflectors[resource].correct(key, found.get(key))
        self._report(resource, {key: suspect.kind for key, suspect in wrong.items()})
        return bool(wrong)

    async def _list_suspects(self, resource: str) -> tuple[dict[Key, Suspect], dict[Key, Compared]]:
        """Return what differs between the store and a fresh list, and that list."""
        found: dict[Key, Compared] = {}
        unreadable: set[Key] = set()
        async for each in list_all(self._requests, self._reflectors[resource].watched):
            if isinstance(each, Unreadable):
                unreadable.add(each.key)
            else:
                found[key_of(each)] = each
        store: Mapping[Key, Compared] = dict(self._reflectors[resource].store)
        suspects: dict[Key, Suspect] = {}
        keys = (found.keys() | store.keys()) - unreadable
        for index, key in enumerate(keys, start=1):
            suspect = _suspect(store.get(key), found.get(key))
            if suspect is not None:
                suspects[key] = suspect
            if index % SLICE_OBJECTS == 0:
                await asyncio.sleep(0)
        return suspects, found

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


def _suspect(ours: Compared | None, theirs: Compared | None) -> Suspect | None:
    """Return how the store differs from the list in one object; None if it does not."""
    if ours is None or theirs is None:
        if theirs is not None:
            return Suspect("missing", "", theirs.metadata.resource_version)
        return Suspect("redundant", ours.metadata.resource_version, "") if ours else None
    versions = ours.metadata.resource_version, theirs.metadata.resource_version
    same = ours.metadata.uid == theirs.metadata.uid
    # A change of a field that is not decoded leaves equal objects with different versions.
    if same and (versions[0] == versions[1] or equal(ours, theirs)):
        return None
    return Suspect("outdated", *versions)
