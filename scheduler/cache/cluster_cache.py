"""The cluster cache: nodes and pods as the API server reports them, and pods as we assume them.

A pod is *assumed* once we have placed it, until the API server confirms or we forget it; it is
*added* as the API server reports it. docs/architecture.md shows the table of these states.

A pod may be reported before its node is, and outlive it. Such an orphaned pod is kept under the
node's name, outside the columns, until the node comes back or the pod goes. A node of the same name
with another UID is a new node.

Source: ``pkg/scheduler/backend/cache/cache.go``.
"""

from collections.abc import Iterator
from enum import StrEnum
from typing import Final

from scheduler.model.fact import KubeObject, ResourceName
from scheduler.model.node import Node
from scheduler.model.pod import Pod
from scheduler.model.state_machine import Row, Transitions
from scheduler.snapshot.columns import ClusterColumns
from scheduler.snapshot.node_table import NodeTable


class PodState(StrEnum):
    """What the cache knows of a pod."""

    ASSUMED = "assumed"
    ADDED = "added"


class Cause(StrEnum):
    """What changes that; upstream's methods have the same names."""

    ASSUME = "assume"
    FORGET = "forget"
    ADD = "add"
    REMOVE = "remove"


TRANSITIONS: Final = Transitions(
    Row(None, Cause.ASSUME, PodState.ASSUMED, note="we are about to bind it"),
    Row(None, Cause.ADD, PodState.ADDED),
    Row(PodState.ASSUMED, Cause.ADD, PodState.ADDED, note="confirmed, whatever its node is"),
    Row(PodState.ADDED, Cause.ADD, PodState.ADDED, note="a newer version"),
    Row(PodState.ASSUMED, Cause.FORGET, None, note="its binding has failed"),
    Row((PodState.ASSUMED, PodState.ADDED), Cause.REMOVE, None),
)


class ClusterCache:
    """Cluster state and assumptions; the loop writes, all others read a view."""

    def __init__(self) -> None:
        self._columns = ClusterColumns()
        self._pods: dict[str, Pod] = {}
        self._assumed: set[str] = set()
        self._orphaned: dict[str, dict[str, Pod]] = {}
        self._malformed: dict[str, dict[str, Pod]] = {}

    def view(self) -> NodeTable:
        """Return all nodes as they are known now; valid until the next fact is applied."""
        return NodeTable(self._columns)

    # Nodes.

    def add_node(self, node: Node) -> None:
        """Add a node, or update one that is known."""
        if node.name in self._columns.rows:
            self.update_node(node)
            return
        row = self._columns.add_node(node)
        for pod in self._orphaned.pop(node.name, {}).values():
            self._columns.add_pod(row, pod)
        self._close_if_malformed(node.name)

    def update_node(self, node: Node) -> None:
        """Update a node, or add one that is unknown."""
        row = self._columns.rows.get(node.name)
        if row is None:
            self.add_node(node)
        elif self._columns.nodes[row].metadata.uid != node.metadata.uid:
            # Its deletion was not seen. What was known of the old machine must not leak into the
            # new one's row.
            self.remove_node(node.name)
            self.add_node(node)
        else:
            self._columns.update_node(node)
            self._close_if_malformed(node.name)

    def remove_node(self, name: str) -> None:
        """Remove a node; pods that are still on it are orphaned."""
        row = self._columns.rows.get(name)
        if row is None:
            return
        assert name not in self._orphaned, f"{name} is known, and has orphaned pods"
        orphaned = dict(self._columns.pods[row])
        for uid in orphaned:
            self._columns.remove_pod(row, uid)
        if orphaned:
            self._orphaned[name] = orphaned
        self._columns.remove_node(name)

    # Pods.

    def assume(self, pod: Pod, node: str) -> Pod:
        """Count *pod* on *node* before the API server knows, and return it as placed."""
        assert not pod.node_name, f"{pod.key} is bound already"
        placed = pod.on(node)
        self._move(pod.uid, Cause.ASSUME, PodState.ASSUMED, placed)
        return placed

    def forget(self, uid: str) -> Pod | None:
        """Take an assumption back, and return the pod; None where it is not assumed any more."""
        if uid not in self._assumed:
            # The watch confirmed or removed the pod first: the binding took effect, or the pod is
            # gone, although the answer to the request was an error.
            return None
        return self._move(uid, Cause.FORGET, None)

    def add_pod(self, pod: Pod) -> None:
        """Add or update a bound pod as the API server reports it; this confirms an assumption."""
        assert pod.node_name, f"{pod.key} has no node"
        self._move(pod.uid, Cause.ADD, PodState.ADDED, pod)

    def remove_pod(self, uid: str) -> Pod | None:
        """Remove a pod that is gone, and return it as it was known."""
        if uid not in self._pods:
            return None
        return self._move(uid, Cause.REMOVE, None)

    def pod(self, uid: str) -> Pod | None:
        """Return a placed pod."""
        return self._pods.get(uid)

    def is_assumed(self, uid: str) -> bool:
        """Tell whether a pod is placed by us and not yet confirmed."""
        return uid in self._assumed

    def assumes(self, placed: Pod) -> bool:
        """Tell whether *placed*, which `assume` returned, still stands."""
        # By identity: forgotten and assumed again, the pod belongs to another attempt.
        return placed.uid in self._assumed and self._pods[placed.uid] is placed

    def assumed(self) -> Iterator[Pod]:
        """Yield every pod that is placed by us and not yet confirmed."""
        return (self._pods[uid] for uid in self._assumed)

    def added(self) -> Iterator[Pod]:
        """Yield every pod that the API server reports as bound."""
        return (pod for uid, pod in self._pods.items() if uid not in self._assumed)

    def node(self, name: str) -> Node | None:
        """Return a node as the API server reports it."""
        row = self._columns.rows.get(name)
        return None if row is None else self._columns.nodes[row]

    def nodes(self) -> Iterator[Node]:
        """Yield every node as the API server reports it."""
        return iter(self._columns.nodes)

    # Small objects: all that are neither pods nor nodes.

    def put(self, resource: ResourceName, item: KubeObject) -> None:
        """Add or update a small object."""
        # A view of an earlier generation raises StaleView.
        self._columns.generation += 1
        self._columns.objects.put(resource, item)

    def drop(self, resource: ResourceName, item: KubeObject) -> None:
        """Remove a small object."""
        self._columns.generation += 1
        self._columns.objects.drop(resource, item)

    def assume_object(self, resource: ResourceName, item: KubeObject) -> bool:
        """Let *item*, which we are about to write, replace the version that was reported.

        False where that is another version than the one that *item* was derived from.
        """
        self._columns.generation += 1
        return self._columns.objects.assume(resource, item)

    def restore_object(self, resource: ResourceName, item: KubeObject) -> None:
        """Take the assumption of *item* back, if it still stands."""
        self._columns.generation += 1
        self._columns.objects.restore(resource, item)

    # Metrics and invariants.

    def sizes(self) -> dict[str, int]:
        """Count nodes, pods and assumed pods, for the metrics.

        As upstream does, a node that is known only because pods are on it counts.
        """
        return {
            "nodes": len(self._columns) + len(self._orphaned),
            "pods": len(self._pods),
            "assumed_pods": len(self._assumed),
        }

    def check_invariants(self) -> None:
        """Assert that every pod is counted once, where it is."""
        counted = [uid for pods in self._columns.pods for uid in pods]
        orphaned = [uid for pods in self._orphaned.values() for uid in pods]
        assert len(counted) + len(orphaned) == len(self._pods), "a pod is counted twice, or not"
        assert {*counted, *orphaned} == self._pods.keys(), "a pod is known but not counted"
        assert self._assumed <= self._pods.keys(), "a pod is assumed but not placed"
        assert not self._orphaned.keys() & self._columns.rows.keys(), "orphaned beside their node"
        for name, row in self._columns.rows.items():
            on_node = self._columns.pods[row].values()
            assert all(pod.node_name == name for pod in on_node), f"a stray pod is on {name}"
        malformed = {uid for pods in self._malformed.values() for uid in pods}
        found = {uid for uid, pod in self._pods.items() if pod.malformed}
        assert malformed == found, f"{malformed ^ found} close a node, or fail to"

    def _move(
        self, uid: str, cause: Cause, new: PodState | None, pod: Pod | None = None
    ) -> Pod | None:
        """Carry out one row of the transition table: count *pod* instead of what was known of it.

        Returns:
            The pod as it was known.
        """
        known = self._pods.get(uid)
        old = None
        if known is not None:
            old = PodState.ASSUMED if uid in self._assumed else PodState.ADDED
        TRANSITIONS.move(old, cause, new, uid)
        if known is not None and pod is not None and _count_alike(known, pod):
            self._replace(pod)
        else:
            if known is not None:
                self._take_off(known)
            if pod is not None:
                self._put_on(pod)
        assert (uid in self._pods) == (new is not None), f"{uid} is not counted as {new}"
        if new is PodState.ASSUMED:
            self._assumed.add(uid)
        elif old is PodState.ASSUMED:
            self._assumed.remove(uid)
        assert len(self._assumed) <= len(self._pods), "more pods are assumed than counted"
        return known

    def _replace(self, pod: Pod) -> None:
        """Replace the known version of *pod*, which counts alike."""
        self._pods[pod.uid] = pod
        row = self._columns.rows.get(pod.node_name)
        if row is None:
            self._orphaned[pod.node_name][pod.uid] = pod
        else:
            pod.share_node_name(self._columns.names[row])
            self._columns.replace_pod(row, pod)

    def _put_on(self, pod: Pod) -> None:
        """Count *pod* on its node."""
        assert pod.uid not in self._pods, f"{pod.key} would be counted twice"
        self._pods[pod.uid] = pod
        row = self._columns.rows.get(pod.node_name)
        if row is None:
            self._orphaned.setdefault(pod.node_name, {})[pod.uid] = pod
        else:
            pod.share_node_name(self._columns.names[row])
            self._columns.add_pod(row, pod)
        if pod.malformed:
            self._malformed.setdefault(pod.node_name, {})[pod.uid] = pod
            self._close_if_malformed(pod.node_name)

    def _take_off(self, pod: Pod) -> None:
        """Stop counting *pod* on its node."""
        del self._pods[pod.uid]
        row = self._columns.rows.get(pod.node_name)
        if row is None:
            _remove(self._orphaned, pod)
        else:
            self._columns.remove_pod(row, pod.uid)
        if pod.malformed:
            _remove(self._malformed, pod)
            self._close_if_malformed(pod.node_name)

    def _close_if_malformed(self, name: str) -> None:
        """Close a node to all pods while it or a pod on it is malformed.

        What is free there is unknown meanwhile, so nothing may be added.
        """
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


def _count_alike(known: Pod, new: Pod) -> bool:
    """Tell whether both versions of a pod are the same in every column.

    Most versions of a bound pod are: the one that confirms an assumption, and those that tell that
    its containers have started.
    """
    return (
        known.node_name == new.node_name
        and known.terminating == new.terminating
        and not known.malformed
        and not new.malformed
        and known.template_key == new.template_key
    )


def _remove(pods: dict[str, dict[str, Pod]], pod: Pod) -> None:
    """Remove *pod* from *pods* by node, without a node that has none."""
    there = pods[pod.node_name]
    del there[pod.uid]
    if not there:
        del pods[pod.node_name]
