"""Distrusted nodes: nodes that looked free but did not run a pod that was meant for them.

A kubelet may reject a pod that was bound to its node, and pods of other schedulers may take the
capacity that a preemption freed. Either way the node still looks free when the next pod of the same
owner is scheduled. A `Distrust` records that, as an object like any other: it is valid until a fact
replaces or removes it (``docs/decisions/0011-trust-is-a-fact.md``).

Time stamps are parsed here with `datetime`: that turns a text into a number, and reads no clock.
"""

from datetime import datetime
from typing import Final

from scheduler.model.meta import ObjectMeta, Struct
from scheduler.model.pod import Pod

NODE_DISTRUST: Final = "NodeDistrust"
"""The resource name in facts. It is not watched: it follows from other facts and from time."""

# Upstream has no list of them: collected from pkg/kubelet/lifecycle/predicate.go and the admission
# handlers of the kubelet's resource managers.
_KUBELET_REJECTIONS: Final = frozenset(
    {
        "NodeAffinity",
        "NodeName",
        "NodePorts",
        "TaintToleration",
        "TopologyAffinityError",
        "UnexpectedAdmissionError",
    }
)


class Distrust(Struct, frozen=True):
    """A node that is distrusted for the pods of one owner.

    Args:
        metadata: The owner as namespace, see `owner_of`, and the node as name.
        why: The reason, worded to follow "node(s)".
        on_trial: Whether one pod of the owner at a time may be bound to the node.
    """

    metadata: ObjectMeta
    why: str = ""
    on_trial: bool = False

    @property
    def owner(self) -> str:
        """The owner of the pods, see `owner_of`."""
        return self.metadata.namespace

    @property
    def node(self) -> str:
        """The name of the node."""
        return self.metadata.name


def distrust(owner: str, node: str, why: str, *, on_trial: bool = False) -> Distrust:
    """Return the distrust of *node* for pods of *owner*."""
    assert owner, f"distrust of {node} by no owner"
    assert node, f"distrust of no node by {owner}"
    return Distrust(metadata=ObjectMeta(namespace=owner, name=node), why=why, on_trial=on_trial)


def owner_of(pod: Pod) -> str:
    """Return the UID of what would create *pod* again: its controller, or the pod itself.

    A controller's next pod has another UID, and would be bound to the same node for the same
    reasons.
    """
    controller = pod.metadata.controller
    if controller is None:
        return pod.uid
    return controller.uid or f"{controller.kind} {pod.namespace}/{controller.name}"


def is_rejected_by_kubelet(pod: Pod) -> bool:
    """Tell whether a kubelet rejected *pod* at admission, after it was bound."""
    status = pod.status
    return (
        status.phase == "Failed"
        and bool(pod.node_name)
        and (status.reason in _KUBELET_REJECTIONS or status.reason.startswith("OutOf"))
    )


def is_admitted(pod: Pod) -> bool:
    """Tell whether the kubelet of its node admitted *pod*: it sets the start time then."""
    return pod.status.start_time is not None


def kubelet_rejection(pod: Pod) -> str:
    """Return the reason of the distrust after *pod* was rejected."""
    return f"lately refused a pod of the same owner ({pod.status.reason})"


def rejected_at(pod: Pod) -> float | None:
    """Return when a kubelet rejected *pod*, in seconds since 1970; None if unknown.

    The start time is when the kubelet first saw the pod. Some rejections come without one, and the
    binding is then the latest time that is known.
    """
    scheduled = pod.condition("PodScheduled")
    if pod.status.start_time is not None or scheduled is None or scheduled.status != "True":
        return seconds_of(pod.status.start_time)
    return seconds_of(scheduled.last_transition_time)


def seconds_of(stamp: str | None) -> float | None:
    """Parse an RFC 3339 time into seconds since 1970; None if it is empty or invalid."""
    try:
        return datetime.fromisoformat(stamp).timestamp() if stamp else None
    except ValueError:
        return None


CAPACITY_TAKEN: Final = "were lately filled by others when room was made there for the same owner"
"""The reason of the distrust after other schedulers took the capacity of a preemption."""
