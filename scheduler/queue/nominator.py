"""Which pods are nominated to which node.

While victims terminate, their node looks free to every other pod. A nominated pod therefore counts
as if it were there already, for pods of no higher priority. Nominations come from our own
preemption and from others, who write ``status.nominatedNodeName``. Pods of other schedulers are
nominated here as well: nothing in this module requires that a pod is queued.

Source: ``pkg/scheduler/backend/queue/nominator.go``.
"""

from scheduler.framework.decision import KEEP, Clear, Keep, NominationOrder, SetTo
from scheduler.model.meta import PodUid
from scheduler.model.pod import Pod


class Nominator:
    """Which pods are nominated to which node; callers read the two mappings.

    Each nomination keeps the whole pod. (Upstream looks the pod up in its queue, and while it is in
    flight counts it with neither requests nor priority.)
    """

    def __init__(self) -> None:
        self.node_of: dict[PodUid, str] = {}
        self.pods_on: dict[str, tuple[Pod, ...]] = {}
        """Nominated pods by node, the earliest first. Each change makes a new tuple, so that a
        paused attempt goes on reading the one that it began with."""

    def add(self, pod: Pod, order: NominationOrder = KEEP) -> Pod | None:
        """Carry *order* out: nominate to the node in the status, nominate to another, or clear.

        A pod that is bound is not nominated, whatever the order.

        Returns:
            The pod as it was nominated, where its capacity on another node is given up by that.
        """
        # A late order about a pod that somebody has bound must not count it twice.
        node = "" if pod.node_name else _ordered_node(pod, order)
        given_up = self.delete(pod.uid, placed_on=node or pod.node_name)
        if node:
            self.node_of[pod.uid] = node
            self.pods_on[node] = (*self.pods_on.get(node, ()), pod)
        return given_up

    def update(self, old: Pod, new: Pod) -> Pod | None:
        """Follow an update of a pod, and return it as it was nominated if that is given up.

        Where neither version's status names a node, a nomination of ours is on its way to the API
        server and stays.
        """
        if old.nominated_node or new.nominated_node or new.node_name:
            return self.add(new)
        self.refresh(new)
        return None

    def refresh(self, pod: Pod) -> None:
        """Replace a nominated pod by a newer version; its node stays."""
        if node := self.node_of.get(pod.uid):
            there = self.pods_on[node]
            self.pods_on[node] = tuple(pod if old.uid == pod.uid else old for old in there)

    def delete(self, uid: PodUid, *, placed_on: str = "") -> Pod | None:
        """Clear a pod's nomination, if it has one.

        Returns:
            The pod as it was nominated; None where it uses that capacity itself, because the node
            is the one that it is *placed_on*.
        """
        node = self.node_of.pop(uid, None)
        if node is None:
            return None
        there = self.pods_on.pop(node)
        if others := tuple(pod for pod in there if pod.uid != uid):
            self.pods_on[node] = others
        assert len(others) == len(there) - 1, f"{uid} is nominated to {node} not exactly once"
        (pod,) = (pod for pod in there if pod.uid == uid)
        return None if node == placed_on else pod.nominated_to(node)

    def check_invariants(self) -> None:
        """Raise AssertionError where the two mappings differ."""
        listed = {pod.uid: node for node, pods in self.pods_on.items() for pod in pods}
        assert listed == self.node_of, f"{listed} differs from {self.node_of}"
        assert len(listed) == sum(map(len, self.pods_on.values())), "a pod is nominated twice"
        for pods in self.pods_on.values():
            assert pods, "a node without nominations is kept"
            bound = [pod.key for pod in pods if pod.node_name]
            assert not bound, f"nominated although bound: {bound}"


def _ordered_node(pod: Pod, order: NominationOrder) -> str:
    match order:
        case Keep():
            return pod.nominated_node
        case Clear():
            return ""
        case SetTo(node):
            return node
