"""Pods that are being decided, and what has changed meanwhile.

An attempt judges the cluster as it was when the pod was popped. If no node fits, the changes since
then are checked against the pod's hints before it is parked: one of them may have freed capacity.
Changes before the pop were known to the attempt.
"""

from collections import Counter, deque
from collections.abc import Iterator
from itertools import islice
from typing import Final

from scheduler.framework.cluster_event import Change
from scheduler.model.meta import PodUid
from scheduler.queue.queued_pod import QueuedPod

LOG_MAXIMUM: Final = 10_000
"""How many changes are kept: a permit plugin may keep a pod in flight for a quarter of an hour."""


class InFlight:
    """Pods that are being decided, and one log of changes for all of them.

    Upstream keeps a list of events with a mark for each pod. Here every change has a number, and a
    pod remembers the number of the first change after its pop. The log begins with the first
    change after the oldest pop, so it is empty whenever no pod is in flight. Each change keeps the
    objects that it is about, so the log is bounded. If changes since a pod's pop were dropped, one
    of them might have helped: the pod is requeued after backoff.
    """

    def __init__(self) -> None:
        self.pods: dict[PodUid, QueuedPod] = {}
        """Pods that are being decided, the one popped first first; only `add`, `remove` write."""
        self._first_seen: dict[PodUid, int] = {}
        self._log: deque[Change] = deque()
        self._first = 0

    def __len__(self) -> int:
        return len(self.pods)

    def __contains__(self, uid: PodUid) -> bool:
        return uid in self.pods

    def __iter__(self) -> Iterator[QueuedPod]:
        """Yield the pods, the one popped first first."""
        return iter(self.pods.values())

    @property
    def logged(self) -> int:
        """How many changes are kept."""
        return len(self._log)

    def add(self, queued: QueuedPod) -> None:
        """Add a pod that was popped; it sees the changes from now on."""
        uid = queued.pod.uid
        assert uid not in self.pods, f"popped twice: {queued}"
        self.pods[uid] = queued
        self._first_seen[uid] = self._first + len(self._log)
        assert len(self._first_seen) == len(self.pods), "a pod in flight without a mark in the log"

    def record(self, change: Change) -> None:
        """Keep *change* for the pods in flight, if there are any."""
        if self.pods:
            self._log.append(change)
            if len(self._log) > LOG_MAXIMUM:
                self._log.popleft()
                self._first += 1

    def since_pop(self, uid: PodUid) -> Iterator[Change] | None:
        """Return what has changed since a pod was popped.

        None where it is not in flight, or where that is not known in full.
        """
        first_seen = self._first_seen.get(uid)
        if first_seen is None or first_seen < self._first:
            return None
        return islice(self._log, first_seen - self._first, None)

    def remove(self, uid: PodUid) -> bool:
        """Remove a pod that has been decided, and return whether it was there."""
        if self.pods.pop(uid, None) is None:
            return False
        del self._first_seen[uid]
        if self._log:
            self._trim()
        assert self.pods or not self._log, "changes are kept for no pod"
        return True

    def count_by_label(self) -> dict[str, int]:
        """Count the kept changes by their events' labels, for metrics."""
        return dict(Counter(change.event.label for change in self._log))

    def _trim(self) -> None:
        """Drop the changes that every pod in flight has seen already."""
        end = self._first + len(self._log)
        oldest = next(iter(self._first_seen.values()), end)
        for _ in range(oldest - self._first):
            self._log.popleft()
        self._first = max(self._first, oldest)
        assert self._first + len(self._log) == end, "a change was lost or counted twice"
