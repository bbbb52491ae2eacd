"""Reads the cluster's state from files: the output of ``kubectl get nodes,pods -A -o json``.

YAML is read as well.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import msgspec
import yaml

from scheduler.errors import ConfigurationError
from scheduler.explain.cluster_state import ClusterState
from scheduler.kube.decode import ObjectDecoder
from scheduler.kube.watched import Watched
from scheduler.model.fact import Resource
from scheduler.model.objects import CustomObject

Manifest = dict[str, Any]
NamedText = tuple[str, str]
"""A file's name, for messages, and its text."""

REMEDY: Final = "give what `kubectl get nodes,pods -A -o json` prints"


class _Loader(yaml.CSafeLoader if yaml.__with_libyaml__ else yaml.SafeLoader):  # type: ignore[misc]
    """Reads YAML as JSON: a timestamp stays text, since our decoder takes JSON types only."""


_Loader.yaml_implicit_resolvers = {
    first: [each for each in resolvers if each[0] != "tag:yaml.org,2002:timestamp"]
    for first, resolvers in _Loader.yaml_implicit_resolvers.items()
}


def read_dump(texts: Iterable[NamedText], watched: Iterable[Watched[Any]]) -> ClusterState:
    """Read the objects of *watched* in *texts*, and skip all others.

    Raises:
        ConfigurationError: If a text holds no Kubernetes objects.
    """
    state = ClusterState()
    kinds = _Kinds(watched)
    for text in texts:
        for item in objects(text):
            kinds.add(item, state)
    return state


def objects(text: NamedText) -> Iterator[Manifest]:
    """Yield the objects in *text*, items of lists one by one.

    A list of one kind first yields an object without metadata: it says that the kind is listed,
    even if there are no items.

    Raises:
        ConfigurationError: If there is anything else.
    """
    name, _ = text
    for document in documents(text):
        kind = document.get("kind")
        if not isinstance(kind, str):
            raise ConfigurationError(f"{name}: an object without kind; {REMEDY}")
        if kind == "List" or (kind.endswith("List") and "items" in document):
            yield from _items(name, document, kind)
        else:
            yield document


def _items(name: str, document: Manifest, kind: str) -> Iterator[Manifest]:
    items = document.get("items") or []
    if not isinstance(items, list) or not all(isinstance(item, dict) for item in items):
        raise ConfigurationError(f"{name}: items: must be a list of objects; {REMEDY}")
    inherited = {}
    if kind != "List":  # a list of one kind: its items do not repeat apiVersion and kind
        inherited = {"apiVersion": document.get("apiVersion"), "kind": kind.removesuffix("List")}
        yield inherited
    for item in items:
        whole = {**inherited, **item}
        if not isinstance(whole.get("kind"), str):
            raise ConfigurationError(f"{name}: an item without kind; {REMEDY}")
        yield whole


def documents(text: NamedText) -> Iterator[Manifest]:
    """Yield the documents in *text*, JSON or YAML.

    Raises:
        ConfigurationError: If it is neither, or holds something that is no object.
    """
    name, content = text
    try:
        found = [msgspec.json.decode(content)]  # a hundred times faster than YAML
    except msgspec.DecodeError:
        plain = content.lstrip("\ufeff \t\r\n")
        found = _one_after_another(name, plain) if plain[:1] == "{" else _from_yaml(name, content)
    except RecursionError as problem:
        raise ConfigurationError(f"{name}: is nested too deeply") from problem
    if not found:
        raise ConfigurationError(f"{name}: is empty; {REMEDY}")
    for document in found:
        if not isinstance(document, dict):
            raise ConfigurationError(f"{name}: holds no Kubernetes object; {REMEDY}")
        yield document


def _one_after_another(name: str, content: str) -> list[Any]:
    """Read JSON objects in a row: the output of several commands in one file."""
    decoder, found, at = json.JSONDecoder(), [], 0
    while at < len(content):
        try:
            document, at = decoder.raw_decode(content, at)
        except json.JSONDecodeError as problem:
            if problem.pos >= len(content.rstrip()) or "Unterminated" in problem.msg:
                text = f"ends in the middle of an object (line {problem.lineno}): it was cut off"
                raise ConfigurationError(f"{name}: {text}") from problem
            try:
                return _from_yaml(name, content)  # a mapping of YAML may begin with a brace, too
            except ConfigurationError:
                where = f"line {problem.lineno}, column {problem.colno}"
                raise ConfigurationError(f"{name}: no JSON: {where}: {problem.msg}") from problem
        found.append(document)
        while content[at : at + 1].isspace():
            at += 1
    return found


def _from_yaml(name: str, content: str) -> list[Any]:
    try:
        loaded = yaml.load_all(content, Loader=_Loader)
        return [document for document in loaded if document is not None]
    except yaml.YAMLError as problem:
        text = " ".join(str(problem).split())
        raise ConfigurationError(f"{name}: neither JSON nor YAML: {text}") from problem
    except RecursionError as problem:
        raise ConfigurationError(f"{name}: is nested too deeply") from problem


class _Kinds:
    """Finds the decoder of an object by its apiVersion and kind."""

    def __init__(self, watched: Iterable[Watched[Any]]) -> None:
        self._decoders: dict[tuple[str, str], tuple[Watched[Any], ObjectDecoder[Any]]] = {}
        self._plurals: dict[tuple[str, str], tuple[Watched[Any], ObjectDecoder[Any]]] = {}
        for each in watched:
            if each.resource == Resource.FAILED_POD:
                continue
            version, plural = _version_and_plural(each.path)
            row = each, ObjectDecoder(each)
            if each.kind is CustomObject:
                self._plurals[version, plural] = row
            else:
                self._decoders[version, each.resource.rpartition("/")[2]] = row

    def add(self, document: Manifest, state: ClusterState) -> None:
        """Read *document* into *state* if it is of a kind that plugins read."""
        found = self._find(str(document.get("apiVersion")), document["kind"])
        if found is None:
            return
        watched, decoder = found
        if "metadata" in document:
            raw = msgspec.Raw(msgspec.json.encode(document))
            state.add(watched.resource, decoder.item(raw))
        else:
            state.seen.add(watched.resource)

    def _find(self, version: str, kind: str) -> tuple[Watched[Any], ObjectDecoder[Any]] | None:
        if found := self._decoders.get((version, kind)):
            return found
        candidates = (self._plurals.get((version, plural)) for plural in _plurals(kind))
        return next(filter(None, candidates), None) or self._find_by_prefix(version, kind)

    def _find_by_prefix(
        self, version: str, kind: str
    ) -> tuple[Watched[Any], ObjectDecoder[Any]] | None:
        """Find a kind whose plural is another word: NodeMetrics are served as ``nodes``."""
        for (served, plural), row in self._plurals.items():
            if served == version and kind.lower().startswith(plural.removesuffix("s")):
                return row
        return None


def _version_and_plural(path: str) -> tuple[str, str]:
    """Return apiVersion and plural of what is listed at *path*."""
    *_, version, plural = path.split("/")
    core = path.startswith("/api/")
    return (version if core else f"{path.split('/')[2]}/{version}"), plural


def _plurals(kind: str) -> Iterator[str]:
    """Yield possible plurals of a kind; the API server alone knows the right one."""
    name = kind.lower()
    yield f"{name}s"
    yield f"{name}es"
    yield f"{name.removesuffix('y')}ies"
    yield name


def missing_kinds(
    state: ClusterState, watched: Iterable[Watched[Any]], readers: Mapping[str, list[str]]
) -> list[dict[str, Any]]:
    """Return the kinds that the source does not list, each with the plugins that read it."""
    wanted = (each.resource for each in watched if each.resource != Resource.FAILED_POD)
    return [
        {"kind": str(resource), "plugins": readers.get(resource, [])}
        for resource in state.missing(wanted)
    ]
