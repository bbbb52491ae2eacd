"""A host port can be used by one pod at a time.

Source: ``plugins/nodeports/node_ports.go`` and ``kube-scheduler/framework/types.go``
(HostPortInfo). Ports in use are counted, where upstream keeps a set: if two pods on a node use the
same port already and one of them is removed, the port stays in use.
"""

from collections.abc import Iterator

from scheduler.framework.cluster_event import NODE_ADD, POD, Action, Change, ClusterEvent, Requeue
from scheduler.framework.rejection import Rejection, Skip
from scheduler.model.host_ports import ports_conflict
from scheduler.model.pod import Pod
from scheduler.snapshot.node_table import NodeTable


def _port_freed(pod: Pod, change: Change) -> bool:
    """Tell whether the deleted pod had a node, and used a port there that *pod* wants."""
    old = change.old
    if not isinstance(old, Pod):
        return True
    return bool(old.node_name or old.nominated_node) and any(
        ports_conflict(wanted, used) for wanted in pod.host_ports for used in old.host_ports
    )


class NodePorts:
    """Rejects nodes on which a host port that the pod wants is in use."""

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
        """Reject nodes on which another pod uses a port that *pod* wants."""
        if not pod.host_ports:
            return
        taken = nodes.port_conflicts(pod.host_ports)
        if taken.any():
            yield Rejection(taken, "node(s) didn't have free ports for the requested pod ports")
