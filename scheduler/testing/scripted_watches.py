"""Watches cut short: what changes is told as facts, the way reflectors would tell it.

Heartbeats are left out, and a pod that failed is the end of the pod it was. For tests of what lies
behind the edge; the simulation has the real reflectors, and `watch_server` for them to watch.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from scheduler.kube.decode import Decoder, Unreadable
from scheduler.kube.object_store import equal
from scheduler.kube.watched import WATCHED
from scheduler.model.fact import Added, Deleted, Fact, KubeObject, Listed, Resource, Updated
from scheduler.testing.documents import Document, encode, is_of, selects

Deliver = Callable[[Fact], None]


@dataclass(slots=True, eq=False)
class _Watch:
    """What one reflector has told. It is silent until it has listed, and while it is broken."""

    resource: Resource
    decoder: Decoder[Any]
    told: dict[str, KubeObject] = field(default_factory=dict)
    silent: bool = True
    due: float = 0.0
    unsent: deque[Fact] = field(default_factory=deque)

    def is_about(self, path: str, document: Document) -> bool:
        return is_of(self.resource, path) and selects(self.resource, document)


class ScriptedWatches:
    """One watch for each resource.

    Args:
        documents: All there is, by path.
        deliver: Takes the facts, as an inbox does.
        resources: What is watched.
        lag: Returns how much later than a change its fact is told; facts of one resource keep
            their order.
    """

    def __init__(
        self,
        documents: Mapping[str, Document],
        deliver: Deliver,
        resources: Iterable[Resource],
        lag: Callable[[], float],
    ) -> None:
        self.deliver = deliver
        self._documents = documents
        self._lag = lag
        self._watches = {
            resource: _Watch(resource, Decoder(WATCHED[resource])) for resource in resources
        }

    def list_all(self) -> None:
        """Let every watch tell all there is, as at the start."""
        for resource in self._watches:
            self.tell_all(resource)

    def tell_all(self, resource: Resource) -> None:
        """Tell all there is of *resource* and that this was all; what is gone was not seen going.

        Also mends a watch that was broken.
        """
        watch = self._watches[resource]
        watch.silent = False
        there = {
            path: document
            for path, document in self._documents.items()
            if watch.is_about(path, document)
        }
        for path, document in there.items():
            self._put(watch, path, document)
        # Sorted, since the order of a set differs from process to process.
        for path in sorted(watch.told.keys() - there.keys()):
            self._drop(watch, path, seen=False)
        self._send(watch, Listed(resource))

    def interrupt(self, resource: Resource) -> None:
        """Tell nothing more about *resource* until it is listed again."""
        self._watches[resource].silent = True

    def delay(self, resource: Resource, seconds: float) -> None:
        """Tell nothing about *resource* for *seconds*, then everything, in order."""
        watch = self._watches[resource]
        watch.due = max(watch.due, asyncio.get_running_loop().time() + seconds)

    def tell(self, path: str, old: Document | None, new: Document | None) -> None:
        """Tell that the document at *path* changed, came or went."""
        for watch in self._watches.values():
            if watch.silent:
                continue
            if new is not None and watch.is_about(path, new):
                self._put(watch, path, new)
            elif old is not None and path in watch.told:
                self._drop(watch, path, seen=True)

    def _put(self, watch: _Watch, path: str, document: Document) -> None:
        found = watch.decoder.item(msgspec.Raw(encode(document)))
        if isinstance(found, Unreadable):
            return  # the last good version stays
        old = watch.told.get(path)
        if old is not None and old.metadata.uid != found.metadata.uid:
            self._drop(watch, path, seen=False)
            old = None
        watch.told[path] = found
        if old is None:
            self._send(watch, Added(watch.resource, found))
        elif not equal(old, found):
            self._send(watch, Updated(watch.resource, old, found))

    def _drop(self, watch: _Watch, path: str, *, seen: bool) -> None:
        self._send(watch, Deleted(watch.resource, watch.told.pop(path), seen))

    def _send(self, watch: _Watch, fact: Fact) -> None:
        lag = self._lag()
        if not lag and not watch.due:
            self.deliver(fact)
            return
        loop = asyncio.get_running_loop()
        watch.due = max(watch.due, loop.time() + lag)
        # Timers of one moment end in no order, so each delivers what is next.
        watch.unsent.append(fact)
        loop.call_at(watch.due, self._deliver_next, watch)

    def _deliver_next(self, watch: _Watch) -> None:
        self.deliver(watch.unsent.popleft())
