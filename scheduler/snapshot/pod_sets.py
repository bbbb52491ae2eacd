"""How many pods on each row match a selector, kept up to date and not recounted.

Pods of one namespace with the same labels form a *label group*, which counts its pods by row. The
*match column* of a PodSet is the sum of the groups that it matches. It is built when first read;
from then on every pod that is added or removed costs one addition for each column of its group
(``docs/decisions/0002-columns-and-match-columns.md``). The column of WeightedPods is the weighted
sum of the groups of all its parts.

Pods of one template share a group, so most clusters have few. Pods of a StatefulSet have their own
name as a label, so a cluster of those has as many groups as pods: groups are found by dictionary
keys only, and no step of a decision may iterate over all of them.
"""

from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from scheduler.model.fact import KubeObject, Resource, ResourceName
from scheduler.model.match_index import MatchIndex
from scheduler.model.pod import Pod
from scheduler.model.pod_set import NamespaceLabels, PodSet, WeightedPods, unlabelled
from scheduler.model.selectors import EVERYTHING, Selector
from scheduler.snapshot.count_column import CountColumn

_COLUMNS_KEPT: Final = 512
_COUNTS_KEPT: Final = 16 << 20
"""How many counts all columns may have if none is sparse: 128 MiB, reached beyond 30,000 nodes."""
_REQUIREMENTS_KEPT: Final = 8192
"""How many requirements the PodSets of all columns may have: a new group is compared with them."""

_NAMES_KEPT: Final = 32_768
"""How many labels, values and namespaces the PodSets of all columns may name: one pod may name ten
thousand, and would keep ten megabytes here long after it is gone."""

_COMPARED_AT_ONCE: Final = 16384
"""With how many requirements groups are compared between two pauses, at most."""

Counted = PodSet | WeightedPods

LabelSet = frozenset[tuple[str, str]]
_Kind = tuple[LabelSet, bool]
"""Identifies a group within its namespace: the labels, and whether its pods are terminating."""


@dataclass(slots=True, eq=False)
class _LabelGroup:
    """The pods of one namespace with the same labels, either all terminating or none.

    Args:
        columns: The columns that count them, and by how much each pod counts in them.
    """

    namespace: str
    labels: dict[str, str]
    terminating: bool
    counts: CountColumn = field(default_factory=CountColumn)
    pods: int = 0
    columns: list[tuple[CountColumn, int]] = field(default_factory=list)


class PodSetColumns:
    """The label groups of all pods, and the columns of PodSets built from them.

    Args:
        labels_of: Returns the labels of a namespace.
        on_forget: Is called with what a column counts when it is dropped.
    """

    def __init__(
        self,
        labels_of: NamespaceLabels = unlabelled,
        on_forget: Callable[[Counted], None] = lambda _: None,
    ) -> None:
        self._labels_of = labels_of
        self._on_forget = on_forget
        self._groups: dict[str, dict[_Kind, _LabelGroup]] = {}
        self._columns: OrderedDict[Counted, CountColumn] = OrderedDict()
        self._requirements = self._names = 0
        # The same columns by what they count: a new group is compared with those that it may match.
        self._index: MatchIndex[Counted] = MatchIndex()
        # Those that depend on the labels of namespaces.
        self._scoped: dict[Counted, CountColumn] = {}

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
        for column, weight in group.columns:
            column.add(row, count * weight)
        group.pods += count
        assert group.pods >= 0, f"{pod.key} was removed more often than added"
        if not group.pods:
            assert not group.counts, f"{pod.key} was removed from a row that it was not on"
            del groups[kind]
            if not groups:
                del self._groups[pod.namespace]

    def column(self, wanted: Counted, rows: int) -> CountColumn:
        """Return how many pods of *wanted* are on each row, or the sum of their weights."""
        column = self._columns.get(wanted)
        if column is None:
            for _ in self.build(wanted, rows):
                pass
            column = self._columns[wanted]
        else:
            self._columns.move_to_end(wanted)
        return column

    def build(self, wanted: Counted, rows: int) -> Iterator[None]:
        """Build the column of *wanted*, with pauses; nothing may change meanwhile."""
        if wanted in self._columns:
            return
        total = np.zeros(rows, dtype=np.int64)
        counting, compared = [], 0
        for group in self._groups_in(wanted):
            weight = self._weight(group, wanted)
            if weight:
                group.counts.add_to(total, weight)
                counting.append((group, weight))
            compared += 1 + wanted.compared
            if compared > _COMPARED_AT_ONCE:
                compared = 0
                yield
        column = CountColumn.of(total)
        for group, weight in counting:
            group.columns.append((column, weight))
        self._columns[wanted] = column
        self._requirements += wanted.compared
        self._names += wanted.named
        self._index.add(wanted, wanted.namespaces, _selector(wanted))
        if wanted.scoped:
            self._scoped[wanted] = column
        # Each column costs an addition for every pod, and a comparison for every group: without
        # limits, those of deleted workloads would slow down every update.
        while len(self._columns) > 1 and (
            len(self._columns) > _COLUMNS_KEPT
            or len(self._columns) * rows > _COUNTS_KEPT
            or self._requirements > _REQUIREMENTS_KEPT
            or self._names > _NAMES_KEPT
        ):
            self._forget(*self._columns.popitem(last=False))

    def move(self, source: int, target: int, pods: Iterable[Pod]) -> None:
        """Move the counts of row *source*, whose pods are *pods*, to row *target*."""
        for namespace, kind in {(pod.namespace, _kind_of(pod)) for pod in pods}:
            self._groups[namespace][kind].counts.move(source, target)
        for column in self._columns.values():
            column.move(source, target)

    def namespace_changed(
        self, resource: ResourceName, old: KubeObject | None, new: KubeObject | None
    ) -> None:
        """Count the pods of a namespace anew in the columns that depend on its labels."""
        item = new or old
        if resource != Resource.NAMESPACE or not self._scoped or item is None:
            return
        before = {} if old is None else old.metadata.labels
        after = {} if new is None else new.metadata.labels
        if before == after:
            return
        for group in self._groups.get(item.metadata.name, {}).values():
            for wanted, column in self._scoped.items():
                was = _weigh(group, wanted, lambda _: before)
                weight = _weigh(group, wanted, lambda _: after)
                if was != weight:
                    _recount(group, column, weight - was)
                    group.columns = [each for each in group.columns if each[0] is not column]
                    if weight:
                        group.columns.append((column, weight))

    def _new_group(self, pod: Pod) -> _LabelGroup:
        group = _LabelGroup(pod.namespace, pod.labels, pod.terminating)
        for wanted in self._index.candidates(pod.namespace, pod.labels):
            weight = self._weight(group, wanted)
            if weight:
                group.columns.append((self._columns[wanted], weight))
        return group

    def _weight(self, group: _LabelGroup, wanted: Counted) -> int:
        return _weigh(group, wanted, self._labels_of)

    def _groups_in(self, wanted: Counted) -> Iterator[_LabelGroup]:
        namespaces = wanted.namespaces
        found: Iterable[str] = self._groups if namespaces is None else namespaces
        # A term may name tens of thousands, most of which have no pods.
        if namespaces is not None and len(namespaces) > len(self._groups):
            found = [each for each in self._groups if each in namespaces]
        for namespace in found:
            yield from self._groups.get(namespace, {}).values()

    def _forget(self, wanted: Counted, dropped: CountColumn) -> None:
        dropped.abandon()
        self._on_forget(wanted)
        for group in self._groups_in(wanted):
            if group.columns:
                group.columns = [each for each in group.columns if each[0] is not dropped]
        self._requirements -= wanted.compared
        self._names -= wanted.named
        self._index.remove(wanted, wanted.namespaces, _selector(wanted))
        self._scoped.pop(wanted, None)


def _weigh(group: _LabelGroup, wanted: Counted, labels_of: NamespaceLabels) -> int:
    """Return by how much each pod of *group* counts for *wanted*."""
    weigh = wanted.matches if isinstance(wanted, PodSet) else wanted.weight
    return int(weigh(group.namespace, group.labels, group.terminating, labels_of))


def _recount(group: _LabelGroup, column: CountColumn, weight: int) -> None:
    for row in group.counts.rows:
        column.add(row, weight * group.counts[row])


def _selector(wanted: Counted) -> Selector:
    return wanted.selector if isinstance(wanted, PodSet) else EVERYTHING


def _kind_of(pod: Pod) -> _Kind:
    return pod.label_set, pod.terminating
