"""Which of the volumes that exist are for which claims of a pod, on each node.

The smallest claim is served first, with the smallest volume that will do; what one claim took,
another cannot have. There is no way back: a claim that finds nothing is left over. Nodes with the
same values under all labels that a volume's affinity reads are alike, and are decided together.

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

_ELSEWHERE: Final = -2


@dataclass(frozen=True, slots=True)
class VolumeMatch:
    """What claims get on nodes that are alike.

    Args:
        found: Claims and their volumes, the smallest claim first.
        left: Claims for which there is no volume.
    """

    found: tuple[tuple[PersistentVolumeClaim, PersistentVolume], ...] = ()
    left: tuple[PersistentVolumeClaim, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class VolumeMatches:
    """The number of each row's match, and the matches."""

    numbers: NDArray[np.intp]
    matches: Sequence[VolumeMatch]


def match_volumes(
    claims: Iterable[PersistentVolumeClaim], objects: ClusterObjects, nodes: NodeTable
) -> VolumeMatches:
    """Find volumes for *claims* on every row of *nodes*."""
    by_size = sorted(claims, key=lambda claim: claim.requested or 0)
    offers = [_offer(claim, objects.volumes_of_class(claim.class_name)) for claim in by_size]
    numbers, examples = _alike(offers, nodes)
    matches = [_match(offers, nodes.node(row).metadata.labels) for row in examples]
    return VolumeMatches(numbers, matches)


@dataclass(slots=True, eq=False)
class _Offer:
    """The volumes that would do for a claim, leaving aside from where they can be reached.

    Args:
        reserved: Volumes that are meant for this very claim.
        volumes: The others, the smallest first.
        anywhere: Which of them can be reached from every node.
        by_label: Which of them a node needs one label for, by key and value.
        others: The rest, with what they need.
    """

    claim: PersistentVolumeClaim
    reserved: list[tuple[PersistentVolume, CompiledVolumeAffinity]] = field(default_factory=list)
    volumes: list[PersistentVolume] = field(default_factory=list)
    anywhere: list[int] = field(default_factory=list)
    by_label: dict[str, dict[str, list[int]]] = field(default_factory=dict)
    others: list[tuple[int, CompiledVolumeAffinity]] = field(default_factory=list)

    def sort(self) -> None:
        """Put the volumes in order, and note what each of them needs."""
        self.volumes.sort(key=lambda volume: (volume.capacity, volume.name))
        for index, volume in enumerate(self.volumes):
            reach = compile_volume_affinity(volume.spec.node_affinity)
            only = reach.only
            if reach == EVERY_NODE:
                self.anywhere.append(index)
            elif only is None:
                self.others.append((index, reach))
            else:
                values = self.by_label.setdefault(only.key, {})
                for value in only.values:
                    values.setdefault(value, []).append(index)

    def reads(self) -> Iterator[tuple[str, frozenset[str] | None]]:
        """Yield the labels that matter, with the values that do, or None where all do."""
        for key, values in self.by_label.items():
            yield key, frozenset(values)
        for reach in (*(reach for _, reach in self.reserved), *(reach for _, reach in self.others)):
            for term in reach.terms:
                for each in term:
                    yield each.key, None

    def best(self, labels: Mapping[str, str], taken: Collection[str]) -> PersistentVolume | None:
        """Return the volume that the claim gets on a node with *labels*."""
        for volume, reach in self.reserved:
            if volume.name not in taken:
                # It is this one or none: the claim is not free to take another.
                return volume if reach.matches(labels) else None
        lists = [
            self.anywhere,
            *(
                values.get(labels[key], [])
                for key, values in self.by_label.items()
                if key in labels
            ),
            [index for index, reach in self.others if reach.matches(labels)],
        ]
        firsts = (
            next((index for index in each if self.volumes[index].name not in taken), None)
            for each in lists
        )
        first = min((index for index in firsts if index is not None), default=None)
        return None if first is None else self.volumes[first]


def _offer(claim: PersistentVolumeClaim, volumes: Iterable[PersistentVolume]) -> _Offer:
    """Gather the volumes that would do for *claim*."""
    offer = _Offer(claim)
    selector = _selector_of(claim)
    for volume in volumes:
        if not _is_eligible(volume, claim):
            continue
        if volume.spec.claim_ref is not None:
            offer.reserved.append((volume, compile_volume_affinity(volume.spec.node_affinity)))
        elif (
            volume.status.phase == AVAILABLE
            and selector.matches(volume.metadata.labels)
            and set(claim.spec.access_modes) <= set(volume.spec.access_modes)
        ):
            offer.volumes.append(volume)
    offer.sort()
    return offer


def _is_eligible(volume: PersistentVolume, claim: PersistentVolumeClaim) -> bool:
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


def _alike(offers: Sequence[_Offer], nodes: NodeTable) -> tuple[NDArray[np.intp], list[int]]:
    """Number the rows so that rows which are alike have one number; return an example of each."""
    numbers = np.zeros(len(nodes), dtype=np.intp)
    examples = np.zeros(min(1, len(nodes)), dtype=np.intp)
    for key, values in _labels_that_matter(offers).items():
        ids = nodes.domains(key).astype(np.intp)
        if values is not None:
            known = nodes.matching(Requirement(key, IN, values))
            ids = np.where(known, ids, _ELSEWHERE)
        pairs = numbers * (ids.max(initial=0) + 3) + ids + 2
        _, examples, numbers = np.unique(pairs, return_index=True, return_inverse=True)
    return numbers, examples.tolist()


def _labels_that_matter(offers: Iterable[_Offer]) -> dict[str, frozenset[str] | None]:
    found: dict[str, frozenset[str] | None] = {}
    for offer in offers:
        for key, values in offer.reads():
            before = found.get(key, frozenset())
            found[key] = None if values is None or before is None else before | values
    return found


def _match(offers: Sequence[_Offer], labels: Mapping[str, str]) -> VolumeMatch:
    taken: set[str] = set()
    found, left = [], []
    for offer in offers:
        volume = offer.best(labels, taken)
        if volume is None:
            left.append(offer.claim)
        else:
            taken.add(volume.name)
            found.append((offer.claim, volume))
    return VolumeMatch(tuple(found), tuple(left))
