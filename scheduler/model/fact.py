"""Facts: what watches report, as values.

The loop applies facts to cache and queue. *old* is always the version of the fact before, as in the
event handlers of client-go, so that a handler need not look it up.
"""

from dataclasses import dataclass
from enum import StrEnum

from scheduler.model.node import Node
from scheduler.model.objects import (
    CustomObject,
    Namespace,
    PodDisruptionBudget,
    PriorityClass,
    ReplicaSet,
    ReplicationController,
    Service,
    StatefulSet,
)
from scheduler.model.pod import Pod
from scheduler.model.storage import (
    CsiDriver,
    CsiNode,
    CsiStorageCapacity,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
    VolumeAttachment,
)
from scheduler.model.trust import Distrust

KubeObject = (
    Pod
    | Node
    | Namespace
    | Service
    | ReplicationController
    | ReplicaSet
    | StatefulSet
    | PriorityClass
    | PodDisruptionBudget
    | CustomObject
    | PersistentVolumeClaim
    | PersistentVolume
    | StorageClass
    | CsiNode
    | CsiDriver
    | CsiStorageCapacity
    | VolumeAttachment
    | Distrust
)


class Resource(StrEnum):
    """The resources that can be watched, in the spelling of cluster events.

    Source: ``kube-scheduler/framework/types.go`` (EventResource).
    """

    POD = "Pod"
    FAILED_POD = "FailedPod"
    NODE = "Node"
    NAMESPACE = "Namespace"
    SERVICE = "Service"
    REPLICATION_CONTROLLER = "ReplicationController"
    REPLICA_SET = "ReplicaSet"
    STATEFUL_SET = "StatefulSet"
    PRIORITY_CLASS = "PriorityClass"
    POD_DISRUPTION_BUDGET = "PodDisruptionBudget"
    PERSISTENT_VOLUME_CLAIM = "PersistentVolumeClaim"
    PERSISTENT_VOLUME = "PersistentVolume"
    STORAGE_CLASS = "storage.k8s.io/StorageClass"
    CSI_NODE = "storage.k8s.io/CSINode"
    CSI_DRIVER = "storage.k8s.io/CSIDriver"
    CSI_STORAGE_CAPACITY = "storage.k8s.io/CSIStorageCapacity"
    VOLUME_ATTACHMENT = "storage.k8s.io/VolumeAttachment"


ResourceName = str
"""A Resource, or a custom one that a plugin needs, as in ``nodemetrics.v1beta1.metrics.k8s.io``."""


@dataclass(frozen=True, slots=True)
class Added:
    """An object appeared: it was created, or now matches the watch's selection."""

    resource: ResourceName
    new: KubeObject


@dataclass(frozen=True, slots=True)
class Updated:
    """A field of an object changed that scheduling reads."""

    resource: ResourceName
    old: KubeObject
    new: KubeObject


@dataclass(frozen=True, slots=True)
class Deleted:
    """An object was deleted, or no longer matches the watch's selection.

    *seen* is False if the deletion was missed and a later list no longer has the object: *old* may
    then be out of date (client-go: DeletedFinalStateUnknown).
    """

    resource: ResourceName
    old: KubeObject
    seen: bool = True


@dataclass(frozen=True, slots=True)
class Listed:
    """All objects that existed when the watch began were reported (client-go: HasSynced)."""

    resource: ResourceName


Fact = Added | Updated | Deleted | Listed
