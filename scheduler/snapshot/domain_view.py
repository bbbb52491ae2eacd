"""A view of the pods in each topology domain: nodes with the same value of a label are one domain.

Source: the counts of ``plugins/podtopologyspread`` and ``plugins/interpodaffinity``.
"""

from collections.abc import Iterable, Mapping
from itertools import chain

import numpy as np

from scheduler.model.affinity_terms import TermKind
from scheduler.model.pod import Pod
from scheduler.model.pod_set import PodSet, WeightedPods
from scheduler.snapshot import pod_contribution
from scheduler.snapshot.arrays import Ids, Int64s, Mask
from scheduler.snapshot.column_view import ColumnView
from scheduler.snapshot.domains import (
    NO_DOMAIN,
    DomainCounts,
    Domains,
    DomainSums,
    slots_of,
)
from scheduler.snapshot.term_index import NO_SUMS, Incoming, TermIndex


class DomainView(ColumnView):
    """The methods of a NodeTable that count pods, by row or by domain."""

    __slots__ = ()

    def domains(self, key: str) -> Ids:
        """A number for each distinct value of the label *key*; NO_DOMAIN where it is absent."""
        self._check()
        self._read(self._columns.labels.changes)
        return self._gather(self._columns.labels.column(key).ids[: self._column_rows])

    def domain_numbers(self, key: str) -> int:
        """How many domain numbers of *key* were assigned: one more than the largest."""
        self._check()
        self._read(self._columns.labels.changes)
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
        self._check()
        # The likely mistake is a mask over the rows of this view; one of length 1 would broadcast.
        assert included.shape == (self._column_rows,), (
            f"mask of {included.shape} for {self._column_rows} rows"
        )
        assert included.dtype == np.bool_, f"a mask of {included.dtype} includes by number"
        ids = self._columns.labels.column(key).ids[: self._column_rows]
        column = self._columns.pod_sets.column(pods, self._column_rows)
        self._read_column(column)
        self._read(self._columns.labels.changes)
        if included.all():
            domains, slots = self._columns.totals.of(key, pods, column, self._column_rows)
        else:
            slots = slots_of(np.where(included, ids, NO_DOMAIN))
            counts = column.dense(self._column_rows)
            domains = Domains.counting(slots, counts, self.domain_numbers(key) + 1)
        own = self._gather(ids)
        if not self._changes:
            return domains.without_changes(own)
        contribution = pod_contribution.counting(pods, self._columns.objects.namespace_labels)
        delta = np.where(self._gather(slots) > 0, self._changes.sums(contribution), 0)
        return domains.with_changes(own, delta)

    def has_label(self, key: str) -> bool:
        """Whether any node of the cluster has a label *key*; if not, there are no domains of it."""
        self._check()
        self._read(self._columns.labels.changes)
        return self._columns.labels.has(key)

    def sum_domains(self, key: str, counted: PodSet | WeightedPods, weight: int = 1) -> DomainSums:
        """Sum pods by the domains of the label *key*, each *weight* times.

        Every node with the label counts, whatever part of the cluster this view shows.
        """
        self._check()
        self._read(self._columns.labels.changes)
        column = self._columns.pod_sets.column(counted, self._column_rows)
        self._read_column(column)
        domains, slots = self._columns.totals.of(key, counted, column, self._column_rows)
        sums = domains.counts if weight == 1 else weight * domains.counts
        own = self._gather(slots)
        here, total = sums.take(own), np.full(len(own), int(sums.sum()))
        if not self._changes:
            return DomainSums(here, total)
        contribution = pod_contribution.counting(counted, self._columns.objects.namespace_labels)
        delta = np.where(own == 0, 0, weight * self._changes.sums(contribution))
        return DomainSums(here + delta, total + delta)

    def sum_terms(
        self, pod: Pod, kind: TermKind, *, weighted: bool = False
    ) -> Mapping[str, DomainSums]:
        """Sum, by topology key, the terms of pods on any node that match an incoming *pod*.

        Preferred terms count with their weights if *weighted*, all others for one.
        """
        self._check()
        self._read(self._columns.terms[kind].changes)
        index = self._columns.terms[kind]
        if not index and not self._changes:
            return {}
        there = self._columns.objects.namespace_labels(pod.namespace)
        incoming = Incoming(pod.namespace, pod.labels, there)
        known = index.sums(incoming, weighted=weighted)
        found: dict[str, DomainSums] = {}
        for key in self._changed_keys(known, index, incoming, weighted=weighted):
            own, sums = self.domains(key), known.get(key, NO_SUMS)
            here, total = sums.of(own), np.full(len(own), sums.total)
            if self._changes:
                contribution = pod_contribution.of_terms(pod, there, index, key, weighted=weighted)
                delta = np.where(own == NO_DOMAIN, 0, self._changes.sums(contribution))
                here, total = here + delta, total + delta
            found[key] = DomainSums(here, total)
        return found

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
