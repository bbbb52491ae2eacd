"""A small cluster that shows the same difference as a large one.

Objects are left out in halves, quarters and so on, then fields of those that remain, as long as the
two sides still differ in the same place.
"""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any, Final, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from hack.fidelity.clusters import Question

Json = dict[str, Any]
T = TypeVar("T")
Path = tuple[str | int, ...]

_TRIES: Final = 3000
# What the API server would not let anyone leave out: both sides may make of it what they like.
_KEPT: Final = frozenset(
    {
        *("apiVersion", "kind", "metadata", "name", "namespace", "uid", "spec", "containers"),
        *("maxSkew", "topologyKey", "whenUnsatisfiable", "key", "operator", "effect", "values"),
        *("claimName", "driver", "volumeHandle", "nodeName", "storageClassName", "provisioner"),
        *("weight", "preference", "podAffinityTerm", "nodeSelectorTerms", "image"),
    }
)


class Shrinker:
    """Makes a question smaller while *differs* holds.

    Args:
        differs: Whether both sides still differ in the same place about a question with one pod.
        tries: How often it may ask.
    """

    def __init__(self, differs: Callable[[Question], bool], tries: int = _TRIES) -> None:
        self._differs = differs
        self._left = tries

    def shrink(self, question: Question) -> Question:
        """Return the smallest question that was found."""
        question = copy.deepcopy(question)
        for _ in range(2):
            question.objects = self._fewer(
                question.objects, lambda objects: self._holds(question, objects)
            )
            self._strip(question)
        return question

    def _holds(self, question: Question, objects: list[Json]) -> bool:
        return self._try(type(question)(objects, question.pods, question.config, question.origin))

    def _try(self, question: Question) -> bool:
        if self._left <= 0:
            return False
        self._left -= 1
        return self._differs(question)

    def _fewer(self, items: list[T], holds: Callable[[list[T]], bool]) -> list[T]:
        size = max(1, len(items) // 2)
        while size:
            start = 0
            while start < len(items):
                without = items[:start] + items[start + size :]
                if holds(without):
                    items = without
                else:
                    start += size
            size //= 2
        return items

    def _strip(self, question: Question) -> None:
        """Leave out fields and list items, the deepest last."""
        for document in (*question.pods, question.config, *question.objects):
            for path in list(_paths(document)):
                self._without(question, document, path)

    def _without(self, question: Question, document: Json, path: Path) -> None:
        parent: Any = document
        try:
            for step in path[:-1]:
                parent = parent[step]
            value = parent[path[-1]]
        except (KeyError, IndexError):
            return  # went with what it was part of
        before = copy.copy(parent)
        del parent[path[-1]]
        if self._try(question):
            return
        if isinstance(parent, list):
            parent[:] = before
        else:
            parent[path[-1]] = value


def _paths(value: Any, path: Path = ()) -> Iterator[Path]:
    """Yield where something can be left out; of lists from the end."""
    if isinstance(value, dict):
        for key in value:
            if key not in _KEPT:
                yield (*path, key)
        for key, inner in value.items():
            yield from _paths(inner, (*path, key))
    elif isinstance(value, list):
        for index in reversed(range(len(value))):
            yield (*path, index)
        for index in reversed(range(len(value))):
            yield from _paths(value[index], (*path, index))
