"""Pod affinity terms, given their meaning: which pods a term is about, and where they count.

The keys in ``matchLabelKeys`` and ``mismatchLabelKeys`` are read by nobody here: the API server
wrote them into the selector when the pod was created (``pkg/registry/core/pod/strategy.go``).

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


class Bond(Enum):
    """How a term binds the pod that carries it."""

    NEAR = auto()
    """Required affinity: such a pod must be in the same domain."""
    APART = auto()
    """Required anti-affinity: no such pod may be in the same domain."""
    PREFERRED = auto()
    """A wish: the more such pods, the better, or the worse where the weight is negative."""


@dataclass(frozen=True, slots=True)
class Term:
    """Pods in some namespaces, with some labels, and the topology in which they count.

    Args:
        bond: How the term binds the pod that carries it.
        topology_key: The node label that tells the domain.
        selector: What the labels of the pods must be.
        namespaces: Where they are.
        namespace_selector: Where else they are: in namespaces with such labels.
        weight: Of a wish; negative where the pod wants to be away from them.
    """

    bond: Bond
    topology_key: str
    selector: Selector
    namespaces: frozenset[str]
    namespace_selector: Selector = NOTHING
    weight: int = 0

    def about(
        self, namespace: str, labels: Mapping[str, str], namespace_labels: Mapping[str, str]
    ) -> bool:
        """Tell whether the term is about a pod in *namespace* with *labels*."""
        return (
            namespace in self.namespaces or self.namespace_selector.matches(namespace_labels)
        ) and self.selector.matches(labels)


@dataclass(frozen=True, slots=True)
class PodTerms:
    """All terms of one pod, by how they bind it.

    Args:
        near: Required affinity.
        apart: Required anti-affinity.
        preferred: Wishes of either sign.
        problem: Why some terms cannot be read, and are left out; empty where all can.
    """

    near: tuple[Term, ...] = ()
    apart: tuple[Term, ...] = ()
    preferred: tuple[Term, ...] = ()
    problem: str = ""

    def of(self, bond: Bond) -> tuple[Term, ...]:
        """Return the terms that bind the pod in one way."""
        match bond:
            case Bond.NEAR:
                return self.near
            case Bond.APART:
                return self.apart
            case Bond.PREFERRED:
                return self.preferred

    def __iter__(self) -> Iterator[Term]:
        yield from self.near
        yield from self.apart
        yield from self.preferred


NO_TERMS: Final = PodTerms()


def read_terms(affinity: Affinity | None, namespace: str) -> PodTerms:
    """Give the terms in *affinity* of a pod in *namespace* their meaning.

    A list that holds an unreadable term counts as empty, and the problem says why.
    """
    if affinity is None or (affinity.pod_affinity is None and affinity.pod_anti_affinity is None):
        return NO_TERMS
    near, apart = affinity.pod_affinity or _EMPTY, affinity.pod_anti_affinity or _EMPTY
    problems: list[str] = []

    def read(what: str, terms: Callable[[], Iterator[Term]]) -> tuple[Term, ...]:
        try:
            return tuple(terms())
        except MalformedObject as problem:
            problems.append(f"{what}: {problem}")
            return ()

    return _shared(
        PodTerms(
            near=read("requiredAffinityTerms", lambda: _required(near, Bond.NEAR, namespace)),
            apart=read(
                "requiredAntiAffinityTerms", lambda: _required(apart, Bond.APART, namespace)
            ),
            preferred=read("preferredAffinityTerms", lambda: _preferred(near, 1, namespace))
            + read("preferredAntiAffinityTerms", lambda: _preferred(apart, -1, namespace)),
            problem=f"[{', '.join(problems)}]" if len(problems) > 1 else "".join(problems),
        )
    )


@lru_cache(maxsize=4096)
def _shared(terms: PodTerms) -> PodTerms:
    """Return the one that stands for all equal *terms*: pods of a template share it."""
    return terms


_EMPTY: Final = PodAffinity()


def _required(affinity: PodAffinity, bond: Bond, namespace: str) -> Iterator[Term]:
    for written in affinity.required_during_scheduling_ignored_during_execution:
        yield _read(written, bond, 0, namespace)


def _preferred(affinity: PodAffinity, sign: int, namespace: str) -> Iterator[Term]:
    for wish in affinity.preferred_during_scheduling_ignored_during_execution:
        yield _read(wish.pod_affinity_term, Bond.PREFERRED, sign * wish.weight, namespace)


def _read(written: PodAffinityTerm, bond: Bond, weight: int, namespace: str) -> Term:
    """Compile one term; without namespaces it is about the pod's own.

    Raises:
        MalformedObject: If a selector is invalid.
    """
    at_home = not written.namespaces and written.namespace_selector is None
    return Term(
        bond,
        written.topology_key,
        compile_selector(written.label_selector, "labelSelector"),
        frozenset((namespace,) if at_home else written.namespaces),
        compile_selector(written.namespace_selector, "namespaceSelector"),
        weight,
    )
