"""On which nodes the claims of a pod can be bound, and with which volumes.

Source: ``plugins/volumebinding/binder.go`` (FindPodVolumes).
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
from numpy.typing import NDArray

from scheduler.errors import MalformedObject
from scheduler.framework.rejection import Failure, NodeMask
from scheduler.model import quantity
from scheduler.model.selectors import compile_selector
from scheduler.model.storage import CsiStorageCapacity, PersistentVolumeClaim, StorageClass
from scheduler.plugins.volume_binding.claims import Claims
from scheduler.snapshot.node_table import NodeTable
from scheduler.snapshot.volume_affinity import (
    accessible_nodes,
    in_topologies,
    matching_labels,
    untranslatable_on,
)
from scheduler.snapshot.volume_matching import VolumeMatch, match_volumes

_INACCESSIBLE: Final = "node(s) didn't match PersistentVolume's node affinity"
_NO_VOLUME: Final = "node(s) didn't find available persistent volumes to bind"
_NO_CAPACITY: Final = "node(s) did not have enough free storage"
_VOLUME_MISSING: Final = "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)"
_NO_PROVISIONER: Final = frozenset({"", "kubernetes.io/no-provisioner"})


@dataclass(slots=True, eq=False)
class PodVolumes:
    """Why rows are rejected for a pod's claims, and the volumes found on the others.

    Args:
        inaccessible: Rows that cannot access a bound volume.
        no_volume: Rows on which a claim gets no volume.
        no_capacity: Rows with too little storage capacity to provision one.
        volume_missing: Rows where a claim is bound to a volume that does not exist: all or none.
        failed: Rows that cannot be judged; they are in no other mask of the reasons.
        numbers: For each row, the index of its match in *matches* and *provisioned*.
        matches: Claims and the volumes found for them, one match for each kind of node.
        provisioned: Claims without a volume, for which one must be provisioned, by match.
        failures: Why rows cannot be judged.
    """

    inaccessible: NodeMask
    no_volume: NodeMask
    no_capacity: NodeMask
    volume_missing: NodeMask
    failed: NodeMask
    numbers: NDArray[np.intp]
    matches: Sequence[VolumeMatch] = (VolumeMatch(),)
    provisioned: Sequence[tuple[PersistentVolumeClaim, ...]] = ((),)
    failures: list[Failure] = field(default_factory=list)

    @classmethod
    def of(cls, rows: int) -> "PodVolumes":
        """Return one that rejects none of *rows* rows."""
        masks = np.zeros((5, rows), dtype=np.bool_)
        numbers = np.zeros(rows, dtype=np.intp)
        return cls(masks[0], masks[1], masks[2], masks[3], masks[4], numbers)

    @property
    def reasons(self) -> tuple[tuple[NodeMask, str], ...]:
        """The rejected rows by reason, in upstream's order."""
        return tuple(
            (mask & ~self.failed, reason)
            for mask, reason in (
                (self.inaccessible, _INACCESSIBLE),
                (self.no_volume, _NO_VOLUME),
                (self.no_capacity, _NO_CAPACITY),
                (self.volume_missing, _VOLUME_MISSING),
            )
        )

    def fail(self, rows: NodeMask, why: str) -> None:
        """Add *rows* to those that cannot be judged; the first reason of a row counts."""
        rows = rows & ~self.failed
        if rows.any():
            self.failures.append(Failure(rows, why))
            self.failed |= rows


def find_pod_volumes(claims: Claims, nodes: NodeTable) -> PodVolumes:
    """Find the volumes of *claims* on each row, and the rows to reject."""
    found = PodVolumes.of(len(nodes))
    _check_bound(claims.bound, nodes, found)
    if claims.delayed:
        _check_delayed(claims.delayed, nodes, found)
    return found


def _check_bound(
    claims: Sequence[PersistentVolumeClaim], nodes: NodeTable, found: PodVolumes
) -> None:
    """Reject the rows that cannot access a bound volume, each for its first such volume."""
    for claim in claims:
        volume = nodes.objects.volume(claim.spec.volume_name)
        accepted = ~(found.inaccessible | found.volume_missing)
        if volume is None:
            found.volume_missing |= accepted
        else:
            untranslatable, why = untranslatable_on(volume, nodes)
            found.fail(accepted & untranslatable, why)
            found.inaccessible |= accepted & ~accessible_nodes(volume, nodes)


def _check_delayed(
    claims: Sequence[PersistentVolumeClaim], nodes: NodeTable, found: PodVolumes
) -> None:
    """Reject the rows on which a claim gets no existing volume and none can be provisioned."""
    # Claims with a selected node are being provisioned for an earlier attempt: only that node will
    # do, unless the provisioner gives up and removes the annotation.
    selected = tuple(claim for claim in claims if claim.selected_node is not None)
    for claim in selected:
        found.no_volume |= ~nodes.named((claim.selected_node or "",))
    free = [claim for claim in claims if claim.selected_node is None]
    matches = match_volumes(free, nodes.objects, nodes)
    found.numbers, found.matches = matches.numbers, matches.matches
    found.provisioned = tuple((*selected, *match.left) for match in matches.matches)
    assert len(found.numbers) == len(nodes), f"{len(found.numbers)} matches of {len(nodes)} rows"
    considered = ~found.no_volume
    provisioners = {
        claim.key: _provisioner_of(claim, nodes) for left in found.provisioned for claim in left
    }
    for keys, numbers in _numbers_by_claims(found.provisioned).items():
        rows = considered & np.isin(found.numbers, numbers)
        for key in keys:
            provisioner = provisioners[key]
            if provisioner.why:
                found.fail(rows, provisioner.why)
                break
            found.no_volume |= rows & ~provisioner.in_topology
            found.no_capacity |= rows & provisioner.in_topology & ~provisioner.has_capacity
            # Upstream stops at a node's first claim that cannot be provisioned.
            rows = rows & provisioner.in_topology & provisioner.has_capacity


def _numbers_by_claims(
    provisioned: Sequence[tuple[PersistentVolumeClaim, ...]],
) -> dict[tuple[str, ...], list[int]]:
    """Return the numbers of the matches by the claims that have to be provisioned."""
    found: dict[tuple[str, ...], list[int]] = {}
    for number, left in enumerate(provisioned):
        found.setdefault(tuple(claim.key for claim in left), []).append(number)
    return found


@dataclass(frozen=True, slots=True, eq=False)
class _Provisioner:
    """Where a volume could be provisioned for a claim.

    Args:
        in_topology: Rows within the allowed topologies of the storage class.
        has_capacity: Rows for which the driver reports enough capacity.
        why: Why that cannot be determined.
    """

    in_topology: NodeMask
    has_capacity: NodeMask
    why: str = ""


def _provisioner_of(claim: PersistentVolumeClaim, nodes: NodeTable) -> _Provisioner:
    every_row = np.ones(len(nodes), dtype=np.bool_)
    if not claim.class_name:
        return _Provisioner(every_row, every_row, f'no class for claim "{claim.key}"')
    storage_class = nodes.objects.storage_class(claim.class_name)
    if storage_class is None:
        why = f'failed to find storage class "{claim.class_name}"'
        return _Provisioner(every_row, every_row, why)
    if storage_class.provisioner in _NO_PROVISIONER:
        return _Provisioner(~every_row, every_row)
    return _Provisioner(
        in_topologies(storage_class.allowed_topologies, nodes),
        _with_capacity(claim, storage_class, nodes),
    )


def _with_capacity(
    claim: PersistentVolumeClaim, storage_class: StorageClass, nodes: NodeTable
) -> NodeMask:
    """Return the rows with capacity for *claim*: all, if the driver does not report capacity."""
    driver = nodes.objects.csi_driver(storage_class.provisioner)
    if claim.requested is None or driver is None or not driver.spec.storage_capacity:
        return np.ones(len(nodes), dtype=np.bool_)
    size = quantity.units(claim.requested)
    enough = np.zeros(len(nodes), dtype=np.bool_)
    for capacity in nodes.objects.storage_capacities():
        if capacity.storage_class_name == storage_class.metadata.name:
            limit = capacity.limit
            if limit is not None and limit >= size:
                enough |= _nodes_of_capacity(capacity, nodes)
    return enough


def _nodes_of_capacity(capacity: CsiStorageCapacity, nodes: NodeTable) -> NodeMask:
    try:
        return matching_labels(compile_selector(capacity.node_topology, "nodeTopology"), nodes)
    except MalformedObject:
        return np.zeros(len(nodes), dtype=np.bool_)
