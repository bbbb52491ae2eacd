"""Facts: what the watches tell, as values.

A fact is in the past tense. The loop drains facts into cache and queue; the results of its own
bindings come back the same way. *old* is always the version that was told before, so that nobody
needs to look it up again.
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
    """What can be watched, in the spelling of cluster events (``framework/types.go``)."""

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
    """An object is there that was not there before."""

    resource: ResourceName
    new: KubeObject


@dataclass(frozen=True, slots=True)
class Updated:
    """An object changed in something we read."""

    resource: ResourceName
    old: KubeObject
    new: KubeObject


@dataclass(frozen=True, slots=True)
class Deleted:
    """An object is gone, or left the watch's selection.

    *seen* is False where the deletion itself was missed and a later list no longer showed the
    object; *old* may then be out of date.
    """

    resource: ResourceName
    old: KubeObject
    seen: bool = True


@dataclass(frozen=True, slots=True)
class Listed:
    """Everything that existed when the watch began has been told."""

    resource: ResourceName


Fact = Added | Updated | Deleted | Listed
