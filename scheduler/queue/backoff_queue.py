"""Pods that are ready later: each failed attempt doubles the wait.

Waiting ends on whole seconds, so that pods which failed within one second are compared by priority
rather than by the moment of their failure. Pods whose attempt ended in an error wait apart: they
are not fetched early when nothing else is ready, since trying harder does not mend an error.
"""

from collections.abc import Iterator
from math import floor, inf
from typing import Any, Final

from scheduler.model.meta import PodUid
from scheduler.queue.active_queue import Order
from scheduler.queue.pod_heap import PodHeap
from scheduler.queue.queued_pod import QueuedPod

WINDOW_SECONDS: Final = 1.0
_NEVER_BEGAN: Final = -inf
_MAX_DOUBLINGS: Final = 62


class BackoffQueue:
    """Pods that are ready later.

    Args:
        initial_seconds: The wait after the first failure.
        maximum_seconds: The longest wait; 0 means never to wait.
        order: Which of the pods with equal expiry goes first.
    """

    def __init__(self, initial_seconds: float, maximum_seconds: float, order: Order) -> None:
        self._initial, self._maximum = initial_seconds, maximum_seconds
        self._order = order
        self._rejected = PodHeap()
        self._failed = PodHeap()

    def __len__(self) -> int:
        return len(self._rejected) + len(self._failed)

    def __contains__(self, uid: PodUid) -> bool:
        return uid in self._rejected or uid in self._failed

    def __iter__(self) -> Iterator[QueuedPod]:
        """Yield the pods, in no order."""
        yield from self._rejected
        yield from self._failed

    def add(self, queued: QueuedPod) -> None:
        """Put *queued* in, or move it to where it belongs now."""
        heap = self._failed if queued.failed else self._rejected
        heap.put(queued, self._key(queued))

    def remove(self, uid: PodUid) -> bool:
        """Take a pod out; tell whether it was there."""
        return self._rejected.discard(uid) or self._failed.discard(uid)

    def reorder(self) -> None:
        """Put everybody where the order, which has changed, wants them."""
        self._rejected.reorder(self._key)
        self._failed.reorder(self._key)

    def adjust(self, initial_seconds: float, maximum_seconds: float) -> None:
        """Let pods that fail from now on wait for other times."""
        self._initial, self._maximum = initial_seconds, maximum_seconds

    def first_to_fetch_early(self) -> QueuedPod | None:
        """Return the pod that may go next although it should wait; never one that met an error."""
        head = self._rejected.first()
        return head[1] if head else None

    def first_completed(self, now: float) -> QueuedPod | None:
        """Return a pod that has waited long enough: rejected ones first, then failed ones."""
        for heap in (self._rejected, self._failed):
            head = heap.first()
            if head and not self.waiting(head[1], now):
                return head[1]
        return None

    def next_completion(self) -> float | None:
        """Return when the next pod will have waited long enough."""
        heads = (heap.first() for heap in (self._rejected, self._failed))
        return min((head[0][0] + WINDOW_SECONDS for head in heads if head), default=None)

    def waiting(self, queued: QueuedPod, now: float) -> bool:
        """Tell whether *queued* must wait.

        Upstream compares windows, so the wait ends with the window *after* the one of its expiry.
        """
        return self.expiry(queued) >= _window(now)

    def expiry(self, queued: QueuedPod) -> float:
        """Return the window in which the wait of *queued* ends: the same until it fails again."""
        if queued.backoff_expiry is None:
            count = queued.consecutive_errors or queued.unschedulable_count
            if not count or not self._maximum:
                return _NEVER_BEGAN
            queued.backoff_expiry = _window(queued.timestamp + self.wait_seconds(count))
        return queued.backoff_expiry

    def _key(self, queued: QueuedPod) -> tuple[float, Any]:
        return self.expiry(queued), self._order(queued)

    def wait_seconds(self, failures: int) -> float:
        """Return how long a pod waits after *failures*: doubled each time, up to a maximum."""
        doublings = min(failures - 1, _MAX_DOUBLINGS)
        return min(self._initial * 2.0**doublings, self._maximum)


def _window(moment: float) -> float:
    return floor(moment / WINDOW_SECONDS) * WINDOW_SECONDS
