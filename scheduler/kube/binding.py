"""Binding: telling the API server which node a pod goes to, and finding out whether it heard.

A binding is posted once and its answer believed. Where the answer is lost (a timeout, a reset, a
5xx) nobody knows whether the binding took effect, so the pod is read back until it says. Only a pod
that was read back unbound is posted again, and that is safe: the body carries the pod's UID, and
the server refuses with 409 to bind a bound pod or another pod of the same name.
"""

import asyncio
import random
import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final, Literal

import msgspec

from scheduler.errors import ApiError, Conflict, NotFound, Throttled, Unreachable
from scheduler.kube.deep_json import decode_deep
from scheduler.kube.requests import Requests
from scheduler.model.meta import Struct
from scheduler.model.pod import Pod


@dataclass(frozen=True, slots=True)
class Bound:
    """The pod is on the node it was meant for."""

    node: str


@dataclass(frozen=True, slots=True)
class Taken:
    """Somebody else decided: forget the pod's place and wait for the watch.

    The pod is bound to *node*, or where that is None it is being deleted, gated or another pod of
    that name; *why* is the server's text.
    """

    node: str | None
    why: str


@dataclass(frozen=True, slots=True)
class Vanished:
    """The pod is gone."""


@dataclass(frozen=True, slots=True)
class Refused:
    """The server will not bind this pod, or could not be brought to; the pod is unbound."""

    message: str


BindOutcome = Bound | Taken | Vanished | Refused


class BindObserver:
    """Hears what a binding met on its way; every method may be left silent."""

    def conflicted(self) -> None:
        """Hear that somebody else decided first."""

    def answer_lost(self, pod: Pod, why: str) -> None:
        """Hear that the binding of *pod* was posted and no answer came."""

    def throttled(self, seconds: float) -> None:
        """Hear that the server asked to come back after *seconds*."""


@dataclass(frozen=True, slots=True)
class BindPacing:
    """How long to wait between requests, and for how long at all.

    Reading back has no limit: an assumption must not end by time. Posting has, in *posts_maximum*
    lost answers and
    *throttled_seconds_maximum* spent waiting because the server said so.
    """

    backoff_seconds_initial: float = 0.1
    backoff_seconds_maximum: float = 10.0
    throttled_seconds_maximum: float = 60.0
    posts_maximum: int = 5
    # The API server gives a request up after 60 s (--request-timeout): a post that was lost is dead
    # by then.
    settle_seconds: float = 60.0
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    rng: random.Random = field(default_factory=random.Random)

    def backoff_seconds(self, attempt: int) -> float:
        """Return the wait after failure number *attempt* in a row: doubled, and jittered."""
        exponential = self.backoff_seconds_initial * 2.0 ** min(attempt, 30)
        return min(exponential, self.backoff_seconds_maximum) * self.rng.uniform(0.5, 1.0)


NO_ANNOTATIONS: Final[Mapping[str, str]] = MappingProxyType({})
DEFAULT_PACING: Final = BindPacing()
UNOBSERVED: Final = BindObserver()


async def bind(
    requests: Requests,
    pod: Pod,
    node: str,
    *,
    annotations: Mapping[str, str] = NO_ANNOTATIONS,
    pacing: BindPacing = DEFAULT_PACING,
    observer: BindObserver = UNOBSERVED,
    objection: Callable[[], str] = lambda: "",
) -> BindOutcome:
    """Bind *pod* to *node*, and return only once it is known what became of it.

    Before it is posted again *objection* is asked: it tells why the pod should not go to the node
    any more, and is empty where it may.

    While the API server cannot be reached this waits; cancel it when a watch has told the pod's
    node meanwhile.
    """
    body = binding_body(pod, node, annotations)
    return await _Binding(requests, pod, node, body, pacing, observer, objection).carry_out()


def binding_body(pod: Pod, node: str, annotations: Mapping[str, str] = NO_ANNOTATIONS) -> bytes:
    """Return the Binding of *pod* to *node* as JSON; its UID lets a re-created pod fail."""
    metadata = _BindingMeta(
        namespace=pod.namespace, name=pod.name, uid=pod.uid, annotations=dict(annotations)
    )
    return _encode(_BindingObject(metadata=metadata, target=_Target(name=node)))


class _BindingMeta(Struct, frozen=True, omit_defaults=True):
    namespace: str
    name: str
    uid: str
    annotations: dict[str, str] = msgspec.field(default_factory=dict)


class _Target(Struct, frozen=True):
    name: str
    kind: Literal["Node"] = "Node"


class _BindingObject(Struct, frozen=True):
    metadata: _BindingMeta
    target: _Target
    api_version: Literal["v1"] = "v1"
    kind: Literal["Binding"] = "Binding"


class _PlacedSpec(Struct, frozen=True):
    node_name: str = ""


class _Identity(Struct, frozen=True):
    uid: str = ""


class _PlacedPod(Struct, frozen=True):
    """A pod as far as reading back needs it."""

    metadata: _Identity = _Identity()
    spec: _PlacedSpec = _PlacedSpec()


@dataclass(frozen=True, slots=True)
class _Unbound:
    """The pod was read back without a node."""


@dataclass(frozen=True, slots=True)
class _Lost:
    """The binding was posted, and whether it took effect is unknown."""

    message: str


_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(_PlacedPod).decode
# The server words its own 409 so, and only after the UID has matched (registry/core/pod/storage).
_ALREADY_ASSIGNED = re.compile(r'is already assigned to node "([^"]+)"')


def judge_conflict(error: Conflict, node: str) -> Bound | Taken:
    """Read a 409: a pod that already is on *node* is where it should be, whoever put it there."""
    said = _ALREADY_ASSIGNED.search(str(error))
    holder = said.group(1) if said else None
    return Bound(node) if holder == node else Taken(holder, str(error))


def judge_read_back(body: bytes, uid: str, node: str) -> Bound | Taken | Vanished | _Unbound:
    """Read the pod as the server holds it: is it ours still, and where is it?"""
    seen = decode_deep(_decode, body)
    if seen.metadata.uid != uid:
        return Vanished()
    holder = seen.spec.node_name
    if not holder:
        return _Unbound()
    return Bound(node) if holder == node else Taken(holder, f"bound to {holder}")


class _Binding:
    """One binding on its way."""

    def __init__(
        self,
        requests: Requests,
        pod: Pod,
        node: str,
        body: bytes,
        pacing: BindPacing,
        observer: BindObserver,
        objection: Callable[[], str],
    ) -> None:
        self.requests = requests
        self.pod = pod
        self.uid = pod.uid
        self.node = node
        self.body = body
        self.pod_path = f"/api/v1/namespaces/{pod.namespace}/pods/{pod.name}"
        self.pacing = pacing
        self.observer = observer
        self.objection = objection
        self.throttled_seconds = 0.0

    async def carry_out(self) -> BindOutcome:
        """Post, and read back whatever an earlier lost post leaves in doubt."""
        answer = await self.post()
        for attempt in range(1, self.pacing.posts_maximum):
            if not isinstance(answer, _Lost):
                break
            found = await self.read_back()
            if not isinstance(found, _Unbound):
                return found
            await self.pacing.sleep(self.pacing.backoff_seconds(attempt))
            answer = await self.post_again()
        return await self.settle(answer) if isinstance(answer, _Lost) else answer

    async def post_again(self) -> BindOutcome | _Lost:
        """Post although an earlier post may still take effect: no refusal is final then."""
        if why := self.objection():
            return await self.settle(_Lost(why))
        answer = await self.post()
        match answer:
            case Taken():
                found = await self.read_back()
                return answer if isinstance(found, _Unbound) else found
            case Refused(message):
                return await self.settle(_Lost(message))
        return answer

    async def settle(self, lost: _Lost) -> BindOutcome:
        """Give up posting: wait until nothing posted can take effect any more, then look."""
        await self.pacing.sleep(self.pacing.settle_seconds)
        found = await self.read_back()
        return Refused(lost.message) if isinstance(found, _Unbound) else found

    async def post(self) -> BindOutcome | _Lost:
        """Post once, and again only after a 429, which says that nothing was done."""
        while True:
            try:
                await self.requests.post(f"{self.pod_path}/binding", self.body)
            except Throttled as error:
                if not await self.wait_as_told(error):
                    return Refused(str(error))
                if why := self.objection():
                    return Refused(why)
            except ApiError as error:
                return self.judge_failure(error)
            else:
                return Bound(self.node)

    def judge_failure(self, error: ApiError) -> BindOutcome | _Lost:
        match error:
            case Unreachable():
                self.observer.answer_lost(self.pod, str(error))
                return _Lost(str(error))
            case Conflict():
                self.observer.conflicted()
                return judge_conflict(error, self.node)
            case NotFound():
                return Vanished()
            case _:
                return Refused(str(error))

    async def wait_as_told(self, error: Throttled) -> bool:
        """Wait for as long as the server asks; False where that would be too long in all."""
        seconds = error.retry_after_seconds
        self.observer.throttled(seconds)
        self.throttled_seconds += seconds
        if self.throttled_seconds > self.pacing.throttled_seconds_maximum:
            return False
        # Everybody who was turned away was told the same moment.
        await self.pacing.sleep(seconds * self.pacing.rng.uniform(1.0, 1.1))
        return True

    async def read_back(self) -> Bound | Taken | Vanished | _Unbound:
        """Ask for the pod until an answer comes, however long that takes."""
        attempt = 0
        while True:
            try:
                return judge_read_back(await self.requests.get(self.pod_path), self.uid, self.node)
            except NotFound:
                return Vanished()
            except Throttled as error:
                seconds = error.retry_after_seconds
            except (ApiError, msgspec.DecodeError):
                # Even a 401 or 403 may heal (rotated credentials, restored roles); guessing would
                # not.
                seconds = self.pacing.backoff_seconds(attempt)
                attempt += 1
            await self.pacing.sleep(seconds)
