"""Pods that are ready now, the most urgent first."""

from collections.abc import Callable, Iterator
from typing import Any

from scheduler.model.meta import PodUid
from scheduler.model.pod import Pod
from scheduler.queue.pod_heap import PodHeap
from scheduler.queue.queued_pod import QueuedPod

SortKey = Callable[[Pod], Any]
"""The key of a pod: smaller goes first. It must not raise, and any two keys must compare."""


class Order:
    """The order of pods that are equally ready: the plugin's key, then whoever waits longest."""

    def __init__(self, sort_key: SortKey) -> None:
        self.sort_key = sort_key

    def __call__(self, queued: QueuedPod) -> tuple[Any, float, int]:
        """Return the key of *queued*, which no other pod shares."""
        return self.sort_key(queued.pod), queued.timestamp, queued.order


class ActiveQueue:
    """Pods that are ready now."""

    def __init__(self, order: Order) -> None:
        self._order = order
        self._pods = PodHeap()

    def __len__(self) -> int:
        return len(self._pods)

    def __contains__(self, uid: PodUid) -> bool:
        return uid in self._pods

    def __iter__(self) -> Iterator[QueuedPod]:
        """Yield the pods, in no order."""
        return iter(self._pods)

    def add(self, queued: QueuedPod) -> None:
        """Put *queued* in, or move it to where it belongs now."""
        self._pods.put(queued, self._order(queued))

    def remove(self, uid: PodUid) -> bool:
        """Take a pod out; tell whether it was there."""
        return self._pods.discard(uid)

    def reorder(self) -> None:
        """Put everybody where the order, which has changed, wants them."""
        self._pods.reorder(self._order)

    def first(self) -> QueuedPod | None:
        """Return the pod that goes next."""
        head = self._pods.first()
        return head[1] if head else None
