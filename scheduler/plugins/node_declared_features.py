"""Nodes must declare the kubelet features that a pod needs.

Source: ``plugins/nodedeclaredfeatures/nodedeclaredfeatures.go`` and
``component-helpers/nodedeclaredfeatures/features/``.
"""

from collections.abc import Iterator

import numpy as np

from scheduler.framework.cluster_event import NODE, POD, Action, Change, ClusterEvent, Requeue
from scheduler.framework.rejection import Rejection, Skip
from scheduler.model.node import Node
from scheduler.model.pod import Pod
from scheduler.snapshot.node_table import NodeTable


def _required_by(pod: Pod) -> frozenset[str]:
    """Return the features without which *pod* cannot run as written."""
    spec, found = pod.spec, set()
    if any(
        rule.action == "RestartAllContainers"
        for container in (*spec.init_containers, *spec.containers)
        for rule in container.restart_policy_rules
    ):
        found.add("RestartAllContainersOnContainerExits")
    if spec.host_network and spec.host_users is False:
        found.add("UserNamespacesHostNetworkSupport")
    return frozenset(found)


def _features_changed(_: Pod, change: Change) -> bool:
    if not isinstance(change.old, Node) or not isinstance(change.new, Node):
        return True
    return change.old.status.declared_features != change.new.status.declared_features


def _needs_changed(pod: Pod, change: Change) -> bool:
    old, new = change.old, change.new
    if not isinstance(old, Pod) or not isinstance(new, Pod):
        return True
    return new.uid == pod.uid and _required_by(old) != _required_by(new)


class NodeDeclaredFeatures:
    """Rejects nodes whose kubelet does not declare a feature that the pod needs."""

    name = "NodeDeclaredFeatures"
    node_local = True
    requeue_on = (
        Requeue(
            ClusterEvent(NODE, Action.ADD | Action.UPDATE_NODE_DECLARED_FEATURE), _features_changed
        ),
        Requeue(ClusterEvent(POD, Action.UPDATE), _needs_changed),
    )

    def pre_filter(self, pod: Pod, nodes: NodeTable) -> Skip | None:  # noqa: ARG002
        """Skip pods that need no declared feature."""
        return None if _required_by(pod) else Skip()

    def filter(self, pod: Pod, nodes: NodeTable) -> Iterator[Rejection]:
        """Reject nodes that lack any of the features."""
        lacking = np.zeros(len(nodes), dtype=np.bool_)
        for feature in _required_by(pod):
            lacking |= ~nodes.declaring(feature)
        if lacking.any():
            text = "node(s) didn't match Pod's required features"
            yield Rejection(lacking, text, resolvable=False)
