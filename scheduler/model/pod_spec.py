"""Spec and status of a pod: the fields that scheduling reads."""

from typing import Final

from scheduler.model.affinity import Affinity, TopologySpreadConstraint
from scheduler.model.containers import Container, ContainerStatus
from scheduler.model.meta import Condition, Struct
from scheduler.model.resources import QuantityMap, ResourceRequirements
from scheduler.model.taints import Toleration
from scheduler.model.volumes import Volume

DEFAULT_SCHEDULER: Final = "default-scheduler"


class SchedulingGate(Struct, frozen=True):
    """A gate: the pod is not scheduled until all its gates are removed."""

    name: str = ""


class ResourceClaimReference(Struct, frozen=True):
    """A resource claim of the pod, under the name that its containers use."""

    name: str = ""


class SchedulingGroup(Struct, frozen=True):
    """The group of pods to schedule together."""

    pod_group_name: str = ""


class WorkloadReference(Struct, frozen=True):
    """The workload, and the group in it, to schedule together."""

    name: str = ""
    pod_group: str = ""


class PodSpec(Struct, frozen=True):
    """The desired state of a pod."""

    node_name: str = ""
    scheduler_name: str = DEFAULT_SCHEDULER
    priority: int | None = None
    priority_class_name: str = ""
    preemption_policy: str | None = None
    containers: tuple[Container, ...] = ()
    init_containers: tuple[Container, ...] = ()
    node_selector: dict[str, str] | None = None
    affinity: Affinity | None = None
    tolerations: tuple[Toleration, ...] = ()
    topology_spread_constraints: tuple[TopologySpreadConstraint, ...] = ()
    scheduling_gates: tuple[SchedulingGate, ...] = ()
    volumes: tuple[Volume, ...] = ()
    overhead: QuantityMap = {}
    resources: ResourceRequirements | None = None
    termination_grace_period_seconds: int | None = None
    host_network: bool = False
    host_users: bool | None = None
    resource_claims: tuple[ResourceClaimReference, ...] = ()
    scheduling_group: SchedulingGroup | None = None
    workload_ref: WorkloadReference | None = None


class PodStatus(Struct, frozen=True):
    """The observed state of a pod."""

    phase: str = ""
    reason: str = ""
    message: str = ""
    nominated_node_name: str = ""
    start_time: str | None = None
    conditions: tuple[Condition, ...] = ()
    container_statuses: tuple[ContainerStatus, ...] = ()
    init_container_statuses: tuple[ContainerStatus, ...] = ()
    resources: ResourceRequirements | None = None
    allocated_resources: QuantityMap = {}

    def condition(self, kind: str) -> Condition | None:
        """Return the condition of type *kind*, if there is one."""
        return next((each for each in self.conditions if each.type == kind), None)
