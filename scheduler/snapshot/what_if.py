"""What-if changes: for some rows, the pods that are added to that row's node and removed from it.

A preemption dry run removes pods and reprieves them one by one, on a thousand nodes at once.
Changes are therefore kept as steps, each with a pointer to the step before, and their sums for a
column are computed once for each step: a further step costs only what it changes. Upstream clones
one NodeInfo for each candidate and adds pods back to it (``framework/preemption/preemption.go``,
DryRunPreemption); here one copy for each node would cost more than columns save.
"""

from collections.abc import Callable, Collection, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Optional

import numpy as np
from numpy.typing import NDArray

from scheduler.model.pod import Pod
from scheduler.snapshot.arrays import Int64s
from scheduler.snapshot.count_column import COUNT_MAXIMUM
from scheduler.snapshot.pod_contribution import Contribution
from scheduler.snapshot.potential_victims import PotentialVictims

_PodsByRow = Mapping[int, Sequence[Pod]]

_NO_UIDS: Final[frozenset[str]] = frozenset()


@dataclass(frozen=True, slots=True)
class RowChange:
    """What differs on one node: in its own row of a what-if table, and only there."""

    added: tuple[Pod, ...] = ()
    removed: tuple[Pod, ...] = ()


class _Step:
    """Pods that are added and removed by row, after the steps *before*.

    Results over all steps so far are computed when first needed, and kept with the last step.
    """

    __slots__ = (
        "adding",
        "before",
        "combined",
        "net_additions",
        "removed_uids",
        "removing",
        "sums",
    )

    def __init__(self, adding: _PodsByRow, removing: _PodsByRow, before: Optional["_Step"]) -> None:
        self.before = before
        self.adding = _fixed(adding)
        self.removing = _fixed(removing)
        self.sums: dict[Hashable, Int64s] = {}
        self.combined: dict[int, RowChange] | None = None
        self.net_additions: tuple[Pod, ...] | None = None
        self.removed_uids: frozenset[str] | None = None

    def back_to(self, known: Callable[["_Step"], bool]) -> list["_Step"]:
        """Return this step and those before it, back to the latest with a *known* result."""
        # Not recursive: each reprieved pod is a step, and a node may have thousands of pods.
        steps = [self]
        while steps[-1].before is not None and not known(steps[-1]):
            steps.append(steps[-1].before)
        return steps

    def add_to(self, total: Int64s, contribution: Contribution) -> None:
        """Add to *total*, by row, what the pods of this step alone contribute."""
        if self.adding:
            total[list(self.adding)] += _totals(self.adding.values(), contribution)
        if self.removing:
            total[list(self.removing)] -= _totals(self.removing.values(), contribution)

    def net_added(self) -> Iterator[Pod]:
        """Yield the pods that this step adds, except those that an earlier step removed."""
        gone = _NO_UIDS if self.before is None else self.before.removed()
        for pods in self.adding.values():
            for pod in pods:
                if pod.uid not in gone:
                    yield pod

    def removed(self) -> frozenset[str]:
        """Return the UIDs of all pods that this step and those before it remove."""
        if self.removed_uids is None:
            steps = self.back_to(lambda step: step.removed_uids is not None)
            here = (pods for step in steps for pods in step.removing.values())
            self.removed_uids = (steps[-1].removed_uids or _NO_UIDS).union(
                pod.uid for pods in here for pod in pods
            )
        return self.removed_uids

    def combine_into(self, rows: dict[int, RowChange]) -> None:
        """Merge the changes of this step alone into *rows*."""
        for row in self.adding.keys() | self.removing.keys():
            rows[row] = _combine(
                rows.get(row, RowChange()), self.adding.get(row, ()), self.removing.get(row, ())
            )


def _fixed(by_row: _PodsByRow) -> dict[int, tuple[Pod, ...]]:
    return {
        row: pods if isinstance(pods, tuple) else tuple(pods)
        for row, pods in by_row.items()
        if pods
    }


def _totals(groups: Collection[tuple[Pod, ...]], contribution: Contribution) -> Int64s:
    """Return what the pods of each group contribute in total."""
    if max(map(len, groups)) == 1:
        totals = contribution.of([pod for (pod,) in groups])
    else:
        totals = [
            pods.total(contribution)
            if type(pods) is PotentialVictims
            else min(sum(contribution.of(pods)), COUNT_MAXIMUM)
            for pods in groups
        ]
    assert len(totals) == len(groups), f"{len(totals)} contributions of {len(groups)} groups"
    return np.array(totals, dtype=np.int64)


class RowChanges:
    """Changes by row of the view that they belong to.

    Args:
        size: How many rows that view has.
        adding: Pods that are added to those that are there.
        removing: Pods that are removed.
        before: Changes that were made already.
    """

    __slots__ = ("last", "size")

    def __init__(
        self,
        size: int,
        adding: _PodsByRow,
        removing: _PodsByRow,
        before: Optional["RowChanges"] = None,
    ) -> None:
        assert before is None or before.size == size, "changes of a view with other rows"
        self.size: int = size
        self.last: _Step = _Step(adding, removing, None if before is None else before.last)

    def __bool__(self) -> bool:
        last = self.last
        return bool(last.adding) or bool(last.removing) or last.before is not None

    @property
    def rows(self) -> Iterator[int]:
        """Rows that may differ from the true cluster."""
        return iter(self._by_row())

    def items(self) -> Iterator[tuple[int, RowChange]]:
        """Yield every row that may differ, with its change."""
        return iter(self._by_row().items())

    @property
    def added(self) -> Sequence[Pod]:
        """Pods that some row has and the true cluster has not."""
        steps = self.last.back_to(lambda step: step.net_additions is not None)
        new = steps[-1].net_additions
        for step in reversed(steps if new is None else steps[:-1]):
            new = (*(new or ()), *step.net_added())
        self.last.net_additions = new
        return new or ()

    def get(self, row: int) -> RowChange | None:
        """Return what differs in *row*."""
        return self._by_row().get(row)

    def sums(self, contribution: Contribution) -> Int64s:
        """Return, by row, what added pods contribute, less what removed pods contribute."""
        key = contribution.key
        steps = self.last.back_to(lambda step: key in step.sums)
        known = steps[-1].sums.get(key)
        if known is not None and len(steps) == 1:
            return known
        total = np.zeros(self.size, dtype=np.int64) if known is None else known.copy()
        for step in steps if known is None else steps[:-1]:
            step.add_to(total, contribution)
        total.flags.writeable = False
        self.last.sums[key] = total
        return total

    def select(self, chosen: NDArray[np.intp]) -> "RowChanges":
        """Return the changes of the rows *chosen*, under their new numbers."""
        if not self:
            return self
        changes = self._by_row()
        found = {new: changes[old] for new, old in enumerate(chosen.tolist()) if old in changes}
        selected = RowChanges(
            len(chosen),
            {row: change.added for row, change in found.items()},
            {row: change.removed for row, change in found.items()},
        )
        selected.last.sums.update((key, sums[chosen]) for key, sums in self.last.sums.items())
        return selected

    def and_also(self, size: int, adding: _PodsByRow, removing: _PodsByRow) -> "RowChanges":
        """Return these changes and more; a pod that is added and removed again cancels out."""
        if not any(adding.values()) and not any(removing.values()):
            return self
        return RowChanges(size, adding, removing, self or None)

    def _by_row(self) -> dict[int, RowChange]:
        """Return what differs in each row after all steps."""
        last = self.last
        if last.combined is None:
            steps = last.back_to(lambda step: step.combined is not None)
            known = steps[-1].combined
            rows = {} if known is None else dict(known)
            for step in reversed(steps if known is None else steps[:-1]):
                step.combine_into(rows)
            last.combined = rows
        return last.combined


def _combine(change: RowChange, adding: tuple[Pod, ...], removing: tuple[Pod, ...]) -> RowChange:
    back = {pod.uid for pod in change.removed} & {pod.uid for pod in adding}
    undone = {pod.uid for pod in change.added} & {pod.uid for pod in removing}
    # A pod on both lists would be counted twice by one column and not at all by another.
    return RowChange(
        added=_without(change.added, undone) + _without(adding, back),
        removed=_without(change.removed, back) + _without(removing, undone),
    )


def _without(pods: tuple[Pod, ...], uids: Collection[str]) -> tuple[Pod, ...]:
    return tuple(pod for pod in pods if pod.uid not in uids)


NO_CHANGES: Final = RowChanges(0, {}, {})
