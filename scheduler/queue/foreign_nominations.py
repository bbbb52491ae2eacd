"""Nominations that others make: pods of other schedulers that mean to go to a node soon.

Who nominates a pod means to place it there, and until then its room is as good as taken. Nobody
can tell whether that plan still stands, though: so it counts for a while, and no longer. The time
runs from when the nomination was first heard of; another node is another nomination.

=========  ==============================================  ===========
state      fact                                            becomes
=========  ==============================================  ===========
(absent)   nominated                                       counted
counted    nominated to another node                       counted, anew
counted    its time is over                                passed over
counted    no more nominated, bound, going away, or gone   (absent)
passed     nominated to another node                       counted, anew
passed     no more nominated, bound, going away, or gone   (absent)
=========  ==============================================  ===========

Upstream counts the nominations of its own pods alone.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from scheduler.model.meta import PodUid
from scheduler.model.pod import Pod
from scheduler.queue.nominator import Nominator


@dataclass(slots=True)
class _Nomination:
    pod: Pod
    until: float


_Counted = dict[PodUid, _Nomination]
_Passed = dict[PodUid, str]


class ForeignNominations:
    """Tells the nominator of pods that are not in our queue, each for a bounded time.

    Args:
        nominator: Counts them, with our own.
        seconds: How long a nomination counts; 0 for never.
    """

    def __init__(self, nominator: Nominator, seconds: float) -> None:
        self._nominator = nominator
        self._seconds = seconds
        self._counted: _Counted = {}
        self._passed: _Passed = {}

    def __len__(self) -> int:
        """Return how many count now."""
        return len(self._counted)

    def follow(self, pod: Pod, now: float) -> Pod | None:
        """Take in the newest version of a pod; return the one whose room is given up by that."""
        node = _node_of(pod)
        if not node:
            return self.forget(pod)
        counted = self._counted.get(pod.uid)
        if counted is not None and counted.pod.nominated_node == node:
            counted.pod = pod
            self._nominator.refresh(pod)
        elif self._seconds and self._passed.get(pod.uid) != node:
            self._passed.pop(pod.uid, None)
            self._counted.pop(pod.uid, None)  # whoever is counted anew goes to the end
            self._counted[pod.uid] = _Nomination(pod, now + self._seconds)
            self._nominator.add(pod)
            return counted.pod if counted else None
        return None

    def forget(self, pod: Pod) -> Pod | None:
        """Note that *pod* is bound, gone or nominated no more; return it if its room is given up.

        Where it was bound, the room is given up only if that is elsewhere.
        """
        self._passed.pop(pod.uid, None)
        counted = self._counted.pop(pod.uid, None)
        if counted is None:
            return None
        self._nominator.delete(pod.uid)
        return counted.pod if counted.pod.nominated_node != pod.node_name else None

    def expire(self, now: float) -> Iterator[Pod]:
        """Count no more what has counted for long enough, and yield whose room is given up."""
        for uid, each in tuple(self._counted.items()):
            if each.until > now:
                break  # they came in the order in which they go
            del self._counted[uid]
            self._passed[uid] = each.pod.nominated_node
            self._nominator.delete(uid)
            yield each.pod

    def next_expiry(self) -> float | None:
        """Return when time alone will change something."""
        return next((each.until for each in self._counted.values()), None)


def _node_of(pod: Pod) -> str:
    """Return the node that *pod* may be expected on; empty where there is none."""
    expected = not (pod.node_name or pod.terminating or pod.malformed)
    return pod.nominated_node if expected else ""
