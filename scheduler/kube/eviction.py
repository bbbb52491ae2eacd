"""Evicting a pod: it is told why, in its status, and then deleted with its own grace period.

The deletion names the pod's UID, which kube-scheduler's does not: a pod that was deleted and
created again under the victim's name must not go in its place. Both requests say the same however
often they are made, so that a lost answer is no reason to wonder.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Literal

import msgspec

from scheduler.kube.pod_status import (
    DEFAULT_PACING,
    Obsolete,
    PatchPacing,
    Unwritten,
    patch_status,
    persist,
    target_patch,
)
from scheduler.kube.requests import Requests
from scheduler.model.meta import Struct
from scheduler.model.pod import Pod


@dataclass(frozen=True, slots=True)
class Evicted:
    """The pod goes."""


@dataclass(frozen=True, slots=True)
class AlreadyGone:
    """The pod was gone before us."""


@dataclass(frozen=True, slots=True)
class Spared:
    """The pod stays: nobody needs its place any more."""


@dataclass(frozen=True, slots=True)
class NotEvicted:
    """The API server could not be brought to it."""

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
    pacing: PatchPacing = DEFAULT_PACING,
) -> EvictionOutcome:
    """Tell *victim* that it has to go, and delete it.

    Args:
        requests: The API server.
        victim: The pod.
        scheduler_name: The scheduler of the pod that it makes room for.
        now: The wall clock as RFC 3339.
        wanted: Asked before each request whether this is still to be done.
        pacing: How often a request is tried.
    """
    patch = target_patch(victim, scheduler_name, now)
    if not wanted():
        return Spared()
    if patch is not None:
        told = await patch_status(requests, victim, patch, pacing=pacing)
        if isinstance(told, Obsolete):
            return AlreadyGone()
        if isinstance(told, Unwritten):
            return NotEvicted(told.message)
    if not wanted():
        return Spared()
    path = f"/api/v1/namespaces/{victim.namespace}/pods/{victim.name}"
    deleted = await persist(lambda: requests.delete(path, _options(victim)), pacing)
    match deleted:
        case Obsolete():
            return AlreadyGone()
        case Unwritten(message):
            return NotEvicted(message)
        case _:
            return Evicted()


def _options(victim: Pod) -> bytes:
    return _encode(_DeleteOptions(preconditions=_Preconditions(uid=victim.uid)))
