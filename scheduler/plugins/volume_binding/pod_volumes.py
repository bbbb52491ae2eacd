"""Where the claims of a pod can be bound, and what would be done on each node."""

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
from scheduler.snapshot.volume_affinity import accessible_nodes, allowed, selected, unreadable_on
from scheduler.snapshot.volume_matching import VolumeMatch, match_volumes

_OUT_OF_REACH: Final = "node(s) didn't match PersistentVolume's node affinity"
_NO_VOLUME: Final = "node(s) didn't find available persistent volumes to bind"
_NO_SPACE: Final = "node(s) did not have enough free storage"
_VOLUME_GONE: Final = "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)"
_NO_PROVISIONER: Final = frozenset({"", "kubernetes.io/no-provisioner"})


@dataclass(slots=True, eq=False)
class PodVolumes:
    """What stands against each row, and what would be done on it.

    Args:
        out_of_reach: Rows from which a volume cannot be reached.
        no_volume: Rows on which a claim cannot get a volume.
        no_space: Rows for which there is too little storage to make one.
        volume_gone: Rows where a claim is bound to a volume that does not exist: all, or none.
        numbers: The number of each row's match.
        matches: Claims and the volumes found for them.
        provisioned: Claims, found nothing for, whose volumes would have to be made, by match.
        failed: Rows that cannot be judged, of which nothing else is said.
        failures: Why not.
    """

    out_of_reach: NodeMask
    no_volume: NodeMask
    no_space: NodeMask
    volume_gone: NodeMask
    failed: NodeMask
    numbers: NDArray[np.intp]
    matches: Sequence[VolumeMatch] = (VolumeMatch(),)
    provisioned: Sequence[tuple[PersistentVolumeClaim, ...]] = ((),)
    failures: list[Failure] = field(default_factory=list)

    @classmethod
    def of(cls, rows: int) -> "PodVolumes":
        """Return one in which nothing stands against any of *rows* rows."""
        masks = np.zeros((5, rows), dtype=np.bool_)
        numbers = np.zeros(rows, dtype=np.intp)
        return cls(masks[0], masks[1], masks[2], masks[3], masks[4], numbers)

    @property
    def reasons(self) -> tuple[tuple[NodeMask, str], ...]:
        """What stands against which rows, in upstream's order."""
        return tuple(
            (mask & ~self.failed, reason)
            for mask, reason in (
                (self.out_of_reach, _OUT_OF_REACH),
                (self.no_volume, _NO_VOLUME),
                (self.no_space, _NO_SPACE),
                (self.volume_gone, _VOLUME_GONE),
            )
        )

    def fail(self, rows: NodeMask, why: str) -> None:
        """Note that *rows* cannot be judged, unless that is known already."""
        rows = rows & ~self.failed
        if rows.any():
            self.failures.append(Failure(rows, why))
            self.failed |= rows


def find_pod_volumes(claims: Claims, nodes: NodeTable) -> PodVolumes:
    """Find out what stands against each row."""
    found = PodVolumes.of(len(nodes))
    _judge_bound(claims.bound, nodes, found)
    if claims.delayed:
        _judge_delayed(claims.delayed, nodes, found)
    return found


def _judge_bound(
    claims: Sequence[PersistentVolumeClaim], nodes: NodeTable, found: PodVolumes
) -> None:
    """Find the rows from which a volume cannot be reached; a row's first problem is its only."""
    for claim in claims:
        volume = nodes.objects.volume(claim.spec.volume_name)
        untroubled = ~(found.out_of_reach | found.volume_gone)
        if volume is None:
            found.volume_gone |= untroubled
        else:
            unreadable, why = unreadable_on(volume, nodes)
            found.fail(untroubled & unreadable, why)
            found.out_of_reach |= untroubled & ~accessible_nodes(volume, nodes)


def _judge_delayed(
    claims: Sequence[PersistentVolumeClaim], nodes: NodeTable, found: PodVolumes
) -> None:
    """Find the rows on which a claim can neither get a volume nor have one made."""
    placed = tuple(claim for claim in claims if claim.selected_node is not None)
    for claim in placed:
        found.no_volume |= ~nodes.named((claim.selected_node or "",))
    free = [claim for claim in claims if claim.selected_node is None]
    matches = match_volumes(free, nodes.objects, nodes)
    found.numbers, found.matches = matches.numbers, matches.matches
    found.provisioned = tuple((*placed, *match.left) for match in matches.matches)
    considered = ~found.no_volume
    makers = {claim.key: _maker_of(claim, nodes) for left in found.provisioned for claim in left}
    for keys, numbers in _alike(found.provisioned).items():
        rows = considered & np.isin(found.numbers, numbers)
        for key in keys:
            maker = makers[key]
            if maker.why:
                found.fail(rows, maker.why)
                break
            found.no_volume |= rows & ~maker.willing
            found.no_space |= rows & maker.willing & ~maker.able
            rows = rows & maker.willing & maker.able


def _alike(
    provisioned: Sequence[tuple[PersistentVolumeClaim, ...]],
) -> dict[tuple[str, ...], list[int]]:
    """Return the numbers of the matches that leave the same claims over."""
    found: dict[tuple[str, ...], list[int]] = {}
    for number, left in enumerate(provisioned):
        found.setdefault(tuple(claim.key for claim in left), []).append(number)
    return found


@dataclass(frozen=True, slots=True, eq=False)
class _Maker:
    """Where a volume could be made for a claim.

    Args:
        willing: Rows for which the class of volumes is.
        able: Rows for which there is enough storage.
        why: Why that cannot be told.
    """

    willing: NodeMask
    able: NodeMask
    why: str = ""


def _maker_of(claim: PersistentVolumeClaim, nodes: NodeTable) -> _Maker:
    everywhere = np.ones(len(nodes), dtype=np.bool_)
    if not claim.class_name:
        return _Maker(everywhere, everywhere, f'no class for claim "{claim.key}"')
    storage_class = nodes.objects.storage_class(claim.class_name)
    if storage_class is None:
        why = f'failed to find storage class "{claim.class_name}"'
        return _Maker(everywhere, everywhere, why)
    if storage_class.provisioner in _NO_PROVISIONER:
        return _Maker(~everywhere, everywhere)
    return _Maker(
        allowed(storage_class.allowed_topologies, nodes), _has_space(claim, storage_class, nodes)
    )


def _has_space(
    claim: PersistentVolumeClaim, storage_class: StorageClass, nodes: NodeTable
) -> NodeMask:
    """Return for which rows the driver says that it has room for *claim*, if it says anything."""
    driver = nodes.objects.csi_driver(storage_class.provisioner)
    if claim.requested is None or driver is None or not driver.spec.storage_capacity:
        return np.ones(len(nodes), dtype=np.bool_)
    size = quantity.units(claim.requested)
    enough = np.zeros(len(nodes), dtype=np.bool_)
    for capacity in nodes.objects.storage_capacities():
        if capacity.storage_class_name == storage_class.metadata.name:
            limit = capacity.limit
            if limit is not None and limit >= size:
                enough |= _served_by(capacity, nodes)
    return enough


def _served_by(capacity: CsiStorageCapacity, nodes: NodeTable) -> NodeMask:
    try:
        return selected(compile_selector(capacity.node_topology, "nodeTopology"), nodes)
    except MalformedObject:
        return np.zeros(len(nodes), dtype=np.bool_)
