"""A heap of pods from which any pod can be removed."""

from collections.abc import Callable, Iterator
from heapq import heapify, heappop, heappush
from itertools import count
from typing import Any, Final

from scheduler.model.meta import PodUid
from scheduler.model.pod import Pod
from scheduler.queue.queued_pod import QueuedPod

SortKey = Callable[[Pod], Any]
"""The key of a pod: the smallest is popped first. It must not raise; any two keys compare."""

_Entry = tuple[float, Any, float, int, int, QueuedPod]
"""Expiry, sort key, timestamp, order of arrival, ticket, pod."""

_SLACK: Final = 64
"""How many invalid entries are always allowed, so that small heaps are never compacted."""


class PodHeap:
    """Pods by expiry, then by the plugin's sort key, then by timestamp and order of arrival.

    Entries are deleted lazily, since removal from the middle of a heap would cost a search. Each
    entry has a number, its ticket; only the newest ticket of a pod is valid, and `remove` drops it.
    An invalid entry stays until it is on top, or until invalid entries outnumber the valid ones: a
    pod that is updated all the time must not fill the memory.

    Args:
        sort_key: The queue-sort plugin's key.
        expiry: When a pod's backoff ends; None where all pods are ready.
    """

    def __init__(
        self, sort_key: SortKey, expiry: Callable[[QueuedPod], float] | None = None
    ) -> None:
        self._sort_key = sort_key
        self._expiry = expiry
        self._entries: list[_Entry] = []
        self._tickets: dict[PodUid, int] = {}
        self._next_ticket = count()

    def __len__(self) -> int:
        return len(self._tickets)

    def __contains__(self, uid: PodUid) -> bool:
        return uid in self._tickets

    def __iter__(self) -> Iterator[QueuedPod]:
        """Yield the pods, in no order."""
        return (entry[-1] for entry in self._entries if self._is_valid(entry))

    def add(self, queued: QueuedPod) -> None:
        """Put *queued* in, or move it where it belongs after an update."""
        ticket = next(self._next_ticket)
        self._tickets[queued.pod.uid] = ticket
        expiry = self._expiry(queued) if self._expiry else 0.0
        key = self._sort_key(queued.pod)
        # The ticket is unique, so the pods behind it are never compared.
        heappush(self._entries, (expiry, key, queued.timestamp, queued.order, ticket, queued))
        if len(self._entries) > 2 * len(self._tickets) + _SLACK:
            self._compact()

    def remove(self, uid: PodUid) -> bool:
        """Remove a pod, and return whether it was there."""
        found = self._tickets.pop(uid, None) is not None
        if len(self._entries) > 2 * len(self._tickets) + _SLACK:
            self._compact()
        return found

    def first(self) -> QueuedPod | None:
        """Return the pod that is popped first; None where there is none."""
        entries, tickets = self._entries, self._tickets
        while entries:
            queued = entries[0][-1]
            if tickets.get(queued.pod.uid) == entries[0][-2]:
                return queued
            heappop(entries)
        assert not tickets, f"{len(tickets)} pods have a ticket and no entry"
        return None

    def reorder(self, sort_key: SortKey) -> None:
        """Replace the sort key; keys of two kinds might not compare, so all change at once."""
        self._sort_key = sort_key
        self._entries = [
            (expiry, sort_key(queued.pod), timestamp, order, ticket, queued)
            for expiry, _, timestamp, order, ticket, queued in filter(self._is_valid, self._entries)
        ]
        heapify(self._entries)

    def _is_valid(self, entry: _Entry) -> bool:
        return self._tickets.get(entry[-1].pod.uid) == entry[-2]

    def _compact(self) -> None:
        """Drop all invalid entries; amortised over the additions, that is O(1) each."""
        self._entries = [entry for entry in self._entries if self._is_valid(entry)]
        heapify(self._entries)
        assert len(self._entries) == len(self._tickets), "a ticket without an entry, or two of them"
