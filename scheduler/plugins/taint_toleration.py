"""Taints keep pods off nodes unless the pods tolerate them.

Source: ``plugins/tainttoleration/taint_toleration.go``. Upstream's gate for the operators Lt and Gt
of tolerations is off by default; here they match nothing.
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
    tolerated_by,
)
from scheduler.snapshot.node_table import NodeTable


def _is_untolerated(pod: Pod, node: Node) -> bool:
    tolerations = pod.spec.tolerations
    return first_untolerated(node.spec.taints, tolerations, DO_NOT_SCHEDULE) is not None


def _node_became_tolerable(pod: Pod, change: Change) -> bool:
    """Tell whether *pod* tolerates the node now, and did not before."""
    if not isinstance(change.new, Node):
        return True
    before = not isinstance(change.old, Node) or _is_untolerated(pod, change.old)
    return before and not _is_untolerated(pod, change.new)


def _own_tolerations_changed(pod: Pod, change: Change) -> bool:
    return not isinstance(change.new, Pod) or change.new.uid == pod.uid


class TaintToleration:
    """Rejects nodes with untolerated taints; scores down those with untolerated preferences."""

    name = "TaintToleration"
    node_local = True
    normalize = REVERSED
    requeue_on = (
        Requeue(ClusterEvent(NODE, Action.ADD | Action.UPDATE_NODE_TAINT), _node_became_tolerable),
        Requeue(ClusterEvent(POD, Action.UPDATE_POD_TOLERATION), _own_tolerations_changed),
    )

    def filter(self, pod: Pod, nodes: NodeTable) -> Iterator[Rejection]:
        """Reject nodes with a NoSchedule or NoExecute taint that *pod* does not tolerate."""
        untolerated = nodes.untolerated(pod.spec.tolerations)
        if untolerated.any():
            yield Rejection(untolerated, "node(s) had untolerated taint(s)", resolvable=False)

    def score(self, pod: Pod, nodes: NodeTable) -> Scores:
        """Count the PreferNoSchedule taints that *pod* does not tolerate."""
        is_tolerated = tolerated_by(pod.spec.tolerations)

        def untolerated_preferences(taints: tuple[Taint, ...]) -> int:
            return sum(
                taint.effect == PREFER_NO_SCHEDULE and not is_tolerated(taint) for taint in taints
            )

        return nodes.by_taints(untolerated_preferences)
