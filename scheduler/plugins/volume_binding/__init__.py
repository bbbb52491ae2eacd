"""Nodes must be able to access a pod's volumes; unbound claims are bound before the pod is.

Claims of a class with WaitForFirstConsumer are bound once the node is chosen: to an existing volume
(static binding: the claim is written into the volume), or to one that is provisioned for the node
(dynamic provisioning: the node is written into the claim). Both are assumed at Reserve, written at
PreBind, and awaited until the volume controller has completed them. What was written stays if the
pod is not bound after all, as upstream leaves it: a controller may have begun to act on it.

Source: ``plugins/volumebinding/`` (volume_binding.go, binder.go). Scores by storage capacity are
alpha there, and off.
"""

from collections.abc import Iterator, Sequence
from functools import partial

import numpy as np

from scheduler.config.plugin_args import VolumeBindingArgs
from scheduler.framework.cluster_event import NODE, Action, ClusterEvent, Requeue
from scheduler.framework.effects import Assume, Effect, WaitUntil
from scheduler.framework.rejection import Failure, PreFilterAnswer, Refused, Rejection, Skip
from scheduler.model.fact import Resource
from scheduler.model.pod import Pod
from scheduler.plugins.volume_binding.claims import Claims, claims_of, why_unusable
from scheduler.plugins.volume_binding.expected import ExpectedBinding, all_bound
from scheduler.plugins.volume_binding.hints import (
    capacity_grew,
    capacity_ignored,
    claim_changed,
    class_changed,
    migration_changed,
)
from scheduler.plugins.volume_binding.pod_volumes import find_pod_volumes
from scheduler.plugins.volume_binding.volume_plan import (
    VolumePlan,
    patch_of_claim,
    patch_of_volume,
    plan_volumes,
)
from scheduler.snapshot.node_table import NodeTable
from scheduler.snapshot.objects import ClusterObjects


class VolumeBinding:
    """Rejects nodes that cannot access the pod's volumes, and binds the pod's claims.

    Args:
        args: How long to wait for the volume controller.
    """

    name = "VolumeBinding"
    each_world = True
    needs = frozenset(
        {
            Resource.PERSISTENT_VOLUME_CLAIM,
            Resource.PERSISTENT_VOLUME,
            Resource.STORAGE_CLASS,
            Resource.CSI_NODE,
            Resource.CSI_DRIVER,
            Resource.CSI_STORAGE_CAPACITY,
        }
    )
    patches = frozenset({Resource.PERSISTENT_VOLUME_CLAIM, Resource.PERSISTENT_VOLUME})
    requeue_on = (
        Requeue(ClusterEvent(Resource.STORAGE_CLASS, Action.ADD | Action.UPDATE), class_changed),
        Requeue(
            ClusterEvent(Resource.PERSISTENT_VOLUME_CLAIM, Action.ADD | Action.UPDATE),
            claim_changed,
        ),
        Requeue(ClusterEvent(Resource.PERSISTENT_VOLUME, Action.ADD | Action.UPDATE)),
        Requeue(ClusterEvent(NODE, Action.ADD | Action.UPDATE_NODE_LABEL)),
        Requeue(ClusterEvent(Resource.CSI_NODE, Action.ADD | Action.UPDATE), migration_changed),
        Requeue(ClusterEvent(Resource.CSI_DRIVER, Action.UPDATE), capacity_ignored),
        Requeue(
            ClusterEvent(Resource.CSI_STORAGE_CAPACITY, Action.ADD | Action.UPDATE), capacity_grew
        ),
    )

    def __init__(self, args: VolumeBindingArgs = VolumeBindingArgs()) -> None:  # noqa: B008 - frozen
        self._timeout_seconds = float(args.bind_timeout_seconds)

    def pre_filter(self, pod: Pod, nodes: NodeTable) -> PreFilterAnswer:
        """Skip pods without claims; reject pods whose claims no node can satisfy."""
        if not pod.claims:
            return Skip()
        if why := why_unusable(pod, nodes.objects):
            return Refused(why, resolvable=False)
        claims = claims_of(pod, nodes.objects)
        assert claims is not None, f"{pod.key}: a claim was found, and then was not"
        if isinstance(claims, Failure):
            return Failure(np.ones(len(nodes), dtype=np.bool_), claims.text)
        if claims.immediate:
            return Refused("pod has unbound immediate PersistentVolumeClaims", resolvable=False)
        return None

    def filter(self, pod: Pod, nodes: NodeTable) -> Iterator[Rejection | Failure]:
        """Reject nodes that cannot access a bound volume, or on which a claim gets no volume."""
        claims = claims_of(pod, nodes.objects) if pod.claims else None
        if claims is None or isinstance(claims, Failure):
            return
        found = find_pod_volumes(claims, nodes)
        for mask, reason in found.reasons:
            if mask.any():
                yield Rejection(mask, reason, resolvable=False)
        yield from found.failures

    def reserve(self, pod: Pod, node: str, nodes: NodeTable) -> Sequence[Assume] | Failure:
        """Assume the volumes and claims as `pre_bind` will write them."""
        claims = claims_of(pod, nodes.objects) if pod.claims else None
        if claims is None:
            return ()
        plan = claims.text if isinstance(claims, Failure) else plan_volumes(claims, node, nodes)
        if isinstance(plan, str):
            return Failure(np.ones(len(nodes), dtype=np.bool_), plan)
        volumes = ((volume, volume.bound_to(claim)) for claim, volume in plan.static)
        wanted = (claim for claim in plan.dynamic if claim.selected_node != node)
        return (
            *(Assume(Resource.PERSISTENT_VOLUME, new) for old, new in volumes if new is not old),
            *(Assume(Resource.PERSISTENT_VOLUME_CLAIM, claim.selecting(node)) for claim in wanted),
        )

    def unreserve(self, pod: Pod, node: str) -> None:
        """Do nothing: the binding cycle restores what `reserve` assumed."""

    def pre_bind(self, pod: Pod, node: str, nodes: NodeTable) -> Iterator[Effect]:
        """Write what `reserve` assumed, and wait until all claims are bound."""
        if not pod.claims or all(
            claim is not None and claim.fully_bound
            for claim in (nodes.objects.claim(each.namespace, each.name) for each in pod.claims)
        ):
            return
        claims = claims_of(pod, nodes.objects)
        if claims is None:
            yield self._failing(why_unusable(pod, nodes.objects))
        elif isinstance(claims, Failure):
            yield self._failing(claims.text)
        else:
            plan = plan_volumes(claims, node, nodes)
            if isinstance(plan, str):
                yield self._failing(plan)
            else:
                yield from self._carry_out(plan, claims, node, nodes.objects)

    def _carry_out(
        self, plan: VolumePlan, claims: Claims, node: str, objects: ClusterObjects
    ) -> Iterator[Effect]:
        expected = [
            ExpectedBinding(c.metadata.namespace, c.metadata.name) for c in claims.immediate
        ]
        for claim, volume in plan.static:
            # Not the assumed version: it contains already what has still to be written.
            known_volume = objects.api_volume(volume.name)
            bound = volume.bound_to(claim)
            version = ""
            if known_volume is not None and known_volume.bound_to(claim) is not known_volume:
                version = known_volume.metadata.resource_version
                yield patch_of_volume(bound, known_volume)
            key = claim.metadata.namespace, claim.metadata.name
            expected.append(ExpectedBinding(*key, version, volume=volume.name))
        for claim in plan.dynamic:
            key = claim.metadata.namespace, claim.metadata.name
            known_claim = objects.api_claim(*key)
            version = ""
            if known_claim is not None and known_claim.selected_node != node:
                version = known_claim.metadata.resource_version
                yield patch_of_claim(known_claim, node)
            expected.append(ExpectedBinding(*key, version, node=node))
        yield WaitUntil(
            partial(all_bound, tuple(expected), node), self._timeout_seconds, "binding volumes"
        )

    def _failing(self, why: str) -> WaitUntil:
        """Return a wait that fails at once, because of *why*."""
        return WaitUntil(
            lambda _: f"binding volumes: {why}", self._timeout_seconds, "binding volumes"
        )
