"""Patches of a pod's status: why it is not scheduled, its nominated node, its coming eviction.

The patch is a strategic merge of ``status`` alone, in which conditions merge by their type. It
names the pod's UID as well, which kube-scheduler's does not: a pod that was deleted and created
again under its name must not inherit the condition of its predecessor.
"""

import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final, Literal

import msgspec
from msgspec import UNSET, UnsetType

from scheduler.errors import Abandoned, ApiError, Conflict, NotFound, Rejected, Unreachable
from scheduler.framework.decision import Clear, Keep, NominationOrder, SetTo
from scheduler.kube.requests import STRATEGIC_MERGE_PATCH, Requests
from scheduler.kube.retry import Backoff, RetrySettings, retry
from scheduler.model.meta import Condition, Struct
from scheduler.model.pod import DISRUPTION_TARGET, PREEMPTION_BY_SCHEDULER, Pod

POD_SCHEDULED: Final = "PodScheduled"


class _ScheduledCondition(Struct, frozen=True):
    reason: str
    message: str
    last_transition_time: str
    observed_generation: int | UnsetType = UNSET
    last_probe_time: None = None
    status: Literal["False"] = "False"
    type: Literal["PodScheduled"] = "PodScheduled"


class _TargetCondition(Struct, frozen=True):
    message: str
    last_transition_time: str
    observed_generation: int | UnsetType = UNSET
    last_probe_time: None = None
    reason: str = PREEMPTION_BY_SCHEDULER
    status: str = "True"
    type: str = DISRUPTION_TARGET


class _Status(Struct, frozen=True):
    conditions: tuple[_ScheduledCondition | _TargetCondition, ...] | UnsetType = UNSET
    nominated_node_name: str | UnsetType | None = UNSET


class _Identity(Struct, frozen=True):
    uid: str


class _Patch(Struct, frozen=True):
    metadata: _Identity
    status: _Status


# A patch that names another UID is invalid (422): the field is immutable. Where the pod vanishes in
# the meantime the server has nothing to compare with and says 409. A nomination of a pod that was
# bound in the meantime, by us or by another scheduler, is invalid too (422).
_OVERTAKEN: Final = re.compile(
    r"metadata\.uid: Invalid value|uid mismatch|UID in precondition"
    r"|may not be set on pods that are already bound"
)
_encode = msgspec.json.Encoder().encode


def condition_patch(
    pod: Pod, *, reason: str, message: str, nominated_node: NominationOrder, now: str
) -> bytes | None:
    """Return the patch that says why *pod* is not scheduled; None where its status says so already.

    *now* is the wall clock as RFC 3339; it becomes the time of the transition if the condition's
    status changes. A new ``observedGeneration`` alone is no reason to write (nor is it to
    kube-scheduler).
    """
    nomination = nomination_change(pod, nominated_node)
    existing = pod.condition(POD_SCHEDULED)
    if nomination is UNSET and _says(existing, reason, message):
        return None
    condition = _ScheduledCondition(
        reason=reason,
        message=message,
        last_transition_time=_transition_time(existing, now),
        observed_generation=pod.metadata.generation or UNSET,
    )
    return _patch(pod, _Status(conditions=(condition,), nominated_node_name=nomination))


def nomination_patch(pod: Pod, order: NominationOrder) -> bytes | None:
    """Return the patch that carries out *order* and nothing else, or None where nothing changes."""
    nomination = nomination_change(pod, order)
    return None if nomination is UNSET else _patch(pod, _Status(nominated_node_name=nomination))


def withdrawal_patch(pod: Pod) -> bytes:
    """Return the patch that clears the nomination of *pod*, even one that we have not seen yet."""
    return _patch(pod, _Status(nominated_node_name=None))


def target_patch(victim: Pod, scheduler_name: str, now: str) -> bytes | None:
    """Return the patch that makes *victim* a DisruptionTarget; None where it is one already."""
    message = f"{scheduler_name}: preempting to accommodate a higher priority pod"
    existing = victim.condition(DISRUPTION_TARGET)
    since = now
    if existing is not None and existing.status == "True":
        if (existing.reason, existing.message) == (PREEMPTION_BY_SCHEDULER, message):
            return None
        since = existing.last_transition_time or now
    condition = _TargetCondition(
        message=message,
        last_transition_time=since,
        observed_generation=victim.metadata.generation or UNSET,
    )
    return _patch(victim, _Status(conditions=(condition,)))


def spared_patch(victim: Pod, now: str) -> bytes:
    """Return the patch that reverts `target_patch`: *victim* may stay."""
    before = victim.condition(DISRUPTION_TARGET) or Condition(
        status="False", reason=PREEMPTION_BY_SCHEDULER, message="its room is not needed any more"
    )
    condition = _TargetCondition(
        message=before.message,
        last_transition_time=before.last_transition_time or now,
        observed_generation=victim.metadata.generation or UNSET,
        reason=before.reason,
        status=before.status,
    )
    return _patch(victim, _Status(conditions=(condition,)))


def nomination_change(pod: Pod, order: NominationOrder) -> str | UnsetType | None:
    """Return the new value of ``nominatedNodeName``: None to remove it, UNSET to leave it."""
    match order:
        case Clear() if pod.nominated_node:
            return None
        case SetTo(node) if node != pod.nominated_node:
            return node
        case Keep() | Clear() | SetTo():
            return UNSET


def _says(existing: Condition | None, reason: str, message: str) -> bool:
    if existing is None:
        return False
    return (existing.status, existing.reason, existing.message) == ("False", reason, message)


def _transition_time(existing: Condition | None, now: str) -> str:
    if existing is None or existing.status != "False":
        return now
    return existing.last_transition_time or now


def _patch(pod: Pod, status: _Status) -> bytes:
    return _encode(_Patch(metadata=_Identity(uid=pod.uid), status=status))


@dataclass(frozen=True, slots=True)
class Patched:
    """The patch was written."""


@dataclass(frozen=True, slots=True)
class Obsolete:
    """The pod is gone, replaced or bound: nothing is left to write."""

    why: str


@dataclass(frozen=True, slots=True)
class NotPatched:
    """At the stage of writing status: the patch failed; the pod's next attempt writes another."""

    message: str


PatchOutcome = Patched | Obsolete | NotPatched


PATCH_RETRIES: Final = RetrySettings(
    Backoff(seconds_initial=0.01, factor=5.0, spread=(1.0, 1.1)),
    tries_maximum=4,
    throttled_seconds_maximum=10.0,
)
"""How often a patch is tried, and the pauses in between (``pkg/scheduler/util/utils.go``)."""


def _always() -> bool:
    return True


async def patch_status(
    requests: Requests,
    pod: Pod,
    patch: bytes,
    *,
    settings: RetrySettings = PATCH_RETRIES,
    wanted: Callable[[], bool] = _always,
) -> PatchOutcome:
    """Write *patch* to the status of *pod*; a failure is a value."""
    path = f"/api/v1/namespaces/{pod.namespace}/pods/{pod.name}/status"
    return await persist(
        lambda: requests.patch(path, patch, STRATEGIC_MERGE_PATCH), settings, wanted
    )


async def persist(
    request: Callable[[], Awaitable[object]],
    settings: RetrySettings,
    wanted: Callable[[], bool] = _always,
) -> PatchOutcome:
    """Make *request* until it is answered for good, or not *wanted* any more; a failure is a value.

    It is repeated after a lost answer too, so it must be idempotent. A 429 is waited out, within
    limits, and is no failed try.
    """
    unwanted = Obsolete("it is not wanted any more")
    if not wanted():
        return unwanted
    try:
        await retry(
            request, settings, repeats=lambda error: judge_failure(error) is None, wanted=wanted
        )
    except Abandoned:
        return unwanted
    except ApiError as error:
        return judge_failure(error) or NotPatched(str(error))
    return Patched()


def judge_failure(error: ApiError) -> Obsolete | NotPatched | None:
    """Return what *error* means for the patch; None where another try may succeed."""
    match error:
        case NotFound():
            return Obsolete(str(error))
        case Conflict() | Rejected() if _OVERTAKEN.search(str(error)):
            return Obsolete(str(error))
        case Conflict() | Unreachable():
            return None
        case _:
            return NotPatched(str(error))
