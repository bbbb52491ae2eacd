"""How many pods on each row match a selector, kept up to date and not recounted.

Pods of one namespace with the same labels form a *label group*, which counts its pods by row. The
*match column* of a PodSet is the sum of the groups that it matches. It is built when first read;
from then on every pod that is added or removed costs one addition for each column of its group
(``docs/decisions/0002-columns-and-match-columns.md``).

Pods of one template share a group, so most clusters have few. Pods of a StatefulSet have their own
name as a label, so a cluster of those has as many groups as pods: groups are found by dictionary
keys only, and no step of a decision may iterate over all of them.
"""

from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from scheduler.model.pod import Pod
from scheduler.model.selectors import Selector
from scheduler.snapshot.count_column import CountColumn

_COLUMNS_KEPT: Final = 512

LabelSet = frozenset[tuple[str, str]]
_Kind = tuple[LabelSet, bool]
"""Identifies a group within its namespace: the labels, and whether its pods are terminating."""


@dataclass(frozen=True, slots=True)
class PodSet:
    """Which pods are counted.

    Args:
        namespaces: Their namespaces; None for all.
        selector: Matches their labels.
        terminating: Whether pods that are being deleted count too: for pod affinity they do
            upstream, for topology spread they do not.
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
class _LabelGroup:
    """The pods of one namespace with the same labels, either all terminating or none."""

    namespace: str
    labels: dict[str, str]
    terminating: bool
    counts: CountColumn = field(default_factory=CountColumn)
    pods: int = 0
    columns: list[CountColumn] = field(default_factory=list)

    def is_in(self, wanted: PodSet) -> bool:
        return (
            (wanted.namespaces is None or self.namespace in wanted.namespaces)
            and (wanted.terminating or not self.terminating)
            and wanted.selector.matches(self.labels)
        )


class PodSetColumns:
    """The label groups of all pods, and the columns of PodSets built from them."""

    def __init__(self) -> None:
        self._groups: dict[str, dict[_Kind, _LabelGroup]] = {}
        self._columns: OrderedDict[PodSet, CountColumn] = OrderedDict()
        # The same columns by each namespace that they count; None for those that count all.
        self._by_namespace: dict[str | None, dict[PodSet, CountColumn]] = {}

    def add(self, row: int, pod: Pod, count: int) -> None:
        """Add *pod* to *row*, or with a *count* of -1 remove it."""
        groups = self._groups.get(pod.namespace)
        if groups is None:
            groups = self._groups[pod.namespace] = {}
        kind = _kind_of(pod)
        group = groups.get(kind)
        if group is None:
            group = groups[kind] = self._new_group(pod)
        group.counts.add(row, count)
        for column in group.columns:
            column.add(row, count)
        group.pods += count
        assert group.pods >= 0, f"{pod.key} was removed more often than added"
        if not group.pods:
            assert not group.counts, f"{pod.key} was removed from a row that it was not on"
            del groups[kind]
            if not groups:
                del self._groups[pod.namespace]

    def column(self, wanted: PodSet, rows: int) -> CountColumn:
        """Return how many pods of *wanted* are on each row."""
        column = self._columns.get(wanted)
        if column is None:
            column = self._columns[wanted] = self._build(wanted, rows)
            for namespace in _namespaces(wanted):
                self._by_namespace.setdefault(namespace, {})[wanted] = column
            # Each column costs an addition for every pod: without a limit, those of
            # deleted workloads would slow down every update.
            if len(self._columns) > _COLUMNS_KEPT:
                self._forget(*self._columns.popitem(last=False))
        else:
            self._columns.move_to_end(wanted)
        return column

    def move(self, source: int, target: int, pods: Iterable[Pod]) -> None:
        """Move the counts of row *source*, whose pods are *pods*, to row *target*."""
        for namespace, kind in {(pod.namespace, _kind_of(pod)) for pod in pods}:
            self._groups[namespace][kind].counts.move(source, target)
        for column in self._columns.values():
            column.move(source, target)

    def _new_group(self, pod: Pod) -> _LabelGroup:
        group = _LabelGroup(pod.namespace, pod.labels, pod.terminating)
        group.columns = [
            column
            for namespace in (pod.namespace, None)
            for wanted, column in self._by_namespace.get(namespace, {}).items()
            if group.is_in(wanted)
        ]
        return group

    def _groups_in(self, wanted: PodSet) -> list[_LabelGroup]:
        namespaces = self._groups if wanted.namespaces is None else wanted.namespaces
        return [
            group
            for namespace in namespaces
            for group in self._groups.get(namespace, {}).values()
            if group.is_in(wanted)
        ]

    def _build(self, wanted: PodSet, rows: int) -> CountColumn:
        groups = self._groups_in(wanted)
        total = np.zeros(rows, dtype=np.int64)
        for group in groups:
            group.counts.add_to(total)
        column = CountColumn.of(total)
        for group in groups:
            group.columns.append(column)
        return column

    def _forget(self, wanted: PodSet, dropped: CountColumn) -> None:
        dropped.abandon()
        for group in self._groups_in(wanted):
            group.columns = [column for column in group.columns if column is not dropped]
        for namespace in _namespaces(wanted):
            columns = self._by_namespace[namespace]
            del columns[wanted]
            if not columns:
                del self._by_namespace[namespace]


def _namespaces(wanted: PodSet) -> Iterable[str | None]:
    return (None,) if wanted.namespaces is None else wanted.namespaces


def _kind_of(pod: Pod) -> _Kind:
    return pod.label_set, pod.terminating
