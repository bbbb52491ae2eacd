"""The bindings of claims that a pod waits for, and whether they can still happen.

Source: ``plugins/volumebinding/binder.go`` (checkBindings).
"""

from collections.abc import Sequence
from dataclasses import dataclass

from scheduler.model.storage import PersistentVolume, PersistentVolumeClaim
from scheduler.snapshot.node_table import NodeTable
from scheduler.snapshot.volume_affinity import accessible_nodes, untranslatable_on
from scheduler.snapshot.volume_use import claim_not_found


@dataclass(frozen=True, slots=True)
class ExpectedBinding:
    """A claim that is to be bound.

    Args:
        namespace: The claim's namespace.
        name: The claim's name.
        version: The resource version of the volume or claim that was patched. As long as the watch
            shows that version, the patch has not arrived. Empty if nothing had to be patched.
        volume: The volume that it is to be bound to; empty for dynamic provisioning.
        node: The node that a volume is provisioned for; empty for static binding.
    """

    namespace: str
    name: str
    version: str = ""
    volume: str = ""
    node: str = ""


def all_bound(expected: Sequence[ExpectedBinding], node: str, nodes: NodeTable) -> bool | str:
    """Tell whether all *expected* bindings are complete, or why one cannot be any more."""
    row = nodes.row_of(node)
    if row is None:
        return f'binding volumes: failed to get node "{node}": node "{node}" not found'
    alone = nodes.alone(row)
    for each in expected:
        answer = _is_bound(each, node, alone)
        if answer is not True:
            return f"binding volumes: {answer}" if answer else False
    return True


def _is_bound(each: ExpectedBinding, node: str, alone: NodeTable) -> bool | str:
    if each.volume and (answer := _is_reserved(each, node, alone)) is not True:
        return answer
    claim = alone.objects.api_claim(each.namespace, each.name)
    if claim is None:
        kind = "check provisioning pvc" if each.node else "check binding"
        return f"failed to {kind}: {claim_not_found(each.name)}"
    if each.node and (answer := _is_provisioned(each, claim, node, alone)) is not True:
        return answer
    return claim.fully_bound


def _is_reserved(each: ExpectedBinding, node: str, alone: NodeTable) -> bool | str:
    """Tell whether the existing volume is reserved for the claim, or why it no longer is."""
    volume = alone.objects.api_volume(each.volume)
    if volume is None:
        return f'failed to check binding: persistentvolume "{each.volume}" not found'
    if volume.metadata.resource_version == each.version:
        return False
    if why := _why_inaccessible(volume, node, alone):
        return why
    if volume.spec.claim_ref is None or not volume.spec.claim_ref.uid:
        return f'ClaimRef got reset for pv "{each.volume}"'
    return True


def _is_provisioned(
    each: ExpectedBinding, claim: PersistentVolumeClaim, node: str, alone: NodeTable
) -> bool | str:
    """Tell whether the claim's volume exists or is being provisioned, or why neither is so."""
    if claim.metadata.resource_version == each.version:
        return False
    if not claim.metadata.annotations:
        return f'selectedNode annotation reset for PVC "{each.name}"'
    if claim.selected_node != each.node:
        # A provisioner that fails removes the annotation, to have the pod scheduled again.
        return f'provisioning failed for PVC "{each.name}"'
    if claim.spec.volume_name:
        volume = alone.objects.api_volume(claim.spec.volume_name)
        if volume is None:
            return False
        if why := _why_inaccessible(volume, node, alone):
            return why
    return True


def _why_inaccessible(volume: PersistentVolume, node: str, alone: NodeTable) -> str:
    """Return why *node* cannot access *volume*; empty if it can."""
    untranslatable, why = untranslatable_on(volume, alone)
    if untranslatable[0]:
        return f"failed to translate pv to csi: {why}"
    if accessible_nodes(volume, alone)[0]:
        return ""
    why = "no matching NodeSelectorTerms"
    return f'pv "{volume.name}" node affinity doesn\'t match node "{node}": {why}'
