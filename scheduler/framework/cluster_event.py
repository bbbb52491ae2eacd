"""Cluster events: what changed in the cluster, and which changes could help a pod.

Source: ``kube-scheduler/framework/types.go`` and ``pkg/scheduler/framework/{types,events}.go``.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import IntFlag
from typing import Final

from scheduler.model.fact import KubeObject
from scheduler.model.node import Node
from scheduler.model.pod import Pod


class Action(IntFlag):
    """What happened to a resource.

    The values are upstream's, since matching also compares them as numbers (``covers``).
    """

    ADD = 1
    DELETE = 2
    UPDATE_NODE_ALLOCATABLE = 4
    UPDATE_NODE_LABEL = 8
    UPDATE_NODE_TAINT = 16
    UPDATE_NODE_CONDITION = 32
    UPDATE_NODE_ANNOTATION = 64
    UPDATE_NODE_DECLARED_FEATURE = 128
    UPDATE_POD_LABEL = 256
    UPDATE_POD_SCALE_DOWN = 512
    UPDATE_POD_TOLERATION = 1024
    UPDATE_POD_SCHEDULING_GATES_ELIMINATED = 2048
    UPDATE_POD_GENERATED_RESOURCE_CLAIM = 4096
    UPDATE = 8188
    ALL = 8191


assert Action.ALL == Action.ADD | Action.DELETE | Action.UPDATE, "an action without a bit in ALL"

_ACTION_LABELS: Final = {
    Action.ADD: "Add",
    Action.DELETE: "Delete",
    Action.UPDATE_NODE_ALLOCATABLE: "UpdateNodeAllocatable",
    Action.UPDATE_NODE_LABEL: "UpdateNodeLabel",
    Action.UPDATE_NODE_TAINT: "UpdateNodeTaint",
    Action.UPDATE_NODE_CONDITION: "UpdateNodeCondition",
    Action.UPDATE_NODE_ANNOTATION: "UpdateNodeAnnotation",
    Action.UPDATE_NODE_DECLARED_FEATURE: "UpdateNodeDeclaredFeature",
    Action.UPDATE_POD_LABEL: "UpdatePodLabel",
    Action.UPDATE_POD_SCALE_DOWN: "UpdatePodScaleDown",
    Action.UPDATE_POD_TOLERATION: "UpdatePodToleration",
    Action.UPDATE_POD_SCHEDULING_GATES_ELIMINATED: "UpdatePodSchedulingGatesEliminated",
    Action.UPDATE_POD_GENERATED_RESOURCE_CLAIM: "UpdatePodGeneratedResourceClaim",
    Action.UPDATE: "Update",
    Action.ALL: "All",
}

ANY: Final = "*"
POD: Final = "Pod"
ASSIGNED_POD: Final = "AssignedPod"
UNSCHEDULABLE_POD: Final = "UnschedulablePod"
NODE: Final = "Node"


@dataclass(frozen=True, slots=True)
class ClusterEvent:
    """Something happened to a kind of object.

    Args:
        resource: The kind, as in ``Node`` or ``storage.k8s.io/CSINode``; ``*`` for anything.
        action: What happened, possibly several bits in a registration.
        name: The name in metrics of an event that no object causes; otherwise empty.
    """

    resource: str
    action: Action
    name: str = ""

    @property
    def label(self) -> str:
        """The event's name in metrics."""
        return self.name or self.resource + _ACTION_LABELS.get(self.action, "")

    @property
    def wildcard(self) -> bool:
        """Whether it matches every event."""
        return self.resource == ANY and self.action == Action.ALL

    def covers(self, incoming: "ClusterEvent") -> bool:
        """Tell whether a registration for this event matches *incoming*."""
        if self.wildcard:
            return True
        # Only "any resource" matches an event about any resource (upstream: MatchClusterEvents).
        same = (
            self.resource in {ANY, incoming.resource}
            if incoming.resource != ANY
            else self.resource == ANY
        ) or (self.resource == POD and incoming.resource in {ASSIGNED_POD, UNSCHEDULABLE_POD})
        # An event with several bits, as a plain update, needs a registration at least as large:
        # upstream compares the values and not the sets of bits.
        return same and bool(self.action & incoming.action) and incoming.action <= self.action


ASSIGNED_POD_ADD: Final = ClusterEvent(ASSIGNED_POD, Action.ADD)
ASSIGNED_POD_DELETE: Final = ClusterEvent(ASSIGNED_POD, Action.DELETE)
UNSCHEDULABLE_POD_ADD: Final = ClusterEvent(UNSCHEDULABLE_POD, Action.ADD)
UNSCHEDULABLE_POD_UPDATE: Final = ClusterEvent(UNSCHEDULABLE_POD, Action.UPDATE)
NODE_ADD: Final = ClusterEvent(NODE, Action.ADD)
NODE_DELETE: Final = ClusterEvent(NODE, Action.DELETE)
UNSCHEDULABLE_TIMEOUT: Final = ClusterEvent(ANY, Action.ALL, "UnschedulableTimeout")
FORCE_ACTIVATE: Final = ClusterEvent(ANY, Action.ALL, "ForceActivate")
SCHEDULE_ATTEMPT_FAILURE: Final = "ScheduleAttemptFailure"
BACKOFF_COMPLETE: Final = "BackoffComplete"
POP_FROM_BACKOFF_QUEUE: Final = "PopFromBackoffQ"


@dataclass(frozen=True, slots=True)
class Change:
    """An event with the object before and after it, as hints receive it.

    Either side is None where the object did not exist or the event has no object.
    """

    event: ClusterEvent
    old: KubeObject | None = None
    new: KubeObject | None = None


Hint = Callable[[Pod, Change], bool]
"""Tells whether a pod that the hint's plugin rejected may fit after the change.

It is a pure function: the queue may call it several times for one change.
"""


@dataclass(frozen=True, slots=True)
class Requeue:
    """A pod that the plugin rejected is tried again on *event* if *hint* agrees (None: always)."""

    event: ClusterEvent
    hint: Hint | None = None


def node_changes(old: Node, new: Node) -> Iterator[ClusterEvent]:
    """Yield the events of a node's update, in upstream's order; none for a heartbeat."""
    # No bit says that a node was uncordoned: upstream reports it as a change of taints, since the
    # node lifecycle controller removes the taint of the cordon as well.
    if old.spec.unschedulable and not new.spec.unschedulable:
        yield ClusterEvent(NODE, Action.UPDATE_NODE_TAINT)
    if _allocatable(old) != _allocatable(new):
        yield ClusterEvent(NODE, Action.UPDATE_NODE_ALLOCATABLE)
    if old.metadata.labels != new.metadata.labels:
        yield ClusterEvent(NODE, Action.UPDATE_NODE_LABEL)
    if old.spec.taints != new.spec.taints:
        yield ClusterEvent(NODE, Action.UPDATE_NODE_TAINT)
    if {c.type: c.status for c in old.status.conditions} != {
        c.type: c.status for c in new.status.conditions
    }:
        yield ClusterEvent(NODE, Action.UPDATE_NODE_CONDITION)
    if old.metadata.annotations != new.metadata.annotations:
        yield ClusterEvent(NODE, Action.UPDATE_NODE_ANNOTATION)
    if old.status.declared_features != new.status.declared_features:
        yield ClusterEvent(NODE, Action.UPDATE_NODE_DECLARED_FEATURE)


def _allocatable(node: Node) -> dict[str, int]:
    return {} if node.malformed else node.allocatable


def pod_changes(old: Pod, new: Pod) -> tuple[ClusterEvent, ...]:
    """Return the events of a pod's update, in upstream's order; without any, a plain update."""
    resource = ASSIGNED_POD if new.node_name else UNSCHEDULABLE_POD
    found = tuple(ClusterEvent(resource, action) for action in _pod_actions(old, new))
    return found or (ClusterEvent(resource, Action.UPDATE),)


def _pod_actions(old: Pod, new: Pod) -> Iterator[Action]:
    if old.labels != new.labels:
        yield Action.UPDATE_POD_LABEL
    if scaled_down(old, new):
        yield Action.UPDATE_POD_SCALE_DOWN
    if old.spec.scheduling_gates and not new.spec.scheduling_gates:
        yield Action.UPDATE_POD_SCHEDULING_GATES_ELIMINATED
    # The API server lets users add tolerations, not change or remove them: the number is enough.
    if len(old.spec.tolerations) != len(new.spec.tolerations):
        yield Action.UPDATE_POD_TOLERATION


def scaled_down(old: Pod, new: Pod) -> bool:
    """Tell whether some request was removed or lowered, in-place resizes counted."""
    if old.malformed or new.malformed:
        return False
    after = new.placed_requests
    return any(after.get(name, -1) < amount for name, amount in old.placed_requests.items())
