"""Two pods cannot have the same port of one host.

Source: ``plugins/nodeports/node_ports.go`` and ``kube-scheduler/framework/types.go``
(HostPortInfo). Ports in use are counted, not kept as a set: where two pods share a port already
and one of them leaves, the port stays taken.
"""

from collections.abc import Iterator

from scheduler.framework.cluster_event import NODE_ADD, POD, Action, Change, ClusterEvent, Requeue
from scheduler.framework.rejection import Rejection, Skip
from scheduler.model.host_ports import ports_conflict
from scheduler.model.pod import Pod
from scheduler.snapshot.node_table import NodeTable


def _port_freed(pod: Pod, change: Change) -> bool:
    """Tell whether the pod that is gone had a node, and a port that *pod* wants there."""
    gone = change.old
    if not isinstance(gone, Pod):
        return True
    return bool(gone.node_name or gone.nominated_node) and any(
        ports_conflict(wanted, used) for wanted in pod.host_ports for used in gone.host_ports
    )


class NodePorts:
    """Rejects nodes on which a host port that the pod wants is taken."""

    name = "NodePorts"
    node_local = True
    requeue_on = (
        Requeue(ClusterEvent(POD, Action.DELETE), _port_freed),
        Requeue(NODE_ADD),
    )

    def pre_filter(self, pod: Pod, nodes: NodeTable) -> Skip | None:  # noqa: ARG002
        """Skip pods that want no host port."""
        return None if pod.host_ports else Skip()

    def filter(self, pod: Pod, nodes: NodeTable) -> Iterator[Rejection]:
        """Reject nodes on which another pod has a port that *pod* wants."""
        if not pod.host_ports:
            return
        taken = nodes.port_conflicts(pod.host_ports)
        if taken.any():
            yield Rejection(taken, "node(s) didn't have free ports for the requested pod ports")
