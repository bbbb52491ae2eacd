"""Decodes the lines of a watch and the items of a list.

Decoding is lenient in two ways. Fields we do not read may hold anything, and a null counts as an
absent field, as it does for every Go client. An object that still cannot be read is not forgotten:
of a pod or node a partial object remains, with identity and node, whose ``malformed`` says why.
Dropping it would free the resources that the pod still uses.
"""

from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass
from typing import Any, Final, Generic

import msgspec
from msgspec.structs import force_setattr

from scheduler.errors import MalformedObject, Unreachable
from scheduler.kube.deep_json import decode_deep, truncate_depth
from scheduler.kube.watched import T, Watched
from scheduler.model.meta import ObjectMeta, Raw, Struct
from scheduler.model.node import Node
from scheduler.model.objects import CustomObject
from scheduler.model.pod import Pod
from scheduler.model.pod_spec import DEFAULT_SCHEDULER, PodSpec, PodStatus

Key = tuple[str, str]
"""Namespace and name; the namespace is empty for what has none."""

ADDED: Final = "ADDED"
MODIFIED: Final = "MODIFIED"
DELETED: Final = "DELETED"
_CHANGES: Final = frozenset({ADDED, MODIFIED, DELETED})

_INITIAL_EVENTS_END: Final = "k8s.io/initial-events-end"
_NO_ANNOTATIONS: Final[dict[str, str]] = {}


class ObjectChanged(msgspec.Struct, Generic[T], gc=False):
    """An object came, changed or went. It is partial where it is ``malformed``."""

    # The decoder fills it straight from the line: one object and one call less for each event.
    type: str
    object: T


@dataclass(frozen=True, slots=True)
class Identity:
    """Which object it is, and in which version."""

    key: Key
    uid: str
    version: str


@dataclass(frozen=True, slots=True)
class Unreadable:
    """A change of an object that cannot be read and becomes no partial object.

    That is an object of a kind without partial ones, or one whose identity cannot be read either.

    Args:
        type: What happened to it; empty in a list.
        key: The object's key; two empty texts if that cannot be read either.
        version: The resource version, empty where it cannot be read.
        problem: The field and what is wrong with it.
    """

    type: str
    key: Key
    version: str
    problem: str


@dataclass(frozen=True, slots=True)
class Bookmark:
    """Every change up to *version* was sent; *initial_end* marks the end of a streaming list."""

    version: str
    initial_end: bool


@dataclass(frozen=True, slots=True)
class WatchError:
    """The server ends the watch because of an error."""

    code: int
    message: str


WatchEvent = ObjectChanged[T] | Unreadable | Bookmark | WatchError


class ListMeta(msgspec.Struct, frozen=True, rename="camel"):
    """The version of a list; *continue_* is the token that requests its next page."""

    resource_version: str = ""
    continue_: str = msgspec.field(default="", name="continue")


class Page(msgspec.Struct):
    """One page of a list; *items* are decoded later, in slices, to not block the event loop."""

    metadata: ListMeta = ListMeta()
    items: tuple[msgspec.Raw, ...] | None = None


class _RawEvent(msgspec.Struct, gc=False):
    type: str
    object: msgspec.Raw


class _Status(msgspec.Struct):
    code: int = 0
    message: str = ""


class _Named(msgspec.Struct):
    metadata: ObjectMeta = ObjectMeta()


class _BareIdentity(msgspec.Struct, rename="camel", gc=False):
    name: str
    uid: str
    resource_version: str
    namespace: str = ""


class _Identified(msgspec.Struct, gc=False):
    """An object of which nothing is read but which one it is."""

    metadata: _BareIdentity


class _Parts(msgspec.Struct):
    """An object whose parts are read one by one."""

    metadata: msgspec.Raw = msgspec.Raw(b"{}")
    spec: msgspec.Raw = msgspec.Raw(b"{}")
    status: msgspec.Raw = msgspec.Raw(b"{}")


class _BareMeta(Struct, frozen=True):
    """Identity alone: what is left where labels or owners cannot be read."""

    name: str
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None


class _BarePodSpec(Struct, frozen=True):
    node_name: str = ""
    scheduler_name: str = DEFAULT_SCHEDULER


class _BarePodStatus(Struct, frozen=True):
    phase: str = ""
    nominated_node_name: str = ""


_decode_page = msgspec.json.Decoder(Page).decode
_decode_raw_event = msgspec.json.Decoder(_RawEvent).decode
_decode_status = msgspec.json.Decoder(_Status).decode
_decode_named = msgspec.json.Decoder(_Named).decode
_decode_parts = msgspec.json.Decoder(_Parts).decode
_decode_identified = msgspec.json.Decoder(_Identified).decode


def _decode_custom(raw: bytes | msgspec.Raw) -> CustomObject:
    """Read an object whose fields only a plugin knows."""
    # Cut above the depth at which decoding fails: comparisons, encoders and plugins recurse through
    # the content as well, and have less stack left than the decoder.
    document = msgspec.json.decode(truncate_depth(bytes(raw)), type=dict[str, Any])
    metadata = msgspec.convert({"metadata": document.pop("metadata", {})}, _Named).metadata
    return CustomObject(metadata=metadata, content=document)


def _decode_custom_event(line: bytes) -> ObjectChanged[CustomObject]:
    event = _decode_raw_event(line)
    # Bookmarks and errors are read elsewhere, and are no objects of ours.
    found = _decode_custom(event.object) if event.type in _CHANGES else CustomObject()
    return ObjectChanged(event.type, found)


class ObjectDecoder(Generic[T]):
    """Reads the events and list items of one watched resource."""

    def __init__(self, watched: Watched[T]) -> None:
        self._watched = watched
        self._decode_object: Callable[[bytes | msgspec.Raw], T]
        self._decode_event: Callable[[bytes], ObjectChanged[T]]
        if watched.kind is CustomObject:
            self._decode_object = _decode_custom  # type: ignore[assignment] # T is CustomObject
            self._decode_event = _decode_custom_event  # type: ignore[assignment] # as above
            return
        self._decode_object = msgspec.json.Decoder(watched.kind).decode
        self._decode_event = msgspec.json.Decoder(
            ObjectChanged[watched.kind]  # type: ignore[name-defined] # the kind is known at run time
        ).decode

    def event(self, line: bytes) -> WatchEvent[T]:
        """Read one line of a watch."""
        watched = self._watched
        try:
            # All of the usual case is in this function, since it runs for every event. Where the
            # JSON is kept, the object is needed as a slice of the line: `_unusual` cuts it out.
            if not watched.raw:
                try:
                    event = self._decode_event(line)
                    found = event.object
                    if event.type in _CHANGES and found.metadata.name:
                        if not watched.annotations:
                            force_setattr(found.metadata, "annotations", _NO_ANNOTATIONS)
                        watched.check(found)
                        watched.share(found)
                        return event
                except (msgspec.DecodeError, MalformedObject):
                    pass
            return self._unusual(line)
        except RecursionError:
            upper = truncate_depth(line)
            if upper == line:
                raise
            return self.event(upper)

    def event_in_pieces(self, line: bytes) -> Generator[None, None, WatchEvent[T]]:
        """Read one line as `event` does, and yield between pieces of the work: for a large one."""
        watched = self._watched
        try:
            large = self._decode_event(line)
            if large.type in _CHANGES:
                yield
                self._drop_unread(large.object)
                yield from watched.prepare(large.object)
                yield
                if not watched.raw:
                    return ObjectChanged(large.type, self._finish(large.object, msgspec.Raw()))
        except (msgspec.DecodeError, MalformedObject, RecursionError):
            pass
        # What is unusual is read in the usual way. If all is well so far but the JSON is kept, then
        # *large* keeps its template meanwhile, so that this pod is prepared as well.
        return self.event(line)

    def page(self, body: bytes) -> Page:
        """Split a page of a list into its items.

        Raises:
            Unreachable: If it is no list: something between us and the API server has answered.
        """
        try:
            return decode_deep(_decode_page, body)
        except msgspec.DecodeError as problem:
            raise Unreachable(
                f"{self._watched.path}: the answer is no list: {problem}"
            ) from problem

    def item(self, raw: msgspec.Raw) -> T | Unreadable:
        """Read one item of a list."""
        try:
            return self._finish(self._decode_object(raw), raw)
        except (msgspec.DecodeError, MalformedObject):
            return self._read_leniently(raw, "")

    def _unusual(self, line: bytes) -> WatchEvent[T]:
        """Read what is no change, or a change that cannot be read at once."""
        try:
            event = _decode_raw_event(line)
            if event.type == "BOOKMARK":
                return _bookmark(event.object)
            if event.type == "ERROR":
                return _watch_error(event.object)
        except msgspec.DecodeError as problem:
            return Unreadable("", ("", ""), "", f"not a watch event: {problem}")
        found = self._read_leniently(event.object, event.type)
        return found if isinstance(found, Unreadable) else ObjectChanged(event.type, found)

    def _read_leniently(self, raw: msgspec.Raw, type_: str) -> T | Unreadable:
        """Read an object with nulls; make a malformed one a partial object, or `Unreadable`."""
        try:
            content = msgspec.json.encode(_without_nulls(msgspec.json.decode(raw)))
            return self._finish(self._decode_object(content), raw)
        except MalformedObject as malformed:
            return self._partial(content, type_, str(malformed))
        except msgspec.ValidationError as invalid:
            return self._partial(content, type_, _problem_of(invalid))
        except msgspec.DecodeError as broken:
            return Unreadable(type_, ("", ""), "", f"object: not JSON: {broken}")

    def _partial(self, content: bytes, type_: str, problem: str) -> T | Unreadable:
        try:
            parts = _decode_parts(content)
            metadata = _metadata(parts.metadata)
            keep = _PARTIAL.get(self._watched.kind)
            if keep is not None and metadata.name:
                found: T = keep(parts, metadata, problem)
                return found
        except msgspec.DecodeError:
            return Unreadable(type_, ("", ""), "", problem)
        key = (metadata.namespace, metadata.name)
        return Unreadable(type_, key, metadata.resource_version, problem)

    def _finish(self, found: T, raw: msgspec.Raw) -> T:
        """Drop what nobody reads, check the rest, and keep the JSON for extenders that receive it.

        Raises:
            MalformedObject: If a value cannot be read.
        """
        if not found.metadata.name:
            raise MalformedObject("metadata.name", "an object without a name")
        self._drop_unread(found)
        self._watched.check(found)
        self._watched.share(found)
        if self._watched.raw and isinstance(found, Raw):
            found.keep_raw(bytes(raw))
        return found

    def _drop_unread(self, found: T) -> None:
        """Drop the annotations that nobody reads: templates must not differ in them."""
        if not self._watched.annotations:
            force_setattr(found.metadata, "annotations", _NO_ANNOTATIONS)


def key_of(found: T) -> Key:
    """Return namespace and name of *found*."""
    return (found.metadata.namespace, found.metadata.name)


def identity_of(raw: msgspec.Raw) -> Identity | None:
    """Read which object an item of a list is, and nothing else; None where it does not say."""
    try:
        found = _decode_identified(raw).metadata
    except msgspec.DecodeError:
        return None
    return Identity((found.namespace, found.name), found.uid, found.resource_version)


def _bookmark(raw: msgspec.Raw) -> Bookmark:
    metadata = _decode_named(raw).metadata
    return Bookmark(
        metadata.resource_version, metadata.annotations.get(_INITIAL_EVENTS_END) == "true"
    )


def _watch_error(raw: msgspec.Raw) -> WatchError:
    status = _decode_status(raw)
    return WatchError(status.code, status.message)


def _without_nulls(value: Any) -> Any:
    """Drop the fields that are null, all the way down."""
    if isinstance(value, dict):
        return {key: _without_nulls(inner) for key, inner in value.items() if inner is not None}
    if isinstance(value, list):
        return [_without_nulls(inner) for inner in value]
    return value


def _problem_of(invalid: msgspec.ValidationError) -> str:
    """Put the path first, as in ``spec.priority: Expected `int`, got `str```."""
    problem, _, path = str(invalid).partition(" - at ")
    field = path.strip("`").removeprefix("key in ").strip("`").removeprefix("$").removeprefix(".")
    return f"{field or 'object'}: {problem}"


def _metadata(raw: msgspec.Raw) -> ObjectMeta:
    """Read all of the metadata, or else identity alone."""
    try:
        metadata = msgspec.json.decode(raw, type=ObjectMeta)
    except msgspec.ValidationError:
        bare = msgspec.json.decode(raw, type=_BareMeta)
        return ObjectMeta(**msgspec.structs.asdict(bare))
    return msgspec.structs.replace(metadata, annotations=_NO_ANNOTATIONS)


def _partial_pod(parts: _Parts, metadata: ObjectMeta, problem: str) -> Pod:
    """Keep the pod's identity, node, scheduler and phase."""
    spec = msgspec.json.decode(parts.spec, type=_BarePodSpec)
    return Pod(
        metadata=metadata,
        spec=PodSpec(node_name=spec.node_name, scheduler_name=spec.scheduler_name),
        status=_pod_status(parts.status),
        malformed=problem,
    )


def _pod_status(raw: msgspec.Raw) -> PodStatus:
    try:
        status = msgspec.json.decode(raw, type=_BarePodStatus)
    except msgspec.ValidationError:
        return PodStatus()
    return PodStatus(phase=status.phase, nominated_node_name=status.nominated_node_name)


def _partial_node(_: _Parts, metadata: ObjectMeta, problem: str) -> Node:
    """Keep the node's identity: no pod is placed on a malformed node in any case."""
    return Node(metadata=metadata, malformed=problem)


_PARTIAL: Final[Mapping[type, Callable[[_Parts, ObjectMeta, str], Any]]] = {
    Pod: _partial_pod,
    Node: _partial_node,
}
"""The kinds of which a malformed object becomes a partial one, and how."""
