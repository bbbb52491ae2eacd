"""Pods that are being decided, and what has changed meanwhile.

A pod that turns out to fit nowhere was judged by what was known when it was popped. Whatever
changed since is replayed to it before it is parked; what had changed before was known already.
"""

from collections import Counter, deque
from collections.abc import Iterator
from itertools import islice
from typing import Final

from scheduler.framework.cluster_event import Change
from scheduler.model.meta import PodUid
from scheduler.queue.queued_pod import QueuedPod

LOG_MAXIMUM: Final = 10_000
"""How many changes are kept: a permit plugin may hold a pod in flight for a quarter of an hour."""


class InFlight:
    """Pods that are being decided, and one log of changes for all of them.

    Every change has a number. A pod remembers the number of the first change after its pop, and the
    log begins with the first change after the oldest pop: it is empty whenever nobody is in flight.
    Each change holds the objects that it is about, so the log is bounded: of a pod that was popped
    before what it still holds, nobody knows any more what has changed since.
    """

    def __init__(self) -> None:
        self._pods: dict[PodUid, tuple[int, QueuedPod]] = {}
        self._log: deque[Change] = deque()
        self._first = 0

    def __len__(self) -> int:
        return len(self._pods)

    def __contains__(self, uid: PodUid) -> bool:
        return uid in self._pods

    def __iter__(self) -> Iterator[QueuedPod]:
        """Yield the pods, the one popped first first."""
        return (queued for _, queued in self._pods.values())

    @property
    def logged(self) -> int:
        """How many changes are kept."""
        return len(self._log)

    def add(self, queued: QueuedPod) -> None:
        """Note that *queued* is being decided."""
        uid = queued.pod.uid
        assert uid not in self._pods, f"popped twice: {queued}"
        self._pods[uid] = (self._first + len(self._log), queued)

    def get(self, uid: PodUid) -> QueuedPod | None:
        """Return a pod that is being decided."""
        entry = self._pods.get(uid)
        return entry[1] if entry else None

    def record(self, change: Change) -> None:
        """Keep *change* for the pods in flight, if there are any."""
        if self._pods:
            self._log.append(change)
            if len(self._log) > LOG_MAXIMUM:
                self._log.popleft()
                self._first += 1

    def since_pop(self, uid: PodUid) -> Iterator[Change] | None:
        """Return what has changed since a pod was popped.

        None where it is not in flight, or where that is not known in full.
        """
        entry = self._pods.get(uid)
        if entry is None or entry[0] < self._first:
            return None
        return islice(self._log, entry[0] - self._first, None)

    def remove(self, uid: PodUid) -> bool:
        """Note that a pod has been decided; tell whether it was being decided."""
        found = self._pods.pop(uid, None) is not None
        if self._log:
            self._trim()
        return found

    def count_column(self) -> dict[str, int]:
        """Count the kept changes by their events' labels, for metrics."""
        return dict(Counter(change.event.label for change in self._log))

    def _trim(self) -> None:
        """Drop the changes that every pod in flight has seen already."""
        end = self._first + len(self._log)
        oldest = next(iter(self._pods.values()))[0] if self._pods else end
        for _ in range(oldest - self._first):
            self._log.popleft()
        self._first = max(self._first, oldest)
