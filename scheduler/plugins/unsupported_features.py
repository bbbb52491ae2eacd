"""Rejects pods that need a feature which this scheduler lacks, instead of binding them wrongly.

kube-scheduler allocates devices before it binds a pod with resource claims (DynamicResources), and
places the pods of a group together (GangScheduling, alpha). This scheduler does neither: a bound
pod would start without its devices or without its group. A user with an out-of-tree plugin for one
of these features disables this plugin.
"""

from scheduler.framework.cluster_event import Requeue
from scheduler.framework.rejection import PreFilterAnswer, Refused, Skip
from scheduler.model.pod import Pod
from scheduler.snapshot.node_table import NodeTable


def _unsupported(pod: Pod) -> str:
    """Return the first unsupported feature that *pod* needs; empty if there is none."""
    spec = pod.spec
    if spec.resource_claims:
        return "resource claims (spec.resourceClaims)"
    if spec.scheduling_group is not None:
        return "a scheduling group (spec.schedulingGroup)"
    if spec.workload_ref is not None:
        return "a workload (spec.workloadRef)"
    return ""


class UnsupportedFeatures:
    """Rejects pods with resource claims, and pods of scheduling groups."""

    name = "UnsupportedFeatures"
    node_local = True
    # No event can help: these fields of a pod are immutable.
    requeue_on: tuple[Requeue, ...] = ()

    def pre_filter(self, pod: Pod, nodes: NodeTable) -> PreFilterAnswer:  # noqa: ARG002
        """Reject every node for pods that need an unsupported feature."""
        feature = _unsupported(pod)
        if not feature:
            return Skip()
        return Refused(
            f"pod has {feature}, which this scheduler does not support", resolvable=False
        )
