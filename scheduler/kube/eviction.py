"""Evicting a pod: its status says why, and then it is deleted with its own grace period.

The deletion names the pod's UID, which kube-scheduler's does not: a pod that was deleted and
created again under the victim's name must not be deleted instead. Both requests may be repeated
without harm, so a lost answer leaves nothing in doubt. Where the capacity turns out not to be
needed between the two requests, the condition is reverted. (After a failed deletion the disruption
controller reverts the condition in two minutes.)
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Literal

import msgspec

from scheduler.kube.pod_status import (
    PATCH_RETRIES,
    NotPatched,
    Obsolete,
    Patched,
    PatchOutcome,
    patch_status,
    persist,
    spared_patch,
    target_patch,
)
from scheduler.kube.requests import Requests
from scheduler.kube.retry import RetrySettings
from scheduler.model.meta import Struct
from scheduler.model.pod import Pod


@dataclass(frozen=True, slots=True)
class Evicted:
    """The pod is being deleted."""


@dataclass(frozen=True, slots=True)
class AlreadyGone:
    """The pod was gone before it could be deleted."""


@dataclass(frozen=True, slots=True)
class Spared:
    """The pod is not deleted: its capacity is not needed any more."""


@dataclass(frozen=True, slots=True)
class NotEvicted:
    """At the stage of eviction: the condition or the deletion failed."""

    message: str


EvictionOutcome = Evicted | AlreadyGone | Spared | NotEvicted


class _Preconditions(Struct, frozen=True):
    uid: str


class _DeleteOptions(Struct, frozen=True):
    preconditions: _Preconditions
    api_version: Literal["v1"] = "v1"
    kind: Literal["DeleteOptions"] = "DeleteOptions"


_encode: Final = msgspec.json.Encoder().encode


async def evict(
    requests: Requests,
    victim: Pod,
    scheduler_name: str,
    now: str,
    *,
    wanted: Callable[[], bool],
    settings: RetrySettings = PATCH_RETRIES,
) -> EvictionOutcome:
    """Mark *victim* as a DisruptionTarget, and delete it.

    Args:
        requests: The API server.
        victim: The pod.
        scheduler_name: The scheduler of the preemptor.
        now: The wall clock as RFC 3339.
        wanted: Whether the eviction is still wanted; called before each request, repeated ones too.
        settings: How often a request is tried.
    """
    patch = target_patch(victim, scheduler_name, now)
    if not wanted():
        return Spared()
    done: PatchOutcome = Patched()
    if patch is not None:
        done = await patch_status(requests, victim, patch, settings=settings, wanted=wanted)
    if isinstance(done, Patched):
        path = f"/api/v1/namespaces/{victim.namespace}/pods/{victim.name}"
        done = await persist(lambda: requests.delete(path, _options(victim)), settings, wanted)
    match done:
        case Patched():
            return Evicted()
        case NotPatched(message):
            return NotEvicted(message)
        case Obsolete() if wanted():
            return AlreadyGone()
    if patch is not None:
        await patch_status(requests, victim, spared_patch(victim, now), settings=settings)
    return Spared()


def _options(victim: Pod) -> bytes:
    return _encode(_DeleteOptions(preconditions=_Preconditions(uid=victim.uid)))
