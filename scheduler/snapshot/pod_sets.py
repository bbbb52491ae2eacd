"""Counting without recounting: how many pods on each node match a selector.

Pods of one namespace with the same labels form a group, and a group counts its pods by row. A
*match column* is the sum of the groups that a selector matches; it is made when first asked for and
from then on follows every pod that comes or goes, which costs one addition for each column of the
pod's group. Pods stamped from one template share a group, so a cluster has few; but those of a
StatefulSet carry their own name, so that a cluster of these has as many groups as pods.
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
"""What tells the groups of a namespace apart: labels, and whether their pods are terminating."""


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
    counts: CountColumn = field(default_factory=CountColumn)
    pods: int = 0
    columns: list[CountColumn] = field(default_factory=list)

    def within(self, wanted: PodSet) -> bool:
        return (
            (wanted.namespaces is None or self.namespace in wanted.namespaces)
            and (wanted.terminating or not self.terminating)
            and wanted.selector.matches(self.labels)
        )


class PodSetColumns:
    """Groups of like pods, and the match columns made from them."""

    def __init__(self) -> None:
        self._groups: dict[str, dict[_Kind, _Group]] = {}
        self._columns: OrderedDict[PodSet, CountColumn] = OrderedDict()
        # The same by the namespace they are about; None for all of them.
        self._about: dict[str | None, dict[PodSet, CountColumn]] = {}

    def add(self, row: int, pod: Pod, count: int) -> None:
        """Count *pod* in *row*, or with a *count* of -1 no longer."""
        groups = self._groups.get(pod.namespace)
        if groups is None:
            groups = self._groups[pod.namespace] = {}
        kind = _kind_of(pod)
        group = groups.get(kind)
        if group is None:
            group = groups[kind] = self._found(pod)
        group.counts.add(row, count)
        for column in group.columns:
            column.add(row, count)
        group.pods += count
        assert group.pods >= 0, f"{pod.key} left its node twice"
        if not group.pods:
            del groups[kind]
            if not groups:
                del self._groups[pod.namespace]

    def column(self, wanted: PodSet, rows: int) -> CountColumn:
        """Return how many pods of *wanted* are on each row."""
        column = self._columns.get(wanted)
        if column is None:
            column = self._columns[wanted] = self._build(wanted, rows)
            for namespace in _namespaces(wanted):
                self._about.setdefault(namespace, {})[wanted] = column
            if len(self._columns) > _COLUMNS_KEPT:
                self._forget(*self._columns.popitem(last=False))
        else:
            self._columns.move_to_end(wanted)
        return column

    def move(self, source: int, target: int, pods: Iterable[Pod]) -> None:
        """Carry what *source* counts, which holds *pods*, over to *target*."""
        for namespace, kind in {(pod.namespace, _kind_of(pod)) for pod in pods}:
            self._groups[namespace][kind].counts.move(source, target)
        for column in self._columns.values():
            column.move(source, target)

    def _found(self, pod: Pod) -> _Group:
        group = _Group(pod.namespace, pod.labels, pod.terminating)
        group.columns = [
            column
            for namespace in (pod.namespace, None)
            for wanted, column in self._about.get(namespace, {}).items()
            if group.within(wanted)
        ]
        return group

    def _within(self, wanted: PodSet) -> list[_Group]:
        namespaces = self._groups if wanted.namespaces is None else wanted.namespaces
        return [
            group
            for namespace in namespaces
            for group in self._groups.get(namespace, {}).values()
            if group.within(wanted)
        ]

    def _build(self, wanted: PodSet, rows: int) -> CountColumn:
        groups = self._within(wanted)
        total = np.zeros(rows, dtype=np.int64)
        for group in groups:
            group.counts.add_to(total)
        column = CountColumn.of(total)
        for group in groups:
            group.columns.append(column)
        return column

    def _forget(self, wanted: PodSet, dropped: CountColumn) -> None:
        for group in self._within(wanted):
            group.columns = [column for column in group.columns if column is not dropped]
        for namespace in _namespaces(wanted):
            columns = self._about[namespace]
            del columns[wanted]
            if not columns:
                del self._about[namespace]


def _namespaces(wanted: PodSet) -> Iterable[str | None]:
    return (None,) if wanted.namespaces is None else wanted.namespaces


def _kind_of(pod: Pod) -> _Kind:
    return pod.label_set, pod.terminating
