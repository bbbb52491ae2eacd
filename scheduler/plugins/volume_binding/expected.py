"""What has to come true before the pod may be bound, and whether it still can."""

from collections.abc import Sequence
from dataclasses import dataclass

from scheduler.model.storage import PersistentVolume, PersistentVolumeClaim
from scheduler.snapshot.node_table import NodeTable
from scheduler.snapshot.volume_affinity import accessible_nodes, unreadable_on
from scheduler.snapshot.volume_use import claim_not_found


@dataclass(frozen=True, slots=True)
class Expected:
    """A claim that is to be bound.

    Args:
        version: The version of volume or claim that we wrote over; while it is still the one that
            is known, there is nothing to see yet. Empty where nothing had to be written.
        volume: The volume that it is to be bound to; empty where one is to be made.
        node: For which node a volume is made; empty where none is.
    """

    namespace: str
    name: str
    version: str = ""
    volume: str = ""
    node: str = ""


def all_bound(expected: Sequence[Expected], node: str, nodes: NodeTable) -> bool | str:
    """Tell whether everything *expected* is so, or why it never will be."""
    row = nodes.row_of(node)
    if row is None:
        return f'binding volumes: failed to get node "{node}": node "{node}" not found'
    alone = nodes.alone(row)
    for each in expected:
        answer = _is_bound(each, node, alone)
        if answer is not True:
            return f"binding volumes: {answer}" if answer else False
    return True


def _is_bound(each: Expected, node: str, alone: NodeTable) -> bool | str:
    if each.volume and (answer := _is_meant(each, node, alone)) is not True:
        return answer
    claim = alone.objects.api_claim(each.namespace, each.name)
    if claim is None:
        kind = "check provisioning pvc" if each.node else "check binding"
        return f"failed to {kind}: {claim_not_found(each.name)}"
    if each.node and (answer := _is_made(each, claim, node, alone)) is not True:
        return answer
    return claim.fully_bound


def _is_meant(each: Expected, node: str, alone: NodeTable) -> bool | str:
    """Tell whether a volume that exists is meant for the claim, or why it no longer is."""
    volume = alone.objects.api_volume(each.volume)
    if volume is None:
        return f'failed to check binding: persistentvolume "{each.volume}" not found'
    if volume.metadata.resource_version == each.version:
        return False
    if why := _out_of_reach(volume, node, alone):
        return why
    if volume.spec.claim_ref is None or not volume.spec.claim_ref.uid:
        return f'ClaimRef got reset for pv "{each.volume}"'
    return True


def _is_made(
    each: Expected, claim: PersistentVolumeClaim, node: str, alone: NodeTable
) -> bool | str:
    """Tell whether a volume is there for the claim, or is being made, or why neither is."""
    if claim.metadata.resource_version == each.version:
        return False
    if not claim.metadata.annotations:
        return f'selectedNode annotation reset for PVC "{each.name}"'
    if claim.selected_node != each.node:
        # A provisioner that fails takes the annotation away: the pod shall be decided anew.
        return f'provisioning failed for PVC "{each.name}"'
    if claim.spec.volume_name:
        volume = alone.objects.api_volume(claim.spec.volume_name)
        if volume is None:
            return False
        if why := _out_of_reach(volume, node, alone):
            return why
    return True


def _out_of_reach(volume: PersistentVolume, node: str, alone: NodeTable) -> str:
    """Return why *node* cannot reach *volume*; empty where it can."""
    unreadable, why = unreadable_on(volume, alone)
    if unreadable[0]:
        return f"failed to translate pv to csi: {why}"
    if accessible_nodes(volume, alone)[0]:
        return ""
    why = "no matching NodeSelectorTerms"
    return f'pv "{volume.name}" node affinity doesn\'t match node "{node}": {why}'
