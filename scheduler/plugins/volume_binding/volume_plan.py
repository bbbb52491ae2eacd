"""What to write so that the claims of a pod get their volumes on the chosen node.

Source: ``plugins/volumebinding/binder.go`` (bindAPIUpdate).
"""

from dataclasses import dataclass

import msgspec

from scheduler.framework.effects import Patch
from scheduler.model.storage import (
    BOUND_BY_CONTROLLER,
    SELECTED_NODE,
    PersistentVolume,
    PersistentVolumeClaim,
)
from scheduler.plugins.volume_binding.claims import Claims
from scheduler.plugins.volume_binding.pod_volumes import find_pod_volumes
from scheduler.snapshot.node_table import NodeTable


@dataclass(frozen=True, slots=True)
class VolumePlan:
    """What to write so that the claims of a pod get their volumes on one node.

    Args:
        static: Claims, each with the existing volume that it is bound to.
        dynamic: Claims for which volumes are provisioned.
    """

    static: tuple[tuple[PersistentVolumeClaim, PersistentVolume], ...] = ()
    dynamic: tuple[PersistentVolumeClaim, ...] = ()


def plan_volumes(claims: Claims, node: str, nodes: NodeTable) -> VolumePlan | str:
    """Return the plan for *claims* on *node*, or why there is none.

    It is computed at Reserve and again at PreBind, from the cluster as it is known then: plugins
    have no state. Upstream keeps the filter's result in CycleState.
    """
    row = nodes.row_of(node)
    if row is None:
        return f'node "{node}" not found'
    alone = nodes.alone(row)
    found = find_pod_volumes(claims, alone)
    if found.failures:
        return found.failures[0].text
    if why := ", ".join(reason for mask, reason in found.reasons if mask[0]):
        return why
    assert len(found.matches) == len(found.provisioned), "a match without its other claims"
    number = int(found.numbers[0])
    return VolumePlan(found.matches[number].found, found.provisioned[number])


def patch_of_volume(volume: PersistentVolume, known: PersistentVolume) -> Patch:
    """Return the patch that writes a claim into *volume*.

    The resource version of the *known* volume makes it fail if the volume changed meanwhile: the
    volume controller or another scheduler may have reserved it.
    """
    annotations = {BOUND_BY_CONTROLLER: volume.metadata.annotations.get(BOUND_BY_CONTROLLER)}
    return Patch(
        f"/api/v1/persistentvolumes/{volume.name}",
        {
            "metadata": {
                "resourceVersion": known.metadata.resource_version,
                "annotations": {key: text for key, text in annotations.items() if text},
            },
            "spec": {"claimRef": msgspec.to_builtins(volume.spec.claim_ref)},
        },
    )


def patch_of_claim(claim: PersistentVolumeClaim, node: str) -> Patch:
    """Return the patch that writes *node* into *claim*; it fails if the claim changed meanwhile."""
    metadata = claim.metadata
    return Patch(
        f"/api/v1/namespaces/{metadata.namespace}/persistentvolumeclaims/{metadata.name}",
        {
            "metadata": {
                "resourceVersion": metadata.resource_version,
                "annotations": {SELECTED_NODE: node},
            }
        },
    )
