"""What was told of one resource, and how the next version of an object differs from that."""

from collections.abc import Callable
from typing import Generic

import msgspec

from scheduler.kube.decode import DELETED, Change, Key, Unreadable, key_of
from scheduler.kube.watch_observer import WatchObserver
from scheduler.kube.watched import T, Watched
from scheduler.model.fact import Added, Deleted, Fact, Updated
from scheduler.model.meta import NOT_KEPT, Raw, differs


class ObjectStore(Generic[T]):
    """The objects of one resource as they were told; only what differs becomes a fact.

    Args:
        watched: How they are read, and which versions count.
        sink: Takes the facts; must not block.
        observer: Hears of malformed objects.
    """

    def __init__(
        self, watched: Watched[T], sink: Callable[[Fact], None], observer: WatchObserver
    ) -> None:
        self.objects: dict[Key, T] = {}
        self.watched = watched
        self._sink = sink
        self._observer = observer

    def apply(self, change: Change[T]) -> None:
        """Tell what happened to an object."""
        key = key_of(change.object)
        if change.type == DELETED:
            self.remove(key, seen=True)
        else:
            self.put(key, change.object)

    def put(self, key: Key, new: T) -> None:
        """Tell how *new* differs from what was told last, if it does."""
        old = self.objects.get(key)
        if old is not None and old.metadata.uid != new.metadata.uid:
            # Another object of the same name: the end of the first one was missed.
            self.remove(key, seen=False)
            old = None
        if old is None:
            self.objects[key] = new
            self._report_husk(key, new)
            self._sink(Added(self.watched.resource, new))
        elif equal(old, new) and not self._tells_version(old, new) and not self._is_first(old):
            # A heartbeat. The new version shares all its parts with the old one, which readers
            # still hold.
            kept = self.objects[key] = msgspec.structs.replace(old, metadata=new.metadata)
            if self.watched.raw and isinstance(new, Raw) and isinstance(kept, Raw):
                kept.keep_raw(new.raw)
        else:
            self.objects[key] = new
            if getattr(old, "malformed", "") != getattr(new, "malformed", ""):
                self._report_husk(key, new)
            self._sink(Updated(self.watched.resource, old, new))

    def _tells_version(self, old: T, new: T) -> bool:
        versions = {old.metadata.resource_version, new.metadata.resource_version}
        return self.watched.every_version and len(versions) > 1

    def _is_first(self, old: T) -> bool:
        """Tell whether *old* was not kept as it came, while by now somebody wants it whole."""
        return self.watched.raw and isinstance(old, Raw) and old.raw == NOT_KEPT

    def remove(self, key: Key, *, seen: bool) -> None:
        """Tell that an object is gone, if it was told at all; *seen* as in `Deleted`."""
        old = self.objects.pop(key, None)
        if old is not None:
            self._sink(Deleted(self.watched.resource, old, seen))

    def report(self, event: Unreadable) -> None:
        """Leave the last good version in place; but what is deleted is gone, readable or not."""
        if event.type == DELETED:
            self.remove(event.key, seen=True)
        self._observer.object_malformed(self.watched.resource, _spell(event.key), event.problem)

    def _report_husk(self, key: Key, new: T) -> None:
        if problem := getattr(new, "malformed", ""):
            self._observer.object_malformed(self.watched.resource, _spell(key), problem)


def equal(old: T, new: T) -> bool:
    """Tell whether *new* says nothing new: all we read is the same, except for the version."""
    return all(
        getattr(old, name) == getattr(new, name)
        for name in old.__struct_fields__
        if name != "metadata"
    ) and not differs(old.metadata, new.metadata)


def _spell(key: Key) -> str:
    return "/".join(filter(None, key))
