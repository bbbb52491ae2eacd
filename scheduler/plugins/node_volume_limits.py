"""A node takes only so many volumes of a CSI driver.

Source: ``plugins/nodevolumelimits/csi.go``. Volumes of plugins that were part of Kubernetes once
count as those of the drivers that took them over.
"""

from collections import defaultdict
from collections.abc import Iterator

import numpy as np

from scheduler.framework.cluster_event import POD, Action, Change, ClusterEvent, Requeue
from scheduler.framework.rejection import Failure, PreFilterAnswer, Rejection, Skip
from scheduler.model.csi_migration import (
    SUCCESSORS,
    UniqueVolume,
    Untranslated,
    plugin_of,
    volume_of,
)
from scheduler.model.fact import Resource
from scheduler.model.pod import Pod
from scheduler.model.storage import CsiNode, VolumeAttachment
from scheduler.snapshot.node_table import NodeTable
from scheduler.snapshot.volume_use import UnresolvedVolumes, mounts


def _has_volumes(pod: Pod) -> bool:
    return bool(pod.claims) or any(plugin_of(volume) for volume in pod.storage)


def _limit_raised(_: Pod, change: Change) -> bool:
    """Tell whether the node takes more volumes of some driver than before."""
    if not isinstance(change.old, CsiNode) or not isinstance(change.new, CsiNode):
        return True
    before = {driver.name: driver.limit or 0 for driver in change.old.spec.drivers}
    return any(
        (driver.limit or 0) > before.get(driver.name, 0) for driver in change.new.spec.drivers
    )


def _volumes_freed(_: Pod, change: Change) -> bool:
    gone = change.old
    if not isinstance(gone, Pod):
        return True
    return bool(gone.node_name or gone.nominated_node) and _has_volumes(gone)


def _claim_came(pod: Pod, change: Change) -> bool:
    return change.new is None or mounts(pod, change.new)


def _detached(pod: Pod, change: Change) -> bool:
    gone = change.old
    if not isinstance(gone, VolumeAttachment):
        return True
    return any(not claim.generated for claim in pod.claims) or any(
        isinstance(volume_of(disk), Untranslated)
        or SUCCESSORS[plugin_of(disk)].driver == gone.spec.attacher
        for disk in pod.storage
        if plugin_of(disk)
    )


class NodeVolumeLimits:
    """Rejects nodes to which the pod's volumes could not be attached, for there are too many."""

    name = "NodeVolumeLimits"
    each_world = True
    needs = frozenset(
        {
            Resource.PERSISTENT_VOLUME_CLAIM,
            Resource.PERSISTENT_VOLUME,
            Resource.STORAGE_CLASS,
            Resource.CSI_NODE,
            Resource.VOLUME_ATTACHMENT,
        }
    )
    requeue_on = (
        Requeue(ClusterEvent(Resource.CSI_NODE, Action.ADD)),
        Requeue(ClusterEvent(Resource.CSI_NODE, Action.UPDATE), _limit_raised),
        Requeue(ClusterEvent(POD, Action.DELETE), _volumes_freed),
        Requeue(ClusterEvent(Resource.PERSISTENT_VOLUME_CLAIM, Action.ADD), _claim_came),
        Requeue(ClusterEvent(Resource.VOLUME_ATTACHMENT, Action.DELETE), _detached),
    )

    def pre_filter(self, pod: Pod, nodes: NodeTable) -> PreFilterAnswer:  # noqa: ARG002
        """Skip pods without volumes that a driver would attach."""
        return None if _has_volumes(pod) else Skip()

    def filter(self, pod: Pod, nodes: NodeTable) -> Iterator[Rejection | Failure]:
        """Reject nodes where the pod's volumes and those in use are more than the limit."""
        if not _has_volumes(pod):
            return
        volumes = nodes.volumes_of(pod)
        if isinstance(volumes, UnresolvedVolumes):
            yield from _refuse(volumes, pod, nodes)
        elif volumes:
            yield from _judge(volumes, nodes)


def _refuse(untold: UnresolvedVolumes, pod: Pod, nodes: NodeTable) -> Iterator[Rejection | Failure]:
    """Say why the volumes of *pod* cannot be counted."""
    where = np.ones(len(nodes), dtype=np.bool_)
    if untold.by_drivers:
        told = nodes.named(each.metadata.name for each in nodes.objects.csi_nodes())
        if told.any():
            yield Failure(told, untold.why)
        # Elsewhere no disk is translated, and nothing limited.
        elsewhere = nodes.volumes_of(pod, drivers=False)
        if not isinstance(elsewhere, UnresolvedVolumes):
            return
        untold, where = elsewhere, ~told
    if not where.any():
        return
    if untold.not_found:
        yield Rejection(where, untold.why, resolvable=False)
    else:
        yield Failure(where, untold.why)


def _judge(volumes: frozenset[UniqueVolume], nodes: NodeTable) -> Iterator[Rejection | Failure]:
    unknown = np.zeros(len(nodes), dtype=np.bool_)
    for row, why in nodes.volume_problems.items():
        alone = np.zeros(len(nodes), dtype=np.bool_)
        alone[row] = unknown[row] = True
        yield Failure(alone, why)
    full = np.zeros(len(nodes), dtype=np.bool_)
    for driver, wanted in _by_driver(volumes).items():
        limit = nodes.volume_limit(driver)
        if (limit >= 0).any():
            # A volume that is attached but used by no pod counts among those in use and once more.
            new = sum((~nodes.mounting(volume)).astype(np.int64) for volume in wanted)
            full |= (limit >= 0) & (new > 0) & (nodes.volumes_in_use(driver) + new > limit)
    full &= ~unknown
    if full.any():
        yield Rejection(full, "node(s) exceed max volume count")


def _by_driver(volumes: frozenset[UniqueVolume]) -> dict[str, list[UniqueVolume]]:
    found: dict[str, list[UniqueVolume]] = defaultdict(list)
    for volume in volumes:
        found[volume[0]].append(volume)
    return found
