"""Which pods are counted: by namespace and labels, alone or several with weights."""

from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Final

from scheduler.model.match_index import MatchIndex
from scheduler.model.pieces import PIECE_ENTRIES, finish
from scheduler.model.selectors import DOES_NOT_EXIST, NOT_IN, Selector

if TYPE_CHECKING:
    from scheduler.model.pod import Pod

NamespaceLabels = Callable[[str], Mapping[str, str]]
"""Returns the labels of a namespace by its name."""

_UNLABELLED: Final[Mapping[str, str]] = {}
_FEW: Final = 8
"""So many sets are compared one by one."""


def unlabelled(_: str) -> Mapping[str, str]:
    """Return the labels of a namespace where none has any."""
    return _UNLABELLED


@dataclass(frozen=True, slots=True)
class NamespaceScope:
    """Namespaces by name, and those whose labels a selector matches."""

    names: frozenset[str]
    selector: Selector

    def includes(self, namespace: str, labels: Mapping[str, str]) -> bool:
        """Tell whether a *namespace* with *labels* is one of them."""
        return namespace in self.names or self.selector.matches(labels)


@dataclass(frozen=True, slots=True)
class PodSet:
    """Which pods are counted.

    Args:
        namespaces: Their namespaces; None for all.
        selector: Matches their labels.
        terminating: Whether pods that are being deleted count too: for pod affinity they do
            upstream, for topology spread they do not.
        scopes: Each must include their namespace as well. A namespace selector is kept as it is
            written: expanded, fifty thousand namespaces would be hashed and compared.
    """

    namespaces: frozenset[str] | None
    selector: Selector
    terminating: bool = False
    scopes: tuple[NamespaceScope, ...] = ()
    _hash: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        fields = (self.namespaces, self.selector, self.terminating, self.scopes)
        object.__setattr__(self, "_hash", hash(fields))

    def __hash__(self) -> int:
        return self._hash

    @property
    def scoped(self) -> bool:
        """Whether the labels of namespaces count."""
        return bool(self.scopes)

    @property
    def compared(self) -> int:
        """With how many requirements the labels of any pod are compared."""
        return 1 + len(self.selector.requirements or ())

    @property
    def named(self) -> int:
        """How many labels, values and namespaces are named: so many texts are kept for it."""
        names = len(self.namespaces or ()) + self.selector.named
        return names + sum(len(scope.names) + scope.selector.named for scope in self.scopes)

    def holds(self, pod: "Pod", labels_of: NamespaceLabels = unlabelled) -> bool:
        """Tell whether *pod* is counted; *labels_of* returns the labels of its namespace."""
        return self.matches(pod.namespace, pod.labels, pod.terminating, labels_of)

    def matches(
        self,
        namespace: str,
        labels: Mapping[str, str],
        terminating: bool,
        labels_of: NamespaceLabels,
    ) -> bool:
        """Tell whether a pod in *namespace* with *labels* is counted."""
        return (
            (self.namespaces is None or namespace in self.namespaces)
            and (self.terminating or not terminating)
            and self.selector.matches(labels)
            and (not self.scopes or self.includes(namespace, labels_of(namespace)))
        )

    def includes(self, namespace: str, labels: Mapping[str, str]) -> bool:
        """Tell whether all scopes include a *namespace* with *labels*."""
        return all(scope.includes(namespace, labels) for scope in self.scopes)


@dataclass(frozen=True)
class WeightedPods:
    """Pods of several sets; each counts with the weights of all sets that hold it.

    One pod may have thousands of terms about one topology: counted together they are one column.
    """

    parts: tuple[tuple[PodSet, int], ...]
    _hash: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_hash", hash(self.parts))

    def __hash__(self) -> int:
        return self._hash

    @cached_property
    def namespaces(self) -> frozenset[str] | None:
        """The namespaces of all parts; None if one of them counts pods of any namespace."""
        names = [part.namespaces for part, _ in self.parts]
        listed = [each for each in names if each is not None]
        return frozenset[str]().union(*listed) if len(listed) == len(names) else None

    @cached_property
    def scoped(self) -> bool:
        """Whether the labels of namespaces count."""
        return any(part.scopes for part, _ in self.parts)

    @cached_property
    def _index(self) -> "_PartIndex":
        return finish(_PartIndex.building(self.parts))

    def preparing(self) -> Generator[None, None, None]:
        """Derive in pieces what `weight` would derive at its first call."""
        if len(self.parts) > _FEW and "_index" not in self.__dict__:
            self.__dict__["_index"] = yield from _PartIndex.building(self.parts)

    @property
    def compared(self) -> int:
        """With how many requirements the labels of any pod are compared."""
        if len(self.parts) <= _FEW:
            return sum(part.compared for part, _ in self.parts)
        return self._index.compared

    @cached_property
    def named(self) -> int:
        """How many labels, values and namespaces are named: so many texts are kept for it."""
        return sum(1 + part.named for part, _ in self.parts)

    def weight(
        self,
        namespace: str,
        labels: Mapping[str, str],
        terminating: bool,
        labels_of: NamespaceLabels,
    ) -> int:
        """Return for how much a pod in *namespace* with *labels* counts."""
        if len(self.parts) <= _FEW:
            return sum(
                weight
                for part, weight in self.parts
                if part.matches(namespace, labels, terminating, labels_of)
            )
        index = self._index
        return index.default(namespace, labels) + sum(
            weight
            for part, weight in index.others.candidates(namespace, labels)
            if part.matches(namespace, labels, terminating, labels_of)
        )


_Part = tuple[PodSet, int]


class _PartIndex:
    """Finds the parts that may hold a pod, and adds up those that hold every pod but a few.

    A selector of ``NotIn`` and ``DoesNotExist`` alone matches whatever has none of certain labels.
    Such parts are not compared at all: their weights are added up, and those that a label of the
    pod rules out are subtracted.
    """

    __slots__ = ("_defaults", "_ruled_out", "compared", "others")

    def __init__(self) -> None:
        self.others: MatchIndex[_Part] = MatchIndex()
        self.compared = 0
        self._defaults: dict[str | None, int] = {}
        # By namespace: the parts that a label rules out, or a label of some key.
        self._ruled_out: dict[str | None, dict[tuple[str, str] | str, dict[_Part, None]]] = {}

    @classmethod
    def building(cls, parts: Iterable[_Part]) -> Generator[None, None, "_PartIndex"]:
        """Build an index of *parts* in pieces."""
        index = cls()
        entries = 0
        for part in parts:
            entries += part[0].compared
            if entries >= PIECE_ENTRIES:
                entries = 0
                yield
            index._add(part)
        return index

    def _add(self, part: _Part) -> None:
        pods, weight = part
        if pods.terminating and not pods.scopes and _only_excludes(pods.selector):
            for namespace in (None,) if pods.namespaces is None else pods.namespaces:
                self._defaults[namespace] = self._defaults.get(namespace, 0) + weight
                for label in _excluded(pods.selector):
                    by_label = self._ruled_out.setdefault(namespace, {})
                    by_label.setdefault(label, {})[part] = None
        else:
            self.others.add(part, pods.namespaces, pods.selector)
            if _only_excludes(pods.selector):
                self.compared += 1 + len(pods.selector.requirements or ())

    def default(self, namespace: str, labels: Mapping[str, str]) -> int:
        """Return the sum of the parts that only exclude labels, and exclude none of *labels*."""
        total = 0
        for scope in (namespace, None):
            weight = self._defaults.get(scope)
            if weight is not None:
                by_label = self._ruled_out.get(scope, {})
                ruled_out: dict[_Part, None] = {}
                for label in labels.items():
                    ruled_out.update(by_label.get(label, {}))
                    ruled_out.update(by_label.get(label[0], {}))
                total += weight - sum(weight for _, weight in ruled_out)
        return total


def _only_excludes(selector: Selector) -> bool:
    return selector.requirements is not None and all(
        each.operator in {NOT_IN, DOES_NOT_EXIST} for each in selector.requirements
    )


def _excluded(selector: Selector) -> Iterator[tuple[str, str] | str]:
    """Yield the labels, or the keys of labels, that *selector* excludes."""
    for each in selector.requirements or ():
        if each.operator == NOT_IN:
            yield from ((each.key, value) for value in each.values)
        else:
            yield each.key


Weighted = tuple[PodSet | WeightedPods, int]
"""Which pods to count, and the weight of each."""


def sum_up(parts: Iterable[tuple[PodSet, int]]) -> WeightedPods:
    """Return *parts* together: equal sets become one, with the sum of their weights."""
    merged: dict[PodSet, int] = {}
    for part, weight in parts:
        merged[part] = merged.get(part, 0) + weight
    return WeightedPods(tuple(merged.items()))


def weighted(parts: Iterable[tuple[PodSet, int]]) -> Weighted:
    """Return *parts* together; a single set is itself, so that others may count it as well."""
    found = sum_up(parts)
    return found.parts[0] if len(found.parts) == 1 else (found, 1)
