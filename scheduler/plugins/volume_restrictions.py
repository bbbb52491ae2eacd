"""Some disks allow one pod at a time on a node, and claims with ReadWriteOncePod one pod at all.

Source: ``plugins/volumerestrictions/volume_restrictions.go``. In a what-if, claims in use are
counted as in a true cluster; upstream's AddPod and RemovePod count claims by name without regard to
the namespace, and twice if a pod mounts one twice.
"""

from collections.abc import Iterator

import numpy as np

from scheduler.framework.cluster_event import NODE_ADD, POD, Action, Change, ClusterEvent, Requeue
from scheduler.framework.rejection import PreFilterAnswer, Refused, Rejection, Skip
from scheduler.model.fact import Resource
from scheduler.model.pod import Pod
from scheduler.model.storage import READ_WRITE_ONCE_POD
from scheduler.snapshot.arrays import Int64s
from scheduler.snapshot.disks import disks_of
from scheduler.snapshot.node_table import NodeTable
from scheduler.snapshot.volume_use import claim_not_found, mounts


def _volume_freed(pod: Pod, change: Change) -> bool:
    """Tell whether the deleted pod used a disk or a claim that *pod* wants."""
    old = change.old
    if not isinstance(old, Pod):
        return True
    if old.namespace != pod.namespace:
        return False
    disks = any(wanted.conflicts(used) for wanted in disks_of(pod) for used in disks_of(old))
    return disks or not {claim.name for claim in pod.claims if not claim.generated}.isdisjoint(
        claim.name for claim in old.claims if not claim.generated
    )


def _claim_added(pod: Pod, change: Change) -> bool:
    return change.new is None or mounts(pod, change.new, generated=False)


class VolumeRestrictions:
    """Rejects nodes where a disk is in use, and all nodes if an exclusive claim is."""

    name = "VolumeRestrictions"
    each_world = True
    needs = frozenset({Resource.PERSISTENT_VOLUME_CLAIM})
    requeue_on = (
        Requeue(ClusterEvent(POD, Action.DELETE), _volume_freed),
        Requeue(NODE_ADD),
        Requeue(ClusterEvent(Resource.PERSISTENT_VOLUME_CLAIM, Action.ADD), _claim_added),
    )

    def pre_filter(self, pod: Pod, nodes: NodeTable) -> PreFilterAnswer:
        """Skip pods without such disks whose exclusive claims no other pod uses."""
        if not pod.storage:
            return Skip()
        for claim in pod.claims:
            if not claim.generated and nodes.objects.claim(claim.namespace, claim.name) is None:
                return Refused(claim_not_found(claim.name), resolvable=False)
        if disks_of(pod) or _users_of_exclusive_claims(pod, nodes).any():
            return None
        return Skip()

    def filter(self, pod: Pod, nodes: NodeTable) -> Iterator[Rejection]:
        """Reject nodes on which a disk is in use, and all on which an exclusive claim still is.

        A what-if may free a claim by removing its user from one node: so each row is judged.
        """
        if not pod.storage:
            return
        taken = nodes.disks_taken(disks_of(pod))
        if taken.any():
            yield Rejection(taken, "node(s) had no available disk")
        in_use = ~taken & (_users_of_exclusive_claims(pod, nodes) > 0)
        if in_use.any():
            yield Rejection(
                in_use,
                "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode"
                " already in-use by another pod",
            )


def _users_of_exclusive_claims(pod: Pod, nodes: NodeTable) -> Int64s:
    """Count, for each row with its what-if changes, the users of *pod*'s exclusive claims."""
    users = np.zeros(len(nodes), dtype=np.int64)
    for key in {wanted.key for wanted in pod.claims if not wanted.generated}:
        claim = nodes.objects.claim(pod.namespace, key.partition("/")[2])
        if claim is not None and READ_WRITE_ONCE_POD in claim.spec.access_modes:
            users += nodes.claim_users(key)
    return users
