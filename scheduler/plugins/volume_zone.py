"""Nodes must be in the zone and region that a volume's labels name.

Source: ``plugins/volumezone/volume_zone.go``. Labels are the older way; newer volumes have a node
affinity, which VolumeBinding checks.
"""

from collections.abc import Iterator
from functools import lru_cache
from typing import Final

import numpy as np

from scheduler.framework.cluster_event import NODE, Action, Change, ClusterEvent, Requeue
from scheduler.framework.rejection import NodeMask, PreFilterAnswer, Refused, Rejection, Skip
from scheduler.model.csi_migration import BETA_REGION, BETA_ZONE, REGION, ZONE
from scheduler.model.fact import Resource
from scheduler.model.pod import Pod
from scheduler.model.selectors import EXISTS, IN, Requirement
from scheduler.model.storage import WAIT_FOR_FIRST_CONSUMER, PersistentVolume, StorageClass
from scheduler.snapshot.node_table import NodeTable
from scheduler.snapshot.volume_use import claim_not_found, mounts

_LABELS: Final = (BETA_ZONE, BETA_REGION, ZONE, REGION)
_GA_KEYS: Final = {BETA_ZONE: ZONE, BETA_REGION: REGION}


def _topologies(volume: PersistentVolume) -> tuple[tuple[str, frozenset[str]], ...]:
    """Return the zones and regions in the labels of *volume*; unreadable ones are ignored."""
    labels = ((key, volume.metadata.labels.get(key)) for key in _LABELS)
    read = ((key, _read_zones(text)) for key, text in labels if text is not None)
    return tuple((key, zones) for key, zones in read if zones is not None)


@lru_cache(maxsize=1024)
def _read_zones(text: str) -> frozenset[str] | None:
    zones = frozenset(each.strip() for each in text.split("__"))
    return None if "" in zones else zones


def _class_delays_binding(_: Pod, change: Change) -> bool:
    new = change.new
    return not isinstance(new, StorageClass) or new.volume_binding_mode == WAIT_FOR_FIRST_CONSUMER


def _claim_changed(pod: Pod, change: Change) -> bool:
    return change.new is None or mounts(pod, change.new, generated=False)


def _zones_changed(_: Pod, change: Change) -> bool:
    if not isinstance(change.old, PersistentVolume) or not isinstance(change.new, PersistentVolume):
        return True
    return _topologies(change.old) != _topologies(change.new)


class VolumeZone:
    """Rejects nodes outside the zones and regions in the labels of the pod's volumes."""

    name = "VolumeZone"
    each_world = True
    needs = frozenset(
        {Resource.PERSISTENT_VOLUME_CLAIM, Resource.PERSISTENT_VOLUME, Resource.STORAGE_CLASS}
    )
    requeue_on = (
        Requeue(ClusterEvent(Resource.STORAGE_CLASS, Action.ADD), _class_delays_binding),
        Requeue(ClusterEvent(NODE, Action.ADD | Action.UPDATE_NODE_LABEL)),
        Requeue(
            ClusterEvent(Resource.PERSISTENT_VOLUME_CLAIM, Action.ADD | Action.UPDATE),
            _claim_changed,
        ),
        Requeue(
            ClusterEvent(Resource.PERSISTENT_VOLUME, Action.ADD | Action.UPDATE), _zones_changed
        ),
    )

    def pre_filter(self, pod: Pod, nodes: NodeTable) -> PreFilterAnswer:
        """Skip pods whose volumes have no zone; reject pods whose claims cannot be resolved."""
        if not pod.storage:
            return Skip()
        wanted = _wanted(pod, nodes)
        if isinstance(wanted, Refused):
            return wanted
        return None if wanted else Skip()

    def filter(self, pod: Pod, nodes: NodeTable) -> Iterator[Rejection]:
        """Reject nodes in another zone or region; nodes without such labels are accepted."""
        wanted = _wanted(pod, nodes) if pod.storage else []
        if isinstance(wanted, Refused) or not wanted:
            return
        labelled = np.zeros(len(nodes), dtype=np.bool_)
        for key in _LABELS:
            labelled |= nodes.matching(Requirement(key, EXISTS))
        elsewhere = np.zeros(len(nodes), dtype=np.bool_)
        for key, values in wanted:
            elsewhere |= ~_within(nodes, key, values)
        # A cluster in a single zone often has no zone labels at all.
        elsewhere &= labelled
        if elsewhere.any():
            yield Rejection(elsewhere, "node(s) had no available volume zone", resolvable=False)


def _within(nodes: NodeTable, key: str, values: frozenset[str]) -> NodeMask:
    """Return which nodes have the label *key*, or else its GA name, with one of *values*."""
    within = nodes.matching(Requirement(key, IN, values))
    if key not in _GA_KEYS:
        return within
    by_ga_key = nodes.matching(Requirement(_GA_KEYS[key], IN, values))
    return np.where(nodes.matching(Requirement(key, EXISTS)), within, by_ga_key)


def _wanted(pod: Pod, nodes: NodeTable) -> list[tuple[str, frozenset[str]]] | Refused:
    """Return the zones and regions of the pod's volumes, or why they cannot be resolved."""
    found: list[tuple[str, frozenset[str]]] = []
    for claim in pod.claims:
        if not claim.generated:
            topologies = _topologies_of(claim.namespace, claim.name, nodes)
            if isinstance(topologies, str):
                return Refused(topologies, resolvable=False)
            found.extend(topologies)
    return found


def _topologies_of(
    namespace: str, name: str, nodes: NodeTable
) -> tuple[tuple[str, frozenset[str]], ...] | str:
    """Return the zones and regions of a claim's volume, or why there is no volume."""
    if not name:
        return "PersistentVolumeClaim had no name"
    claim = nodes.objects.claim(namespace, name)
    if claim is None:
        return claim_not_found(name)
    if not claim.spec.volume_name:
        return _why_unbound(claim.class_name, nodes)
    volume = nodes.objects.volume(claim.spec.volume_name)
    if volume is None:
        return f'persistentvolume "{claim.spec.volume_name}" not found'
    return _topologies(volume)


def _why_unbound(class_name: str, nodes: NodeTable) -> tuple[()] | str:
    """Return why a claim has no volume yet; nothing if it gets one once the pod has a node."""
    if not class_name:
        return "PersistentVolumeClaim had no pv name and storageClass name"
    storage_class = nodes.objects.storage_class(class_name)
    if storage_class is None:
        return f'storageclass.storage.k8s.io "{class_name}" not found'
    if storage_class.volume_binding_mode is None:
        return f'VolumeBindingMode not set for StorageClass "{class_name}"'
    if storage_class.volume_binding_mode == WAIT_FOR_FIRST_CONSUMER:
        return ()
    return "PersistentVolume had no name"
