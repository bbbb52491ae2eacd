"""Nodes that broke a promise: they looked free, and did not take the pod all the same.

A kubelet may refuse a pod that was bound to its node, and room that was made by eviction may be
taken by somebody else's pods. Either way the node looks as free to the next pod of the same owner
as it did to this one. What is known of that is an object like any other: what a `Distrust` says,
holds until another one, or none, is told.
"""

from datetime import datetime
from typing import Final

from scheduler.model.meta import ObjectMeta, Struct
from scheduler.model.pod import Pod

NODE_DISTRUST: Final = "NodeDistrust"
"""The name in facts. Nothing of it is watched: it follows from other facts, and from time."""

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
    """A node that pods of one owner keep away from.

    Args:
        metadata: The owner as namespace, see `owner_of`, and the node as name.
        why: What the node did, to follow the word "node(s)".
        on_trial: Whether the owner may try again, with one pod at a time.
    """

    metadata: ObjectMeta
    why: str = ""
    on_trial: bool = False

    @property
    def owner(self) -> str:
        """Whose pods keep away."""
        return self.metadata.namespace

    @property
    def node(self) -> str:
        """The name of the node."""
        return self.metadata.name


def distrust(owner: str, node: str, why: str, *, on_trial: bool = False) -> Distrust:
    """Return that pods of *owner* keep away from *node*."""
    return Distrust(metadata=ObjectMeta(namespace=owner, name=node), why=why, on_trial=on_trial)


def owner_of(pod: Pod) -> str:
    """Return the UID of what would create *pod* again: its controller, else the pod itself."""
    controller = pod.metadata.controller
    if controller is None:
        return pod.uid
    return controller.uid or f"{controller.kind} {pod.namespace}/{controller.name}"


def is_rejected_by_kubelet(pod: Pod) -> bool:
    """Tell whether a kubelet refused *pod* after it was bound.

    Source: the reasons of ``pkg/kubelet/lifecycle/predicate.go`` and of the admission handlers.
    """
    status = pod.status
    return (
        status.phase == "Failed"
        and bool(pod.node_name)
        and (status.reason in _KUBELET_REJECTIONS or status.reason.startswith("OutOf"))
    )


def is_admitted(pod: Pod) -> bool:
    """Tell whether the kubelet of its node has taken *pod*: it dates the pods that it starts."""
    return pod.status.start_time is not None


def kubelet_rejection(pod: Pod) -> str:
    """Return the reason that a refused *pod* leaves behind."""
    return f"lately refused a pod of the same owner ({pod.status.reason})"


def rejected_at(pod: Pod) -> float | None:
    """Return when a kubelet refused *pod*, in seconds since 1970; None where nothing tells.

    The start time is when the kubelet first saw the pod; some write none, and then the binding is
    the last that is known.
    """
    scheduled = pod.condition("PodScheduled")
    if pod.status.start_time is not None or scheduled is None or scheduled.status != "True":
        return seconds_of(pod.status.start_time)
    return seconds_of(scheduled.last_transition_time)


def seconds_of(stamp: str | None) -> float | None:
    """Return an RFC 3339 time in seconds since 1970; None where there is none."""
    try:
        return datetime.fromisoformat(stamp).timestamp() if stamp else None
    except ValueError:
        return None


CAPACITY_TAKEN: Final = "were lately filled by others when room was made there for the same owner"
"""The reason that a preemption leaves behind which somebody else undid."""
