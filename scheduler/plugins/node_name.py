"""A pod with ``spec.nodeName`` fits that node alone.

Source: ``plugins/nodename/node_name.go``.
"""

from collections.abc import Iterator

from scheduler.framework.cluster_event import NODE_ADD, Requeue
from scheduler.framework.rejection import Rejection
from scheduler.model.pod import Pod
from scheduler.snapshot.node_table import NodeTable


class NodeName:
    """Rejects every node but the one that the pod names."""

    name = "NodeName"
    node_local = True
    requeue_on = (Requeue(NODE_ADD),)

    def filter(self, pod: Pod, nodes: NodeTable) -> Iterator[Rejection]:
        """Reject nodes with other names; a pod without ``spec.nodeName`` fits all."""
        if pod.node_name:
            others = ~nodes.named((pod.node_name,))
            yield Rejection(
                others, "node(s) didn't match the requested node name", resolvable=False
            )
