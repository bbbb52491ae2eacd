"""Watches without a connection: changes of documents become facts, as a reflector makes them.

An update that changes nothing the scheduler reads is left out, as reflectors do, and a pod that
fails counts as deleted. For tests of what comes after the reflectors; the simulation in
``tests/simulation`` runs the real ones.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from scheduler.kube.decode import ObjectDecoder, Unreadable
from scheduler.kube.object_store import equal
from scheduler.kube.watched import WATCHED
from scheduler.model.fact import Added, Deleted, Fact, KubeObject, Listed, Resource, Updated
from scheduler.testing.documents import Document, encode, is_of, selects

Deliver = Callable[[Fact], None]


@dataclass(slots=True, eq=False)
class _Watch:
    """What one reflector has delivered. It is silent until it has listed, and while broken."""

    resource: Resource
    decoder: ObjectDecoder[Any]
    known: dict[str, KubeObject] = field(default_factory=dict)
    silent: bool = True
    due: float = 0.0
    unsent: deque[Fact] = field(default_factory=deque)

    def selects(self, path: str, document: Document) -> bool:
        return is_of(self.resource, path) and selects(self.resource, document)


class ScriptedWatches:
    """One watch for each resource.

    Args:
        documents: All there is, by path.
        deliver: Takes the facts, as an inbox does.
        resources: What is watched.
        lag: Returns how much later than a change its fact is delivered; facts of one resource
            keep their order.
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
            resource: _Watch(resource, ObjectDecoder(WATCHED[resource])) for resource in resources
        }

    def list_all(self) -> None:
        """Let every watch deliver all there is, as at the start."""
        for resource in self._watches:
            self.relist(resource)

    def relist(self, resource: Resource) -> None:
        """Deliver all there is of *resource*, then `Listed`; deletions meanwhile count as unseen.

        Also mends a watch that was broken.
        """
        watch = self._watches[resource]
        watch.silent = False
        there = {
            path: document
            for path, document in self._documents.items()
            if watch.selects(path, document)
        }
        for path, document in there.items():
            self._put(watch, path, document)
        # Sorted, since the order of a set differs from process to process.
        for path in sorted(watch.known.keys() - there.keys()):
            self._drop(watch, path, seen=False)
        self._send(watch, Listed(resource))

    def interrupt(self, resource: Resource) -> None:
        """Deliver nothing more about *resource* until it is listed again."""
        self._watches[resource].silent = True

    def delay(self, resource: Resource, seconds: float) -> None:
        """Deliver nothing about *resource* for *seconds*, then everything, in order."""
        watch = self._watches[resource]
        watch.due = max(watch.due, asyncio.get_running_loop().time() + seconds)

    def deliver_change(self, path: str, old: Document | None, new: Document | None) -> None:
        """Deliver that the document at *path* was created, changed or deleted."""
        for watch in self._watches.values():
            if watch.silent:
                continue
            if new is not None and watch.selects(path, new):
                self._put(watch, path, new)
            elif old is not None and path in watch.known:
                self._drop(watch, path, seen=True)

    def _put(self, watch: _Watch, path: str, document: Document) -> None:
        found = watch.decoder.item(msgspec.Raw(encode(document)))
        if isinstance(found, Unreadable):
            return  # the last good version stays
        old = watch.known.get(path)
        if old is not None and old.metadata.uid != found.metadata.uid:
            self._drop(watch, path, seen=False)
            old = None
        watch.known[path] = found
        if old is None:
            self._send(watch, Added(watch.resource, found))
        elif not equal(old, found):
            self._send(watch, Updated(watch.resource, old, found))

    def _drop(self, watch: _Watch, path: str, *, seen: bool) -> None:
        self._send(watch, Deleted(watch.resource, watch.known.pop(path), seen))

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
