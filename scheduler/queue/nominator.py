"""Pods for which room is being made on a node.

While victims leave, the node looks free to everybody. A nominated pod therefore counts as if it
were there already, for pods of no higher priority. Nominations come from our own preemption and
from others, who write ``status.nominatedNodeName``; pods of other schedulers can be told as well,
since nothing here asks whether a pod is queued.
"""

from scheduler.framework.decision import KEEP, Clear, Keep, NominationOrder, SetTo
from scheduler.model.meta import PodUid
from scheduler.model.pod import Pod


class Nominator:
    """Which pods are nominated to which node.

    Each nomination holds the whole pod. (Upstream looks the pod up in its queue, and while it is in
    flight counts it with neither requests nor priority.)
    """

    def __init__(self) -> None:
        self._node_of: dict[PodUid, str] = {}
        self._by_node: dict[str, tuple[Pod, ...]] = {}
        self._generation = 0

    def __len__(self) -> int:
        return len(self._node_of)

    @property
    def generation(self) -> int:
        """A number that grows with every change, for whoever keeps what follows from it."""
        return self._generation

    def node_of(self, uid: PodUid) -> str:
        """Return the node that a pod is nominated to; empty where it is not."""
        return self._node_of.get(uid, "")

    def for_node(self, node: str) -> tuple[Pod, ...]:
        """Return the pods nominated to *node*, the earliest first."""
        return self._by_node.get(node, ())

    def by_node(self) -> dict[str, tuple[Pod, ...]]:
        """Return all nominated pods by their nodes."""
        return dict(self._by_node)

    def add(self, pod: Pod, order: NominationOrder = KEEP) -> Pod | None:
        """Nominate *pod* as *order* says: to what its status says, to a node, or no more.

        A pod that is bound is not nominated, whatever the order. Where its room on another node is
        given up by that, the pod is returned as it was nominated there.
        """
        node = "" if pod.node_name else _node(pod, order)
        given_up = self.delete(pod.uid, placed_on=node or pod.node_name)
        if node:
            self._node_of[pod.uid] = node
            self._by_node[node] = (*self.for_node(node), pod)
            self._generation += 1
        return given_up

    def update(self, old: Pod, new: Pod) -> Pod | None:
        """Follow an update of a pod, and return it as it was nominated if its room is given up.

        Where neither version's status names a node, a nomination of ours is on its way to the API
        server and stays.
        """
        if old.nominated_node or new.nominated_node or new.node_name:
            return self.add(new)
        self.refresh(new)
        return None

    def refresh(self, pod: Pod) -> None:
        """Take a newer version of a nominated pod; its node stays."""
        if node := self._node_of.get(pod.uid):
            there = self._by_node[node]
            self._by_node[node] = tuple(pod if old.uid == pod.uid else old for old in there)
            self._generation += 1

    def delete(self, uid: PodUid, *, placed_on: str = "") -> Pod | None:
        """Withdraw a pod's nomination, if it has one.

        Returns:
            The pod as it was nominated, unless it takes up that room: its node is *placed_on*.
        """
        node = self._node_of.pop(uid, None)
        if node is None:
            return None
        there = self._by_node.pop(node)
        if others := tuple(pod for pod in there if pod.uid != uid):
            self._by_node[node] = others
        (pod,) = (pod for pod in there if pod.uid == uid)
        self._generation += 1
        return None if node == placed_on else pod.nominated_to(node)

    def check_invariants(self) -> None:
        """Raise AssertionError where the two ways of looking at nominations differ."""
        listed = {pod.uid: node for node, pods in self._by_node.items() for pod in pods}
        assert listed == self._node_of, f"{listed} differs from {self._node_of}"
        for pods in self._by_node.values():
            assert pods, "a node without nominations is kept"
            bound = [pod.key for pod in pods if pod.node_name]
            assert not bound, f"nominated although bound: {bound}"


def _node(pod: Pod, order: NominationOrder) -> str:
    match order:
        case Keep():
            return pod.nominated_node
        case Clear():
            return ""
        case SetTo(node):
            return node
