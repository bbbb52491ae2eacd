"""The affinity terms that pods on nodes carry, and how many carry each on every node.

A pod that comes must know whom it would disturb, and who would like it near. Pods stamped from one
template carry equal terms, so that thousands of pods have a few dozen distinct terms: each keeps a
tally of its carriers, which follows every pod that comes or goes, and a question puts each distinct
term to the incoming pod once.

Even that would be too much where a thousand workloads each keep their own pods apart. Terms are
therefore filed by what a pod must bring for them to be about it: its namespace, and one of its
labels. A pod looks only under what it brings.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import product

from scheduler.model.affinity_terms import AffinityTerm
from scheduler.model.pod import Pod
from scheduler.model.selectors import IN, NOTHING
from scheduler.snapshot.count_column import CountColumn

_Label = tuple[str, str]
_Place = tuple[str | None, _Label | None]
"""A namespace and a label that a pod must have; None where any will do."""


@dataclass(slots=True, eq=False)
class _Carriers:
    """The pods that carry a term; one that carries it twice counts twice."""

    count_column: CountColumn = field(default_factory=CountColumn)
    times: int = 0


class TermIndex:
    """The distinct terms of one kind, with their carriers by row."""

    def __init__(self) -> None:
        self._carriers: dict[AffinityTerm, _Carriers] = {}
        self._filed: dict[_Place, dict[AffinityTerm, None]] = {}

    def add(self, row: int, term: AffinityTerm, count: int) -> None:
        """Count one more carrier of *term* in *row*, or with a *count* of -1 one less."""
        carriers = self._carriers.get(term)
        if carriers is None:
            carriers = self._carriers[term] = _Carriers()
            for place in _places(term):
                self._filed.setdefault(place, {})[term] = None
        carriers.count_column.add(row, count)
        carriers.times += count
        assert carriers.times >= 0, f"a term about {term.selector} left its node twice"
        if not carriers.times:
            self._forget(term)

    def carriers(self, term: AffinityTerm) -> CountColumn | None:
        """Return how many pods on each row carry *term*; None where none does anywhere."""
        carriers = self._carriers.get(term)
        return None if carriers is None else carriers.count_column

    def matching(self, pod: Pod, namespace_labels: Mapping[str, str]) -> list[AffinityTerm]:
        """Return the terms that are about *pod*, whose namespace has *namespace_labels*."""
        if not self._filed:
            return []
        return [
            term
            for place in product((pod.namespace, None), (None, *pod.label_set))
            for term in self._filed.get(place, ())
            if term.matches(pod.namespace, pod.labels, namespace_labels)
        ]

    def move(self, source: int, target: int, terms: Iterable[AffinityTerm]) -> None:
        """Carry what *source* counts, whose pods carry *terms*, over to *target*."""
        for term in terms:
            self._carriers[term].count_column.move(source, target)

    def _forget(self, term: AffinityTerm) -> None:
        del self._carriers[term]
        for place in _places(term):
            terms = self._filed[place]
            del terms[term]
            if not terms:
                del self._filed[place]


def _places(term: AffinityTerm) -> Iterator[_Place]:
    """Yield where *term* is filed: a pod that it is about has just one of these places."""
    namespaces = term.namespaces if term.namespace_selector == NOTHING else (None,)
    wanted = [each for each in term.selector.requirements or () if each.operator == IN]
    narrowest = min(wanted, key=lambda each: len(each.values), default=None)
    labels = [None] if narrowest is None else [(narrowest.key, each) for each in narrowest.values]
    return product(namespaces, labels)
