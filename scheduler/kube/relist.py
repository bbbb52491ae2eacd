"""A list of a resource whose objects are known: what is held of it until it is complete."""

import asyncio
from typing import Generic

from scheduler.kube.decode import DELETED, MODIFIED, Key, ObjectChanged, Unreadable, key_of
from scheduler.kube.object_store import ObjectStore
from scheduler.kube.slices import Slices
from scheduler.kube.watched import T


class Relist(Generic[T]):
    """How a list differs from the store, collected until the list is complete.

    An object that is equal to the stored one is dropped at once. After a reconnect nearly all are:
    holding them would need the memory of a second cluster. What differs is held, since a list that
    breaks off must not leave the cache with new pods beside the old ones that they replace.

    Args:
        objects: The store; it takes the differences once the list is complete.
    """

    def __init__(self, objects: ObjectStore[T]) -> None:
        self._objects = objects
        self._changed: dict[Key, T] = {}
        # A dict and not a set: a set has another order in each process, and a simulated run must
        # have one. A copy is made in one step, at a fifth of the price of a dict of the keys alone.
        self._unlisted = objects.objects.copy()

    @property
    def held(self) -> int:
        """How many objects are held."""
        return len(self._changed)

    def add(self, event: ObjectChanged[T]) -> None:
        """Take an object of the list, or a change of one that was listed before."""
        key = key_of(event.object)
        if event.type == DELETED:
            self._changed.pop(key, None)
            if (stored := self._objects.objects.get(key)) is not None:
                self._unlisted[key] = stored
            return
        self._unlisted.pop(key, None)
        if self._objects.refresh(key, event.object):
            self._changed.pop(key, None)
        elif self._is_same_version(key, event.object):
            # Only read in another way, as after a reload: that says nothing new about the cluster,
            # and may be so of every object.
            self._objects.apply(event)
        else:
            self._changed[key] = event.object

    def keep(self, event: Unreadable) -> None:
        """Let the last good version of an unreadable object stay."""
        if event.type != DELETED:
            self._unlisted.pop(event.key, None)

    def _is_same_version(self, key: Key, new: T) -> bool:
        old = self._objects.objects.get(key)
        return (
            old is not None
            and old.metadata.uid == new.metadata.uid
            and old.metadata.resource_version == new.metadata.resource_version
        )

    async def apply(self) -> None:
        """Send the differences to the store, and let other tasks run in between."""
        # Additions before deletions: in between, the cache may show a node too full, which delays a
        # pod, and never one too empty, which would over-commit the node.
        slices = Slices()
        for found in self._changed.values():
            self._objects.apply(ObjectChanged(MODIFIED, found))
            if slices.is_full():
                await asyncio.sleep(0)
        for key in self._unlisted:
            self._objects.remove(key, seen=False)
            if slices.is_full():
                await asyncio.sleep(0)
