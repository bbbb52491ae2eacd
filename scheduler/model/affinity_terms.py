"""Compiled pod affinity terms: which pods a term matches, and over which topology.

The fields ``matchLabelKeys`` and ``mismatchLabelKeys`` are not read here: the API server merges
them into the selector when it creates the pod (``pkg/registry/core/pod/strategy.go``).

Source: ``kube-scheduler/framework/types.go`` (AffinityTerm, PodInfo.Update).
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum, auto
from functools import lru_cache
from typing import Final

from scheduler.errors import MalformedObject
from scheduler.model.affinity import Affinity, PodAffinity, PodAffinityTerm
from scheduler.model.selectors import NOTHING, Selector, compile_selector


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

    def matches(
        self, namespace: str, labels: Mapping[str, str], namespace_labels: Mapping[str, str]
    ) -> bool:
        """Tell whether the term matches a pod in *namespace* with *labels*."""
        return (
            namespace in self.namespaces or self.namespace_selector.matches(namespace_labels)
        ) and self.selector.matches(labels)


@dataclass(frozen=True, slots=True)
class PodAffinityTerms:
    """All affinity terms of one pod.

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

    def __iter__(self) -> Iterator[AffinityTerm]:
        yield from self.required_affinity
        yield from self.required_anti_affinity
        yield from self.preferred


NO_TERMS: Final = PodAffinityTerms()


def read_terms(affinity: Affinity | None, namespace: str) -> PodAffinityTerms:
    """Compile the terms in *affinity* of a pod in *namespace*.

    A list with an invalid term counts as empty, and the problem says why: upstream keeps such a pod
    too (``PodInfo.Update`` collects parse errors), so that its other fields still count.
    """
    if affinity is None or (affinity.pod_affinity is None and affinity.pod_anti_affinity is None):
        return NO_TERMS
    affine, anti = affinity.pod_affinity or _EMPTY, affinity.pod_anti_affinity or _EMPTY
    problems: list[str] = []

    def read(what: str, terms: Callable[[], Iterator[AffinityTerm]]) -> tuple[AffinityTerm, ...]:
        try:
            return tuple(terms())
        except MalformedObject as problem:
            problems.append(f"{what}: {problem}")
            return ()

    return _shared(
        PodAffinityTerms(
            required_affinity=read(
                "requiredAffinityTerms",
                lambda: _required(affine, TermKind.REQUIRED_AFFINITY, namespace),
            ),
            required_anti_affinity=read(
                "requiredAntiAffinityTerms",
                lambda: _required(anti, TermKind.REQUIRED_ANTI_AFFINITY, namespace),
            ),
            preferred=read("preferredAffinityTerms", lambda: _preferred(affine, 1, namespace))
            + read("preferredAntiAffinityTerms", lambda: _preferred(anti, -1, namespace)),
            problem=f"[{', '.join(problems)}]" if len(problems) > 1 else "".join(problems),
        )
    )


@lru_cache(maxsize=4096)
def _shared(terms: PodAffinityTerms) -> PodAffinityTerms:
    """Return one object for all equal *terms*.

    Pods of one template then share their terms, and look-ups of terms in dictionaries end at the
    first comparison, by identity.
    """
    return terms


_EMPTY: Final = PodAffinity()


def _required(affinity: PodAffinity, kind: TermKind, namespace: str) -> Iterator[AffinityTerm]:
    for term in affinity.required_during_scheduling_ignored_during_execution:
        yield _read(term, kind, 0, namespace)


def _preferred(affinity: PodAffinity, sign: int, namespace: str) -> Iterator[AffinityTerm]:
    for weighted in affinity.preferred_during_scheduling_ignored_during_execution:
        yield _read(
            weighted.pod_affinity_term, TermKind.PREFERRED, sign * weighted.weight, namespace
        )


def _read(written: PodAffinityTerm, kind: TermKind, weight: int, namespace: str) -> AffinityTerm:
    """Compile one term; without namespaces it selects pods of the pod's own namespace.

    Raises:
        MalformedObject: If a selector is invalid.
    """
    own_namespace = not written.namespaces and written.namespace_selector is None
    return AffinityTerm(
        kind,
        written.topology_key,
        compile_selector(written.label_selector, "labelSelector"),
        frozenset((namespace,) if own_namespace else written.namespaces),
        compile_selector(written.namespace_selector, "namespaceSelector"),
        weight,
    )
