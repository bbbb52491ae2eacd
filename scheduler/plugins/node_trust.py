"""A node that broke a promise to an owner's pod is spared the owner's next pods for a while.

Kube-scheduler has no such plugin. It matters where others place pods on the same nodes: the node
looks free to all of them at once, and what a kubelet refuses is created again and would go straight
back. What is held against which node follows from facts and from time, and is known beforehand
(`scheduler.model.trust`); nothing is remembered here.
"""

from collections.abc import Iterator
from typing import Final

from scheduler.framework.cluster_event import NODE_ADD, POD, Action, Change, ClusterEvent, Requeue
from scheduler.framework.rejection import Rejection, Skip
from scheduler.model.pod import Pod
from scheduler.model.trust import NODE_DISTRUST, Distrust, is_admitted, owner_of
from scheduler.snapshot.node_table import NodeTable

ON_TRIAL: Final = "are being tried again with another pod of the same owner"


def _may_try_again(pod: Pod, change: Change) -> bool:
    old, new = change.old, change.new
    if not isinstance(old, Distrust):
        return True
    return old.owner == owner_of(pod) and (not isinstance(new, Distrust) or new.on_trial)


def _trial_is_off(pod: Pod, change: Change) -> bool:
    """Tell whether another pod of the owner left its node (of one let in, a distrust tells)."""
    old = change.old
    return not isinstance(old, Pod) or (old.uid != pod.uid and owner_of(old) == owner_of(pod))


class NodeTrust:
    """Rejects nodes that lately refused a pod of the same owner, or let others take its room."""

    name = "NodeTrust"
    each_world = True
    requeue_on = (
        Requeue(NODE_ADD),
        Requeue(ClusterEvent(NODE_DISTRUST, Action.UPDATE | Action.DELETE), _may_try_again),
        Requeue(ClusterEvent(POD, Action.DELETE), _trial_is_off),
    )

    def pre_filter(self, pod: Pod, nodes: NodeTable) -> Skip | None:
        """Skip pods whose owner has nothing against any node: nearly all of them."""
        return None if nodes.objects.distrusts(owner_of(pod)) else Skip()

    def filter(self, pod: Pod, nodes: NodeTable) -> Iterator[Rejection]:
        """Reject what *pod*'s owner keeps away from; evictions there would be in vain."""
        kept: dict[str, list[str]] = {}
        for each in nodes.objects.distrusts(owner_of(pod)):
            if not each.on_trial:
                kept.setdefault(each.why, []).append(each.node)
            elif _is_tried(each, pod, nodes):
                kept.setdefault(ON_TRIAL, []).append(each.node)
        for why, names in kept.items():
            refused = nodes.named(names)
            if refused.any():
                yield Rejection(refused, f"node(s) {why}", resolvable=False)


def _is_tried(distrust: Distrust, pod: Pod, nodes: NodeTable) -> bool:
    """Tell whether another pod of the owner is on the node that no kubelet has let in yet."""
    row = nodes.row_of(distrust.node)
    return row is not None and any(
        other.uid != pod.uid and not is_admitted(other) and owner_of(other) == distrust.owner
        for other in nodes.pods_on(row)
    )
