"""Counting without recounting: how many pods on each node match a selector.

Pods of one namespace with the same labels form a group, and a group counts its pods by row. A
*match column* is the sum of the groups that a selector matches; it is made when first asked for and
from then on follows every pod that comes or goes, which costs one addition for each column of the
pod's group. Pods stamped from one template share a group, so a cluster has few.
"""

from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from scheduler.model.pod import Pod
from scheduler.model.selectors import Selector
from scheduler.snapshot.tally import Tally

_COLUMNS_KEPT: Final = 512

LabelSet = frozenset[tuple[str, str]]


@dataclass(frozen=True, slots=True)
class PodSet:
    """Which pods are counted.

    Args:
        namespaces: Where they are; None for everywhere.
        selector: What their labels must be.
        terminating: Whether pods that are being deleted count too.
    """

    namespaces: frozenset[str] | None
    selector: Selector
    terminating: bool = False

    def holds(self, pod: Pod) -> bool:
        """Tell whether *pod* is counted."""
        return (
            (self.namespaces is None or pod.namespace in self.namespaces)
            and (self.terminating or not pod.terminating)
            and self.selector.matches(pod.labels)
        )


@dataclass(slots=True, eq=False)
class _Group:
    """The pods of one namespace that carry the same labels and are all terminating, or none."""

    namespace: str
    labels: dict[str, str]
    terminating: bool
    counts: Tally = field(default_factory=Tally)
    pods: int = 0
    columns: list[Tally] = field(default_factory=list)

    def within(self, wanted: PodSet) -> bool:
        return (
            (wanted.namespaces is None or self.namespace in wanted.namespaces)
            and (wanted.terminating or not self.terminating)
            and wanted.selector.matches(self.labels)
        )


class PodGroups:
    """Groups of like pods, and the match columns made from them."""

    def __init__(self) -> None:
        self._groups: dict[tuple[str, LabelSet, bool], _Group] = {}
        self._columns: OrderedDict[PodSet, Tally] = OrderedDict()

    def add(self, row: int, pod: Pod, count: int) -> None:
        """Count *pod* in *row*, or with a *count* of -1 no longer."""
        key = (pod.namespace, pod.label_set, pod.terminating)
        group = self._groups.get(key)
        if group is None:
            group = self._groups[key] = self._found(pod)
        group.counts.add(row, count)
        for column in group.columns:
            column.add(row, count)
        group.pods += count
        assert group.pods >= 0, f"{pod.key} left its node twice"
        if not group.pods:
            del self._groups[key]

    def column(self, wanted: PodSet, rows: int) -> Tally:
        """Return how many pods of *wanted* are on each row."""
        column = self._columns.get(wanted)
        if column is None:
            column = self._columns[wanted] = self._build(wanted, rows)
            if len(self._columns) > _COLUMNS_KEPT:
                self._forget(self._columns.popitem(last=False)[1])
        else:
            self._columns.move_to_end(wanted)
        return column

    def move(self, source: int, target: int) -> None:
        """Carry what *source* counts over to *target*."""
        for group in self._groups.values():
            group.counts.move(source, target)
        for column in self._columns.values():
            column.move(source, target)

    def _found(self, pod: Pod) -> _Group:
        group = _Group(pod.namespace, pod.labels, pod.terminating)
        group.columns = [column for wanted, column in self._columns.items() if group.within(wanted)]
        return group

    def _build(self, wanted: PodSet, rows: int) -> Tally:
        groups = [group for group in self._groups.values() if group.within(wanted)]
        total = np.zeros(rows, dtype=np.int64)
        for group in groups:
            total += group.counts.dense(rows)
        column = Tally.of(total)
        for group in groups:
            group.columns.append(column)
        return column

    def _forget(self, dropped: Tally) -> None:
        for group in self._groups.values():
            group.columns = [column for column in group.columns if column is not dropped]
