"""Other objects that scheduling reads: namespaces, owners of pods, budgets, priority classes.

Only fields that a rule reads are kept. Custom resources are kept whole, since out-of-tree plugins
decide what they read.
"""

from typing import Any

from scheduler.model.meta import LabelSelector, ObjectMeta, Struct


class Namespace(Struct, frozen=True):
    """A namespace; its labels are read by namespace selectors."""

    metadata: ObjectMeta = ObjectMeta()


class ServiceSpec(Struct, frozen=True):
    """The pods of a service: an absent selector selects none, an empty one selects all."""

    selector: dict[str, str] | None = None


class Service(Struct, frozen=True):
    """A service; its selector is part of a pod's default spread selector."""

    metadata: ObjectMeta = ObjectMeta()
    spec: ServiceSpec = ServiceSpec()


class ReplicationControllerSpec(Struct, frozen=True):
    """Which pods a replication controller owns."""

    selector: dict[str, str] | None = None


class ReplicationController(Struct, frozen=True):
    """A replication controller; its selector is part of a pod's default spread selector."""

    metadata: ObjectMeta = ObjectMeta()
    spec: ReplicationControllerSpec = ReplicationControllerSpec()


class SelectorSpec(Struct, frozen=True):
    """Which pods a workload owns."""

    selector: LabelSelector | None = None


class ReplicaSet(Struct, frozen=True):
    """A replica set; its selector is part of a pod's default spread selector."""

    metadata: ObjectMeta = ObjectMeta()
    spec: SelectorSpec = SelectorSpec()


class StatefulSet(Struct, frozen=True):
    """A stateful set; its selector is part of a pod's default spread selector."""

    metadata: ObjectMeta = ObjectMeta()
    spec: SelectorSpec = SelectorSpec()


class PriorityClass(Struct, frozen=True):
    """A named priority."""

    metadata: ObjectMeta = ObjectMeta()
    value: int = 0
    preemption_policy: str | None = None
    global_default: bool = False


class PodDisruptionBudgetStatus(Struct, frozen=True):
    """How many pods may be evicted now, and which ones are being evicted."""

    disruptions_allowed: int = 0
    disrupted_pods: dict[str, str | None] = {}


class PodDisruptionBudget(Struct, frozen=True):
    """A limit on voluntary disruption."""

    metadata: ObjectMeta = ObjectMeta()
    spec: SelectorSpec = SelectorSpec()
    status: PodDisruptionBudgetStatus = PodDisruptionBudgetStatus()


class CustomObject(Struct, frozen=True):
    """An object of a custom resource, as written; a plugin reads it and must not change it.

    Args:
        metadata: Identity, labels and annotations.
        content: Everything beside the metadata, in the spelling of its JSON.
    """

    metadata: ObjectMeta = ObjectMeta()
    content: dict[str, Any] = {}


Owned = ReplicationController | ReplicaSet | StatefulSet
"""A controller whose selector counts for its pods' default spreading."""
