"""Taints repel pods that do not tolerate them.

Source: ``plugins/tainttoleration/taint_toleration.go``. The gate for comparing tolerations (Lt, Gt)
is off, as it is by default: they match nothing.
"""

from collections.abc import Iterator

from scheduler.framework.cluster_event import NODE, POD, Action, Change, ClusterEvent, Requeue
from scheduler.framework.normalize import REVERSED
from scheduler.framework.rejection import Rejection, Scores
from scheduler.model.node import Node
from scheduler.model.pod import Pod
from scheduler.model.taints import (
    DO_NOT_SCHEDULE,
    PREFER_NO_SCHEDULE,
    Taint,
    first_untolerated,
    tolerated,
)
from scheduler.snapshot.node_table import NodeTable


def _repelled(pod: Pod, node: Node) -> bool:
    tolerations = pod.spec.tolerations
    return first_untolerated(node.spec.taints, tolerations, DO_NOT_SCHEDULE) is not None


def _node_became_tolerable(pod: Pod, change: Change) -> bool:
    """Tell whether a new node, or one that repelled *pod* before, repels it no more."""
    if not isinstance(change.new, Node):
        return True
    before = not isinstance(change.old, Node) or _repelled(pod, change.old)
    return before and not _repelled(pod, change.new)


def _own_tolerations_changed(pod: Pod, change: Change) -> bool:
    return not isinstance(change.new, Pod) or change.new.uid == pod.uid


class TaintToleration:
    """Rejects nodes that repel the pod, and ranks lower those that would rather not have it."""

    name = "TaintToleration"
    node_local = True
    normalize = REVERSED
    requeue_on = (
        Requeue(ClusterEvent(NODE, Action.ADD | Action.UPDATE_NODE_TAINT), _node_became_tolerable),
        Requeue(ClusterEvent(POD, Action.UPDATE_POD_TOLERATION), _own_tolerations_changed),
    )

    def filter(self, pod: Pod, nodes: NodeTable) -> Iterator[Rejection]:
        """Reject nodes with a NoSchedule or NoExecute taint that *pod* does not tolerate."""
        repelled = nodes.untolerated(pod.spec.tolerations)
        if repelled.any():
            yield Rejection(repelled, "node(s) had untolerated taint(s)", resolvable=False)

    def score(self, pod: Pod, nodes: NodeTable) -> Scores:
        """Count the PreferNoSchedule taints that *pod* does not tolerate."""

        def unwelcome(taints: tuple[Taint, ...]) -> int:
            return sum(
                taint.effect == PREFER_NO_SCHEDULE and not tolerated(taint, pod.spec.tolerations)
                for taint in taints
            )

        return nodes.by_taints(unwelcome)
