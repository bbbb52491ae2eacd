"""Queueing hints: which changes may help a pod that VolumeBinding rejected.

Source: ``plugins/volumebinding/volume_binding.go`` (isSchedulableAfter…).
"""

from scheduler.framework.cluster_event import Change
from scheduler.model.pod import Pod
from scheduler.model.storage import CsiDriver, CsiNode, CsiStorageCapacity, StorageClass
from scheduler.snapshot.volume_use import mounts


def class_changed(_: Pod, change: Change) -> bool:
    """Tell whether a storage class is new, or has other allowed topologies than before."""
    if not isinstance(change.old, StorageClass) or not isinstance(change.new, StorageClass):
        return True
    return change.old.allowed_topologies != change.new.allowed_topologies


def claim_changed(pod: Pod, change: Change) -> bool:
    """Tell whether the claim is one of *pod*'s."""
    return change.new is None or mounts(pod, change.new)


def migration_changed(_: Pod, change: Change) -> bool:
    """Tell whether other in-tree plugins are migrated on a node, or its CSINode is new."""
    if not isinstance(change.old, CsiNode) or not isinstance(change.new, CsiNode):
        return True
    return change.old.migrated != change.new.migrated


def capacity_ignored(pod: Pod, change: Change) -> bool:
    """Tell whether a driver of one of *pod*'s inline volumes no longer tracks its capacity."""
    if not isinstance(change.old, CsiDriver) or not isinstance(change.new, CsiDriver):
        return True
    name = change.new.metadata.name
    return (
        any(volume.csi is not None and volume.csi.driver == name for volume in pod.storage)
        and bool(change.old.spec.storage_capacity)
        and not change.new.spec.storage_capacity
    )


def capacity_grew(_: Pod, change: Change) -> bool:
    """Tell whether a driver reports more capacity than before."""
    old, new = change.old, change.new
    if not isinstance(old, CsiStorageCapacity) or not isinstance(new, CsiStorageCapacity):
        return True
    return new.limit is not None and (old.limit is None or new.limit > old.limit)
