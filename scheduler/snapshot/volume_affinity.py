"""Which nodes can access a volume, or the volumes of a class.

Only node labels count: expressions about fields are ignored, because upstream matches against a
node object that has labels alone.

Source: ``component-helpers/storage/volume/helpers.go`` (CheckNodeAffinity) and
``pkg/apis/core/v1/helper/helpers.go`` (MatchTopologySelectorTerms).
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from scheduler.model.csi_migration import (
    SUCCESSORS,
    plugin_of,
    translated_affinity,
    why_untranslated,
)
from scheduler.model.meta import kept_in_argument
from scheduler.model.selectors import IN, Requirement, Selector
from scheduler.model.storage import PersistentVolume, TopologySelectorTerm, VolumeNodeAffinity
from scheduler.snapshot.arrays import Mask
from scheduler.snapshot.node_selector import compile_selector
from scheduler.snapshot.node_table import NodeTable


@dataclass(frozen=True, slots=True)
class CompiledVolumeAffinity:
    """The node affinity of a volume: any term must match, by all its requirements on labels."""

    terms: tuple[tuple[Requirement, ...], ...]

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Tell whether a node with *labels* can access the volume."""
        return any(all(each.matches(labels) for each in term) for term in self.terms)

    def mask(self, nodes: NodeTable) -> Mask:
        """Return which of *nodes* can access the volume."""
        mask = np.zeros(len(nodes), dtype=np.bool_)
        for term in self.terms:
            mask |= all_of(nodes, term)
        return mask

    @property
    def only(self) -> Requirement | None:
        """The only requirement, if there is just one and it lists values."""
        match self.terms:
            case ((Requirement(operator="In") as only,),):
                return only
            case _:
                return None


EVERY_NODE: Final = CompiledVolumeAffinity(((),))


def compile_volume_affinity(affinity: VolumeNodeAffinity | None) -> CompiledVolumeAffinity:
    """Compile the node affinity of a volume; an invalid term matches no node."""
    return EVERY_NODE if affinity is None else _compile(affinity)


@kept_in_argument
def _compile(affinity: VolumeNodeAffinity) -> CompiledVolumeAffinity:
    if affinity.required is None:
        return EVERY_NODE
    return CompiledVolumeAffinity(
        tuple(term.labels for term in compile_selector(affinity.required).terms)
    )


def accessible_nodes(volume: PersistentVolume, nodes: NodeTable) -> Mask:
    """Return which of *nodes* can access *volume*.

    The affinity of a volume of an in-tree plugin names that plugin's zone labels. Nodes to which
    the plugin was migrated have the labels of its CSI driver: for them it is translated.
    """
    mask = compile_volume_affinity(volume.spec.node_affinity).mask(nodes)
    plugin = plugin_of(volume.spec)
    if plugin in SUCCESSORS:
        migrated = _migrated(plugin, nodes)
        if migrated.any():
            mask = np.where(
                migrated, compile_volume_affinity(translated_affinity(volume)).mask(nodes), mask
            )
    return mask


def untranslatable_on(volume: PersistentVolume, nodes: NodeTable) -> tuple[Mask, str]:
    """Return on which of *nodes* an in-tree *volume* cannot be translated to CSI, and why.

    Upstream's filter fails there (``plugins/volumebinding/binder.go``, tryTranslatePVToCSI).
    """
    why = why_untranslated(volume)
    if not why:
        return np.zeros(len(nodes), dtype=np.bool_), ""
    return _migrated(plugin_of(volume.spec), nodes), f"could not translate pv: {why}"


def _migrated(plugin: str, nodes: NodeTable) -> Mask:
    return nodes.named(
        each.metadata.name
        for each in nodes.objects.csi_nodes()
        if plugin in each.migrated.split(",")
    )


def in_topologies(terms: Sequence[TopologySelectorTerm], nodes: NodeTable) -> Mask:
    """Return which of *nodes* match one of *terms*; all if there is none."""
    if not terms:
        return np.ones(len(nodes), dtype=np.bool_)
    mask = np.zeros(len(nodes), dtype=np.bool_)
    for term in terms:
        if term.match_label_expressions:
            mask |= all_of(
                nodes,
                (
                    Requirement(each.key, IN, frozenset(each.values))
                    for each in term.match_label_expressions
                ),
            )
    return mask


def matching_labels(selector: Selector, nodes: NodeTable) -> Mask:
    """Return which of *nodes* have labels that *selector* matches."""
    if selector.requirements is None:
        return np.zeros(len(nodes), dtype=np.bool_)
    return all_of(nodes, selector.requirements)


def all_of(nodes: NodeTable, requirements: Iterable[Requirement]) -> Mask:
    """Return which of *nodes* satisfy all *requirements*."""
    mask = np.ones(len(nodes), dtype=np.bool_)
    for each in requirements:
        mask &= nodes.matching(each)
    return mask
