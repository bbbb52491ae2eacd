"""The affinity terms of pods on nodes, by the domains in which they apply.

An incoming pod needs the terms of existing pods that match it: their required anti-affinity rejects
it, their preferred terms score it. Upstream walks all pods with affinity for every incoming pod
(``plugins/interpodaffinity/filtering.go``, getExistingAntiAffinityCounts).

Any user may write thousands of terms into one pod, and everybody else's decisions must not pay for
them. So a term is known by the values that its topology key has on the nodes of its pods: one whose
key those nodes lack applies nowhere, and is not kept at all. Distinct terms are found by the labels
of what they match. And what they add up to for an incoming pod is kept for the next pod that they
cannot tell from it: after that, only changes are added.
"""

from collections import Counter, OrderedDict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np

from scheduler.model.affinity_terms import AffinityTerm, PodAffinityTerms, TermKind
from scheduler.model.match_index import MatchIndex
from scheduler.model.selectors import NOTHING, Selector
from scheduler.snapshot.arrays import Ids, Int64s
from scheduler.snapshot.change_log import ChangeLog
from scheduler.snapshot.count_column import CountColumn
from scheduler.snapshot.labels import LabelColumn, LabelIndex

_CHANGES_KEPT: Final = 4096
_CHANGES_SIZE_KEPT: Final = 65536
"""How many namespaces and values the terms of all changes may list."""

_SUMS_BYTES_KEPT: Final = 16 << 20
_BYTES_AT_LEAST: Final = 1024

Labels = Mapping[str, str]
_LabelSet = frozenset[tuple[str, str]]
_NO_LABELS: Final[_LabelSet] = frozenset()


class Incoming(NamedTuple):
    """What terms read of an incoming pod."""

    namespace: str
    labels: Labels
    namespace_labels: Labels


class _Asked(NamedTuple):
    """Pods for which the sums are equal.

    Args:
        namespace: Their namespace.
        labels: Those of their labels that any term reads.
        namespace_labels: Those of their namespace's labels that any term reads.
        weighted: Whether terms count with their weights, or each for one.
    """

    namespace: str
    labels: _LabelSet
    namespace_labels: _LabelSet
    weighted: bool


class _Change(NamedTuple):
    """*added* pods more have *term* in the domain *value*, or fewer if it is negative."""

    term: AffinityTerm
    value: str
    added: int


@dataclass(slots=True, eq=False)
class TermSums:
    """The terms about one topology key that match an incoming pod, added up by domain.

    Args:
        column: The numbers of the domains.
        sums: By number, the sum of the terms' weights over the pods that have them.
        total: The sum over all domains.
        pods: How many pods have such terms; one with two of them counts twice.
    """

    column: LabelColumn
    sums: CountColumn = field(default_factory=CountColumn)
    total: int = 0
    pods: int = 0

    def add(self, value: str, count: int, weight: int) -> None:
        """Add *count* pods in the domain *value*, each with *weight*."""
        self.sums.add(self.column.number(value), count * weight)
        self.total += count * weight
        self.pods += count
        assert self.pods >= 0, f"more pods left {value} than were there"

    def of(self, domains: Ids) -> Int64s:
        """Return the sum of each of *domains*, by their numbers; 0 for NO_DOMAIN."""
        # NO_DOMAIN is -1: it wraps around to the last element, which has no number.
        return self.sums.dense(self.column.values + 1).take(domains, mode="wrap")


NO_SUMS: Final = TermSums(LabelColumn(np.zeros(0, dtype=np.int32)))


@dataclass(slots=True, eq=False)
class _Domains:
    """Where a term applies: how many pods have it, by the value of its key on their nodes.

    Args:
        size: How many namespaces and values the term lists, about.
    """

    size: int
    pods: dict[str, int] = field(default_factory=dict)


@dataclass(slots=True, eq=False)
class _Kept:
    """The sums by topology key, as of a *position* in the changes.

    They are those of a pod with no other labels than terms read when the sums were built: which
    labels are read changes with the terms.
    """

    incoming: Incoming
    weighted: bool
    position: int
    by_key: dict[str, TermSums] = field(default_factory=dict)
    size_bytes: int = 0


class TermIndex:
    """The distinct terms of one kind that apply anywhere.

    Args:
        kind: The kind.
        labels: The labels of the nodes.
    """

    def __init__(self, kind: TermKind, labels: LabelIndex) -> None:
        self.kind = kind
        self._labels = labels
        self._domains: dict[AffinityTerm, _Domains] = {}
        self._index: MatchIndex[AffinityTerm] = MatchIndex()
        # Keys of labels that any term reads, and of labels of namespaces.
        self._labels_read: Counter[str] = Counter()
        self._namespace_labels_read: Counter[str] = Counter()
        # For those who rest on any of the sums; they are computed when they are read.
        self.changes = ChangeLog()
        self._changes: list[_Change] = []
        self._changes_size = 0
        self._first_change = 0
        self._kept: OrderedDict[_Asked, _Kept] = OrderedDict()
        self._kept_bytes = 0
        # What the terms of single pods add up to for the last incoming pod: a dry run adds and
        # removes the same pods many times.
        self._last_asked: tuple[Incoming, bool] | None = None
        self._of_pods: WeakKeyDictionary[PodAffinityTerms, Mapping[str, int]] = WeakKeyDictionary()

    def __len__(self) -> int:
        return len(self._domains)

    def add(self, terms: PodAffinityTerms, node_labels: Labels, count: int) -> None:
        """Add *count*, 1 or -1, to the pods with *terms* on a node with *node_labels*."""
        for term in terms.of(self.kind):
            value = node_labels.get(term.topology_key)
            if value is not None:
                self._add(term, value, count)
        if len(self._changes) > _CHANGES_KEPT or self._changes_size > _CHANGES_SIZE_KEPT:
            self._forget_changes()
        if not self._domains:
            # Without terms they only take memory.
            self._forget_changes()
            self._kept.clear()
            self._kept_bytes = 0

    def sums(self, incoming: Incoming, *, weighted: bool = False) -> Mapping[str, TermSums]:
        """Return the sums of the terms that match *incoming*, by topology key.

        Preferred terms count with their weights if *weighted*, all others for one.
        """
        return self._sums(incoming, weighted).by_key if self._domains else {}

    def sums_of(
        self, terms: PodAffinityTerms, incoming: Incoming, *, weighted: bool = False
    ) -> Mapping[str, int]:
        """Return, by topology key, the sum of those of one pod's *terms* that match *incoming*."""
        if self._last_asked != (incoming, weighted):
            self._last_asked = incoming, weighted
            self._of_pods = WeakKeyDictionary()
        found = self._of_pods.get(terms)
        if found is None:
            sums: dict[str, int] = {}
            for term in terms.of(self.kind):
                if term.matches(*incoming):
                    weight = term.weight if weighted else 1
                    sums[term.topology_key] = sums.get(term.topology_key, 0) + weight
            found = self._of_pods[terms] = sums
        return found

    def _sums(self, incoming: Incoming, weighted: bool) -> _Kept:
        asked = self._asked(incoming, weighted)
        kept = self._kept.get(asked)
        if kept is None or not self._bring_up_to_date(kept):
            built = self._build(asked)
            built.size_bytes = 0 if kept is None else kept.size_bytes
            kept = self._kept[asked] = built
        self._kept.move_to_end(asked)
        domains = sum(each.column.values for each in kept.by_key.values())
        size_bytes = _BYTES_AT_LEAST * (1 + len(kept.by_key)) + 16 * domains
        self._kept_bytes += size_bytes - kept.size_bytes
        kept.size_bytes = size_bytes
        while self._kept_bytes > _SUMS_BYTES_KEPT and len(self._kept) > 1:
            self._kept_bytes -= self._kept.popitem(last=False)[1].size_bytes
        return kept

    def _add(self, term: AffinityTerm, value: str, count: int) -> None:
        self.changes.note_all()
        domains = self._domains.get(term)
        if domains is None:
            domains = self._domains[term] = _Domains(_size_of(term))
            self._index.add(term, _namespaces(term), term.selector)
            self._labels_read.update(_keys(term.selector))
            self._namespace_labels_read.update(_keys(term.namespace_selector))
        total = domains.pods.get(value, 0) + count
        assert total >= 0, f"a term with {term.selector} was removed more often than added"
        if total:
            domains.pods[value] = total
        else:
            del domains.pods[value]
            # An index that kept terms of deleted workloads would grow with every rollout.
            if not domains.pods:
                self._take_out(term)
        if self._kept:
            self._changes.append(_Change(term, value, count))
            self._changes_size += domains.size

    def _take_out(self, term: AffinityTerm) -> None:
        del self._domains[term]
        self._index.remove(term, _namespaces(term), term.selector)
        _uncount(self._labels_read, _keys(term.selector))
        _uncount(self._namespace_labels_read, _keys(term.namespace_selector))

    def _forget_changes(self) -> None:
        self._first_change += len(self._changes)
        self._changes.clear()
        self._changes_size = 0

    def _asked(self, incoming: Incoming, weighted: bool) -> _Asked:
        labels = _read(incoming.labels, self._labels_read)
        of_namespace = _read(incoming.namespace_labels, self._namespace_labels_read)
        return _Asked(incoming.namespace, labels, of_namespace, weighted)

    def _build(self, asked: _Asked) -> _Kept:
        incoming = Incoming(asked.namespace, dict(asked.labels), dict(asked.namespace_labels))
        kept = _Kept(incoming, asked.weighted, self._first_change + len(self._changes))
        for term in self._index.candidates(incoming.namespace, incoming.labels):
            if term.matches(*incoming):
                for value, added in self._domains[term].pods.items():
                    self._change(kept, term, value, added)
        return kept

    def _bring_up_to_date(self, kept: _Kept) -> bool:
        """Add the changes since *kept* was last read; tell whether that was possible."""
        if kept.position < self._first_change or any(
            sums.column is not self._labels.column(key) for key, sums in kept.by_key.items()
        ):
            return False
        for term, value, added in self._changes[kept.position - self._first_change :]:
            # A key that no node has any more came and went: its changes cancel out.
            if self._labels.has(term.topology_key) and term.matches(*kept.incoming):
                self._change(kept, term, value, added)
        kept.position = self._first_change + len(self._changes)
        return True

    def _change(self, kept: _Kept, term: AffinityTerm, value: str, added: int) -> None:
        key = term.topology_key
        sums = kept.by_key.get(key)
        if sums is None:
            sums = kept.by_key[key] = TermSums(self._labels.column(key))
        sums.add(value, added, term.weight if kept.weighted else 1)
        if not sums.pods:
            del kept.by_key[key]


def _namespaces(term: AffinityTerm) -> frozenset[str] | None:
    # A namespace selector may match any namespace, also one that is created later.
    return term.namespaces if term.namespace_selector == NOTHING else None


def _keys(selector: Selector) -> Iterator[str]:
    return (each.key for each in selector.requirements or ())


def _size_of(term: AffinityTerm) -> int:
    requirements = (
        *(term.selector.requirements or ()),
        *(term.namespace_selector.requirements or ()),
    )
    return 1 + len(term.namespaces) + sum(1 + len(each.values) for each in requirements)


def _read(labels: Labels, read: Mapping[str, int]) -> _LabelSet:
    """Return those of *labels* whose keys are *read*."""
    return frozenset(each for each in labels.items() if each[0] in read) if read else _NO_LABELS


def _uncount(counts: Counter[str], keys: Iterable[str]) -> None:
    for key in keys:
        counts[key] -= 1
        if not counts[key]:
            del counts[key]
