"""Counts of pods by topology domain, kept and brought up to date row by row.

Summing a match column by domain takes several passes over all rows. Between two pods of a template
one row of it changes; so the sums are kept, with the counts that went into them, until the labels
of a node change.
"""

from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from scheduler.model.pod_set import PodSet, WeightedPods
from scheduler.snapshot.arrays import Int64s, Mask
from scheduler.snapshot.count_column import COUNT_MAXIMUM, CountColumn
from scheduler.snapshot.domain_logs import DomainLogs, note_rows
from scheduler.snapshot.domain_skew import LIMITS_KEPT, SkewedDomains, SkewLimit
from scheduler.snapshot.domains import Domains, Slots, slots_of
from scheduler.snapshot.labels import LabelColumn, LabelIndex

_BYTES_KEPT: Final = 32 << 20
_OBJECT_BYTES: Final = 2_000
"""The objects of one sum and its logs, without arrays; most of it where a cluster is small."""


_Key = tuple[str, PodSet | WeightedPods, bytes]
"""A topology key, what is counted, and which rows count, in bits; empty where all do."""


@dataclass(slots=True, eq=False)
class Totals:
    """The sums of one match column by the domains of one key.

    Args:
        column: The match column.
        key_column: The numbers of the domains.
        labels: The position of the changes of labels at which the slots were read.
        position: The position of the column's changes up to which they are in the sums.
        slots: The slot of each row.
        counted: The same, but 0 for the rows that do not count.
        counts: The count of each row that is in the sums.
        domains: The sums by slot.
        index: The labels of the nodes.
        total: The sum over all slots.
        logs: What has changed in the sums.
        skewed: The domains beyond each limit that was asked for.
    """

    column: CountColumn
    key_column: LabelColumn
    labels: int
    position: int
    slots: Slots
    counted: Slots
    counts: Int64s
    domains: Domains
    index: LabelIndex
    total: int = field(init=False)
    logs: DomainLogs = field(init=False)
    skewed: OrderedDict[SkewLimit, SkewedDomains] = field(default_factory=OrderedDict)

    def __post_init__(self) -> None:
        self.total = int(self.domains.counts.sum())
        self.logs = DomainLogs(self._sum_in, self._catch_up)

    @property
    def size_bytes(self) -> int:
        """How much memory they take, about."""
        arrays = self.slots.nbytes + self.counts.nbytes
        if self.counted is not self.slots:
            arrays += 2 * self.counted.nbytes
        arrays += (9 + LIMITS_KEPT) * len(self.domains.counts)
        return _OBJECT_BYTES + arrays

    def bring_up_to_date(self, labels: int) -> bool:
        """Add the changes since they were last read; tell whether that was possible."""
        rows = self.column.changes.since(self.position) if labels == self.labels else None
        if rows is None:
            return False
        total = self.total
        for row in set(rows):
            count = min(self.column[row], COUNT_MAXIMUM)
            slot = int(self.counted[row])
            if slot:
                before = int(self.domains.counts[slot])
                after = before + count - int(self.counts[row])
                self.domains.counts[slot] = after
                self.total += after - before
                self.logs.note(self.index.few_rows(self.key_column, slot - 1), before, after)
            self.counts[row] = count
        self.logs.note_total(total, self.total)
        if rows:
            for each in self.skewed.values():
                for slot in each.update():
                    note_rows(each.changes, self.index.few_rows(self.key_column, slot - 1))
        self.position = self.column.changes.position
        return True

    def beyond(self, limit: SkewLimit) -> SkewedDomains:
        """Return the domains beyond *limit*, kept for the limits that were asked for last."""
        skewed = self.skewed.get(limit)
        if skewed is None:
            skewed = SkewedDomains(self.domains, limit, self.slots.item, self._catch_up)
            self.skewed[limit] = skewed
            if len(self.skewed) > LIMITS_KEPT:
                self.skewed.popitem(last=False)[1].changes.abandon()
        self.skewed.move_to_end(limit)
        return skewed

    def abandon(self) -> None:
        """Tell readers that these sums are no longer updated: others may take their place."""
        self.logs.abandon()
        while self.skewed:
            self.skewed.popitem()[1].changes.abandon()

    def _sum_in(self, row: int) -> int:
        return int(self.domains.counts[self.slots[row]])

    def _catch_up(self) -> None:
        # Each of the logs asks for this.
        if self.position == self.column.changes.position and self.labels == (
            self.index.changes.position
        ):
            return
        if not self.bring_up_to_date(self.index.changes.position):
            self.abandon()


class DomainTotals:
    """The sums that were read, for as long as they fit.

    Args:
        labels: The labels of the nodes.
    """

    def __init__(self, labels: LabelIndex) -> None:
        self._labels = labels
        self._known: OrderedDict[_Key, Totals] = OrderedDict()
        self._bytes = 0

    def of(
        self,
        key: str,
        counted: PodSet | WeightedPods,
        column: CountColumn,
        rows: int,
        included: Mask | None = None,
    ) -> Totals:
        """Return the pods of *column* by the domains of *key*, on the nodes that are *included*.

        Every node with the label is if that is None. The result is valid until the next change.
        """
        bits = b"" if included is None else np.packbits(included).tobytes()
        totals = self._known.get((key, counted, bits))
        if (
            totals is None
            or totals.column is not column
            or totals.key_column is not self._labels.column(key)
            or not totals.bring_up_to_date(self._labels.changes.position)
        ):
            if totals is not None:
                self._leave(totals)
            totals = self._build(key, column, rows, included)
            self._known[key, counted, bits] = totals
            self._bytes += totals.size_bytes
            while self._bytes > _BYTES_KEPT and len(self._known) > 1:
                self._leave(self._known.popitem(last=False)[1])
        self._known.move_to_end((key, counted, bits))
        return totals

    def forget(self, counted: PodSet | WeightedPods) -> None:
        """Drop the sums of a match column that is dropped."""
        for each in [each for each in self._known if each[1] == counted]:
            self._leave(self._known.pop(each))
        assert self._bytes >= 0, "the sums that are kept take less than nothing"

    def _leave(self, totals: Totals) -> None:
        self._bytes -= totals.size_bytes
        totals.abandon()

    def _build(self, key: str, column: CountColumn, rows: int, included: Mask | None) -> Totals:
        labels = self._labels.column(key)
        slots, counts = slots_of(labels.ids[:rows]), column.dense(rows).copy()
        counted = slots if included is None else slots * included
        domains = Domains.counting(counted, counts, labels.values + 1)
        return Totals(
            column,
            labels,
            self._labels.changes.position,
            column.changes.position,
            slots,
            counted,
            counts,
            domains,
            self._labels,
        )
