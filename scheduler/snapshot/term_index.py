"""The affinity terms of pods on nodes, by the domains in which they apply.

An incoming pod needs the terms of existing pods that match it: their required anti-affinity rejects
it, their preferred terms score it. Upstream walks all pods with affinity for every incoming pod
(``plugins/interpodaffinity/filtering.go``, getExistingAntiAffinityCounts).

Any user may write thousands of terms into one pod, and everybody else's decisions must not pay for
them. So the terms of one template about one topology are a group, which is counted by the values of
the topology key on the nodes of its pods: terms whose key those nodes lack apply nowhere, and are
not kept at all. Groups are found by the labels of what they match. And what they add up to for an
incoming pod is kept for the next pod that they cannot tell from it: after that, only changes are
added.
"""

from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import InitVar, dataclass, field
from typing import Final, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np

from scheduler.model.affinity_terms import PodAffinityTerms, TermGroup, TermKind
from scheduler.model.match_index import MatchIndex
from scheduler.model.pod_set import WeightedPods
from scheduler.snapshot.arrays import Ids, Int64s
from scheduler.snapshot.change_log import ChangeLog
from scheduler.snapshot.count_column import CountColumn
from scheduler.snapshot.domain_logs import DomainLogs, nothing_to_do
from scheduler.snapshot.labels import ABSENT, LabelColumn, LabelIndex

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
    """*added* pods more have *group* in the domain *value*, or fewer if it is negative."""

    group: TermGroup
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
        logs: What has changed in the sums.
    """

    column: LabelColumn
    logs: DomainLogs = field(init=False)
    sums: CountColumn = field(default_factory=CountColumn)
    total: int = 0
    pods: int = 0
    catch_up: InitVar[Callable[[], None]] = nothing_to_do

    def __post_init__(self, catch_up: Callable[[], None]) -> None:
        self.logs = DomainLogs(self._sum_in, catch_up)

    def _sum_in(self, row: int) -> int:
        number = int(self.column.ids[row])
        return 0 if number == ABSENT else self.sums[number]

    def add(self, value: str, count: int, weight: int, times: int, labels: LabelIndex) -> None:
        """Add *count* pods in the domain *value*, each with *weight* and *times* as many terms."""
        number = self.column.number(value)
        before, total = self.sums[number], self.total
        self.sums.add(number, count * weight)
        self.total += count * weight
        self.logs.note(labels.few_rows(self.column, number), before, self.sums[number])
        self.logs.note_total(total, self.total)
        self.pods += count * times
        assert self.pods >= 0, f"more pods left {value} than were there"

    def of(self, domains: Ids) -> Int64s:
        """Return the sum of each of *domains*, by their numbers; 0 for NO_DOMAIN."""
        # NO_DOMAIN is -1: it wraps around to the last element, which has no number.
        return self.sums.dense(self.column.values + 1).take(domains, mode="wrap")


NO_SUMS: Final = TermSums(LabelColumn(np.zeros(0, dtype=np.int32)))


@dataclass(slots=True, eq=False)
class _Domains:
    """Where a group applies: how many pods have it, by the value of its key on their nodes.

    Args:
        size: How much it takes to keep the group, in namespaces and values, about.
    """

    size: int
    pods: dict[str, int] = field(default_factory=dict)


@dataclass(slots=True, eq=False)
class MatchingTerms:
    """The sums of the terms that match, by topology key, as of a *position* in the changes.

    They are those of a pod with no other labels than terms read when the sums were built: which
    labels are read changes with the terms.
    """

    asked: "_Asked"
    incoming: Incoming
    position: int
    keys_changes: ChangeLog
    by_key: dict[str, TermSums] = field(default_factory=dict)
    size_bytes: int = 0
    known: WeakKeyDictionary[TermGroup, tuple[int, int]] = field(default_factory=WeakKeyDictionary)

    def weigh(self, group: TermGroup) -> tuple[int, int]:
        """Return the sum of the weights of the terms in *group* that match, and their number."""
        found = self.known.get(group)
        if found is None:
            times = _weight(group.times, self.incoming)
            weight = _weight(group.weights, self.incoming) if self.asked.weighted else times
            found = self.known[group] = weight, times
        return found

    def abandon(self) -> None:
        """Tell readers that these sums are no longer updated: others may take their place."""
        if not self.keys_changes.abandoned:
            self.keys_changes.abandon()
        for sums in self.by_key.values():
            sums.logs.abandon()


class TermIndex:
    """The terms of one kind that apply anywhere, in groups.

    Args:
        kind: The kind.
        labels: The labels of the nodes.
    """

    def __init__(self, kind: TermKind, labels: LabelIndex) -> None:
        self.kind = kind
        self._labels = labels
        self._domains: dict[TermGroup, _Domains] = {}
        self._index: MatchIndex[TermGroup] = MatchIndex()
        # Keys of labels that any term reads, and of labels of namespaces.
        self._labels_read: Counter[str] = Counter()
        self._namespace_labels_read: Counter[str] = Counter()
        # For those who rest on any of the sums; they are computed when they are read.
        self.changes = ChangeLog()
        self.read_changes = ChangeLog()
        """Which labels any term reads: by them pods are kept apart."""
        self._changes: list[_Change] = []
        self._changes_size = 0
        self._first_change = 0
        self._kept: OrderedDict[_Asked, MatchingTerms] = OrderedDict()
        self._kept_bytes = 0
        # What the terms of single pods add up to for the last incoming pod: a dry run adds and
        # removes the same pods many times.
        self._last_asked: tuple[Incoming, bool, int] | None = None
        self._of_pods: WeakKeyDictionary[PodAffinityTerms, Mapping[str, int]] = WeakKeyDictionary()

    def __len__(self) -> int:
        return len(self._domains)

    def add(self, terms: PodAffinityTerms, node_labels: Labels, count: int) -> None:
        """Add *count*, 1 or -1, to the pods with *terms* on a node with *node_labels*."""
        for group in terms.groups[self.kind]:
            value = node_labels.get(group.topology_key)
            if value is not None:
                self._add(group, value, count)
        if len(self._changes) > _CHANGES_KEPT or self._changes_size > _CHANGES_SIZE_KEPT:
            self._forget_changes()
        if not self._domains:
            # Without terms they only take memory.
            self._forget_changes()
            while self._kept:
                self._drop_oldest()

    def sums(self, incoming: Incoming, *, weighted: bool = False) -> Mapping[str, TermSums]:
        """Return the sums of the terms that match *incoming*, by topology key.

        Preferred terms count with their weights if *weighted*, all others for one.
        """
        return self.matching(incoming, weighted=weighted).by_key if self._domains else {}

    def sums_of(
        self, terms: PodAffinityTerms, incoming: Incoming, *, weighted: bool = False
    ) -> Mapping[str, int]:
        """Return, by topology key, the sum of those of one pod's *terms* that match *incoming*."""
        asked = incoming, weighted, self._labels.changes.position
        if self._last_asked != asked:
            self._last_asked = asked
            self._of_pods = WeakKeyDictionary()
        found = self._of_pods.get(terms)
        if found is None:
            sums = {
                group.topology_key: _weight(group.weights if weighted else group.times, incoming)
                for group in terms.groups[self.kind]
                if self._labels.has(group.topology_key)
            }
            found = self._of_pods[terms] = {key: weight for key, weight in sums.items() if weight}
        return found

    def matching(self, incoming: Incoming, *, weighted: bool) -> MatchingTerms:
        """Return the sums of the terms that match *incoming*, and what has changed in them.

        Preferred terms count with their weights if *weighted*, all others for one.
        """
        asked = self._asked(incoming, weighted)
        kept = self._kept.get(asked)
        if kept is None or not self._bring_up_to_date(kept):
            if kept is not None:
                kept.abandon()
            kept = self._kept[asked] = self._build(asked, kept)
        self._kept.move_to_end(asked)
        domains = sum(each.column.values for each in kept.by_key.values())
        size_bytes = _BYTES_AT_LEAST * (1 + len(kept.by_key)) + 16 * domains
        self._kept_bytes += size_bytes - kept.size_bytes
        kept.size_bytes = size_bytes
        while self._kept_bytes > _SUMS_BYTES_KEPT and len(self._kept) > 1:
            self._drop_oldest()
        return kept

    def _drop_oldest(self) -> None:
        _, dropped = self._kept.popitem(last=False)
        self._kept_bytes -= dropped.size_bytes
        dropped.abandon()

    def _add(self, group: TermGroup, value: str, count: int) -> None:
        self.changes.note_all()
        domains = self._domains.get(group)
        if domains is None:
            domains = self._put(group)
        total = domains.pods.get(value, 0) + count
        assert total >= 0, f"terms about {group.topology_key} were removed more often than added"
        if total:
            domains.pods[value] = total
        else:
            del domains.pods[value]
            # An index that kept terms of deleted workloads would grow with every rollout.
            if not domains.pods:
                self._take_out(group)
        if self._kept:
            self._changes.append(_Change(group, value, count))
            self._changes_size += domains.size

    def _put(self, group: TermGroup) -> _Domains:
        for pods, _ in group.times.parts:
            self._index.add(group, pods.namespaces, pods.selector)
        self.read_changes.note_all()
        self._labels_read.update(group.labels_read)
        self._namespace_labels_read.update(group.namespace_labels_read)
        domains = self._domains[group] = _Domains(1 + group.times.named)
        return domains

    def _take_out(self, group: TermGroup) -> None:
        del self._domains[group]
        for pods, _ in group.times.parts:
            self._index.remove(group, pods.namespaces, pods.selector)
        self.read_changes.note_all()
        _uncount(self._labels_read, group.labels_read)
        _uncount(self._namespace_labels_read, group.namespace_labels_read)

    def _forget_changes(self) -> None:
        self._first_change += len(self._changes)
        self._changes.clear()
        self._changes_size = 0

    def _asked(self, incoming: Incoming, weighted: bool) -> _Asked:
        labels = _read(incoming.labels, self._labels_read)
        of_namespace = _read(incoming.namespace_labels, self._namespace_labels_read)
        return _Asked(incoming.namespace, labels, of_namespace, weighted)

    def _build(self, asked: _Asked, before: MatchingTerms | None) -> MatchingTerms:
        """Add up all groups; which of them match is known from the sums *before*."""
        incoming = Incoming(asked.namespace, dict(asked.labels), dict(asked.namespace_labels))
        position = self._first_change + len(self._changes)
        changes = ChangeLog(catch_up=lambda: self._catch_up(kept))
        kept = MatchingTerms(asked, incoming, position, changes)
        if before is not None:
            kept.known, kept.size_bytes = before.known, before.size_bytes
        candidates = self._index.candidates(incoming.namespace, incoming.labels)
        for group in dict.fromkeys(candidates):
            if kept.weigh(group)[1]:
                for value, added in self._domains[group].pods.items():
                    self._change(kept, group, value, added)
        return kept

    def _bring_up_to_date(self, kept: MatchingTerms) -> bool:
        """Add the changes since *kept* was last read; tell whether that was possible."""
        if kept.position < self._first_change or any(
            sums.column is not self._labels.column(key) for key, sums in kept.by_key.items()
        ):
            return False
        for group, value, added in self._changes[kept.position - self._first_change :]:
            # A key that no node has any more came and went: its changes cancel out.
            if self._labels.has(group.topology_key) and kept.weigh(group)[1]:
                self._change(kept, group, value, added)
        kept.position = self._first_change + len(self._changes)
        return True

    def _catch_up(self, kept: MatchingTerms) -> None:
        # Each of the logs asks for this. Where labels have changed, readers read anew anyway.
        if kept.position == self._first_change + len(self._changes) and self._kept:
            return
        if self._kept.get(kept.asked) is not kept or not self._bring_up_to_date(kept):
            kept.abandon()

    def _change(self, kept: MatchingTerms, group: TermGroup, value: str, added: int) -> None:
        key = group.topology_key
        sums = kept.by_key.get(key)
        if sums is None:
            column = self._labels.column(key)
            sums = kept.by_key[key] = TermSums(column, catch_up=lambda: self._catch_up(kept))
            kept.keys_changes.note_all()
        sums.add(value, added, *kept.weigh(group), self._labels)
        if not sums.pods:
            kept.keys_changes.note_all()
            del kept.by_key[key]
            sums.logs.abandon()


def _weight(pods: WeightedPods, incoming: Incoming) -> int:
    """Return for how much *incoming* counts in *pods*."""
    namespace, labels, namespace_labels = incoming
    return pods.weight(namespace, labels, terminating=False, labels_of=lambda _: namespace_labels)


def _read(labels: Labels, read: Mapping[str, int]) -> _LabelSet:
    """Return those of *labels* whose keys are *read*."""
    return frozenset(each for each in labels.items() if each[0] in read) if read else _NO_LABELS


def _uncount(counts: Counter[str], keys: Iterable[str]) -> None:
    for key in keys:
        counts[key] -= 1
        if not counts[key]:
            del counts[key]
