"""What could help a pod that did not get its volumes."""

from scheduler.framework.cluster_event import Change
from scheduler.model.pod import Pod
from scheduler.model.storage import CsiDriver, CsiNode, CsiStorageCapacity, StorageClass
from scheduler.snapshot.volume_use import mounts


def class_changed(_: Pod, change: Change) -> bool:
    """Tell whether a class of volumes is new, or made in other places than before."""
    if not isinstance(change.old, StorageClass) or not isinstance(change.new, StorageClass):
        return True
    return change.old.allowed_topologies != change.new.allowed_topologies


def claim_changed(pod: Pod, change: Change) -> bool:
    """Tell whether the claim is one of *pod*'s."""
    return change.new is None or mounts(pod, change.new)


def migration_changed(_: Pod, change: Change) -> bool:
    """Tell whether other drivers took over on a node, or the node is new."""
    if not isinstance(change.old, CsiNode) or not isinstance(change.new, CsiNode):
        return True
    return change.old.migrated != change.new.migrated


def capacity_ignored(pod: Pod, change: Change) -> bool:
    """Tell whether a driver of which *pod* has an inline volume no longer minds its capacity."""
    if not isinstance(change.old, CsiDriver) or not isinstance(change.new, CsiDriver):
        return True
    name = change.new.metadata.name
    return (
        any(volume.csi is not None and volume.csi.driver == name for volume in pod.storage)
        and bool(change.old.spec.storage_capacity)
        and not change.new.spec.storage_capacity
    )


def capacity_grew(_: Pod, change: Change) -> bool:
    """Tell whether a driver has more storage to give."""
    old, new = change.old, change.new
    if not isinstance(old, CsiStorageCapacity) or not isinstance(new, CsiStorageCapacity):
        return True
    return new.limit is not None and (old.limit is None or new.limit > old.limit)
