"""Compiled pod affinity terms: which pods a term matches, and over which topology.

The fields ``matchLabelKeys`` and ``mismatchLabelKeys`` are not read here: the API server merges
them into the selector when it creates the pod (``pkg/registry/core/pod/strategy.go``).

Source: ``kube-scheduler/framework/types.go`` (AffinityTerm, PodInfo.Update).
"""

from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from functools import cached_property
from hashlib import blake2b
from itertools import chain
from typing import Final
from weakref import WeakValueDictionary

import msgspec

from scheduler.errors import MalformedObject
from scheduler.model.affinity import Affinity, PodAffinity, PodAffinityTerm
from scheduler.model.pieces import PIECE_ENTRIES, finish
from scheduler.model.pod_set import (
    NamespaceScope,
    PodSet,
    Weighted,
    WeightedPods,
    sum_up,
    weighted,
)
from scheduler.model.selectors import NOTHING, Selector, all_match, compiling


class TermKind(Enum):
    """The list of a pod's affinity that a term comes from."""

    REQUIRED_AFFINITY = auto()
    """A matching pod must be in the same domain."""
    REQUIRED_ANTI_AFFINITY = auto()
    """No matching pod may be in the same domain."""
    # Upstream keeps two lists here. One is enough, since only the sign of the weight differs.
    PREFERRED = auto()
    """Preferred affinity, or with a negative weight preferred anti-affinity."""


@dataclass(frozen=True, slots=True)
class AffinityTerm:
    """Selects pods by namespace and labels, and names the topology in which they count.

    Args:
        kind: The list that the term comes from.
        topology_key: The node label whose value is the domain.
        selector: Matches the pods' labels.
        namespaces: The pods' namespaces.
        namespace_selector: Matches the labels of further namespaces.
        weight: The weight of a preferred term; negative for preferred anti-affinity.
    """

    kind: TermKind
    topology_key: str
    selector: Selector
    namespaces: frozenset[str]
    namespace_selector: Selector = NOTHING
    weight: int = 0
    _hash: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        who = self.selector, self.namespaces, self.namespace_selector
        object.__setattr__(self, "_hash", hash((self.topology_key, self.weight, *who)))

    def __hash__(self) -> int:
        return self._hash

    @property
    def pods(self) -> PodSet:
        """The pods that the term of an incoming pod matches.

        A quirk of upstream's is kept: a namespace selector that matches a namespace without labels
        selects every namespace.
        """
        if self.namespace_selector == NOTHING:
            return PodSet(self.namespaces, self.selector, terminating=True)
        if self.namespace_selector.matches(_UNLABELLED):
            return PodSet(None, self.selector, terminating=True)
        scope = NamespaceScope(self.namespaces, self.namespace_selector)
        return PodSet(None, self.selector, terminating=True, scopes=(scope,))

    @property
    def incoming(self) -> PodSet:
        """The incoming pods that the term of an existing pod matches."""
        if self.namespace_selector == NOTHING:
            return PodSet(self.namespaces, self.selector, terminating=True)
        # An empty selector holds every namespace: without a scope, such terms can be added up.
        if self.namespace_selector.empty:
            return PodSet(None, self.selector, terminating=True)
        scope = NamespaceScope(self.namespaces, self.namespace_selector)
        return PodSet(None, self.selector, terminating=True, scopes=(scope,))


_UNLABELLED: Final[Mapping[str, str]] = {}


@dataclass(frozen=True)
class TermGroup:
    """The terms of an existing pod that are of one kind, and about one topology.

    Args:
        topology_key: The node label whose value is the domain.
        times: The incoming pods that the terms match, each with the number of terms.
        weights: The same with the weights of preferred terms.
    """

    topology_key: str
    times: WeightedPods
    weights: WeightedPods

    def preparing(self) -> Generator[None, None, None]:
        """Derive in pieces whatever a term index asks of the group."""
        _ = self.labels_read, self.namespace_labels_read
        yield
        _ = self.times.named
        yield from self.times.preparing()
        yield from self.weights.preparing()

    @cached_property
    def labels_read(self) -> frozenset[str]:
        """The keys of all labels of pods that a term reads."""
        selectors = (part.selector for part, _ in self.times.parts)
        return frozenset(each.key for found in selectors for each in found.requirements or ())

    @cached_property
    def namespace_labels_read(self) -> frozenset[str]:
        """The keys of all labels of namespaces that a term reads."""
        scopes = (scope for part, _ in self.times.parts for scope in part.scopes)
        return frozenset(each.key for scope in scopes for each in scope.selector.requirements or ())


@dataclass(frozen=True, eq=False)
class PodAffinityTerms:
    """All affinity terms of one pod.

    Pods of one template share one object. What is derived from thousands of terms is therefore made
    once for each template, and not for each attempt.

    Args:
        required_affinity: Terms of which every one must be met.
        required_anti_affinity: Terms of which none may be met.
        preferred: Preferred terms of both signs.
        problem: Why some terms are invalid and left out; empty if all are valid.
    """

    required_affinity: tuple[AffinityTerm, ...] = ()
    required_anti_affinity: tuple[AffinityTerm, ...] = ()
    preferred: tuple[AffinityTerm, ...] = ()
    problem: str = ""

    def of(self, kind: TermKind) -> tuple[AffinityTerm, ...]:
        """Return the terms of one kind."""
        match kind:
            case TermKind.REQUIRED_AFFINITY:
                return self.required_affinity
            case TermKind.REQUIRED_ANTI_AFFINITY:
                return self.required_anti_affinity
            case TermKind.PREFERRED:
                return self.preferred

    @cached_property
    def groups(self) -> Mapping[TermKind, tuple[TermGroup, ...]]:
        """The terms as they apply to incoming pods."""
        return finish(self._grouped())

    def grouping(self) -> Generator[None, None, None]:
        """Make `groups` in pieces; whoever asks for them afterwards finds them made."""
        if "groups" not in self.__dict__:
            groups = yield from self._grouped()
            self.__dict__["groups"] = groups
            entries = 0
            for group in chain.from_iterable(groups.values()):
                entries += len(group.times.parts)
                if entries >= PIECE_ENTRIES:
                    entries = 0
                    yield from group.preparing()
                    yield
                else:
                    finish(group.preparing())

    def _grouped(self) -> Generator[None, None, Mapping[TermKind, tuple[TermGroup, ...]]]:
        found = {}
        for kind in TermKind:
            found[kind] = yield from _groups(self.of(kind))
        return found

    @cached_property
    def wanted_keys(self) -> tuple[str, ...]:
        """The topology keys of the required affinity, each once."""
        return tuple(dict.fromkeys(term.topology_key for term in self.required_affinity))

    @cached_property
    def wanted(self) -> PodSet:
        """The pods that match all terms of the required affinity."""
        return _of_all(self.required_affinity)

    @cached_property
    def unwanted(self) -> PodSet:
        """The pods that match all terms of the required anti-affinity."""
        return _of_all(self.required_anti_affinity)

    @cached_property
    def avoided(self) -> Mapping[str, Weighted]:
        """The pods that the required anti-affinity matches, by topology key."""
        return _by_key(self.required_anti_affinity, lambda _: 1)

    @cached_property
    def liked(self) -> Mapping[str, Weighted]:
        """The pods that preferred terms match, by topology key, with the weights of the terms."""
        return _by_key(self.preferred, lambda term: term.weight)

    @cached_property
    def mentioned(self) -> Mapping[str, Weighted]:
        """The same pods, each with the number of terms that match it."""
        return _by_key(self.preferred, lambda _: 1)

    @cached_property
    def counted(self) -> tuple[PodSet | WeightedPods, ...]:
        """Everything that is counted for the required and the preferred terms."""
        parts = (*self.avoided.values(), *self.liked.values())
        wanted = (self.wanted,) if self.required_affinity else ()
        return tuple(dict.fromkeys((*wanted, *(counted for counted, _ in parts))))


def _groups(
    terms: Sequence[AffinityTerm],
) -> Generator[None, None, tuple[TermGroup, ...]]:
    by_key: dict[str, list[tuple[PodSet, int]]] = {}
    for index, term in enumerate(terms, 1):
        if index % PIECE_ENTRIES == 0:
            yield
        by_key.setdefault(term.topology_key, []).append((term.incoming, term.weight))
    groups: list[TermGroup] = []
    entries = 0
    for key, alike in by_key.items():
        entries += len(alike)
        if entries >= PIECE_ENTRIES:
            entries = 0
            yield
        times = sum_up((pods, 1) for pods, _ in alike)
        preferred = terms[0].kind is TermKind.PREFERRED
        groups.append(TermGroup(key, times, sum_up(alike) if preferred else times))
    return tuple(groups)


def _of_all(terms: Sequence[AffinityTerm]) -> PodSet:
    assert terms, "without a term every pod would match"
    pods = [term.pods for term in terms]
    listed = [each.namespaces for each in pods if each.namespaces is not None]
    return PodSet(
        frozenset.intersection(*listed) if listed else None,
        all_match(each.selector for each in pods),
        terminating=True,
        scopes=tuple(dict.fromkeys(scope for each in pods for scope in each.scopes)),
    )


def _by_key(
    terms: Iterable[AffinityTerm], weight: Callable[[AffinityTerm], int]
) -> Mapping[str, Weighted]:
    found: dict[str, list[tuple[PodSet, int]]] = {}
    for term in terms:
        found.setdefault(term.topology_key, []).append((term.pods, weight(term)))
    return {key: weighted(parts) for key, parts in found.items()}


NO_TERMS: Final = PodAffinityTerms()


def read_terms(affinity: Affinity | None, namespace: str) -> PodAffinityTerms:
    """Compile the terms in *affinity* of a pod in *namespace*.

    A list with an invalid term counts as empty, and the problem says why: upstream keeps such a pod
    too (``PodInfo.Update`` collects parse errors), so that its other fields still count.
    """
    return finish(reading_terms(affinity, namespace))


def reading_terms(
    affinity: Affinity | None, namespace: str
) -> Generator[None, None, PodAffinityTerms]:
    """Compile the terms in *affinity* in pieces."""
    if affinity is None or (affinity.pod_affinity is None and affinity.pod_anti_affinity is None):
        return NO_TERMS
    # By what is written about pods alone: what each pod of a DaemonSet says about nodes differs.
    written = _encode((namespace, affinity.pod_affinity, affinity.pod_anti_affinity))
    key = blake2b(written, digest_size=16).digest()
    terms = _known.get(key)
    if terms is None:
        terms = yield from _compiling(affinity, namespace)
        # Another pod of the template may have come between two pieces.
        terms = _known.setdefault(key, terms)
    return terms


_encode: Final = msgspec.msgpack.Encoder().encode
_known: Final[WeakValueDictionary[bytes, PodAffinityTerms]] = WeakValueDictionary()


_Written = Iterable[tuple[PodAffinityTerm, int]]
"""Terms as written, each with its weight."""


def _compiling(affinity: Affinity, namespace: str) -> Generator[None, None, PodAffinityTerms]:
    affine, anti = affinity.pod_affinity or _EMPTY, affinity.pod_anti_affinity or _EMPTY
    problems: list[str] = []

    def read(
        what: str, kind: TermKind, written: _Written
    ) -> Generator[None, None, tuple[AffinityTerm, ...]]:
        terms: list[AffinityTerm] = []
        try:
            for index, (term, weight) in enumerate(written, 1):
                if index % PIECE_ENTRIES == 0:
                    yield
                terms.append((yield from _reading(term, kind, weight, namespace)))
        except MalformedObject as problem:
            problems.append(f"{what}: {problem}")
            return ()
        return tuple(terms)

    required = yield from read(
        "requiredAffinityTerms", TermKind.REQUIRED_AFFINITY, _required(affine)
    )
    unwanted = yield from read(
        "requiredAntiAffinityTerms", TermKind.REQUIRED_ANTI_AFFINITY, _required(anti)
    )
    liked = yield from read("preferredAffinityTerms", TermKind.PREFERRED, _preferred(affine, 1))
    disliked = yield from read(
        "preferredAntiAffinityTerms", TermKind.PREFERRED, _preferred(anti, -1)
    )
    problem = f"[{', '.join(problems)}]" if len(problems) > 1 else "".join(problems)
    return PodAffinityTerms(required, unwanted, liked + disliked, problem)


_EMPTY: Final = PodAffinity()


def _required(affinity: PodAffinity) -> _Written:
    return ((each, 0) for each in affinity.required_during_scheduling_ignored_during_execution)


def _preferred(affinity: PodAffinity, sign: int) -> _Written:
    return (
        (each.pod_affinity_term, sign * each.weight)
        for each in affinity.preferred_during_scheduling_ignored_during_execution
    )


def _reading(
    written: PodAffinityTerm, kind: TermKind, weight: int, namespace: str
) -> Generator[None, None, AffinityTerm]:
    """Compile one term; without namespaces it selects pods of the pod's own namespace.

    Raises:
        MalformedObject: If a selector is invalid.
    """
    own_namespace = not written.namespaces and written.namespace_selector is None
    return AffinityTerm(
        kind,
        written.topology_key,
        (yield from compiling(written.label_selector, "labelSelector")),
        frozenset((namespace,) if own_namespace else written.namespaces),
        (yield from compiling(written.namespace_selector, "namespaceSelector")),
        weight,
    )
