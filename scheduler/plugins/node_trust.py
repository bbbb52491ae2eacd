"""Keeps an owner's pods off a node that looked free but did not run a pod of the same owner.

Kube-scheduler has no such plugin. It matters where several schedulers place pods on the same nodes:
the node looks free to all of them at once, and a pod that its kubelet rejects is created again by
its controller and would be bound to the same node again. Which nodes are distrusted follows from
facts and from time (`scheduler.model.trust`, ``docs/decisions/0011-trust-is-a-fact.md``); the
plugin itself has no state.
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


def _trial_ended(pod: Pod, change: Change) -> bool:
    """Tell whether another pod of the owner was deleted, which may end a trial.

    A trial that succeeded ends with a change of the `Distrust` instead.
    """
    old = change.old
    return not isinstance(old, Pod) or (old.uid != pod.uid and owner_of(old) == owner_of(pod))


class NodeTrust:
    """Rejects nodes that are distrusted for pods of the same owner."""

    name = "NodeTrust"
    each_world = True
    reads_identity = True
    requeue_on = (
        Requeue(NODE_ADD),
        Requeue(ClusterEvent(NODE_DISTRUST, Action.UPDATE | Action.DELETE), _may_try_again),
        Requeue(ClusterEvent(POD, Action.DELETE), _trial_ended),
    )

    def pre_filter(self, pod: Pod, nodes: NodeTable) -> Skip | None:
        """Skip pods whose owner distrusts no node: nearly all pods."""
        return None if nodes.objects.distrusts(owner_of(pod)) else Skip()

    def filter(self, pod: Pod, nodes: NodeTable) -> Iterator[Rejection]:
        """Reject the nodes that *pod*'s owner distrusts; preemption there would not help."""
        names_by_reason: dict[str, list[str]] = {}
        for each in nodes.objects.distrusts(owner_of(pod)):
            if not each.on_trial:
                names_by_reason.setdefault(each.why, []).append(each.node)
            elif _has_trial(each, pod, nodes):
                names_by_reason.setdefault(ON_TRIAL, []).append(each.node)
        for why, names in names_by_reason.items():
            distrusted = nodes.named(names)
            if distrusted.any():
                yield Rejection(distrusted, f"node(s) {why}", resolvable=False)


def _has_trial(distrust: Distrust, pod: Pod, nodes: NodeTable) -> bool:
    """Tell whether the node has another pod of the owner that its kubelet has not admitted yet."""
    row = nodes.row_of(distrust.node)
    return row is not None and any(
        other.uid != pod.uid and not is_admitted(other) and owner_of(other) == distrust.owner
        for other in nodes.pods_on(row)
    )
