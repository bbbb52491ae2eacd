"""Compares what we know with a fresh list, and puts right what we have wrong.

A watch tells everything that happens, so there is nothing to find: unless a proxy dropped an event,
or we have a bug. What only has not arrived yet is no drift. Whatever differs is looked at a second
time, with a list of its own, and counts only if the server says the same as before and the watch
has said nothing in between.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from scheduler.cache.cluster_cache import ClusterCache
from scheduler.errors import ApiError
from scheduler.kube.decode import Key, Unreadable, key_of
from scheduler.kube.listing import list_all
from scheduler.kube.reflector import Reflector, equal
from scheduler.kube.requests import Requests
from scheduler.kube.watched import Watched
from scheduler.loop.inbox import Inbox
from scheduler.loop.telemetry import Telemetry
from scheduler.model.fact import Added, Deleted, Resource
from scheduler.model.node import Node
from scheduler.model.pod import Pod

Kind = Literal["missing", "redundant", "outdated"]
Compared = Node | Pod

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


class DriftCheck:
    """Compares nodes and pods.

    Args:
        requests: Where to list.
        watched: How nodes and pods are watched, by resource.
        reflectors: What was told of them; healed through these, so that they know of it.
        cache: Compared with what was told, once that was applied.
        inbox: Leads to the loop, the only one who may look at the cache.
        telemetry: Hears of every comparison.
        sleep: How to wait before the second look.
    """

    def __init__(
        self,
        requests: Requests,
        watched: Mapping[str, Watched[Any]],
        reflectors: Mapping[str, Reflector[Any]],
        cache: ClusterCache,
        inbox: Inbox,
        telemetry: Telemetry,
        *,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._requests = requests
        self._watched = watched
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
            drifted = [await self._compare(resource) for resource in self._watched]
        except ApiError:
            self._telemetry.cache_compared("error")
            return False
        drifted.append(await self._compare_cache())
        self._telemetry.cache_compared("drifted" if any(drifted) else "equal")
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
        async for each in list_all(self._requests, self._watched[resource]):
            if isinstance(each, Unreadable):
                unreadable.add(each.key)
            else:
                found[key_of(each)] = each
        store: Mapping[Key, Compared] = dict(self._reflectors[resource].store)
        suspects = {
            key: suspect
            for key in (found.keys() | store.keys()) - unreadable
            if (suspect := _suspect(store.get(key), found.get(key))) is not None
        }
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
        """Let the loop compare as soon as it has applied everything."""
        done: asyncio.Future[bool] = asyncio.get_running_loop().create_future()

        def look() -> None:
            if len(self._inbox):
                self._inbox.put(look)
            elif not done.done():
                done.set_result(self._look_into_cache())

        self._inbox.put(look)
        return await done

    def _look_into_cache(self) -> bool:
        drifted = False
        for resource, reflector in self._reflectors.items():
            told: dict[Key, Compared] = {
                key: each
                for key, each in reflector.store.items()
                if isinstance(each, Node) or each.node_name
            }
            cached: Mapping[Key, Compared] = {
                key_of(each): each
                for each in (
                    self._cache.nodes() if resource == Resource.NODE else self._cache.told_pods()
                )
            }
            wrong: dict[Key, Kind] = {}
            for key in told.keys() | cached.keys():
                suspect = _suspect(cached.get(key), told.get(key))
                if suspect is None or suspect.kind == "outdated":
                    continue
                wrong[key] = suspect.kind
                fact = Deleted(resource, cached[key]) if key in cached else None
                self._inbox.put(fact or Added(resource, told[key]))
            self._tell(resource, wrong)
            drifted = drifted or bool(wrong)
        return drifted


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
