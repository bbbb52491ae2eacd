"""Capacity that preemptions freed, and which pods of other schedulers took it.

A scheduler that does not honour our nominations may place its pods, often the victims' successors,
on the node as soon as the victims are gone. Preempting those as well would go on for ever. This
module only remembers which pods came; `scheduler.cycle.taken_capacity` runs the filters to find out
whether the preemptor would fit without them.
"""

from dataclasses import dataclass, field

from scheduler.model.meta import PodUid
from scheduler.model.pod import Pod


@dataclass(slots=True)
class FreedCapacity:
    """Capacity on one node that is freed for one pod.

    Args:
        is_free: Whether all victims have left.
        taken_by: Pods of other schedulers that came since the eviction began, by UID.
    """

    node: str
    is_free: bool = False
    taken_by: dict[PodUid, Pod] = field(default_factory=dict)


class FreedCapacities:
    """What our preemptions freed, until the preemptor is bound, gone or nominated elsewhere."""

    def __init__(self) -> None:
        self._by_preemptor: dict[PodUid, FreedCapacity] = {}
        self._preemptors: dict[str, set[PodUid]] = {}

    def __len__(self) -> int:
        return len(self._by_preemptor)

    def begin(self, uid: PodUid, node: str) -> None:
        """Note that victims on *node* are to be evicted for a pod."""
        self.forget(uid)
        self._by_preemptor[uid] = FreedCapacity(node)
        self._preemptors.setdefault(node, set()).add(uid)

    def mark_free(self, uid: PodUid) -> None:
        """Note that all victims have left."""
        if freed := self._by_preemptor.get(uid):
            freed.is_free = True

    def pod_came(self, pod: Pod) -> None:
        """Note that another scheduler placed *pod*."""
        for uid in self._preemptors.get(pod.node_name, ()):
            self._by_preemptor[uid].taken_by[pod.uid] = pod

    def pod_left(self, pod: Pod) -> None:
        """Note that *pod* has left its node."""
        for uid in self._preemptors.get(pod.node_name, ()):
            self._by_preemptor[uid].taken_by.pop(pod.uid, None)

    def possibly_taken(self, uid: PodUid) -> FreedCapacity | None:
        """Return the capacity freed for a pod if all victims have left and other pods came."""
        freed = self._by_preemptor.get(uid)
        return freed if freed is not None and freed.is_free and freed.taken_by else None

    def decided(self, uid: PodUid, node: str) -> None:
        """Note the node that a pod is bound to, empty if none: capacity elsewhere is given up."""
        freed = self._by_preemptor.get(uid)
        if freed is not None and freed.is_free and freed.node != node:
            self.forget(uid)

    def forget(self, uid: PodUid) -> None:
        """Forget the capacity freed for a pod, which does not need it any more."""
        freed = self._by_preemptor.pop(uid, None)
        if freed is not None:
            preemptors = self._preemptors[freed.node]
            assert uid in preemptors, f"{uid} is not listed on {freed.node}"
            preemptors.discard(uid)
            if not preemptors:
                del self._preemptors[freed.node]

    def node_removed(self, node: str) -> None:
        """Forget all capacity on a node that was removed."""
        for uid in tuple(self._preemptors.get(node, ())):
            self.forget(uid)
