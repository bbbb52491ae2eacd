"""A pod, as far as scheduling reads it."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import msgspec

from scheduler.model.affinity import Affinity, TopologySpreadConstraint
from scheduler.model.affinity_terms import PodTerms, read_terms
from scheduler.model.meta import Condition, ObjectMeta, PodKey, PodUid, Raw, Struct
from scheduler.model.resources import (
    CPU,
    MEMORY,
    Accounting,
    Amounts,
    Container,
    ContainerStatus,
    QuantityMap,
    ResourceRequirements,
    add,
    aggregate,
    parse_quantities,
    raise_to,
    supported_at_pod_level,
    to_amounts,
)
from scheduler.model.taints import Toleration

DEFAULT_SCHEDULER: Final = "default-scheduler"
DISRUPTION_TARGET: Final = "DisruptionTarget"
"""The condition of a pod that has to go, and through no fault of its own."""
PREEMPTION_BY_SCHEDULER: Final = "PreemptionByScheduler"
"""Its reason where the pod makes room for a more important one."""
LATER_THAN_ANY: Final = "~"
"""Sorts behind every time."""

_REQUESTED: Final = Accounting()
_PLACED: Final = Accounting(from_status=True)
_PLACED_WITH_DEFAULTS: Final = Accounting(from_status=True, defaults=True)
_SCORED: Final = Accounting(pod_level=False, defaults=True)


class SchedulingGate(Struct, frozen=True):
    """A name that keeps the pod out of the queue until it is removed."""

    name: str = ""


class ImageVolumeSource(Struct, frozen=True):
    """An image mounted as a volume."""

    reference: str = ""


class ClaimVolumeSource(Struct, frozen=True):
    """A PersistentVolumeClaim mounted as a volume."""

    claim_name: str = ""
    read_only: bool = False


class GcePersistentDiskSource(Struct, frozen=True):
    """A disk of Google Compute Engine."""

    pd_name: str = ""
    read_only: bool = False


class ElasticBlockStoreSource(Struct, frozen=True):
    """A disk of Amazon's Elastic Block Store."""

    volume_id: str = msgspec.field(default="", name="volumeID")


class AzureDiskSource(Struct, frozen=True):
    """A disk of Azure."""

    disk_uri: str = msgspec.field(default="", name="diskURI")
    kind: str | None = None


class CinderSource(Struct, frozen=True):
    """A disk of OpenStack."""

    volume_id: str = msgspec.field(default="", name="volumeID")


class PortworxSource(Struct, frozen=True):
    """A volume of Portworx."""

    volume_id: str = msgspec.field(default="", name="volumeID")


class IscsiSource(Struct, frozen=True):
    """A disk behind iSCSI."""

    iqn: str = ""
    read_only: bool = False


class RbdSource(Struct, frozen=True):
    """A block device of Ceph."""

    monitors: tuple[str, ...] = ()
    image: str = ""
    pool: str = ""
    read_only: bool = False


class InlineCsiSource(Struct, frozen=True):
    """A volume that a CSI driver makes for this pod alone."""

    driver: str = ""


class Volume(Struct, frozen=True):
    """A volume of a pod."""

    name: str = ""
    persistent_volume_claim: ClaimVolumeSource | None = None
    image: ImageVolumeSource | None = None
    ephemeral: dict[str, msgspec.Raw] | None = None
    csi: InlineCsiSource | None = None
    gce_persistent_disk: GcePersistentDiskSource | None = None
    aws_elastic_block_store: ElasticBlockStoreSource | None = None
    azure_disk: AzureDiskSource | None = None
    cinder: CinderSource | None = None
    portworx_volume: PortworxSource | None = None
    iscsi: IscsiSource | None = None
    rbd: RbdSource | None = None


_INDIFFERENT: Final = Volume()


@dataclass(frozen=True, slots=True)
class PodClaim:
    """A claim that a pod mounts.

    Args:
        name: The claim's name, in the pod's namespace.
        generated: Whether it is made from the pod's own template, and goes with the pod.
    """

    namespace: str
    name: str
    generated: bool = False

    @property
    def key(self) -> str:
        """``namespace/name``."""
        return f"{self.namespace}/{self.name}"


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


class HostPort(Struct, frozen=True):
    """A port wanted on the host; an empty address is ``0.0.0.0``."""

    ip: str
    protocol: str
    port: int


class Pod(Struct, Raw, frozen=True, dict=True, gc=True):
    """A pod. *malformed* tells why it cannot be read; empty where it can."""

    metadata: ObjectMeta = ObjectMeta()
    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()
    malformed: str = ""

    @property
    def name(self) -> str:
        """The pod's name."""
        return self.metadata.name

    @property
    def namespace(self) -> str:
        """The pod's namespace."""
        return self.metadata.namespace

    @cached_property
    def uid(self) -> PodUid:
        """The pod's UID: two pods of one name differ in it."""
        return PodUid(self.metadata.uid)

    @cached_property
    def key(self) -> PodKey:
        """``namespace/name``."""
        return PodKey(f"{self.metadata.namespace}/{self.metadata.name}")

    @property
    def labels(self) -> dict[str, str]:
        """The pod's labels."""
        return self.metadata.labels

    @cached_property
    def label_set(self) -> frozenset[tuple[str, str]]:
        """The pod's labels as a hashable value: equal for pods of one template."""
        return frozenset(self.metadata.labels.items())

    @property
    def priority(self) -> int:
        """``spec.priority``, 0 where unset."""
        return self.spec.priority or 0

    @property
    def made_by_kubelet(self) -> bool:
        """Whether it is the mirror of a pod that a kubelet made by itself: a Node owns it."""
        return any(owner.kind == "Node" for owner in self.metadata.owner_references)

    @cached_property
    def importance(self) -> tuple[int, str, str, str]:
        """A key that sorts the most important pods first: the highest priority, started first.

        A pod that has not started is less important than one that has. (Upstream takes it to start
        now, at each comparison anew: ``pkg/scheduler/util/utils.go``.)
        """
        # RFC 3339 in UTC and without fractions, as API servers write it: texts compare as times do.
        started = self.status.start_time or LATER_THAN_ANY
        created = self.metadata.creation_timestamp or LATER_THAN_ANY
        return -self.priority, started, created, self.uid

    @property
    def node_name(self) -> str:
        """The node it is bound to; empty while pending."""
        return self.spec.node_name

    @property
    def nominated_node(self) -> str:
        """The node somebody means to make room on; empty mostly."""
        return self.status.nominated_node_name

    @property
    def terminating(self) -> bool:
        """Whether deletion has begun."""
        return self.metadata.deletion_timestamp is not None

    @cached_property
    def requests(self) -> Amounts:
        """What the pod must find free: its spec, without what a kubelet actuated."""
        return self._sum(_REQUESTED)

    @cached_property
    def placed_requests(self) -> Amounts:
        """What the pod takes from the node it is on, in-place resizes counted."""
        return self._sum(_PLACED) if self._resized else self.requests

    @cached_property
    def nonzero_requests(self) -> Amounts:
        """What the pod takes in the eyes of scores: cpu and memory, with defaults."""
        return self._nonzero()

    @cached_property
    def scored_requests(self) -> Amounts:
        """What an incoming pod would take in the eyes of scores, with defaults per container.

        Requests at pod level are left out: upstream's scorer does not see them
        (``noderesources/fit.go``).
        """
        return self._sum(_SCORED)

    @cached_property
    def affinity_terms(self) -> PodTerms:
        """The pods it wants to be near to or apart from."""
        return read_terms(self.spec.affinity, self.metadata.namespace)

    @cached_property
    def host_ports(self) -> tuple[HostPort, ...]:
        """Ports wanted on the host, of sidecars first and then of containers."""
        return tuple(self._host_ports())

    @property
    def images(self) -> Iterator[str]:
        """Every image reference: init containers, containers, image volumes."""
        for container in (*self.spec.init_containers, *self.spec.containers):
            yield container.image
        for volume in self.spec.volumes:
            if volume.image is not None:
                yield volume.image.reference

    @cached_property
    def storage(self) -> tuple[Volume, ...]:
        """The volumes that some rule is about: claims, disks and CSI volumes; mostly none."""
        return tuple(
            volume
            for volume in self.spec.volumes
            if msgspec.structs.replace(volume, name="", image=None) != _INDIFFERENT
        )

    @cached_property
    def claims(self) -> tuple[PodClaim, ...]:
        """The claims of its volumes, in order."""
        return tuple(self._claims())

    def condition(self, kind: str) -> Condition | None:
        """Return the condition of type *kind*, if the pod has it."""
        return next((c for c in self.status.conditions if c.type == kind), None)

    def on(self, node: str) -> "Pod":
        """Return this pod as bound to *node*; what was computed already is kept."""
        bound = msgspec.structs.replace(
            self, spec=msgspec.structs.replace(self.spec, node_name=node)
        )
        bound.__dict__.update(self.__dict__)
        return bound

    def nominated_to(self, node: str) -> "Pod":
        """Return this pod as nominated to *node*; what was computed already is kept."""
        nominated = msgspec.structs.replace(
            self, status=msgspec.structs.replace(self.status, nominated_node_name=node)
        )
        nominated.__dict__.update(self.__dict__)
        return nominated

    def check(self) -> None:
        """Parse what is parsed lazily.

        Raises:
            MalformedObject: If a value cannot be read.
        """
        _ = self.placed_requests, self.requests

    def _claims(self) -> Iterator[PodClaim]:
        for volume in self.storage:
            if volume.persistent_volume_claim is not None:
                yield PodClaim(self.namespace, volume.persistent_volume_claim.claim_name)
            elif volume.ephemeral is not None:
                yield PodClaim(self.namespace, f"{self.name}-{volume.name}", generated=True)

    @property
    def _resized(self) -> bool:
        return self.status.resources is not None or any(
            status.resources is not None
            for status in (*self.status.container_statuses, *self.status.init_container_statuses)
        )

    def _host_ports(self) -> Iterator[HostPort]:
        sidecars = (container for container in self.spec.init_containers if container.sidecar)
        for container in (*sidecars, *self.spec.containers):
            for port in container.ports:
                if port.host_port > 0:
                    yield HostPort(
                        ip=port.host_ip or "0.0.0.0",  # noqa: S104 - a wildcard in a pod's spec
                        protocol=port.protocol or "TCP",
                        port=port.host_port,
                    )

    def _nonzero(self) -> Amounts:
        if self.spec.resources is None or not supported_at_pod_level(self.spec.resources.requests):
            amounts = self._sum(_PLACED_WITH_DEFAULTS)
        else:
            # With requests at pod level a default is due only where the whole pod names neither.
            amounts = dict(self.placed_requests)
            containers = self._sum(_PLACED_WITH_DEFAULTS.without_pod_level())
            for name in (CPU, MEMORY):
                if name not in amounts and name in containers:
                    amounts[name] = containers[name]
        return amounts

    def _sum(self, accounting: Accounting) -> Amounts:
        infeasible = self._infeasible if accounting.from_status else False
        statuses = (
            {
                status.name: status
                for status in (
                    *self.status.container_statuses,
                    *self.status.init_container_statuses,
                )
            }
            if accounting.from_status
            else {}
        )
        total = aggregate(
            self.spec.containers, self.spec.init_containers, statuses, infeasible, accounting
        )
        if accounting.pod_level:
            self._apply_pod_level(total, accounting.from_status, infeasible)
        add(total, parse_quantities(self.spec.overhead, "spec.overhead"))
        return to_amounts(total)

    @property
    def _infeasible(self) -> bool:
        condition = self.condition("PodResizePending")
        return condition is not None and condition.reason == "Infeasible"

    def _apply_pod_level(self, total: dict[str, int], from_status: bool, infeasible: bool) -> None:
        """Let requests of the whole pod replace the sums over its containers."""
        if self.spec.resources is None:
            return
        wanted = parse_quantities(self.spec.resources.requests, "spec.resources.requests")
        names = supported_at_pod_level(wanted)
        if from_status and self.status.resources is not None:
            if infeasible:
                wanted = {}
            raise_to(wanted, parse_quantities(self.status.resources.requests, "status.resources"))
            raise_to(wanted, parse_quantities(self.status.allocated_resources, "status.allocated"))
        total.update({name: wanted[name] for name in names if name in wanted})


def ports_conflict(wanted: HostPort, used: HostPort) -> bool:
    """Tell whether two host ports collide: the wildcard address meets every address."""
    if (wanted.protocol, wanted.port) != (used.protocol, used.port):
        return False
    wildcard = "0.0.0.0"  # noqa: S104 - a wildcard in a pod's spec
    return wildcard in {wanted.ip, used.ip} or wanted.ip == used.ip
