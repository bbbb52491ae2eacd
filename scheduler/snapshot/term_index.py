"""Counts, for every distinct affinity term, the pods on each row that have it.

An incoming pod needs the terms of existing pods that match it: their required anti-affinity rejects
it, their preferred terms score it. Upstream walks all pods with affinity for every incoming pod
(``plugins/interpodaffinity/filtering.go``, getExistingAntiAffinityCounts). Pods of one template
have equal terms, so thousands of pods have a few dozen distinct ones: here each term counts its
pods in a column, and is compared with the incoming pod once.

Where a thousand workloads each keep their own pods apart, even the distinct terms are too many to
compare. Terms are therefore indexed by a namespace and a label that a matching pod must have, and
only those under the namespace and labels of the incoming pod are compared.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import product

from scheduler.model.affinity_terms import AffinityTerm
from scheduler.model.pod import Pod
from scheduler.model.selectors import IN, NOTHING
from scheduler.snapshot.change_log import ChangeLog
from scheduler.snapshot.count_column import CountColumn

_Label = tuple[str, str]
_IndexKey = tuple[str | None, _Label | None]
"""A namespace and a label that a matching pod must have; None where any will do."""


@dataclass(slots=True, eq=False)
class _TermPods:
    """The pods that have a term; a pod that has it twice counts twice."""

    counts: CountColumn = field(default_factory=CountColumn)
    total: int = 0


class TermIndex:
    """The distinct terms of one kind, with the number of pods that have them by row."""

    def __init__(self) -> None:
        self._pods: dict[AffinityTerm, _TermPods] = {}
        self._terms_by_key: dict[_IndexKey, dict[AffinityTerm, None]] = {}
        # Which terms there are at all; how many pods have one is in the changes of its column.
        self.changes = ChangeLog()

    def add(self, row: int, term: AffinityTerm, count: int) -> None:
        """Add *count*, 1 or -1, to the pods on *row* that have *term*."""
        pods = self._pods.get(term)
        if pods is None:
            self.changes.note_all()
            pods = self._pods[term] = _TermPods()
            for key in _index_keys(term):
                self._terms_by_key.setdefault(key, {})[term] = None
        pods.counts.add(row, count)
        pods.total += count
        assert pods.total >= 0, f"a term with {term.selector} was removed more often than added"
        if not pods.total:
            # An index that kept terms of deleted workloads would grow with every rollout.
            assert not pods.counts, f"a term with {term.selector} was removed from the wrong row"
            self._forget(term)

    def counts(self, term: AffinityTerm) -> CountColumn | None:
        """Return how many pods on each row have *term*; None if no pod has it."""
        pods = self._pods.get(term)
        return None if pods is None else pods.counts

    def matching(self, pod: Pod, namespace_labels: Mapping[str, str]) -> list[AffinityTerm]:
        """Return the terms that match *pod*, whose namespace has *namespace_labels*."""
        if not self._terms_by_key:
            return []
        return [
            term
            for key in product((pod.namespace, None), (None, *pod.label_set))
            for term in self._terms_by_key.get(key, ())
            if term.matches(pod.namespace, pod.labels, namespace_labels)
        ]

    def move(self, source: int, target: int, terms: Iterable[AffinityTerm]) -> None:
        """Move the counts of *terms*, those of the pods on *source*, to row *target*."""
        for term in terms:
            self._pods[term].counts.move(source, target)

    def _forget(self, term: AffinityTerm) -> None:
        self.changes.note_all()
        self._pods.pop(term).counts.abandon()
        for key in _index_keys(term):
            terms = self._terms_by_key[key]
            del terms[term]
            if not terms:
                del self._terms_by_key[key]


def _index_keys(term: AffinityTerm) -> Iterator[_IndexKey]:
    """Yield the keys of *term*: a pod that it matches has exactly one of them."""
    # A namespace selector may match any namespace, also one that is created later.
    namespaces = term.namespaces if term.namespace_selector == NOTHING else (None,)
    wanted = [each for each in term.selector.requirements or () if each.operator == IN]
    # One label is enough to find the term; that with the fewest values needs the fewest keys.
    fewest = min(wanted, key=lambda each: len(each.values), default=None)
    labels = [None] if fewest is None else [(fewest.key, each) for each in fewest.values]
    return product(namespaces, labels)
