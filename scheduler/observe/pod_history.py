"""What happened to each pod, in order, kept in bounded memory.

A kubelet may reject a pod long after it was bound: the log line about that shows how the pod got
there. Both the number of pods and the entries of each are bounded. Histories are not dropped when a
pod is deleted: the entries before a deletion are often the ones of interest. The pod that changed
longest ago is dropped first.
"""

from collections import OrderedDict, deque
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
    """

    def __init__(self, pods_maximum: int = 5000, entries_maximum: int = 32) -> None:
        self._entries: OrderedDict[str, deque[Entry]] = OrderedDict()
        self._pods_maximum = pods_maximum
        self._entries_maximum = entries_maximum

    def add(self, uid: str, time_seconds: float, attempt: int, text: str) -> None:
        """Add an entry to the history of the pod *uid*."""
        entries = self._entries.get(uid)
        if entries is None:
            entries = self._begin(uid)
        if entries and entries[-1].text == text:
            text = entries[-1].text  # the same long text of many attempts is kept in memory once
        entries.append(Entry(time_seconds, attempt, text))
        self._entries.move_to_end(uid)
        assert len(self._entries) <= self._pods_maximum, "more histories than memory is meant for"

    def of(self, uid: str) -> tuple[Entry, ...]:
        """Return the history of the pod *uid*, oldest entry first; empty if none is kept."""
        return tuple(self._entries.get(uid, ()))

    def _begin(self, uid: str) -> deque[Entry]:
        if len(self._entries) >= self._pods_maximum:
            self._entries.popitem(last=False)
        return self._entries.setdefault(uid, deque(maxlen=self._entries_maximum))


def render(history: tuple[Entry, ...]) -> str:
    """Return *history* as text, one line for each entry, with the times since the first one."""
    if not history:
        return "nothing is remembered"
    begin = history[0].time_seconds
    return "\n".join(
        f"{each.time_seconds - begin:+9.3f}s  attempt {each.attempt}  {each.text}"
        for each in history
    )
