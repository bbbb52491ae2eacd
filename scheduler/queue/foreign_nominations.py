"""Nominations by other schedulers.

Another scheduler that nominates a pod means to place it there, and until then that capacity is as
good as used. Whether the plan still stands cannot be known, so a nomination counts for a bounded
time, from when it was first seen. A nomination to another node is a new one. Upstream counts the
nominations of its own pods alone.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from scheduler.model.meta import PodUid
from scheduler.model.pod import Pod
from scheduler.model.state_machine import Row, Transitions
from scheduler.queue.nominator import Nominator


class State(StrEnum):
    """Whether the nomination of another scheduler's pod counts."""

    COUNTED = "counted"
    EXPIRED = "expired"


class Cause(StrEnum):
    """What can change that."""

    NOMINATED = "nominated to a new node"
    TIMED_OUT = "its time is over"
    ENDED = "not nominated any more, bound, terminating, or gone"


TRANSITIONS: Final = Transitions(
    Row(None, Cause.NOMINATED, State.COUNTED),
    Row((State.COUNTED, State.EXPIRED), Cause.NOMINATED, State.COUNTED, note="its time restarts"),
    Row(State.COUNTED, Cause.TIMED_OUT, State.EXPIRED),
    Row((State.COUNTED, State.EXPIRED), Cause.ENDED, None),
)


@dataclass(frozen=True, slots=True)
class _Nomination:
    pod: Pod
    until: float


_Counted = dict[PodUid, _Nomination]


class ForeignNominations:
    """Nominates pods that are not in our queue, each for a bounded time.

    Args:
        nominator: Counts them, with our own.
        seconds: How long a nomination counts; 0 for never.
    """

    def __init__(self, nominator: Nominator, seconds: float) -> None:
        self._nominator = nominator
        self._seconds = seconds
        # In the order in which they expire: all last equally long, and each goes to the end.
        self._counted: _Counted = {}
        self._expired: dict[PodUid, str] = {}

    def __len__(self) -> int:
        """Return how many count now."""
        return len(self._counted)

    def follow(self, pod: Pod, now: float) -> Pod | None:
        """Follow a pod's newest version.

        Returns:
            The pod as it was nominated, where that capacity is given up.
        """
        node = _expected_node(pod)
        if not node:
            return self.forget(pod)
        counted = self._counted.get(pod.uid)
        if counted is not None and counted.pod.nominated_node == node:
            self._counted[pod.uid] = _Nomination(pod, counted.until)
            self._nominator.refresh(pod)
        elif self._seconds and self._expired.get(pod.uid) != node:
            # An update that names the node of an expired nomination proves nothing: the status
            # keeps the name until its scheduler clears it.
            self._move(pod, Cause.NOMINATED, State.COUNTED, now + self._seconds)
            return counted.pod if counted else None
        return None

    def forget(self, pod: Pod) -> Pod | None:
        """Forget a pod that is bound, gone or not nominated any more.

        Returns:
            The pod as it was nominated, where that capacity is given up: if it was bound there, it
            uses the capacity itself.
        """
        counted = self._counted.get(pod.uid)
        if counted is not None or pod.uid in self._expired:
            self._move(pod, Cause.ENDED, None)
        if counted is None or counted.pod.nominated_node == pod.node_name:
            return None
        return counted.pod

    def expire(self, now: float) -> Iterator[Pod]:
        """Stop counting what has counted for long enough, and yield whose capacity is given up."""
        for each in tuple(self._counted.values()):
            if each.until > now:
                break
            self._move(each.pod, Cause.TIMED_OUT, State.EXPIRED)
            yield each.pod

    def next_expiry(self) -> float | None:
        """Return when the next nomination expires."""
        return next((each.until for each in self._counted.values()), None)

    def check_invariants(self) -> None:
        """Raise AssertionError where a nomination is in two states, or counted for nobody."""
        assert not self._counted.keys() & self._expired.keys(), "counted and expired at once"
        for uid, each in self._counted.items():
            node = self._nominator.node_of.get(uid)
            assert node == each.pod.nominated_node, f"{each.pod.key} is nominated to {node}"
        untils = [each.until for each in self._counted.values()]
        assert untils == sorted(untils), "nominations are not in the order of their expiry"

    def _move(self, pod: Pod, cause: Cause, new: State | None, until: float = 0.0) -> None:
        """Carry out one row of the transition table."""
        counted = self._counted.pop(pod.uid, None)
        expired = self._expired.pop(pod.uid, None)
        old = State.COUNTED if counted else State.EXPIRED if expired else None
        TRANSITIONS.move(old, cause, new, pod.uid)
        if new is State.COUNTED:
            assert pod.nominated_node, f"{pod.key} is nominated nowhere"
            self._counted[pod.uid] = _Nomination(pod, until)
            self._nominator.add(pod)
        elif old is State.COUNTED:
            self._nominator.delete(pod.uid)
        if new is State.EXPIRED:
            self._expired[pod.uid] = pod.nominated_node


def _expected_node(pod: Pod) -> str:
    """Return the node that *pod* may be expected on; empty where there is none.

    A malformed pod has no known size, so there is nothing to count.
    """
    expected = not (pod.node_name or pod.terminating or pod.malformed)
    return pod.nominated_node if expected else ""
