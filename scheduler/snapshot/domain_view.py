"""A view of the pods in each topology domain: nodes with the same value of a label are one domain.

Source: the counts of ``plugins/podtopologyspread`` and ``plugins/interpodaffinity``.
"""

from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from math import prod

import numpy as np

from scheduler.model.affinity_terms import TermKind
from scheduler.model.pod import Pod
from scheduler.model.pod_set import PodSet, WeightedPods
from scheduler.snapshot import pod_contribution
from scheduler.snapshot.alike import AlikeRows
from scheduler.snapshot.arrays import Ids, Int64s, Mask, read_only
from scheduler.snapshot.column_view import ColumnView
from scheduler.snapshot.count_column import CountColumn
from scheduler.snapshot.domain_totals import Totals
from scheduler.snapshot.domains import (
    NO_DOMAIN,
    DomainCounts,
    DomainPresence,
    Slots,
    slots_of,
)
from scheduler.snapshot.term_index import NO_SUMS, Incoming, TermIndex, TermSums


class DomainView(ColumnView):
    """The methods of a NodeTable that count pods, by row or by domain."""

    __slots__ = ()

    def domains(self, key: str) -> Ids:
        """A number for each distinct value of the label *key*; NO_DOMAIN where it is absent."""
        self._check()
        self._read_label(key)
        return self._gather(self._columns.labels.column(key).ids[: self._column_rows])

    @property
    def labels_position(self) -> int:
        """How many changes of labels there were; for the runner of plugins, not for plugins."""
        self._check()
        return self._columns.labels.changes.position

    def alike(self, keys: Iterable[str]) -> AlikeRows | None:
        """Group the rows that have the same values of the labels *keys*; for the runner of plugins.

        None where the groups could be half as many as the rows.
        """
        self._check()
        columns = [self._columns.labels.column(key) for key in sorted(keys)]
        sizes = [column.values + 1 for column in columns]
        if 2 * prod(sizes) > len(self):
            return None
        slots = np.zeros(len(self), dtype=np.intp)
        for column, size in zip(columns, sizes, strict=True):
            slots = slots * size + slots_of(self._gather(column.ids[: self._column_rows]))
        return AlikeRows.of(slots, prod(sizes))

    def domain_numbers(self, key: str) -> int:
        """How many domain numbers of *key* were assigned: one more than the largest."""
        self._check()
        self._read_of_all(self._columns.labels.changes)
        return self._columns.labels.column(key).values

    def count(self, pods: PodSet) -> Int64s:
        """How many of *pods* are on the node."""
        self._check()
        column = self._counts(self._columns.pod_sets.column(pods, self._column_rows))
        contribution = pod_contribution.counting(pods, self._columns.objects.namespace_labels)
        return self._with_changes(column, contribution)

    def count_domains(self, key: str, pods: PodSet, included: Mask) -> DomainCounts:
        """Count *pods* by the domains of the label *key*.

        Args:
            key: The topology key.
            pods: Which pods count.
            included: Over the rows of ``cluster``: which nodes count, and register their domains.
        """
        totals, column = self._totals(key, pods, included)
        self._read_of_all(column.changes)
        own = self.domains(key)
        if not self._changes:
            return totals.domains.without_changes(own)
        delta = self._added(pods, self._gather(totals.counted))
        return totals.domains.with_changes(own, delta)

    def exceeding_skew(
        self, key: str, pods: PodSet, included: Mask, *, most: int, needed: int
    ) -> Mask:
        """Tell whether a row's domain has over *most* more of *pods* than the emptiest domain.

        With fewer than *needed* domains, the emptiest counts as having none. Prefer this to
        `count_domains`, whose arguments it shares: it changes only where a domain comes to exceed
        that limit, or falls below it.
        """
        if self._changes:
            counts = self.count_domains(key, pods, included)
            least = counts.least if counts.registered >= needed else 0
            return read_only(counts.here - least > most)
        totals, column = self._totals(key, pods, included)
        skewed = totals.beyond((most, needed))
        self._read_by_domain(key, skewed.changes, column.changes)
        return read_only(skewed.beyond.take(self._gather(totals.slots)))

    def has_label(self, key: str, value: str | None = None) -> bool:
        """Whether any node of the cluster has a label *key*; if not, there are no domains of it.

        With a *value*, whether one has or had that: a quick look before `labelled`.
        """
        self._check()
        self._read_of_all(self._columns.labels.changes)
        labels = self._columns.labels
        return labels.has(key) and (value is None or value in labels.column(key).numbers)

    def sum_domains(
        self,
        key: str,
        counted: PodSet | WeightedPods,
        weight: int = 1,
        included: Mask | None = None,
    ) -> Int64s:
        """Sum pods over each row's domain of the label *key*, each *weight* times; 0 without one.

        Every node with the label counts, whatever part of the cluster this view shows, or those
        *included*, over the rows of ``cluster``.
        """
        totals, column = self._totals(key, counted, included)
        self._read_by_domain(key, totals.logs.sums, column.changes)
        sums = totals.domains.counts
        own = self._gather(totals.slots)
        here = (sums if weight == 1 else weight * sums).take(own)
        if not self._changes:
            return read_only(here)
        return read_only(here + weight * self._added(counted, self._gather(totals.counted)))

    def any_in_domain(self, key: str, counted: PodSet | WeightedPods) -> DomainPresence:
        """Tell whether a pod is in each row's domain of the label *key*, or in any domain.

        Prefer this to `sum_domains`: it changes only with the first and the last such pod.
        """
        totals, column = self._totals(key, counted)
        self._read_by_domain(key, totals.logs.presence, column.changes)
        self._read_of_all(totals.logs.anywhere)
        own = self._gather(totals.slots)
        if not self._changes:
            here = (totals.domains.counts > 0).take(own)
            return DomainPresence(here, np.full(len(own), totals.total > 0))
        delta = self._added(counted, own)
        here = totals.domains.counts.take(own) + delta > 0
        return DomainPresence(here, totals.total + delta > 0)

    def _totals(
        self, key: str, counted: PodSet | WeightedPods, included: Mask | None = None
    ) -> tuple[Totals, CountColumn]:
        self._check()
        rows = self._column_rows
        if included is not None:
            # The likely mistake is a mask over the rows of this view; one of length 1 would
            # broadcast.
            assert included.shape == (rows,), f"mask of {included.shape} for {rows} rows"
            assert included.dtype == np.bool_, f"a mask of {included.dtype} includes by number"
            if included.all():
                included = None
        column = self._columns.pod_sets.column(counted, rows)
        return self._columns.totals.of(key, counted, column, rows, included), column

    def _added(self, counted: PodSet | WeightedPods, slots: Slots) -> Int64s:
        """Return how many of the pods that are *counted* what-if changes add to each row."""
        contribution = pod_contribution.counting(counted, self._columns.objects.namespace_labels)
        return np.where(slots == 0, 0, self._changes.sums(contribution))

    def sum_terms(
        self, pod: Pod, kind: TermKind, *, weighted: bool = False
    ) -> Mapping[str, Int64s]:
        """Sum, by topology key, over each row's domain the terms that match an incoming *pod*.

        Preferred terms count with their weights if *weighted*, all others for one.
        """
        found: dict[str, Int64s] = {}
        for key, sums, own, delta in self._terms(pod, kind, weighted=weighted):
            self._read_by_domain(key, sums.logs.sums, self._columns.terms[kind].changes)
            found[key] = sums.of(own) if delta is None else sums.of(own) + delta
        return found

    def any_terms(self, pod: Pod, kind: TermKind) -> Mapping[str, DomainPresence]:
        """Tell, by topology key, whether terms in each row's domain match an incoming *pod*.

        Prefer this to `sum_terms`: it changes only with the first and the last such pod.
        """
        found: dict[str, DomainPresence] = {}
        for key, sums, own, delta in self._terms(pod, kind, weighted=False):
            self._read_by_domain(key, sums.logs.presence, self._columns.terms[kind].changes)
            self._read_of_all(sums.logs.anywhere)
            if delta is None:
                found[key] = DomainPresence(sums.of(own) > 0, np.full(len(own), sums.total > 0))
            else:
                found[key] = DomainPresence(sums.of(own) + delta > 0, sums.total + delta > 0)
        return found

    def _terms(
        self, pod: Pod, kind: TermKind, *, weighted: bool
    ) -> Iterator[tuple[str, TermSums, Ids, Int64s | None]]:
        """Yield each key with its sums, each row's domain, and what what-if changes add there."""
        self._check()
        index = self._columns.terms[kind]
        if not index and not self._changes:
            self._read_of_all(index.changes)
            return
        there = self._columns.objects.namespace_labels(pod.namespace)
        incoming = Incoming(pod.namespace, pod.labels, there)
        matching = index.matching(incoming, weighted=weighted)
        self._read_of_all(index.read_changes)
        self._read_of_all(matching.keys_changes)
        for key in self._changed_keys(matching.by_key, index, incoming, weighted=weighted):
            own = self._gather(self._columns.labels.column(key).ids[: self._column_rows])
            delta = None
            if self._changes:
                contribution = pod_contribution.of_terms(pod, there, index, key, weighted=weighted)
                delta = np.where(own == NO_DOMAIN, 0, self._changes.sums(contribution))
            yield key, matching.by_key.get(key, NO_SUMS), own, delta

    def _changed_keys(
        self, known: Iterable[str], index: TermIndex, incoming: Incoming, *, weighted: bool
    ) -> Iterable[str]:
        """Return the keys that are *known*, and those of pods that what-if changes add."""
        if not self._changes:
            return known
        added = (
            index.sums_of(pod.affinity_terms, incoming, weighted=weighted)
            for pod in self._changes.added
            if pod.spec.affinity is not None
        )
        keys = dict.fromkeys((*known, *chain.from_iterable(added)))
        return filter(self.has_label, keys)
