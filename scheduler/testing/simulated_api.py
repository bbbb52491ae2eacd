"""An API server in memory, with watches and planned faults.

It keeps documents under their API paths, as the real one does, answers ``Requests`` with the parts
that the scheduler reads, and delivers changes as facts. A `Fault` refuses, delays or loses an
answer. Nothing here is random: *choose_fault* decides about faults, *latency* and *lag* about time.
"""

import asyncio
import contextlib
import re
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from scheduler.errors import ApiError, Conflict, NotFound, Rejected, Unreachable
from scheduler.kube.requests import STRATEGIC_MERGE_PATCH, Params
from scheduler.model.fact import KubeObject, Resource
from scheduler.testing.documents import (
    Document,
    decode,
    document_of,
    edited,
    encode,
    is_of,
    merge,
    merge_conditions,
    path_of,
    resource_of,
)
from scheduler.testing.scripted_watches import Deliver, ScriptedWatches

NOW: Final = "2026-01-01T00:00:00Z"
_TOPOLOGY_LABELS: Final = ("topology.kubernetes.io/zone", "topology.kubernetes.io/region")
_POD_PATH: Final = re.compile(r"(?P<pod>/api/v1/namespaces/[^/]+/pods/[^/]+)/(?P<part>\w+)")


@dataclass(frozen=True, slots=True)
class Refuse:
    """Answer with *error*, and do nothing."""

    error: ApiError


@dataclass(frozen=True, slots=True)
class Lose:
    """Give no answer.

    Args:
        executed: Whether the request takes effect all the same.
        after_seconds: How much later it takes effect.
    """

    executed: bool
    after_seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Delay:
    """Carry the request out *seconds* later, and answer."""

    seconds: float


Fault = Refuse | Lose | Delay

Listener = Callable[[str, Document | None, Document | None], None]
"""Called with each change: the path, the old document and the new one."""


@dataclass(frozen=True, slots=True)
class Request:
    """A request as the server saw it; *at* is the time of the event loop."""

    method: str
    path: str
    body: bytes
    at: float

    @property
    def content(self) -> Any:
        """The body, decoded."""
        return decode(self.body)


@dataclass(slots=True)
class _Planned:
    method: str
    path: re.Pattern[str]
    faults: deque[Fault]


def _no_fault(method: str, path: str) -> Fault | None:  # noqa: ARG001 - the signature of choose_fault
    return None


def _at_once() -> float:
    return 0.0


class SimulatedApi:
    """An API server and its watches; it implements ``scheduler.kube.requests.Requests``.

    Args:
        deliver: Takes the facts, as an inbox does.
        watching: The resources to watch.
        latency: Returns how long the next request takes, half before and half after its effect.
        lag: Returns how much later than a change its fact is delivered; facts of one resource
            keep their order.
    """

    def __init__(
        self,
        deliver: Deliver = lambda _: None,
        watching: Iterable[Resource] = (Resource.POD, Resource.FAILED_POD, Resource.NODE),
        *,
        latency: Callable[[], float] = _at_once,
        lag: Callable[[], float] = _at_once,
    ) -> None:
        self.latency = latency
        self.choose_fault: Callable[[str, str], Fault | None] = _no_fault
        self.documents: dict[str, Document] = {}
        self.version = 0
        """Of the newest change."""
        self.requests: list[Request] = []
        self.bound: list[tuple[str, str]] = []
        """UID and node of every binding that took effect, in order."""
        self.grace_seconds: float | None = None
        """How long a bound pod takes to end; None for as long as its document says."""
        self._planned: list[_Planned] = []
        self._ended: set[str] = set()
        self._watches = ScriptedWatches(self.documents, deliver, watching, lag)
        self._listeners: list[Listener] = [self._watches.deliver_change]

    @property
    def deliver(self) -> Deliver:
        """Takes the facts, as an inbox does."""
        return self._watches.deliver

    @deliver.setter
    def deliver(self, deliver: Deliver) -> None:
        self._watches.deliver = deliver

    def listen(self, listener: "Listener") -> None:
        """Call *listener* with every change: the path, the old document and the new one."""
        self._listeners.append(listener)

    # Changes that users, controllers and kubelets make.

    def create(self, item: KubeObject | Document, resource: Resource | None = None) -> str:
        """Put an object in, and return its path.

        Args:
            item: A struct, or a document for what no struct can hold; it needs *resource*.
            resource: What the document is.
        """
        document = item if isinstance(item, dict) else document_of(item)
        resource = resource or resource_of(item)
        path = path_of(resource, document["metadata"])
        assert path not in self.documents, f"{path} exists already"
        self._store(path, document)
        return path

    def change(self, path: str, edit: Callable[[Document], object]) -> None:
        """Let *edit* change a copy of the document at *path*, and store that."""
        self._store(path, edited(self.documents[path], edit))

    def replace(self, item: KubeObject) -> None:
        """Put a newer version of an object in the place of the one that has its name."""
        document = document_of(item)
        self._store(path_of(resource_of(item), document["metadata"]), document)

    def remove(self, path: str) -> None:
        """Remove an object."""
        self.version += 1
        gone = self.documents.pop(path)
        self._ended.discard(gone["metadata"]["uid"])
        self._notify(path, gone, None)

    def release(self, path: str) -> None:
        """Remove an object's finalizers, and the object if only they kept it."""
        self.change(path, lambda document: document["metadata"].pop("finalizers", None))
        if self.documents[path]["metadata"]["uid"] in self._ended:
            self.remove(path)

    def begin_deletion(self, path: str) -> None:
        """Begin an object's deletion; it stays until it is removed."""
        self.change(path, lambda document: document["metadata"].update(deletionTimestamp=NOW))

    def document(self, item: KubeObject) -> Document | None:
        """Return an object as it is now."""
        return self.documents.get(path_of(resource_of(item), document_of(item)["metadata"]))

    def pods(self) -> Iterator[Document]:
        """Yield every pod as it is now."""
        return (found for path, found in self.documents.items() if _is_pod(path))

    # Watches.

    def list_all(self) -> None:
        """Let every watch deliver all there is, as at the start."""
        self._watches.list_all()

    def relist(self, resource: Resource) -> None:
        """Deliver all there is of *resource*, then `Listed`; deletions meanwhile count as unseen.

        Also mends a watch that was broken.
        """
        self._watches.relist(resource)

    def break_watch(self, resource: Resource) -> None:
        """Deliver nothing more about *resource* until it is listed again."""
        self._watches.interrupt(resource)

    # Faults.

    def plan(self, method: str, path: str, *faults: Fault) -> None:
        """Let the next requests whose path matches the expression *path* meet *faults* in order."""
        self._planned.append(_Planned(method, re.compile(path), deque(faults)))

    def requests_to(self, method: str, path: str = "") -> list[Request]:
        """Return the requests so far whose path matches the expression *path*."""
        wanted = re.compile(path)
        return [
            each for each in self.requests if each.method == method and wanted.search(each.path)
        ]

    # Requests.

    async def get(self, path: str, params: Params | None = None) -> bytes:  # noqa: ARG002
        """Read what is at *path*."""
        return await self._serve("GET", path, b"", lambda: self._at(path))

    async def post(self, path: str, body: bytes, params: Params | None = None) -> bytes:  # noqa: ARG002
        """Bind a pod, or create an object in the collection *path*."""
        return await self._serve("POST", path, body, lambda: self._post(path, decode(body)))

    async def put(self, path: str, body: bytes, params: Params | None = None) -> bytes:  # noqa: ARG002
        """Replace what is at *path*."""
        return await self._serve("PUT", path, body, lambda: self._put_at(path, decode(body)))

    async def patch(
        self,
        path: str,
        body: bytes,
        content_type: str,
        params: Params | None = None,  # noqa: ARG002
    ) -> bytes:
        """Patch an object, or the status of one."""
        strategic = content_type == STRATEGIC_MERGE_PATCH
        return await self._serve(
            "PATCH", path, body, lambda: self._patch(path, decode(body), strategic)
        )

    async def delete(self, path: str, body: bytes = b"", params: Params | None = None) -> bytes:  # noqa: ARG002
        """Delete what is at *path*; a bound pod is given its grace period."""
        options = decode(body or b"{}")
        return await self._serve("DELETE", path, body, lambda: self._delete(path, options))

    async def _serve(
        self, method: str, path: str, body: bytes, carry_out: Callable[[], Document]
    ) -> bytes:
        loop = asyncio.get_running_loop()
        seconds = self.latency() / 2
        await asyncio.sleep(seconds)
        self.requests.append(Request(method, path, body, loop.time()))
        match self._fault(method, path):
            case Refuse(error):
                raise error
            case Lose(executed, after_seconds):
                if executed:
                    loop.call_later(after_seconds, _apply_silently, carry_out)
                    await asyncio.sleep(0)
                raise Unreachable(f"{method} {path}: no answer")
            case Delay(longer):
                await asyncio.sleep(longer)
        answer = encode(carry_out())
        await asyncio.sleep(seconds)
        return answer

    def _fault(self, method: str, path: str) -> Fault | None:
        for plan in self._planned:
            if plan.faults and plan.method == method and plan.path.search(path):
                return plan.faults.popleft()
        return self.choose_fault(method, path)

    # How requests are carried out.

    def _at(self, path: str) -> Document:
        if path not in self.documents:
            raise NotFound(f"{path} not found", status=404)
        return self.documents[path]

    def _post(self, path: str, document: Document) -> Document:
        sub = _POD_PATH.fullmatch(path)
        if sub is not None and sub["part"] == "binding":
            return self._bind(sub["pod"], document)
        created = f"{path}/{document['metadata']['name']}"
        if created in self.documents:
            raise Conflict(f"{created} already exists", status=409, reason="AlreadyExists")
        return self._store(created, document)

    def _bind(self, path: str, binding: Document) -> Document:
        """Bind as ``registry/core/pod/storage`` does, with its error messages."""
        metadata, node = binding["metadata"], binding["target"]["name"]
        pod, name = self._at(path), binding["metadata"]["name"]
        uid = pod["metadata"]["uid"]
        if metadata.get("uid", uid) != uid:
            raise _conflict(
                f"Precondition failed: UID in precondition: {metadata['uid']}, "
                f"UID in object meta: {uid}"
            )
        if pod["metadata"].get("deletionTimestamp"):
            raise _conflict(f"pod {name} is being deleted, cannot be assigned to a host")
        if pod["spec"].get("nodeName"):
            raise _conflict(f'pod {name} is already assigned to node "{pod["spec"]["nodeName"]}"')
        if pod["spec"].get("schedulingGates"):
            raise _conflict(f"pod {name} has non-empty .spec.schedulingGates")
        self.bound.append((uid, node))
        self.change(path, lambda document: self._assign(document, node, metadata))
        return {"kind": "Status", "status": "Success"}

    def _assign(self, document: Document, node: str, metadata: Document) -> None:
        document["spec"]["nodeName"] = node
        labels = self.documents.get(f"/api/v1/nodes/{node}", {}).get("metadata", {}).get("labels")
        known = {key: labels[key] for key in _TOPOLOGY_LABELS if key in (labels or {})}
        for kind, more in (("annotations", {}), ("labels", known)):
            document["metadata"][kind] = (
                (document["metadata"].get(kind) or {}) | more | metadata.get(kind, {})
            )
        status = document.setdefault("status", {})
        status.pop("nominatedNodeName", None)
        merge_conditions(status, [{"type": "PodScheduled", "status": "True"}])

    def _put_at(self, path: str, document: Document) -> Document:
        known = self._at(path)["metadata"].get("resourceVersion")
        if document["metadata"].get("resourceVersion", known) != known:
            raise _conflict("the object has been modified")
        return self._store(path, document)

    def _patch(self, path: str, patch: Document, strategic: bool) -> Document:
        sub = _POD_PATH.fullmatch(path)
        target = sub["pod"] if sub is not None and sub["part"] == "status" else path
        metadata, known = patch.get("metadata", {}), self._at(target)["metadata"]
        if metadata.get("uid", known.get("uid")) != known.get("uid"):
            raise Rejected("metadata.uid: Invalid value: field is immutable", status=422)
        if metadata.get("resourceVersion", known["resourceVersion"]) != known["resourceVersion"]:
            raise _conflict("the object has been modified")
        self.change(target, lambda document: merge(document, patch, strategic=strategic))
        return self.documents[target]

    def _delete(self, path: str, options: Document) -> Document:
        document = self._at(path)
        wanted = options.get("preconditions", {}).get("uid")
        if wanted is not None and wanted != document["metadata"]["uid"]:
            raise _conflict("Precondition failed: UID in precondition differs")
        grace = self._grace_of(path, document, options)
        if not document["metadata"].get("deletionTimestamp") and (
            grace or document["metadata"].get("finalizers")
        ):
            self.begin_deletion(path)
        if not grace:
            self.end(path)
        elif not document["metadata"].get("deletionTimestamp"):
            uid = document["metadata"]["uid"]
            asyncio.get_running_loop().call_later(grace, self._end_grace, path, uid)
        return document

    def _grace_of(self, path: str, document: Document, options: Document) -> float:
        if not _is_pod(path) or not document["spec"].get("nodeName"):
            return 0.0
        if self.grace_seconds is not None:
            return self.grace_seconds
        own = document["spec"].get("terminationGracePeriodSeconds")
        return float(options.get("gracePeriodSeconds", 30.0 if own is None else own))

    def _end_grace(self, path: str, uid: str) -> None:
        if path in self.documents and self.documents[path]["metadata"]["uid"] == uid:
            self.end(path)

    def end(self, path: str) -> None:
        """End an object: it is removed, or waits for its finalizers alone."""
        metadata = self.documents[path]["metadata"]
        if metadata.get("finalizers"):
            self._ended.add(metadata["uid"])
        else:
            self.remove(path)

    def _store(self, path: str, document: Document) -> Document:
        self.version += 1
        document["metadata"]["resourceVersion"] = str(self.version)
        old, self.documents[path] = self.documents.get(path), document
        self._notify(path, old, document)
        return document

    def _notify(self, path: str, old: Document | None, new: Document | None) -> None:
        for listener in self._listeners:
            listener(path, old, new)


def _is_pod(path: str) -> bool:
    return is_of(Resource.POD, path)


def _conflict(message: str) -> Conflict:
    return Conflict(message, status=409, reason="Conflict")


def _apply_silently(carry_out: Callable[[], object]) -> None:
    """Carry out a request whose answer is lost."""
    with contextlib.suppress(ApiError):
        carry_out()
