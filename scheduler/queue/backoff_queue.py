"""Pods that are ready later: each failed attempt doubles the wait.

Backoff ends on whole seconds, so that pods which failed within one second are ordered by priority
rather than by the moment of their failure. Pods whose attempt ended in an error have a heap of
their own: they are not popped early when nothing else is ready, since another attempt at once
does not repair an error.
"""

from collections.abc import Iterator
from math import floor, inf
from typing import Final

from scheduler.model.meta import PodUid
from scheduler.queue.pod_heap import PodHeap, SortKey
from scheduler.queue.queued_pod import QueuedPod

WINDOW_SECONDS: Final = 1.0
"""Upstream's backoffQOrderingWindowDuration."""
_NEVER_BEGAN: Final = -inf
_MAX_DOUBLINGS: Final = 62
"""A float would overflow at 1024; the maximum is reached long before."""


class BackoffQueue:
    """Pods that are ready later.

    Args:
        initial_seconds: The wait after the first failure.
        maximum_seconds: The longest wait; 0 means never to wait.
        sort_key: Which of the pods with equal expiry goes first.
    """

    def __init__(self, initial_seconds: float, maximum_seconds: float, sort_key: SortKey) -> None:
        self._initial, self._maximum = initial_seconds, maximum_seconds
        self._rejected = PodHeap(sort_key, self.expiry)
        self._failed = PodHeap(sort_key, self.expiry)

    def __len__(self) -> int:
        return len(self._rejected) + len(self._failed)

    def __contains__(self, uid: PodUid) -> bool:
        return uid in self._rejected or uid in self._failed

    def __iter__(self) -> Iterator[QueuedPod]:
        """Yield the pods, in no order."""
        yield from self._rejected
        yield from self._failed

    def add(self, queued: QueuedPod) -> None:
        """Put *queued* in, or move it where it belongs after an update."""
        heap = self._failed if queued.ended_in_error else self._rejected
        heap.add(queued)
        assert queued.backoff_expiry is not None, f"has no backoff to wait for: {queued}"

    def remove(self, uid: PodUid) -> bool:
        """Remove a pod, and return whether it was there."""
        return self._rejected.remove(uid) or self._failed.remove(uid)

    def reorder(self, sort_key: SortKey) -> None:
        """Replace the sort key."""
        self._rejected.reorder(sort_key)
        self._failed.reorder(sort_key)

    def adjust(self, initial_seconds: float, maximum_seconds: float) -> None:
        """Set the backoff of pods that fail from now on; a backoff that runs keeps its end."""
        self._initial, self._maximum = initial_seconds, maximum_seconds

    def first_to_pop_early(self) -> QueuedPod | None:
        """Return the pod to pop although its backoff runs; never one whose attempt met an error."""
        return self._rejected.first()

    def first_completed(self, now: float) -> QueuedPod | None:
        """Return a pod whose backoff is over: rejected pods first, then failed ones."""
        # Upstream empties its error backoff queue last, too.
        for heap in (self._rejected, self._failed):
            queued = heap.first()
            if queued is not None and not self.is_waiting(queued, now):
                return queued
        return None

    def next_completion(self) -> float | None:
        """Return when the next backoff is over."""
        heads = (self._rejected.first(), self._failed.first())
        ends = (self.expiry(queued) + WINDOW_SECONDS for queued in heads if queued is not None)
        return min(ends, default=None)

    def is_waiting(self, queued: QueuedPod, now: float) -> bool:
        """Tell whether the backoff of *queued* is not over.

        Upstream compares windows, so the wait ends with the window *after* the one of its expiry.
        """
        return self.expiry(queued) >= _window(now)

    def expiry(self, queued: QueuedPod) -> float:
        """Return the window in which the backoff of *queued* ends.

        It is computed once for each failure: a reload of the settings, or a move to another state
        and back, must not change the order of pods that already wait.
        """
        if queued.backoff_expiry is None:
            failures = queued.consecutive_errors or queued.unschedulable_count
            if not failures or not self._maximum:
                return _NEVER_BEGAN
            queued.backoff_expiry = _window(queued.timestamp + self.wait_seconds(failures))
        return queued.backoff_expiry

    def wait_seconds(self, failures: int) -> float:
        """Return the backoff after *failures*: doubled each time, up to the maximum."""
        assert failures > 0, "a pod that has not failed has no backoff"
        doublings = min(failures - 1, _MAX_DOUBLINGS)
        return min(self._initial * 2.0**doublings, self._maximum)


def _window(moment: float) -> float:
    return floor(moment / WINDOW_SECONDS) * WINDOW_SECONDS
