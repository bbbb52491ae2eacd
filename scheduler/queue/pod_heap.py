"""A heap of pods from which any pod can be taken."""

from collections.abc import Callable, Iterator
from heapq import heapify, heappop, heappush
from itertools import count
from typing import Any, Final

from scheduler.model.meta import PodUid
from scheduler.queue.queued_pod import QueuedPod

_SLACK: Final = 64


class PodHeap:
    """Pods in the order of their keys.

    A pod that leaves from the middle only loses its ticket; its entry is passed over later. Entries
    without a ticket never outnumber the others by more than a few.
    """

    def __init__(self) -> None:
        self._entries: list[tuple[Any, int, QueuedPod]] = []
        self._tickets: dict[PodUid, int] = {}
        self._next_ticket = count()

    def __len__(self) -> int:
        return len(self._tickets)

    def __contains__(self, uid: PodUid) -> bool:
        return uid in self._tickets

    def __iter__(self) -> Iterator[QueuedPod]:
        """Yield the pods, in no order."""
        return (entry[2] for entry in self._entries if self._valid(entry))

    def put(self, queued: QueuedPod, key: Any) -> None:
        """Put *queued* in, or give it another key."""
        ticket = next(self._next_ticket)
        self._tickets[queued.pod.uid] = ticket
        heappush(self._entries, (key, ticket, queued))
        self._compact()

    def discard(self, uid: PodUid) -> bool:
        """Take a pod out; tell whether it was there."""
        found = self._tickets.pop(uid, None) is not None
        self._compact()
        return found

    def reorder(self, key: Callable[[QueuedPod], Any]) -> None:
        """Give every pod another key: keys of two kinds never meet, which might not compare."""
        self._entries = [(key(e[2]), e[1], e[2]) for e in self._entries if self._valid(e)]
        heapify(self._entries)

    def first(self) -> tuple[Any, QueuedPod] | None:
        """Return the smallest key and its pod."""
        entries = self._entries
        while entries:
            key, _, queued = entries[0]
            if self._valid(entries[0]):
                return key, queued
            heappop(entries)
        return None

    def _valid(self, entry: tuple[Any, int, QueuedPod]) -> bool:
        return self._tickets.get(entry[2].pod.uid) == entry[1]

    def _compact(self) -> None:
        if len(self._entries) > 2 * len(self._tickets) + _SLACK:
            self._entries = [entry for entry in self._entries if self._valid(entry)]
            heapify(self._entries)
