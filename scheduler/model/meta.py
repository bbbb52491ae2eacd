"""Metadata and other parts that Kubernetes objects have in common."""

from collections.abc import Callable, Mapping
from functools import wraps
from typing import Final, NewType, TypeVar

import msgspec

NodeName = NewType("NodeName", str)
PodUid = NewType("PodUid", str)
PodKey = NewType("PodKey", str)
"""``namespace/name``"""


class Struct(msgspec.Struct, frozen=True, kw_only=True, rename="camel", gc=False):
    """A frozen value in Kubernetes' spelling; unknown fields are ignored when decoding.

    Python's cycle collector does not track these structs: nothing that they refer to refers back,
    and a cluster has hundreds of thousands of them. Classes with ``dict=True`` are tracked.
    """


A = TypeVar("A")
R = TypeVar("R")


def kept_in_argument(derive: Callable[[A], R]) -> Callable[[A], R]:
    """Let *derive* keep its answer in its argument, a frozen object with a ``__dict__``.

    The answer lives as long as what it is derived from. A cache of a number of answers would keep
    those of objects that are gone, and how large they are is up to whoever wrote the objects.
    """
    name = f"{derive.__module__}.{derive.__qualname__}"

    @wraps(derive)
    def kept(argument: A) -> R:
        answers = argument.__dict__
        if name not in answers:
            answers[name] = derive(argument)
        answer: R = answers[name]
        return answer

    return kept


class OwnerReference(Struct, frozen=True):
    """An owner of the object; the one with *controller* manages it."""

    api_version: str = ""
    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool | None = None


class ObjectMeta(Struct, frozen=True):
    """Identity and labels. Annotations are kept only where a plugin needs them."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    deletion_grace_period_seconds: int | None = None
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    owner_references: tuple[OwnerReference, ...] = ()

    @property
    def controller(self) -> OwnerReference | None:
        """The owner that manages this object, if one does."""
        return next((owner for owner in self.owner_references if owner.controller), None)


NOT_KEPT: Final = b"null"


class Raw:
    """A mixin for objects that extenders get as the API server sent them (kube: ``with_raw``)."""

    @property
    def raw(self) -> bytes:
        """The object as the API server sent it; ``null`` if that was not kept."""
        kept: bytes = self.__dict__.get("_raw", NOT_KEPT)
        return kept

    def keep_raw(self, content: bytes) -> None:
        """Keep the JSON that the object was decoded from."""
        self.__dict__["_raw"] = content


def differs(old: ObjectMeta, new: ObjectMeta) -> bool:
    """Tell whether anything but the resource version changed.

    Kubelets update nodes every few minutes without a change that scheduling reads.
    """
    if old.resource_version == new.resource_version:
        return old != new
    return msgspec.structs.replace(old, resource_version=new.resource_version) != new


class LabelSelectorRequirement(Struct, frozen=True):
    """One expression of a selector, as written."""

    key: str = ""
    operator: str = ""
    values: tuple[str, ...] = ()


class LabelSelector(Struct, frozen=True, dict=True, gc=True):
    """A selector over labels, as written. See scheduler.model.selectors for its meaning."""

    match_labels: dict[str, str] = {}
    match_expressions: tuple[LabelSelectorRequirement, ...] = ()


class Condition(Struct, frozen=True):
    """One condition of a pod or node; heartbeat times are not read."""

    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""
    last_transition_time: str | None = None
    observed_generation: int | None = None


Labels = Mapping[str, str]
