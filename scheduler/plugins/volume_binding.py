"""A pod goes where its volumes can be reached, or can be made; its claims are bound on the way.

Claims of a class that waits for its first consumer are bound once the node is chosen: to a volume
that exists (we write the claim into the volume), or to one that is made for the node (we write the
node into the claim). Both are assumed at once, written before the pod is bound, and waited for
until the volume controller has made them true. What was written stays when the pod is not bound
after all, as upstream leaves it: a controller may be at work on it already.

Source: ``plugins/volumebinding/`` (volume_binding.go, binder.go). Scores by storage capacity are
alpha there, and off.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from scheduler.config.plugin_args import VolumeBindingArgs
from scheduler.errors import MalformedObject
from scheduler.framework.cluster_event import NODE, Action, Change, ClusterEvent, Requeue
from scheduler.framework.effects import Assume, Effect, Patch, WaitUntil
from scheduler.framework.rejection import (
    Failure,
    NodeMask,
    PreFilterAnswer,
    Refused,
    Rejection,
    Skip,
)
from scheduler.model import quantity
from scheduler.model.fact import Resource
from scheduler.model.pod import Pod
from scheduler.model.selectors import compile_selector
from scheduler.model.storage import (
    BOUND_BY_CONTROLLER,
    LOST,
    SELECTED_NODE,
    WAIT_FOR_FIRST_CONSUMER,
    CsiDriver,
    CsiNode,
    CsiStorageCapacity,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
)
from scheduler.snapshot.node_table import NodeTable
from scheduler.snapshot.objects import ClusterObjects
from scheduler.snapshot.volume_matching import Match, match_volumes
from scheduler.snapshot.volume_reach import allowed, reach_of, selected
from scheduler.snapshot.volume_use import claim_not_found, mounts, not_owned, owned_by

_OUT_OF_REACH: Final = "node(s) didn't match PersistentVolume's node affinity"
_NO_VOLUME: Final = "node(s) didn't find available persistent volumes to bind"
_NO_SPACE: Final = "node(s) did not have enough free storage"
_VOLUME_GONE: Final = "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)"
_NO_PROVISIONER: Final = frozenset({"", "kubernetes.io/no-provisioner"})


# What could help.


def _class_changed(_: Pod, change: Change) -> bool:
    if not isinstance(change.old, StorageClass) or not isinstance(change.new, StorageClass):
        return True
    return change.old.allowed_topologies != change.new.allowed_topologies


def _claim_changed(pod: Pod, change: Change) -> bool:
    return change.new is None or mounts(pod, change.new)


def _migration_changed(_: Pod, change: Change) -> bool:
    if not isinstance(change.old, CsiNode) or not isinstance(change.new, CsiNode):
        return True
    return change.old.migrated != change.new.migrated


def _capacity_ignored(pod: Pod, change: Change) -> bool:
    """Tell whether a driver of which *pod* has an inline volume no longer minds its capacity."""
    if not isinstance(change.old, CsiDriver) or not isinstance(change.new, CsiDriver):
        return True
    name = change.new.metadata.name
    return (
        any(volume.csi is not None and volume.csi.driver == name for volume in pod.storage)
        and bool(change.old.spec.storage_capacity)
        and not change.new.spec.storage_capacity
    )


def _capacity_grew(_: Pod, change: Change) -> bool:
    old, new = change.old, change.new
    if not isinstance(old, CsiStorageCapacity) or not isinstance(new, CsiStorageCapacity):
        return True
    return new.limit is not None and (old.limit is None or new.limit > old.limit)


# What the claims of a pod are.


@dataclass(frozen=True, slots=True)
class _Claims:
    """A pod's claims by what is to be done about them.

    Args:
        bound: There is a volume.
        delayed: There will be one when the pod has a node.
        immediate: There should be one already.
    """

    bound: tuple[PersistentVolumeClaim, ...]
    delayed: tuple[PersistentVolumeClaim, ...]
    immediate: tuple[PersistentVolumeClaim, ...]


def _claims_of(pod: Pod, objects: ClusterObjects) -> _Claims | Failure | None:
    """Sort *pod*'s claims; None where one is not there any more."""
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
    return _Claims(tuple(bound), tuple(delayed), tuple(immediate))


def _why_unusable(pod: Pod, objects: ClusterObjects) -> str:
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


# Where they can be bound.


@dataclass(slots=True, eq=False)
class _Judgement:
    """What stands against each row, and what would be done on it.

    Args:
        out_of_reach: Rows from which a volume cannot be reached.
        no_volume: Rows on which a claim cannot get a volume.
        no_space: Rows for which there is too little storage to make one.
        volume_gone: Rows where a claim is bound to a volume that does not exist: all, or none.
        numbers: The number of each row's match.
        matches: Claims and the volumes found for them.
        provisioned: Claims, found nothing for, whose volumes would have to be made, by match.
    """

    out_of_reach: NodeMask
    no_volume: NodeMask
    no_space: NodeMask
    volume_gone: NodeMask
    numbers: NDArray[np.intp]
    matches: Sequence[Match] = (Match(),)
    provisioned: Sequence[tuple[PersistentVolumeClaim, ...]] = ((),)
    failures: list[Failure] = field(default_factory=list)

    @classmethod
    def of(cls, rows: int) -> "_Judgement":
        """Return one in which nothing stands against any of *rows* rows."""
        masks = np.zeros((4, rows), dtype=np.bool_)
        return cls(masks[0], masks[1], masks[2], masks[3], np.zeros(rows, dtype=np.intp))

    @property
    def reasons(self) -> tuple[tuple[NodeMask, str], ...]:
        """What stands against which rows, in upstream's order."""
        return (
            (self.out_of_reach, _OUT_OF_REACH),
            (self.no_volume, _NO_VOLUME),
            (self.no_space, _NO_SPACE),
            (self.volume_gone, _VOLUME_GONE),
        )

    def fail(self, rows: NodeMask, why: str) -> None:
        """Note that *rows* cannot be judged; nothing else is said about them then."""
        if rows.any():
            self.failures.append(Failure(rows, why))
            for mask, _ in self.reasons:
                np.logical_and(mask, ~rows, out=mask)


def _judge(claims: _Claims, nodes: NodeTable) -> _Judgement:
    found = _Judgement.of(len(nodes))
    _judge_bound(claims.bound, nodes, found)
    if claims.delayed:
        _judge_delayed(claims.delayed, nodes, found)
    return found


def _judge_bound(
    claims: Sequence[PersistentVolumeClaim], nodes: NodeTable, found: _Judgement
) -> None:
    """Find the rows from which a volume cannot be reached; a row's first problem is its only."""
    for claim in claims:
        volume = nodes.objects.volume(claim.spec.volume_name)
        untroubled = ~(found.out_of_reach | found.volume_gone)
        if volume is None:
            found.volume_gone |= untroubled
        else:
            found.out_of_reach |= untroubled & ~reach_of(volume, nodes)


def _judge_delayed(
    claims: Sequence[PersistentVolumeClaim], nodes: NodeTable, found: _Judgement
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


# What is done about them.


@dataclass(frozen=True, slots=True)
class _Plan:
    """What is to be written so that the claims of a pod get their volumes on one node.

    Args:
        static: Claims, and volumes that exist.
        dynamic: Claims for which volumes are to be made.
    """

    static: tuple[tuple[PersistentVolumeClaim, PersistentVolume], ...] = ()
    dynamic: tuple[PersistentVolumeClaim, ...] = ()


def _plan(claims: _Claims, node: str, nodes: NodeTable) -> _Plan | str:
    """Return what is to be done about *claims* on *node*, or why nothing can be."""
    row = nodes.row_of(node)
    if row is None:
        return f'node "{node}" not found'
    alone = nodes.alone(row)
    found = _judge(claims, alone)
    if found.failures:
        return found.failures[0].text
    if why := ", ".join(reason for mask, reason in found.reasons if mask[0]):
        return why
    number = int(found.numbers[0])
    return _Plan(found.matches[number].found, found.provisioned[number])


def _patch_of_volume(volume: PersistentVolume, told: PersistentVolume) -> Patch:
    """Return what writes the claim into a volume, unless the volume changed meanwhile."""
    annotations = {BOUND_BY_CONTROLLER: volume.metadata.annotations.get(BOUND_BY_CONTROLLER)}
    return Patch(
        f"/api/v1/persistentvolumes/{volume.name}",
        {
            "metadata": {
                "resourceVersion": told.metadata.resource_version,
                "annotations": {key: text for key, text in annotations.items() if text},
            },
            "spec": {"claimRef": msgspec.to_builtins(volume.spec.claim_ref)},
        },
    )


def _patch_of_claim(claim: PersistentVolumeClaim, node: str) -> Patch:
    """Return what writes the node into a claim, unless the claim changed meanwhile."""
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


@dataclass(frozen=True, slots=True)
class _Expected:
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


def _all_bound(expected: Sequence[_Expected], node: str, nodes: NodeTable) -> bool | str:
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


def _is_bound(each: _Expected, node: str, alone: NodeTable) -> bool | str:
    if each.volume and (answer := _is_meant(each, node, alone)) is not True:
        return answer
    claim = alone.objects.told_claim(each.namespace, each.name)
    if claim is None:
        kind = "check provisioning pvc" if each.node else "check binding"
        return f"failed to {kind}: {claim_not_found(each.name)}"
    if each.node and (answer := _is_made(each, claim, node, alone)) is not True:
        return answer
    return claim.fully_bound


def _is_meant(each: _Expected, node: str, alone: NodeTable) -> bool | str:
    """Tell whether a volume that exists is meant for the claim, or why it no longer is."""
    volume = alone.objects.told_volume(each.volume)
    if volume is None:
        return f'failed to check binding: persistentvolume "{each.volume}" not found'
    if volume.metadata.resource_version == each.version:
        return False
    if not reach_of(volume, alone)[0]:
        return _mismatch(each.volume, node)
    if volume.spec.claim_ref is None or not volume.spec.claim_ref.uid:
        return f'ClaimRef got reset for pv "{each.volume}"'
    return True


def _is_made(
    each: _Expected, claim: PersistentVolumeClaim, node: str, alone: NodeTable
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
        volume = alone.objects.told_volume(claim.spec.volume_name)
        if volume is None:
            return False
        if not reach_of(volume, alone)[0]:
            return _mismatch(volume.name, node)
    return True


def _mismatch(volume: str, node: str) -> str:
    why = "no matching NodeSelectorTerms"
    return f'pv "{volume}" node affinity doesn\'t match node "{node}": {why}'


class VolumeBinding:
    """Rejects nodes that the pod's volumes cannot be reached from, and binds its claims.

    Args:
        args: How long to wait.
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
        Requeue(ClusterEvent(Resource.STORAGE_CLASS, Action.ADD | Action.UPDATE), _class_changed),
        Requeue(
            ClusterEvent(Resource.PERSISTENT_VOLUME_CLAIM, Action.ADD | Action.UPDATE),
            _claim_changed,
        ),
        Requeue(ClusterEvent(Resource.PERSISTENT_VOLUME, Action.ADD | Action.UPDATE)),
        Requeue(ClusterEvent(NODE, Action.ADD | Action.UPDATE_NODE_LABEL)),
        Requeue(ClusterEvent(Resource.CSI_NODE, Action.ADD | Action.UPDATE), _migration_changed),
        Requeue(ClusterEvent(Resource.CSI_DRIVER, Action.UPDATE), _capacity_ignored),
        Requeue(
            ClusterEvent(Resource.CSI_STORAGE_CAPACITY, Action.ADD | Action.UPDATE), _capacity_grew
        ),
    )

    def __init__(self, args: VolumeBindingArgs = VolumeBindingArgs()) -> None:  # noqa: B008 - frozen
        self._timeout_seconds = float(args.bind_timeout_seconds)

    def pre_filter(self, pod: Pod, nodes: NodeTable) -> PreFilterAnswer:
        """Skip pods without claims; refuse claims that no node can do anything about."""
        if not pod.claims:
            return Skip()
        if why := _why_unusable(pod, nodes.objects):
            return Refused(why, resolvable=False)
        claims = _claims_of(pod, nodes.objects)
        assert claims is not None, f"{pod.key}: a claim was there and is not"
        if isinstance(claims, Failure):
            return Failure(np.ones(len(nodes), dtype=np.bool_), claims.text)
        if claims.immediate:
            return Refused("pod has unbound immediate PersistentVolumeClaims", resolvable=False)
        return None

    def filter(self, pod: Pod, nodes: NodeTable) -> Iterator[Rejection | Failure]:
        """Reject nodes that bound volumes cannot be reached from, or others cannot be had on."""
        claims = _claims_of(pod, nodes.objects) if pod.claims else None
        if claims is None or isinstance(claims, Failure):
            return
        found = _judge(claims, nodes)
        for mask, reason in found.reasons:
            if mask.any():
                yield Rejection(mask, reason, resolvable=False)
        yield from found.failures

    def reserve(self, pod: Pod, node: str, nodes: NodeTable) -> Sequence[Assume] | Failure:
        """Assume that volumes and claims say already what is about to be written."""
        claims = _claims_of(pod, nodes.objects) if pod.claims else None
        if claims is None:
            return ()
        plan = claims.text if isinstance(claims, Failure) else _plan(claims, node, nodes)
        if isinstance(plan, str):
            return Failure(np.ones(len(nodes), dtype=np.bool_), plan)
        volumes = ((volume, volume.bound_to(claim)) for claim, volume in plan.static)
        wanted = (claim for claim in plan.dynamic if claim.selected_node != node)
        return (
            *(Assume(Resource.PERSISTENT_VOLUME, new) for old, new in volumes if new is not old),
            *(Assume(Resource.PERSISTENT_VOLUME_CLAIM, claim.selecting(node)) for claim in wanted),
        )

    def unreserve(self, pod: Pod, node: str) -> None:
        """Do nothing: what was assumed is taken back by whoever assumed it."""

    def pre_bind(self, pod: Pod, node: str, nodes: NodeTable) -> Iterator[Effect]:
        """Write what was assumed, and wait until all claims are bound."""
        if not pod.claims or all(
            claim is not None and claim.fully_bound
            for claim in (nodes.objects.claim(each.namespace, each.name) for each in pod.claims)
        ):
            return
        claims = _claims_of(pod, nodes.objects)
        if claims is None:
            yield self._hopeless(_why_unusable(pod, nodes.objects))
        elif isinstance(claims, Failure):
            yield self._hopeless(claims.text)
        else:
            plan = _plan(claims, node, nodes)
            if isinstance(plan, str):
                yield self._hopeless(plan)
            else:
                yield from self._carry_out(plan, claims, node, nodes.objects)

    def _carry_out(
        self, plan: _Plan, claims: _Claims, node: str, objects: ClusterObjects
    ) -> Iterator[Effect]:
        expected = [_Expected(c.metadata.namespace, c.metadata.name) for c in claims.immediate]
        for claim, volume in plan.static:
            told = objects.told_volume(volume.name)
            bound = volume.bound_to(claim)
            version = ""
            if told is not None and told.bound_to(claim) is not told:
                version = told.metadata.resource_version
                yield _patch_of_volume(bound, told)
            place = claim.metadata.namespace, claim.metadata.name
            expected.append(_Expected(*place, version, volume=volume.name))
        for claim in plan.dynamic:
            place = claim.metadata.namespace, claim.metadata.name
            known = objects.told_claim(*place)
            version = ""
            if known is not None and known.selected_node != node:
                version = known.metadata.resource_version
                yield _patch_of_claim(known, node)
            expected.append(_Expected(*place, version, node=node))
        yield WaitUntil(
            partial(_all_bound, tuple(expected), node), self._timeout_seconds, "binding volumes"
        )

    def _hopeless(self, why: str) -> WaitUntil:
        """Return a wait that is over as soon as it begins, for *why* it is in vain."""
        return WaitUntil(
            lambda _: f"binding volumes: {why}", self._timeout_seconds, "binding volumes"
        )
