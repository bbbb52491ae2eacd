"""The informer store of one resource, and how the next version of an object differs from it."""

from collections.abc import Callable
from typing import Generic

from msgspec.structs import force_setattr

from scheduler.kube.decode import DELETED, Key, ObjectChanged, Unreadable
from scheduler.kube.watch_observer import WatchObserver
from scheduler.kube.watched import T, Watched
from scheduler.model.fact import Added, Deleted, Fact, Updated
from scheduler.model.meta import NOT_KEPT, Raw, differs


class ObjectStore(Generic[T]):
    """The objects of one resource as of the last fact about each; only a difference becomes a fact.

    Args:
        watched: How they are read, and which versions count.
        sink: Takes the facts; must not block.
        observer: Receives malformed objects.
    """

    def __init__(
        self, watched: Watched[T], sink: Callable[[Fact], None], observer: WatchObserver
    ) -> None:
        self.objects: dict[Key, T] = {}
        self.watched = watched
        self._sink = sink
        self._observer = observer

    def apply(self, event: ObjectChanged[T]) -> None:
        """Apply one event of a watch or a list; send a fact if the object differs."""
        new = event.object
        key = (new.metadata.namespace, new.metadata.name)
        if event.type == DELETED:
            self.remove(key, seen=True)
            return
        old = self.objects.get(key)
        if old is not None and old.metadata.uid != new.metadata.uid:
            # Another object of the same name: the deletion of the first one was missed.
            self.remove(key, seen=False)
            old = None
        if old is None:
            self.objects[key] = new
            if problem := getattr(new, "malformed", ""):
                self._observer.object_malformed(self.watched.resource, _spell(key), problem)
            self._sink(Added(self.watched.resource, new))
        elif not self.refresh(key, new):
            self.objects[key] = new
            problem = getattr(new, "malformed", "")
            # Report a problem once, and not with each version that still has it.
            if problem and problem != getattr(old, "malformed", ""):
                self._observer.object_malformed(self.watched.resource, _spell(key), problem)
            self._sink(Updated(self.watched.resource, old, new))

    def refresh(self, key: Key, new: T) -> bool:
        """Take over the version of *new*, unless it differs otherwise from the object under *key*.

        Returns:
            Whether *new* holds nothing that is worth a fact, and can be dropped.
        """
        old = self.objects.get(key)
        if old is None or self._lacks_raw(old) or self._version_counts(old, new):
            return False
        if not equal(old, new):
            return False
        # A heartbeat, or an object that is listed again. The version is replaced in place: cache
        # and queue refer to the same object, and a copy beside it would hold the metadata of every
        # object that had a heartbeat a second time.
        force_setattr(old.metadata, "resource_version", new.metadata.resource_version)
        if self.watched.raw and isinstance(new, Raw) and isinstance(old, Raw):
            old.keep_raw(new.raw)
        return True

    def remove(self, key: Key, *, seen: bool) -> None:
        """Remove the object under *key*, if there is one; *seen* as in `Deleted`."""
        old = self.objects.pop(key, None)
        if old is not None:
            self._sink(Deleted(self.watched.resource, old, seen))

    def report(self, event: Unreadable) -> None:
        """Report an unreadable object; keep its last good version, unless it was deleted."""
        if event.type == DELETED:
            self.remove(event.key, seen=True)
        self._observer.object_malformed(self.watched.resource, _spell(event.key), event.problem)

    def _version_counts(self, old: T, new: T) -> bool:
        """Whether a new version is a fact though nothing else has changed."""
        versions = {old.metadata.resource_version, new.metadata.resource_version}
        return self.watched.every_version and len(versions) > 1

    def _lacks_raw(self, old: T) -> bool:
        """Whether *old* was kept without its JSON, which an extender receives by now."""
        return self.watched.raw and isinstance(old, Raw) and old.raw == NOT_KEPT


def equal(old: T, new: T) -> bool:
    """Tell whether all that we read is the same in *old* and *new*, except for the version."""
    return all(
        getattr(old, name) == getattr(new, name)
        for name in old.__struct_fields__
        if name != "metadata"
    ) and not differs(old.metadata, new.metadata)


def _spell(key: Key) -> str:
    return "/".join(filter(None, key))
