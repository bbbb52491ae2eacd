"""A pod that asks for what this scheduler cannot give is told so, and not bound wrongly.

kube-scheduler allocates devices before it binds a pod with resource claims (DynamicResources), and
places the pods of a group together (GangScheduling, alpha). Nothing here does either. To bind such
a pod all the same would start it without its devices, or break up its group. Whoever brings a
plugin of their own for that disables this one.
"""

from scheduler.framework.cluster_event import Requeue
from scheduler.framework.rejection import PreFilterAnswer, Refused, Skip
from scheduler.model.pod import Pod
from scheduler.snapshot.node_table import NodeTable


def _unsupported(pod: Pod) -> str:
    """Return which wish of *pod* nobody here can grant; empty where there is none."""
    spec = pod.spec
    if spec.resource_claims:
        return "resource claims (spec.resourceClaims)"
    if spec.scheduling_group is not None:
        return "a scheduling group (spec.schedulingGroup)"
    if spec.workload_ref is not None:
        return "a workload (spec.workloadRef)"
    return ""


class UnsupportedFeatures:
    """Refuses pods with resource claims, and pods of scheduling groups."""

    name = "UnsupportedFeatures"
    # What it refuses a pod for cannot be changed once the pod exists.
    requeue_on: tuple[Requeue, ...] = ()

    def pre_filter(self, pod: Pod, nodes: NodeTable) -> PreFilterAnswer:  # noqa: ARG002
        """Refuse every node to pods that want what is not supported."""
        wish = _unsupported(pod)
        if not wish:
            return Skip()
        return Refused(f"pod has {wish}, which this scheduler does not support", resolvable=False)
