"""Sorts the claims of a pod by binding mode, and finds those that cannot be used.

Source: ``plugins/volumebinding/binder.go`` (GetPodVolumeClaims, checkVolumeProvisions) and
volume_binding.go (podHasPVCs).
"""

from dataclasses import dataclass

import numpy as np

from scheduler.framework.rejection import Failure
from scheduler.model.pod import Pod
from scheduler.model.storage import LOST, WAIT_FOR_FIRST_CONSUMER, PersistentVolumeClaim
from scheduler.snapshot.objects import ClusterObjects
from scheduler.snapshot.volume_use import claim_not_found, not_owned, owned_by


@dataclass(frozen=True, slots=True)
class Claims:
    """A pod's claims by whether and when they are bound.

    Args:
        bound: Claims with a volume.
        delayed: Claims that get a volume once the pod has a node (WaitForFirstConsumer).
        immediate: Claims that the volume controller should have bound already.
    """

    bound: tuple[PersistentVolumeClaim, ...]
    delayed: tuple[PersistentVolumeClaim, ...]
    immediate: tuple[PersistentVolumeClaim, ...]


def claims_of(pod: Pod, objects: ClusterObjects) -> Claims | Failure | None:
    """Sort *pod*'s claims; None if one does not exist any more."""
    bound, delayed, immediate = [], [], []
    for wanted in pod.claims:
        claim = objects.claim(wanted.namespace, wanted.name)
        if claim is None:
            return None
        storage_class = objects.storage_class(claim.class_name) if claim.class_name else None
        if claim.fully_bound:
            bound.append(claim)
        elif storage_class is not None and storage_class.volume_binding_mode is None:
            why = f'VolumeBindingMode not set for StorageClass "{claim.class_name}"'
            return Failure(np.zeros(0, dtype=np.bool_), why)
        elif (
            storage_class is not None
            and storage_class.volume_binding_mode == WAIT_FOR_FIRST_CONSUMER
            and not claim.spec.volume_name
        ):
            delayed.append(claim)
        else:
            immediate.append(claim)
    return Claims(tuple(bound), tuple(delayed), tuple(immediate))


def why_unusable(pod: Pod, objects: ClusterObjects) -> str:
    """Return why a claim of *pod*'s cannot be used at all; empty where all can."""
    for wanted in pod.claims:
        claim = objects.claim(wanted.namespace, wanted.name)
        if claim is None:
            if wanted.generated:
                return (
                    "waiting for ephemeral volume controller to create the"
                    f' persistentvolumeclaim "{wanted.name}"'
                )
            return claim_not_found(wanted.name)
        if claim.status.phase == LOST:
            return (
                f'persistentvolumeclaim "{wanted.name}" bound to non-existent persistentvolume'
                f' "{claim.spec.volume_name}"'
            )
        if claim.metadata.deletion_timestamp is not None:
            return f'persistentvolumeclaim "{wanted.name}" is being deleted'
        if wanted.generated and not owned_by(claim, pod):
            return not_owned(claim, pod)
    return ""
