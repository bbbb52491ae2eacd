"""A picture from files: what ``kubectl get nodes,pods -A -o json`` prints, or that as YAML."""

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import msgspec
import yaml

from scheduler.errors import ConfigurationError
from scheduler.explain.picture import Picture
from scheduler.kube.decode import Decoder
from scheduler.kube.watched import Watched
from scheduler.model.fact import Resource
from scheduler.model.objects import CustomObject

Document = dict[str, Any]
Text = tuple[str, str]
"""What a file is called in messages, and what it holds."""

REMEDY: Final = "give what `kubectl get nodes,pods -A -o json` prints"


class _Loader(yaml.CSafeLoader if yaml.__with_libyaml__ else yaml.SafeLoader):  # type: ignore[misc]
    """Reads YAML as JSON would be read: times stay text."""


_Loader.yaml_implicit_resolvers = {
    first: [each for each in resolvers if each[0] != "tag:yaml.org,2002:timestamp"]
    for first, resolvers in _Loader.yaml_implicit_resolvers.items()
}


def read_dump(texts: Iterable[Text], watched: Iterable[Watched[Any]]) -> Picture:
    """Read everything in *texts* that one of *watched* stands for, and pass over the rest.

    Raises:
        ConfigurationError: If a text holds no Kubernetes objects.
    """
    picture = Picture()
    kinds = _Kinds(watched)
    for text in texts:
        for item in objects(text):
            kinds.take(item, picture)
    return picture


def objects(text: Text) -> Iterator[Document]:
    """Yield the objects in *text*, those of lists one by one; a list's end is an empty object.

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


def _items(name: str, document: Document, kind: str) -> Iterator[Document]:
    items = document.get("items") or []
    if not isinstance(items, list) or not all(isinstance(item, dict) for item in items):
        raise ConfigurationError(f"{name}: items: must be a list of objects; {REMEDY}")
    inherited = {}
    if kind != "List":  # a list of one kind: its items do not repeat it, and there may be none
        inherited = {"apiVersion": document.get("apiVersion"), "kind": kind.removesuffix("List")}
        yield inherited
    for item in items:
        whole = {**inherited, **item}
        if not isinstance(whole.get("kind"), str):
            raise ConfigurationError(f"{name}: an item without kind; {REMEDY}")
        yield whole


def documents(text: Text) -> Iterator[Document]:
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
    """Read JSON objects that follow each other, as the output of several commands in one file."""
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
    """Tells by apiVersion and kind how an object is read."""

    def __init__(self, watched: Iterable[Watched[Any]]) -> None:
        self._decoders: dict[tuple[str, str], tuple[Watched[Any], Decoder[Any]]] = {}
        self._plurals: dict[tuple[str, str], tuple[Watched[Any], Decoder[Any]]] = {}
        for each in watched:
            if each.resource == Resource.FAILED_POD:
                continue
            version, plural = _place(each.path)
            row = each, Decoder(each)
            if each.kind is CustomObject:
                self._plurals[version, plural] = row
            else:
                self._decoders[version, each.resource.rpartition("/")[2]] = row

    def take(self, document: Document, picture: Picture) -> None:
        """Read *document* into *picture* if it is of a kind that counts."""
        found = self._find(str(document.get("apiVersion")), document["kind"])
        if found is None:
            return
        watched, decoder = found
        if "metadata" in document:
            raw = msgspec.Raw(msgspec.json.encode(document))
            picture.take(watched.resource, decoder.item(raw))
        else:
            picture.seen.add(watched.resource)

    def _find(self, version: str, kind: str) -> tuple[Watched[Any], Decoder[Any]] | None:
        if found := self._decoders.get((version, kind)):
            return found
        candidates = (self._plurals.get((version, plural)) for plural in _plurals(kind))
        return next(filter(None, candidates), None) or self._find_by_prefix(version, kind)

    def _find_by_prefix(self, version: str, kind: str) -> tuple[Watched[Any], Decoder[Any]] | None:
        """Find what is called otherwise in the plural, as NodeMetrics are ``nodes``."""
        for (served, plural), row in self._plurals.items():
            if served == version and kind.lower().startswith(plural.removesuffix("s")):
                return row
        return None


def _place(path: str) -> tuple[str, str]:
    """Return apiVersion and plural of what is listed at *path*."""
    *_, version, plural = path.split("/")
    core = path.startswith("/api/")
    return (version if core else f"{path.split('/')[2]}/{version}"), plural


def _plurals(kind: str) -> Iterator[str]:
    """Yield what a kind may be called in the plural; only the API server knows for sure."""
    name = kind.lower()
    yield f"{name}s"
    yield f"{name}es"
    yield f"{name.removesuffix('y')}ies"
    yield name


def missing_kinds(
    picture: Picture, watched: Iterable[Watched[Any]], readers: Mapping[str, list[str]]
) -> list[dict[str, Any]]:
    """Return the kinds nothing was told about, each with the plugins that would have read it."""
    wanted = (each.resource for each in watched if each.resource != Resource.FAILED_POD)
    return [
        {"kind": str(resource), "plugins": readers.get(resource, [])}
        for resource in picture.missing(wanted)
    ]
