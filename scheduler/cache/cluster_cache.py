"""The cluster cache: pods and nodes as told, and as assumed.

A pod is in one of two states while it is here: *assumed*, placed by us and not yet confirmed; or
*added*, as the API server has it.

==========  ==============  =======================================================================
state       fact            becomes
==========  ==============  =======================================================================
(absent)    assume          assumed
(absent)    pod told        added
assumed     pod told        added, on the node that was told
assumed     forget          (absent)
assumed     removal told    (absent)
added       pod told        added, on the node that was told
added       removal told    (absent)
==========  ==============  =======================================================================

Pods may be told before their node is, and outlive it: they stay under the node's name, outside the
table, until the node comes back or they go. A node of the same name with another UID is a new node.

Source: ``pkg/scheduler/backend/cache/cache.go``.
"""

from collections.abc import Iterator

from scheduler.model.fact import KubeObject, ResourceName
from scheduler.model.node import Node
from scheduler.model.pod import Pod
from scheduler.snapshot.columns import ClusterColumns
from scheduler.snapshot.node_table import NodeTable


class ClusterCache:
    """Cluster state and assumptions; the loop writes, everyone else reads a view."""

    def __init__(self) -> None:
        self._columns = ClusterColumns()
        self._pods: dict[str, Pod] = {}
        self._assumed: set[str] = set()
        self._homeless: dict[str, dict[str, Pod]] = {}
        self._malformed: dict[str, dict[str, Pod]] = {}

    def view(self) -> NodeTable:
        """Return all nodes as they are known now; valid until the next fact is applied."""
        return NodeTable(self._columns)

    # Nodes.

    def add_node(self, node: Node) -> None:
        """Take over a node, new or known."""
        if node.name in self._columns.rows:
            self.update_node(node)
            return
        row = self._columns.add_node(node)
        for pod in self._homeless.pop(node.name, {}).values():
            self._columns.add_pod(row, pod)
        self._close(node.name)

    def update_node(self, node: Node) -> None:
        """Take over a new version of a node; one that was never told is added."""
        row = self._columns.rows.get(node.name)
        if row is None:
            self.add_node(node)
        elif self._columns.nodes[row].metadata.uid != node.metadata.uid:
            self.remove_node(node.name)
            self.add_node(node)
        else:
            self._columns.update_node(node)
            self._close(node.name)

    def remove_node(self, name: str) -> None:
        """Forget a node; pods that are still on it are kept under its name."""
        row = self._columns.rows.get(name)
        if row is None:
            return
        stranded = dict(self._columns.pods[row])
        for uid in stranded:
            self._columns.remove_pod(row, uid)
        if stranded:
            self._homeless[name] = stranded
        self._columns.remove_node(name)

    # Pods.

    def assume(self, pod: Pod, node: str) -> Pod:
        """Count *pod* on *node* before the API server knows, and return it as placed."""
        assert pod.uid not in self._pods, f"{pod.key} is in the cache, so it can't be assumed"
        placed = pod.on(node)
        self._place(placed)
        self._assumed.add(pod.uid)
        return placed

    def forget(self, uid: str) -> Pod | None:
        """Take an assumption back; None where the pod is not assumed any more."""
        if uid not in self._assumed:
            return None
        self._assumed.discard(uid)
        return self._displace(uid)

    def add_pod(self, pod: Pod) -> None:
        """Take over a placed pod as the API server tells it; this confirms an assumption."""
        assert pod.node_name, f"{pod.key} has no node"
        if pod.uid in self._pods:
            self._displace(pod.uid)
            self._assumed.discard(pod.uid)
        self._place(pod)

    def remove_pod(self, uid: str) -> Pod | None:
        """Forget a pod that is gone, and return it as it was known."""
        if uid not in self._pods:
            return None
        self._assumed.discard(uid)
        return self._displace(uid)

    def pod(self, uid: str) -> Pod | None:
        """Return a placed pod."""
        return self._pods.get(uid)

    def is_assumed(self, uid: str) -> bool:
        """Tell whether a pod is placed by us and not yet confirmed."""
        return uid in self._assumed

    def assumes(self, placed: Pod) -> bool:
        """Tell whether *placed*, which `assume` returned, still stands."""
        return placed.uid in self._assumed and self._pods[placed.uid] is placed

    def assumed(self) -> Iterator[Pod]:
        """Yield every pod that is placed by us and not yet confirmed."""
        return (self._pods[uid] for uid in self._assumed)

    def told_pods(self) -> Iterator[Pod]:
        """Yield every placed pod that the API server told."""
        return (pod for uid, pod in self._pods.items() if uid not in self._assumed)

    def node(self, name: str) -> Node | None:
        """Return a node, as it was told."""
        row = self._columns.rows.get(name)
        return None if row is None else self._columns.nodes[row]

    def nodes(self) -> Iterator[Node]:
        """Yield every node, as it was told."""
        return iter(self._columns.nodes)

    # The small objects.

    def put(self, resource: ResourceName, item: KubeObject) -> None:
        """Remember the newest version of a small object."""
        self._columns.generation += 1
        self._columns.objects.put(resource, item)

    def drop(self, resource: ResourceName, item: KubeObject) -> None:
        """Forget a small object."""
        self._columns.generation += 1
        self._columns.objects.drop(resource, item)

    def assume_object(self, resource: ResourceName, item: KubeObject) -> bool:
        """Let *item*, which we are about to write, stand for what was told.

        False where another version was told than the one that *item* was derived from.
        """
        self._columns.generation += 1
        return self._columns.objects.assume(resource, item)

    def restore_object(self, resource: ResourceName, item: KubeObject) -> None:
        """Take the assumption of *item* back, if it still stands."""
        self._columns.generation += 1
        self._columns.objects.restore(resource, item)

    # Figures and proofs.

    def sizes(self) -> dict[str, int]:
        """Count nodes, pods and assumed pods, for the metrics."""
        return {
            "nodes": len(self._columns) + len(self._homeless),
            "pods": len(self._pods),
            "assumed_pods": len(self._assumed),
        }

    def check_invariants(self) -> None:
        """Assert that every pod is counted once, where it is."""
        counted = {uid for pods in self._columns.pods for uid in pods}
        stranded = {uid for pods in self._homeless.values() for uid in pods}
        assert not counted & stranded, "a pod is both in the table and outside"
        assert counted | stranded == self._pods.keys(), "a pod is known but not counted"
        assert self._assumed <= self._pods.keys(), "a pod is assumed but not placed"
        for name, row in self._columns.rows.items():
            on_node = self._columns.pods[row].values()
            assert all(pod.node_name == name for pod in on_node), f"a stray pod is on {name}"

    def _place(self, pod: Pod) -> None:
        self._pods[pod.uid] = pod
        row = self._columns.rows.get(pod.node_name)
        if row is None:
            self._homeless.setdefault(pod.node_name, {})[pod.uid] = pod
        else:
            self._columns.add_pod(row, pod)
        if pod.malformed:
            self._malformed.setdefault(pod.node_name, {})[pod.uid] = pod
            self._close(pod.node_name)

    def _displace(self, uid: str) -> Pod:
        pod = self._pods.pop(uid)
        row = self._columns.rows.get(pod.node_name)
        if row is None:
            stranded = self._homeless[pod.node_name]
            del stranded[uid]
            if not stranded:
                del self._homeless[pod.node_name]
        else:
            self._columns.remove_pod(row, uid)
        if pod.malformed:
            unreadable = self._malformed[pod.node_name]
            del unreadable[uid]
            if not unreadable:
                del self._malformed[pod.node_name]
            self._close(pod.node_name)
        return pod

    def _close(self, name: str) -> None:
        """Close a node on which something cannot be read: what is free there is unknown."""
        row = self._columns.rows.get(name)
        if row is None:
            return
        node = self._columns.nodes[row]
        unreadable = self._malformed.get(name)
        if node.malformed:
            reason = f"node(s) could not be read: {node.malformed}"
        elif unreadable:
            pod = next(iter(unreadable.values()))
            reason = f"node(s) had an unreadable pod {pod.key}: {pod.malformed}"
        else:
            reason = ""
        if self._columns.closed.get(row, "") != reason:
            self._columns.set_closed(row, reason)
