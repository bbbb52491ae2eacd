"""CSI drivers limit the number of volumes that can be attached to a node.

Source: ``plugins/nodevolumelimits/csi.go``. Volumes of in-tree plugins count as volumes of the CSI
drivers that those plugins were migrated to.
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
    """Tell whether the node's limit for some driver is higher than before."""
    if not isinstance(change.old, CsiNode) or not isinstance(change.new, CsiNode):
        return True
    before = {driver.name: driver.limit or 0 for driver in change.old.spec.drivers}
    return any(
        (driver.limit or 0) > before.get(driver.name, 0) for driver in change.new.spec.drivers
    )


def _volumes_freed(_: Pod, change: Change) -> bool:
    old = change.old
    if not isinstance(old, Pod):
        return True
    return bool(old.node_name or old.nominated_node) and _has_volumes(old)


def _claim_added(pod: Pod, change: Change) -> bool:
    return change.new is None or mounts(pod, change.new)


def _detached(pod: Pod, change: Change) -> bool:
    old = change.old
    if not isinstance(old, VolumeAttachment):
        return True
    return any(not claim.generated for claim in pod.claims) or any(
        isinstance(volume_of(disk), Untranslated)
        or SUCCESSORS[plugin_of(disk)].driver == old.spec.attacher
        for disk in pod.storage
        if plugin_of(disk)
    )


class NodeVolumeLimits:
    """Rejects nodes on which the pod's volumes would exceed a driver's limit."""

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
        Requeue(ClusterEvent(Resource.PERSISTENT_VOLUME_CLAIM, Action.ADD), _claim_added),
        Requeue(ClusterEvent(Resource.VOLUME_ATTACHMENT, Action.DELETE), _detached),
    )

    def pre_filter(self, pod: Pod, nodes: NodeTable) -> PreFilterAnswer:  # noqa: ARG002
        """Skip pods without volumes that a CSI driver attaches."""
        return None if _has_volumes(pod) else Skip()

    def filter(self, pod: Pod, nodes: NodeTable) -> Iterator[Rejection | Failure]:
        """Reject nodes where volumes in use and new ones of the pod exceed the limit."""
        if not _has_volumes(pod):
            return
        volumes = nodes.volumes_of(pod)
        if isinstance(volumes, UnresolvedVolumes):
            yield from _report_unresolved(volumes, pod, nodes)
        elif volumes:
            yield from _check_limits(volumes, nodes)


def _report_unresolved(
    unresolved: UnresolvedVolumes, pod: Pod, nodes: NodeTable
) -> Iterator[Rejection | Failure]:
    """Yield why the volumes of *pod* cannot be counted, for the nodes that it concerns."""
    where = np.ones(len(nodes), dtype=np.bool_)
    if unresolved.by_drivers:
        with_drivers = nodes.named(each.metadata.name for each in nodes.objects.csi_nodes())
        if with_drivers.any():
            yield Failure(with_drivers, unresolved.why)
        # Nodes without a CSINode have no limits, and no disk is translated for them.
        others = nodes.volumes_of(pod, drivers=False)
        if not isinstance(others, UnresolvedVolumes):
            return
        unresolved, where = others, ~with_drivers
    if not where.any():
        return
    if unresolved.not_found:
        yield Rejection(where, unresolved.why, resolvable=False)
    else:
        yield Failure(where, unresolved.why)


def _check_limits(
    volumes: frozenset[UniqueVolume], nodes: NodeTable
) -> Iterator[Rejection | Failure]:
    unknown = np.zeros(len(nodes), dtype=np.bool_)
    for row, why in nodes.volume_problems.items():
        alone = np.zeros(len(nodes), dtype=np.bool_)
        alone[row] = unknown[row] = True
        yield Failure(alone, why)
    full = np.zeros(len(nodes), dtype=np.bool_)
    for driver, wanted in _by_driver(volumes).items():
        limit = nodes.volume_limit(driver)
        if (limit >= 0).any():
            # A volume that is attached but used by no pod counts twice: in use, and as a new one.
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
