"""Pods that wait until something changes, indexed by the plugins that rejected them."""

from collections.abc import Callable, Hashable, Iterable, Iterator

from scheduler.model.meta import PodUid
from scheduler.queue.queued_pod import QueuedPod

Keys = Callable[[QueuedPod], Iterable[Hashable]]


class UnschedulablePods:
    """Pods that wait until something changes.

    Most events help no pod: thousands of bindings are confirmed while a few pods wait for a node.
    Upstream looks at every waiting pod for each event. With the index, an event that no waiting
    pod's rejector registered for costs one lookup.

    Args:
        keys: The keys under which a pod is found.
    """

    def __init__(self, keys: Keys) -> None:
        self._keys = keys
        self._pods: dict[PodUid, QueuedPod] = {}
        self._keys_of: dict[PodUid, tuple[Hashable, ...]] = {}
        self._waiting_for: dict[Hashable, dict[PodUid, QueuedPod]] = {}

    def __len__(self) -> int:
        return len(self._pods)

    def __contains__(self, uid: PodUid) -> bool:
        return uid in self._pods

    def __iter__(self) -> Iterator[QueuedPod]:
        """Yield the pods in the order of arrival; they may move meanwhile."""
        return iter(tuple(self._pods.values()))

    def add(self, queued: QueuedPod) -> None:
        """Put *queued* in, or index it anew after an update."""
        uid = queued.pod.uid
        self.remove(uid)
        keys = tuple(self._keys(queued))
        self._pods[uid], self._keys_of[uid] = queued, keys
        for key in keys:
            self._waiting_for.setdefault(key, {})[uid] = queued

    def remove(self, uid: PodUid) -> bool:
        """Remove a pod, and return whether it was there."""
        for key in self._keys_of.pop(uid, ()):
            waiting = self._waiting_for[key]
            del waiting[uid]
            if not waiting:
                del self._waiting_for[key]
        return self._pods.pop(uid, None) is not None

    def waiting_for(self, keys: Iterable[Hashable]) -> list[QueuedPod]:
        """Return the pods that wait for any of *keys*, each once."""
        found: dict[PodUid, QueuedPod] = {}
        for key in keys:
            if waiting := self._waiting_for.get(key):
                found.update(waiting)
        return list(found.values())
