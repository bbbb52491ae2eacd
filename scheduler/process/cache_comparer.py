"""Compares what we know with a fresh list, and puts right what we have wrong.

A watch tells everything that happens, so there is nothing to find: unless a proxy dropped an event,
or we have a bug. What only has not arrived yet is no drift. Whatever differs is looked at a second
time, with a list of its own, and counts only if the server says the same as before and the watch
has said nothing in between.
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
from scheduler.kube.reflector import SLICE_OBJECTS, Reflector
from scheduler.kube.requests import Requests
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
    """An object of which we and the server think differently.

    Args:
        kind: What is wrong.
        ours: The version that we know; empty where we know none.
        theirs: The version that the server has; empty where it has none.
    """

    kind: Kind
    ours: str
    theirs: str


class CacheComparer:
    """Compares nodes and pods.

    Args:
        requests: Where to list.
        reflectors: What was told of nodes and pods; healed through these, so that they know of it.
        cache: Compared with what was told, once that was applied.
        inbox: Leads to the loop, the only one who may look at the cache.
        telemetry: Hears of every comparison.
        sleep: How to wait before the second look.
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

    async def run(self, seconds: float, asked: asyncio.Event) -> None:
        """Compare every *seconds* (0: never) and whenever *asked*, until cancelled."""
        while True:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(asked.wait(), seconds or None)
            asked.clear()
            await self.compare()

    async def compare(self) -> bool:
        """Compare once, heal, and tell whether anything was wrong."""
        try:
            drifted = [await self._compare(resource) for resource in self._reflectors]
        except ApiError:
            self._telemetry.metrics.count(families.CACHE_COMPARISONS, "error")
            return False
        drifted.append(await self._compare_cache())
        result = "drifted" if any(drifted) else "equal"
        self._telemetry.metrics.count(families.CACHE_COMPARISONS, result)
        return any(drifted)

    # What was told against what there is.

    async def _compare(self, resource: str) -> bool:
        first, _ = await self._look(resource)
        if not first:
            return False
        await self._sleep(SETTLE_SECONDS)
        second, found = await self._look(resource)
        wrong = {key: suspect for key, suspect in second.items() if first.get(key) == suspect}
        for key in wrong:
            self._heal(resource, key, found.get(key))
        self._tell(resource, {key: suspect.kind for key, suspect in wrong.items()})
        return bool(wrong)

    async def _look(self, resource: str) -> tuple[dict[Key, Suspect], dict[Key, Compared]]:
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

    def _heal(self, resource: str, key: Key, found: Compared | None) -> None:
        self._reflectors[resource].correct(key, found)

    def _tell(self, resource: str, wrong: Mapping[Key, Kind]) -> None:
        kinds: tuple[Kind, ...] = ("missing", "redundant", "outdated")
        for kind in kinds:
            keys = sorted("/".join(filter(None, key)) for key, of in wrong.items() if of == kind)
            if keys:
                self._telemetry.cache_drifted(resource, kind, keys)

    # The cache against what was told.

    async def _compare_cache(self) -> bool:
        """Compare object by object, a slice at a time: between two of them the loop goes on."""
        drifted = False
        for resource, reflector in self._reflectors.items():
            cached: Iterable[Compared] = (
                self._cache.nodes() if resource == Resource.NODE else self._cache.added()
            )
            every = [*cached, *reflector.store.values()]
            wrong: dict[Key, Kind] = {}
            for start in range(0, len(every), SLICE_OBJECTS):
                part = every[start : start + SLICE_OBJECTS]
                wrong |= await self._ask_loop(partial(self._judge, resource, part))
            self._tell(resource, wrong)
            drifted = drifted or bool(wrong)
        return drifted

    async def _ask_loop(self, question: Callable[[], T]) -> T:
        """Ask as soon as the loop has applied everything: what was told, it knows then."""
        answer: asyncio.Future[T] = asyncio.get_running_loop().create_future()

        def ask() -> None:
            if len(self._inbox):
                self._inbox.put(ask)
            elif not answer.done():
                answer.set_result(question())

        self._inbox.put(ask)
        return await answer

    def _judge(self, resource: str, part: Iterable[Compared]) -> dict[Key, Kind]:
        """Compare what is cached with what was told, of the objects in *part*, and heal."""
        wrong: dict[Key, Kind] = {}
        for each in part:
            told = self._told(resource, each)
            cached = self._cached(each)
            if told is not None and cached is None:
                wrong[key_of(each)] = "missing"
                self._inbox.put(Added(resource, told))
            elif told is None and cached is not None:
                wrong[key_of(each)] = "redundant"
                self._inbox.put(Deleted(resource, cached))
        return wrong

    def _told(self, resource: str, each: Compared) -> Compared | None:
        """Return *each* as it was told, if it belongs into the cache."""
        told: Compared | None = self._reflectors[resource].store.get(key_of(each))
        if told is None or told.metadata.uid != each.metadata.uid:
            return None
        return told if isinstance(told, Node) or told.node_name else None

    def _cached(self, each: Compared) -> Compared | None:
        """Return *each* as the cache has it, if it was told."""
        if isinstance(each, Node):
            node = self._cache.node(each.name)
            return node if node is not None and node.metadata.uid == each.metadata.uid else None
        return None if self._cache.is_assumed(each.uid) else self._cache.pod(each.uid)


def _suspect(ours: Compared | None, theirs: Compared | None) -> Suspect | None:
    """Tell how what we know differs from what there is; None where it does not."""
    if ours is None or theirs is None:
        if theirs is not None:
            return Suspect("missing", "", theirs.metadata.resource_version)
        return Suspect("redundant", ours.metadata.resource_version, "") if ours else None
    versions = ours.metadata.resource_version, theirs.metadata.resource_version
    same = ours.metadata.uid == theirs.metadata.uid
    if same and (versions[0] == versions[1] or equal(ours, theirs)):
        return None
    return Suspect("outdated", *versions)
