"""Binds a pod to its node by a POST, and finds out whether a post without an answer took effect.

A binding is posted once, and an answer is final. If the answer is lost (a timeout, a reset, a 5xx)
nobody knows whether the binding took effect, so the pod is read until a read succeeds. A binding is
posted again only after the pod was read without a node. That is safe: the body carries the pod's
UID, and the server answers 409 to the binding of a bound pod or of another pod of that name.
"""

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Final, Literal

import msgspec

from scheduler.errors import ApiError, Conflict, NotFound, Throttled, Unreachable
from scheduler.kube.deep_json import decode_deep
from scheduler.kube.requests import Requests
from scheduler.kube.retry import Backoff, RetrySettings, Tries, retry
from scheduler.model.meta import Struct
from scheduler.model.pod import Pod


@dataclass(frozen=True, slots=True)
class Bound:
    """The pod is on the node it was meant for."""

    node: str


@dataclass(frozen=True, slots=True)
class Conflicted:
    """Another decision about the pod came first (409): forget the assumed pod, wait for the watch.

    The pod is bound to *node*. Where that is None it is being deleted or gated, or another pod has
    its name; *why* is the server's text.
    """

    node: str | None
    why: str


@dataclass(frozen=True, slots=True)
class PodGone:
    """The pod was deleted."""


@dataclass(frozen=True, slots=True)
class NotBound:
    """At the stage of binding: the server did not accept the binding, and the pod is unbound."""

    message: str


BindOutcome = Bound | Conflicted | PodGone | NotBound


class BindObserver:
    """Receives what happens to a binding before its outcome; every method does nothing here."""

    def conflicted(self) -> None:
        """Another decision about the pod came first."""

    def answer_lost(self, pod: Pod, why: str) -> None:
        """The binding of *pod* was posted and no answer came."""

    def throttled(self, seconds: float) -> None:
        """The server answered 429: the next post follows after *seconds*."""


NO_ANNOTATIONS: Final[Mapping[str, str]] = MappingProxyType({})
UNOBSERVED: Final = BindObserver()
BIND_RETRIES: Final = RetrySettings(
    Backoff(seconds_initial=0.1, seconds_maximum=10.0, spread=(0.5, 1.0)),
    tries_maximum=5,
    throttled_seconds_maximum=60.0,
    throttled_spread=(1.0, 1.1),
)
"""How often a binding is posted, and the pauses in between. Reading back has no limit: an assumed
pod must not be forgotten because time has passed."""

SETTLE_SECONDS: Final = 60.0
"""The API server aborts a request after this time (its --request-timeout, 1m0s by default). A post
without an answer that has not taken effect by then never will."""


async def bind(
    requests: Requests,
    pod: Pod,
    node: str,
    *,
    annotations: Mapping[str, str] = NO_ANNOTATIONS,
    settings: RetrySettings = BIND_RETRIES,
    observer: BindObserver = UNOBSERVED,
    objection: Callable[[], str] = lambda: "",
) -> BindOutcome:
    """Bind *pod* to *node*, and return only once it is known what became of it.

    While the API server cannot be reached this waits; cancel it when a watch shows the pod on a
    node meanwhile.

    Args:
        requests: The API server.
        pod: The pod, which must be unbound as far as we know.
        node: The node's name.
        annotations: What the binding adds to the pod's annotations.
        settings: How often the binding is posted, and the pauses in between.
        observer: Receives conflicts, lost answers and 429s.
        objection: Returns why the pod should not go to the node any more, or an empty text; called
            before the binding is posted again.
    """
    path = f"/api/v1/namespaces/{pod.namespace}/pods/{pod.name}"
    assert node, "a binding names a node"
    body = binding_body(pod, node, annotations)
    try:
        await requests.post(f"{path}/binding", body)
    except ApiError as error:
        binding = _Binding(requests, pod, node, path, body, settings, observer, objection)
        return await binding.recover(error)
    return Bound(node)


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


class _BoundSpec(Struct, frozen=True):
    node_name: str = ""


class _Identity(Struct, frozen=True):
    uid: str = ""


class _BoundPod(Struct, frozen=True):
    """A pod as far as reading back needs it."""

    metadata: _Identity = _Identity()
    spec: _BoundSpec = _BoundSpec()


@dataclass(frozen=True, slots=True)
class _Unbound:
    """The pod was read back without a node."""


@dataclass(frozen=True, slots=True)
class _Lost:
    """The binding was posted, and whether it took effect is unknown."""

    message: str


_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(_BoundPod).decode
# The server words this 409, and only after the UID has matched (pkg/registry/core/pod/storage).
# The text is the only place where it names the node; without it we would have to read the pod.
_ALREADY_ASSIGNED = re.compile(r'is already assigned to node "([^"]+)"')


def judge_conflict(error: Conflict, node: str) -> Bound | Conflicted:
    """Read a 409: a pod that is on *node* already is bound as intended, whoever bound it."""
    found = _ALREADY_ASSIGNED.search(str(error))
    bound_to = found.group(1) if found else None
    return Bound(node) if bound_to == node else Conflicted(bound_to, str(error))


def judge_read_back(body: bytes, uid: str, node: str) -> Bound | Conflicted | PodGone | _Unbound:
    """Compare the pod on the server with ours: is it the same one, and on which node is it?"""
    seen = decode_deep(_decode, body)
    if seen.metadata.uid != uid:
        return PodGone()
    bound_to = seen.spec.node_name
    if not bound_to:
        return _Unbound()
    return Bound(node) if bound_to == node else Conflicted(bound_to, f"bound to {bound_to}")


class _Binding:
    """One binding whose first post failed."""

    def __init__(
        self,
        requests: Requests,
        pod: Pod,
        node: str,
        path: str,
        body: bytes,
        settings: RetrySettings,
        observer: BindObserver,
        objection: Callable[[], str],
    ) -> None:
        self.requests = requests
        self.pod = pod
        self.node = node
        self.path = path
        self.body = body
        self.settings = settings
        self.observer = observer
        self.objection = objection
        # Shared by all posts: the limit on the pauses after 429 is one for the whole binding, not
        # one for each post.
        self.tries = Tries(settings, observer.throttled)

    async def recover(self, error: ApiError) -> BindOutcome:
        """Read the pod back after each post without an answer, and post again if it is unbound."""
        answer = await self.judge(error)
        posts_maximum = self.settings.tries_maximum
        assert posts_maximum is not None, "posting has a limit"
        for posts in range(1, posts_maximum):
            if not isinstance(answer, _Lost):
                break
            found = await self.read_back()
            if not isinstance(found, _Unbound):
                return found
            await self.settings.sleep(self.settings.backoff.seconds(posts, self.settings.rng))
            answer = await self.post_again()
        return await self.settle(answer) if isinstance(answer, _Lost) else answer

    async def post_again(self) -> BindOutcome | _Lost:
        """Post while an earlier post may still take effect: no rejection is final then."""
        if why := self.objection():
            return await self.settle(_Lost(why))
        answer = await self.post()
        match answer:
            case Conflicted():
                found = await self.read_back()
                return answer if isinstance(found, _Unbound) else found
            case NotBound(message):
                return await self.settle(_Lost(message))
        return answer

    async def settle(self, lost: _Lost) -> BindOutcome:
        """Post no more; read the pod once no earlier post can take effect any more."""
        await self.settings.sleep(SETTLE_SECONDS)
        found = await self.read_back()
        return NotBound(lost.message) if isinstance(found, _Unbound) else found

    async def post(self) -> BindOutcome | _Lost:
        """Post, and judge the answer."""
        try:
            await self.requests.post(f"{self.path}/binding", self.body)
        except ApiError as error:
            return await self.judge(error)
        return Bound(self.node)

    async def judge(self, error: ApiError) -> BindOutcome | _Lost:
        """Return what *error* means; after a 429, which says that nothing was done, post again."""
        # `retry` does not fit: it takes a bool, and a second call for the text would run the
        # plugins behind the objection again, which may answer differently then.
        while isinstance(error, Throttled):
            if not await self.tries.wait_after(error):
                return NotBound(str(error))
            if why := self.objection():
                return NotBound(why)
            try:
                await self.requests.post(f"{self.path}/binding", self.body)
            except ApiError as next_error:
                error = next_error
            else:
                return Bound(self.node)
        return self.judge_failure(error)

    def judge_failure(self, error: ApiError) -> BindOutcome | _Lost:
        match error:
            case Unreachable():
                self.observer.answer_lost(self.pod, str(error))
                return _Lost(str(error))
            case Conflict():
                self.observer.conflicted()
                return judge_conflict(error, self.node)
            case NotFound():
                return PodGone()
            case _:
                return NotBound(str(error))

    async def read_back(self) -> Bound | Conflicted | PodGone | _Unbound:
        """Read the pod until an answer comes, however long that takes."""
        # Even a 401 or 403 may heal (rotated credentials, restored roles); guessing would not.
        endless = replace(
            self.settings,
            tries_maximum=None,
            throttled_seconds_maximum=math.inf,
            throttled_spread=(1.0, 1.0),
        )
        try:
            return await retry(self.read, endless, repeats=lambda e: not isinstance(e, NotFound))
        except NotFound:
            return PodGone()

    async def read(self) -> Bound | Conflicted | PodGone | _Unbound:
        """Read the pod once."""
        answer = await self.requests.get(self.path)
        try:
            return judge_read_back(answer, self.pod.uid, self.node)
        except msgspec.DecodeError as problem:  # a proxy in between has answered
            raise Unreachable(f"GET {self.path}: the answer is no pod: {problem}") from problem
