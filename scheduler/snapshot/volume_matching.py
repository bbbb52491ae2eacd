"""Static binding: which existing volume each claim of a pod gets, on each node.

The smallest claim is matched first, with the smallest volume that fits; a matched volume is not
available to the other claims. There is no backtracking, as upstream has none: a claim that finds no
volume is left over. Nodes with equal values for all labels that volumes' affinities read get the
same match, so one node of each kind is matched.

Source: ``plugins/volumebinding/binder.go`` (findMatchingVolumes) and
``component-helpers/storage/volume/pv_helpers.go`` (FindMatchingVolume).
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
from numpy.typing import NDArray

from scheduler.model.selectors import EVERYTHING, IN, Requirement, Selector, compile_selector
from scheduler.model.storage import (
    AVAILABLE,
    FILESYSTEM,
    PersistentVolume,
    PersistentVolumeClaim,
)
from scheduler.snapshot.node_table import NodeTable
from scheduler.snapshot.objects import ClusterObjects
from scheduler.snapshot.volume_affinity import (
    EVERY_NODE,
    CompiledVolumeAffinity,
    compile_volume_affinity,
)

_OTHER_VALUE: Final = -2
"""Replaces the numbers of all label values that no volume's affinity names; -1 is ABSENT."""


@dataclass(frozen=True, slots=True)
class VolumeMatch:
    """The volumes of a pod's claims on nodes of one kind.

    Args:
        found: Claims and their volumes, the smallest claim first.
        left: Claims for which there is no volume.
    """

    found: tuple[tuple[PersistentVolumeClaim, PersistentVolume], ...] = ()
    left: tuple[PersistentVolumeClaim, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class VolumeMatches:
    """All distinct matches, and the number of each row's match."""

    numbers: NDArray[np.intp]
    matches: Sequence[VolumeMatch]


def match_volumes(
    claims: Iterable[PersistentVolumeClaim], objects: ClusterObjects, nodes: NodeTable
) -> VolumeMatches:
    """Find volumes for *claims* on every row of *nodes*."""
    by_size = sorted(claims, key=lambda claim: claim.requested or 0)
    by_claim = [
        _volumes_fitting(claim, objects.volumes_of_class(claim.class_name)) for claim in by_size
    ]
    numbers, examples = _kinds_of_nodes(by_claim, nodes)
    matches = [_match(by_claim, nodes.node(row).metadata.labels) for row in examples]
    assert len(numbers) == len(nodes), f"{len(numbers)} rows matched of {len(nodes)}"
    return VolumeMatches(numbers, matches)


@dataclass(slots=True, eq=False)
class _FittingVolumes:
    """The volumes that fit a claim, whichever nodes can access them.

    Args:
        reserved: Volumes whose claimRef names this claim.
        volumes: The others, the smallest first.
        anywhere: Indexes of those that every node can access.
        by_label: Indexes of those that need one node label, by its key and value.
        others: Indexes of the rest, with their affinity.
    """

    claim: PersistentVolumeClaim
    reserved: list[tuple[PersistentVolume, CompiledVolumeAffinity]] = field(default_factory=list)
    volumes: list[PersistentVolume] = field(default_factory=list)
    anywhere: list[int] = field(default_factory=list)
    by_label: dict[str, dict[str, list[int]]] = field(default_factory=dict)
    others: list[tuple[int, CompiledVolumeAffinity]] = field(default_factory=list)

    def sort(self) -> None:
        """Sort the volumes by size, and index them by the labels that they need."""
        self.volumes.sort(key=lambda volume: (volume.capacity, volume.name))
        for index, volume in enumerate(self.volumes):
            affinity = compile_volume_affinity(volume.spec.node_affinity)
            only = affinity.only
            if affinity == EVERY_NODE:
                self.anywhere.append(index)
            elif only is None:
                self.others.append((index, affinity))
            else:
                values = self.by_label.setdefault(only.key, {})
                for value in only.values:
                    values.setdefault(value, []).append(index)

    def reads(self) -> Iterator[tuple[str, frozenset[str] | None]]:
        """Yield the labels that affinities read, with the values read, or None for all values."""
        for key, values in self.by_label.items():
            yield key, frozenset(values)
        for affinity in (
            *(affinity for _, affinity in self.reserved),
            *(affinity for _, affinity in self.others),
        ):
            for term in affinity.terms:
                for each in term:
                    yield each.key, None

    def best(self, labels: Mapping[str, str], taken: Collection[str]) -> PersistentVolume | None:
        """Return the smallest volume not *taken* that a node with *labels* can access."""
        for volume, affinity in self.reserved:
            if volume.name not in taken:
                # This one or none: a volume reserved for the claim would stay unused forever.
                return volume if affinity.matches(labels) else None
        lists = [
            self.anywhere,
            *(
                values.get(labels[key], [])
                for key, values in self.by_label.items()
                if key in labels
            ),
            [index for index, affinity in self.others if affinity.matches(labels)],
        ]
        firsts = (
            next((index for index in each if self.volumes[index].name not in taken), None)
            for each in lists
        )
        first = min((index for index in firsts if index is not None), default=None)
        return None if first is None else self.volumes[first]


def _volumes_fitting(
    claim: PersistentVolumeClaim, volumes: Iterable[PersistentVolume]
) -> _FittingVolumes:
    """Collect the volumes that fit *claim*."""
    fitting = _FittingVolumes(claim)
    selector = _selector_of(claim)
    for volume in volumes:
        if not _fits(volume, claim):
            continue
        if volume.spec.claim_ref is not None:
            fitting.reserved.append((volume, compile_volume_affinity(volume.spec.node_affinity)))
        elif (
            volume.status.phase == AVAILABLE
            and selector.matches(volume.metadata.labels)
            and set(claim.spec.access_modes) <= set(volume.spec.access_modes)
        ):
            fitting.volumes.append(volume)
    fitting.sort()
    return fitting


def _fits(volume: PersistentVolume, claim: PersistentVolumeClaim) -> bool:
    wanted, found = claim.spec, volume.spec
    return (
        (found.claim_ref is None or volume.is_for(claim))
        and volume.capacity >= (claim.requested or 0)
        and (wanted.volume_mode or FILESYSTEM) == (found.volume_mode or FILESYSTEM)
        and (wanted.volume_attributes_class_name or "")
        == (found.volume_attributes_class_name or "")
        and volume.metadata.deletion_timestamp is None
    )


def _selector_of(claim: PersistentVolumeClaim) -> Selector:
    if claim.spec.selector is None:
        return EVERYTHING
    return compile_selector(claim.spec.selector, f"claim {claim.key}: spec.selector")


def _kinds_of_nodes(
    by_claim: Sequence[_FittingVolumes], nodes: NodeTable
) -> tuple[NDArray[np.intp], list[int]]:
    """Number the rows so that rows of one kind have one number; return a row of each kind."""
    numbers = np.zeros(len(nodes), dtype=np.intp)
    examples = np.zeros(min(1, len(nodes)), dtype=np.intp)
    for key, values in _labels_read(by_claim).items():
        ids = nodes.domains(key).astype(np.intp)
        if values is not None:
            known = nodes.matching(Requirement(key, IN, values))
            ids = np.where(known, ids, _OTHER_VALUE)
        # One number for each pair of the number so far and an id: ids begin at -2, hence the shift
        # by 2. `unique` then renumbers the pairs from 0, so that they do not grow with each label.
        pairs = numbers * (ids.max(initial=0) + 3) + ids + 2
        _, examples, numbers = np.unique(pairs, return_index=True, return_inverse=True)
    return numbers, examples.tolist()


def _labels_read(by_claim: Iterable[_FittingVolumes]) -> dict[str, frozenset[str] | None]:
    found: dict[str, frozenset[str] | None] = {}
    for fitting in by_claim:
        for key, values in fitting.reads():
            before = found.get(key, frozenset())
            found[key] = None if values is None or before is None else before | values
    return found


def _match(by_claim: Sequence[_FittingVolumes], labels: Mapping[str, str]) -> VolumeMatch:
    taken: set[str] = set()
    found, left = [], []
    for fitting in by_claim:
        volume = fitting.best(labels, taken)
        if volume is None:
            left.append(fitting.claim)
        else:
            taken.add(volume.name)
            found.append((fitting.claim, volume))
    return VolumeMatch(tuple(found), tuple(left))
