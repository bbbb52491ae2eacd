"""PersistentVolumes, their claims and classes, and the objects of CSI drivers.

Only fields that a rule reads are kept. Annotations are kept for claims, volumes and CSINodes: the
scheduler, the volume controller and the kubelets communicate by them.

Source: ``component-helpers/storage/volume/`` (helpers.go, pv_helpers.go).
"""

from collections.abc import Mapping
from functools import cached_property
from typing import Final

import msgspec

from scheduler.errors import MalformedObject
from scheduler.model import quantity
from scheduler.model.affinity import NodeSelector
from scheduler.model.meta import LabelSelector, ObjectMeta, Struct
from scheduler.model.resources import QuantityMap, ResourceRequirements
from scheduler.model.volumes import (
    AzureDiskSource,
    CinderSource,
    ElasticBlockStoreSource,
    GcePersistentDiskSource,
    PortworxSource,
)

STORAGE: Final = "storage"
READ_WRITE_ONCE_POD: Final = "ReadWriteOncePod"
FILESYSTEM: Final = "Filesystem"
AVAILABLE: Final = "Available"
LOST: Final = "Lost"
WAIT_FOR_FIRST_CONSUMER: Final = "WaitForFirstConsumer"

SELECTED_NODE: Final = "volume.kubernetes.io/selected-node"
BIND_COMPLETED: Final = "pv.kubernetes.io/bind-completed"
BOUND_BY_CONTROLLER: Final = "pv.kubernetes.io/bound-by-controller"
MIGRATED_PLUGINS: Final = "storage.alpha.kubernetes.io/migrated-plugins"
_BETA_CLASS: Final = "volume.beta.kubernetes.io/storage-class"


class ObjectReference(Struct, frozen=True):
    """The claim that a volume is reserved for; without a UID, any claim of that name."""

    kind: str = ""
    api_version: str = ""
    namespace: str = ""
    name: str = ""
    uid: str = ""
    resource_version: str = ""


def _nanos(amounts: QuantityMap, field: str) -> int | None:
    """Parse the amount of storage; None if there is none."""
    if STORAGE not in amounts:
        return None
    try:
        return quantity.nanos(amounts[STORAGE])
    except ValueError as problem:
        raise MalformedObject(f"{field}[{STORAGE}]", str(problem)) from None


class PersistentVolumeClaimSpec(Struct, frozen=True):
    """The desired volume, or the name of the bound one."""

    volume_name: str = ""
    storage_class_name: str | None = None
    volume_attributes_class_name: str | None = None
    volume_mode: str | None = None
    access_modes: tuple[str, ...] = ()
    selector: LabelSelector | None = None
    resources: ResourceRequirements = ResourceRequirements()


class PersistentVolumeClaimStatus(Struct, frozen=True):
    """Pending, Bound or Lost."""

    phase: str = ""


class PersistentVolumeClaim(Struct, frozen=True, dict=True, gc=True):
    """A claim for a volume."""

    metadata: ObjectMeta = ObjectMeta()
    spec: PersistentVolumeClaimSpec = PersistentVolumeClaimSpec()
    status: PersistentVolumeClaimStatus = PersistentVolumeClaimStatus()

    @property
    def key(self) -> str:
        """``namespace/name``."""
        return f"{self.metadata.namespace}/{self.metadata.name}"

    @property
    def class_name(self) -> str:
        """The storage class; the beta annotation takes precedence over the field."""
        return self.metadata.annotations.get(_BETA_CLASS, self.spec.storage_class_name or "")

    @property
    def fully_bound(self) -> bool:
        """Whether the volume controller has bound it to a volume and annotated it as complete."""
        return bool(self.spec.volume_name) and BIND_COMPLETED in self.metadata.annotations

    @property
    def selected_node(self) -> str | None:
        """The node for which a volume is to be provisioned."""
        return self.metadata.annotations.get(SELECTED_NODE)

    @cached_property
    def requested(self) -> int | None:
        """How much storage is requested, in nanos; None if the claim does not say.

        Raises:
            MalformedObject: If the quantity cannot be read.
        """
        return _nanos(self.spec.resources.requests, "spec.resources.requests")

    def check(self) -> None:
        """Parse what is parsed lazily.

        Raises:
            MalformedObject: If a value cannot be read.
        """
        _ = self.requested

    def selecting(self, node: str) -> "PersistentVolumeClaim":
        """Return this claim with *node* as selected node: its volume is provisioned for it."""
        annotations = {**self.metadata.annotations, SELECTED_NODE: node}
        metadata = msgspec.structs.replace(self.metadata, annotations=annotations)
        return msgspec.structs.replace(self, metadata=metadata)


class CsiSource(Struct, frozen=True):
    """A volume of a CSI driver."""

    driver: str = ""
    volume_handle: str = ""


class VolumeNodeAffinity(Struct, frozen=True, dict=True, gc=True):
    """The nodes that can access a volume."""

    required: NodeSelector | None = None


class PersistentVolumeSpec(Struct, frozen=True):
    """The source, the node affinity and the claim of a volume."""

    capacity: QuantityMap = {}
    claim_ref: ObjectReference | None = None
    storage_class_name: str = ""
    volume_attributes_class_name: str | None = None
    volume_mode: str | None = None
    access_modes: tuple[str, ...] = ()
    node_affinity: VolumeNodeAffinity | None = None
    csi: CsiSource | None = None
    gce_persistent_disk: GcePersistentDiskSource | None = None
    aws_elastic_block_store: ElasticBlockStoreSource | None = None
    azure_disk: AzureDiskSource | None = None
    cinder: CinderSource | None = None
    portworx_volume: PortworxSource | None = None


class PersistentVolumeStatus(Struct, frozen=True):
    """Pending, Available, Bound, Released or Failed."""

    phase: str = ""


class PersistentVolume(Struct, frozen=True, dict=True, gc=True):
    """A persistent volume."""

    metadata: ObjectMeta = ObjectMeta()
    spec: PersistentVolumeSpec = PersistentVolumeSpec()
    status: PersistentVolumeStatus = PersistentVolumeStatus()

    @property
    def name(self) -> str:
        """The volume's name."""
        return self.metadata.name

    @property
    def class_name(self) -> str:
        """The storage class; the beta annotation takes precedence over the field."""
        return self.metadata.annotations.get(_BETA_CLASS, self.spec.storage_class_name)

    @cached_property
    def capacity(self) -> int:
        """Its size, in nanos.

        Raises:
            MalformedObject: If the quantity cannot be read.
        """
        return _nanos(self.spec.capacity, "spec.capacity") or 0

    def check(self) -> None:
        """Parse what is parsed lazily.

        Raises:
            MalformedObject: If a value cannot be read.
        """
        _ = self.capacity

    def is_for(self, claim: PersistentVolumeClaim) -> bool:
        """Tell whether it is bound to *claim* or reserved for it (IsVolumeBoundToClaim)."""
        reference = self.spec.claim_ref
        if reference is None:
            return False
        wanted = (claim.metadata.namespace, claim.metadata.name)
        return (reference.namespace, reference.name) == wanted and reference.uid in {
            "",
            claim.metadata.uid,
        }

    def bound_to(self, claim: PersistentVolumeClaim) -> "PersistentVolume":
        """Return this volume with a reference to *claim*; itself if it has that already.

        The annotation marks a reference that the scheduler wrote, which the volume controller may
        remove again. A reference that a person wrote has no annotation (GetBindVolumeToClaim).
        """
        annotations, reference = self.metadata.annotations, self.spec.claim_ref
        if not self.is_for(claim):
            annotations = {BOUND_BY_CONTROLLER: "yes"} | annotations
        if not self.is_for(claim) or reference is None or not reference.uid:
            reference = ObjectReference(
                kind="PersistentVolumeClaim",
                api_version="v1",
                namespace=claim.metadata.namespace,
                name=claim.metadata.name,
                uid=claim.metadata.uid,
                resource_version=claim.metadata.resource_version,
            )
        if annotations is self.metadata.annotations and reference is self.spec.claim_ref:
            return self
        return msgspec.structs.replace(
            self,
            metadata=msgspec.structs.replace(self.metadata, annotations=annotations),
            spec=msgspec.structs.replace(self.spec, claim_ref=reference),
        )


class TopologyLabel(Struct, frozen=True):
    """A node label and its allowed values."""

    key: str = ""
    values: tuple[str, ...] = ()


class TopologySelectorTerm(Struct, frozen=True):
    """All labels must match; a term without any matches nothing."""

    match_label_expressions: tuple[TopologyLabel, ...] = ()

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Tell whether a node with *labels* matches the term."""
        return bool(self.match_label_expressions) and all(
            labels.get(each.key) in each.values for each in self.match_label_expressions
        )


class StorageClass(Struct, frozen=True):
    """How volumes of a class are provisioned and bound."""

    metadata: ObjectMeta = ObjectMeta()
    provisioner: str = ""
    volume_binding_mode: str | None = None
    allowed_topologies: tuple[TopologySelectorTerm, ...] = ()


class DriverAllocatable(Struct, frozen=True):
    """How many volumes of a driver can be attached to a node."""

    count: int | None = None


class NodeDriver(Struct, frozen=True):
    """A CSI driver on a node."""

    name: str = ""
    allocatable: DriverAllocatable | None = None

    @property
    def limit(self) -> int | None:
        """How many volumes can be attached; None for any number."""
        return self.allocatable.count if self.allocatable else None


class CsiNodeSpec(Struct, frozen=True):
    """The drivers on a node."""

    drivers: tuple[NodeDriver, ...] = ()


class CsiNode(Struct, frozen=True):
    """The CSI drivers of a node, as its kubelet reports them; it has the node's name."""

    metadata: ObjectMeta = ObjectMeta()
    spec: CsiNodeSpec = CsiNodeSpec()

    @property
    def migrated(self) -> str:
        """The in-tree plugins that are migrated to CSI on this node, separated by commas."""
        return self.metadata.annotations.get(MIGRATED_PLUGINS, "")


class CsiDriverSpec(Struct, frozen=True):
    """Whether schedulers must check the storage capacity of a driver."""

    storage_capacity: bool | None = None


class CsiDriver(Struct, frozen=True):
    """A CSI driver."""

    metadata: ObjectMeta = ObjectMeta()
    spec: CsiDriverSpec = CsiDriverSpec()


class CsiStorageCapacity(Struct, frozen=True):
    """How much a driver can still provision for some of the nodes."""

    metadata: ObjectMeta = ObjectMeta()
    storage_class_name: str = ""
    node_topology: LabelSelector | None = None
    capacity: str | int | float | None = None
    maximum_volume_size: str | int | float | None = None

    @property
    def limit(self) -> int | None:
        """The largest volume that can be provisioned, in bytes; None if nothing is reported.

        Raises:
            MalformedObject: If the quantity cannot be read.
        """
        reported = self.capacity if self.maximum_volume_size is None else self.maximum_volume_size
        if reported is None:
            return None
        try:
            return quantity.units(quantity.nanos(reported))
        except ValueError as problem:
            raise MalformedObject("capacity", str(problem)) from None

    def check(self) -> None:
        """Parse what is parsed lazily.

        Raises:
            MalformedObject: If a value cannot be read.
        """
        _ = self.limit


class AttachmentSource(Struct, frozen=True):
    """The attached volume."""

    persistent_volume_name: str | None = None


class VolumeAttachmentSpec(Struct, frozen=True):
    """The attached volume, its node and its driver."""

    attacher: str = ""
    node_name: str = ""
    source: AttachmentSource = AttachmentSource()


class VolumeAttachment(Struct, frozen=True):
    """A volume that is attached to a node, or is about to be."""

    metadata: ObjectMeta = ObjectMeta()
    spec: VolumeAttachmentSpec = VolumeAttachmentSpec()
