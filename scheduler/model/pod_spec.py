"""What the author of a pod wants and what became of it so far, as the API server tells it."""

from typing import Final

from scheduler.model.affinity import Affinity, TopologySpreadConstraint
from scheduler.model.containers import Container, ContainerStatus
from scheduler.model.meta import Condition, Struct
from scheduler.model.resources import QuantityMap, ResourceRequirements
from scheduler.model.taints import Toleration
from scheduler.model.volumes import Volume

DEFAULT_SCHEDULER: Final = "default-scheduler"


class SchedulingGate(Struct, frozen=True):
    """A name that keeps the pod out of the queue until it is removed."""

    name: str = ""


class ResourceClaimReference(Struct, frozen=True):
    """A device that the pod wants, under the name its containers use."""

    name: str = ""


class SchedulingGroup(Struct, frozen=True):
    """The group of pods that must be scheduled together."""

    pod_group_name: str = ""


class WorkloadReference(Struct, frozen=True):
    """The workload, and the group in it, that must be scheduled together."""

    name: str = ""
    pod_group: str = ""


class PodSpec(Struct, frozen=True):
    """What the author of a pod wants."""

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
    """What became of a pod so far."""

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
