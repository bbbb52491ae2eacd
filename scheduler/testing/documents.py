"""Objects as the API server holds them: JSON documents under their API paths, and patches of them.

A document is never changed in place once it is stored, so a reader may keep it.
"""

import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, Final

import msgspec

from scheduler.kube.watched import WATCHED
from scheduler.model.fact import KubeObject, Resource
from scheduler.model.pod import Pod

Document = dict[str, Any]

ENDED: Final = frozenset({"Succeeded", "Failed"})
_NAMESPACED: Final = re.compile(r"(.+)/namespaces/[^/]+/([^/]+)")

encode: Final = msgspec.json.Encoder().encode
decode: Final = msgspec.json.Decoder().decode


def path_of(resource: Resource, metadata: Mapping[str, Any]) -> str:
    """Return the API path of an object."""
    collection, namespace = WATCHED[resource].path, metadata.get("namespace")
    if not namespace:
        return f"{collection}/{metadata['name']}"
    group, _, plural = collection.rpartition("/")
    return f"{group}/namespaces/{namespace}/{plural}/{metadata['name']}"


def pod_path(pod: Pod) -> str:
    """Return the API path of a pod."""
    return f"/api/v1/namespaces/{pod.namespace}/pods/{pod.name}"


@lru_cache(maxsize=16384)
def collection_of(path: str) -> str:
    """Return where the object at *path* is listed, with those of all namespaces."""
    home, _, _ = path.rpartition("/")
    inside = _NAMESPACED.fullmatch(home)
    return f"{inside[1]}/{inside[2]}" if inside else home


def is_of(resource: Resource, path: str) -> bool:
    """Tell whether the object at *path* is of the kind of *resource*."""
    return collection_of(path) == WATCHED[resource].path


def selects(resource: Resource, document: Document) -> bool:
    """Tell whether a watch of *resource* is about *document*, which is of its kind."""
    if resource is Resource.POD:
        return document.get("status", {}).get("phase") not in ENDED
    if resource is Resource.FAILED_POD:
        return bool(document.get("status", {}).get("phase") == "Failed")
    return True


def resource_of(item: KubeObject | Document) -> Resource:
    """Return what *item* is.

    Raises:
        TypeError: If it is a document, which may be anything.
    """
    for resource, watched in WATCHED.items():
        if type(item) is watched.kind:
            return resource
    raise TypeError(f"say which resource {item!r} is")


def document_of(item: KubeObject) -> Document:
    """Return the document of a struct, without what it leaves open."""
    document: Document = decode(encode(item))
    document.pop("malformed", None)
    return _without_nulls(document)


def edited(document: Document, edit: Callable[[Document], object]) -> Document:
    """Return a copy of *document* as *edit* leaves it."""
    copy: Document = decode(encode(document))
    edit(copy)
    return copy


def merge(document: Document, patch: Document, *, strategic: bool) -> None:
    """Apply a merge patch; a strategic one merges conditions by their type."""
    for key, value in patch.items():
        if value is None:
            document.pop(key, None)
        elif strategic and key == "conditions":
            merge_conditions(document, value)
        elif isinstance(value, dict) and isinstance(document.get(key), dict):
            merge(document[key], value, strategic=strategic)
        else:
            document[key] = value


def merge_conditions(status: Document, conditions: list[Document]) -> None:
    """Put *conditions* in the place of those of the same types."""
    merged = {each["type"]: each for each in status.get("conditions") or []}
    for each in conditions:
        merged[each["type"]] = merged.get(each["type"], {}) | each
    status["conditions"] = list(merged.values())


def _without_nulls(document: Document) -> Document:
    return {
        key: _without_nulls(value) if isinstance(value, dict) else value
        for key, value in document.items()
        if value is not None
    }
