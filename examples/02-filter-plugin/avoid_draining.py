"""Keep pods off nodes that are about to be taken down for maintenance.

Label a node ``maintenance=draining`` some time before it is drained: running pods may finish, and
no new pods are bound there, except those with the label ``maintenance=tolerate``.
"""

from collections.abc import Iterator

from scheduler import (
    NODE,
    Action,
    Change,
    ClusterEvent,
    Node,
    NodeTable,
    Pod,
    PreFilterAnswer,
    Rejection,
    Requeue,
    Skip,
)

KEY, DRAINING = "maintenance", "draining"


def drained_no_more(pod: Pod, change: Change) -> bool:
    """A node that is new, or was relabelled, can help if it is not being drained now."""
    return isinstance(change.new, Node) and change.new.metadata.labels.get(KEY) != DRAINING


class AvoidDraining:
    name = "AvoidDraining"
    node_local = True
    requeue_on = (
        Requeue(ClusterEvent(NODE, Action.ADD | Action.UPDATE_NODE_LABEL), drained_no_more),
    )

    def pre_filter(self, pod: Pod, nodes: NodeTable) -> PreFilterAnswer:
        return Skip() if pod.labels.get(KEY) == "tolerate" else None

    def filter(self, pod: Pod, nodes: NodeTable) -> Iterator[Rejection]:
        draining = nodes.labelled(KEY, DRAINING)
        # Evicting pods does not end a maintenance, so preemption cannot help.
        yield Rejection(draining, "node(s) were being drained", resolvable=False)
