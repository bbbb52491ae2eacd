"""What happened to each pod, in order, kept in bounded memory.

A kubelet may reject a pod long after it was bound: the log line about that shows how the pod got
there. The pods, the entries of each and all texts together are bounded: users make up node labels
and taints, and messages name them. Histories are not dropped when a pod is deleted: the entries
before a deletion are often the ones of interest. The pod that changed longest ago is dropped first.
"""

from collections import OrderedDict
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Entry:
    """One thing that happened.

    Args:
        time_seconds: When, by the caller's clock.
        attempt: The scheduling attempt it belongs to; 0 outside of one.
        text: What happened.
    """

    time_seconds: float
    attempt: int
    text: str


class PodHistory:
    """The histories of the pods that changed last.

    Args:
        pods_maximum: How many pods are kept.
        entries_maximum: How many entries of each; the oldest are dropped first.
        characters_maximum: How long all texts may be together.
    """

    def __init__(
        self,
        pods_maximum: int = 5000,
        entries_maximum: int = 32,
        characters_maximum: int = 8 << 20,
    ) -> None:
        # Tuples: most pods have one entry, for which a deque would reserve the space of 64.
        self._entries: OrderedDict[str, tuple[Entry, ...]] = OrderedDict()
        self._pods_maximum = pods_maximum
        self._entries_maximum = entries_maximum
        self._characters_maximum = characters_maximum
        self._characters = 0

    def add(self, uid: str, time_seconds: float, attempt: int, text: str) -> None:
        """Add an entry to the history of the pod *uid*."""
        before = self._entries.get(uid, ())
        if before and before[-1].text == text:
            text = before[-1].text  # the same long text of many attempts is kept in memory once
        entries = (*before, Entry(time_seconds, attempt, text))[-self._entries_maximum :]
        self._entries[uid] = entries
        self._entries.move_to_end(uid)
        self._characters += _characters(entries) - _characters(before)
        while len(self._entries) > self._pods_maximum or (
            self._characters > self._characters_maximum and len(self._entries) > 1
        ):
            _, oldest = self._entries.popitem(last=False)
            self._characters -= _characters(oldest)
        assert self._characters >= 0, "more was dropped than kept"

    def of(self, uid: str) -> tuple[Entry, ...]:
        """Return the history of the pod *uid*, oldest entry first; empty if none is kept."""
        return self._entries.get(uid, ())


def _characters(entries: tuple[Entry, ...]) -> int:
    """Return how long the texts are; equal ones in a row are one object, and count once."""
    return sum(
        len(each.text)
        for index, each in enumerate(entries)
        if not index or each.text is not entries[index - 1].text
    )


def render(history: tuple[Entry, ...]) -> str:
    """Return *history* as text, one line for each entry, with the times since the first one."""
    if not history:
        return "nothing is remembered"
    begin = history[0].time_seconds
    return "\n".join(
        f"{each.time_seconds - begin:+9.3f}s  attempt {each.attempt}  {each.text}"
        for each in history
    )
