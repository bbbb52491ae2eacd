"""Cordoned nodes accept only pods that tolerate the unschedulable taint.

Source: ``plugins/nodeunschedulable/node_unschedulable.go``.
"""

from collections.abc import Iterator

from scheduler.framework.cluster_event import NODE, POD, Action, Change, ClusterEvent, Requeue
from scheduler.framework.rejection import Rejection
from scheduler.model.node import Node
from scheduler.model.pod import Pod
from scheduler.model.taints import UNSCHEDULABLE_TAINT, tolerated
from scheduler.snapshot.node_table import NodeTable


def _tolerates_cordons(pod: Pod) -> bool:
    return tolerated(UNSCHEDULABLE_TAINT, pod.spec.tolerations)


def _node_opened(_: Pod, change: Change) -> bool:
    if not isinstance(change.new, Node):
        return True
    was_open = isinstance(change.old, Node) and not change.old.spec.unschedulable
    return not was_open and not change.new.spec.unschedulable


def _own_tolerations_suffice(pod: Pod, change: Change) -> bool:
    new = change.new
    return not isinstance(new, Pod) or (new.uid == pod.uid and _tolerates_cordons(new))


class NodeUnschedulable:
    """Rejects cordoned nodes.

    ``spec.unschedulable`` counts, not the taint of the cordon, which the node lifecycle controller
    adds later.
    """

    name = "NodeUnschedulable"
    node_local = True
    requeue_on = (
        Requeue(ClusterEvent(NODE, Action.ADD | Action.UPDATE_NODE_TAINT), _node_opened),
        Requeue(ClusterEvent(POD, Action.UPDATE_POD_TOLERATION), _own_tolerations_suffice),
    )

    def filter(self, pod: Pod, nodes: NodeTable) -> Iterator[Rejection]:
        """Reject cordoned nodes unless *pod* tolerates the taint that stands for the cordon."""
        cordoned = nodes.unschedulable
        if cordoned.any() and not _tolerates_cordons(pod):
            yield Rejection(cordoned, "node(s) were unschedulable", resolvable=False)
