"""What-if changes: for some rows, the pods that are added and removed there, and only there."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from scheduler.model.pod import Pod


@dataclass(frozen=True, slots=True)
class Change:
    """What differs on one node in its own what-if world."""

    added: tuple[Pod, ...] = ()
    removed: tuple[Pod, ...] = ()

    def sum(self, worth: Callable[[Pod], int]) -> int:
        """Add up what the change adds, less what it removes."""
        return sum(map(worth, self.added)) - sum(map(worth, self.removed))


class Changes:
    """Changes by row of the view that they belong to."""

    __slots__ = ("_rows",)

    def __init__(self, rows: Mapping[int, Change]) -> None:
        self._rows = rows

    def __bool__(self) -> bool:
        return bool(self._rows)

    @property
    def rows(self) -> Iterator[int]:
        """Rows that differ from the true cluster."""
        return iter(self._rows)

    def items(self) -> Iterator[tuple[int, Change]]:
        """Yield every row that differs, with its change."""
        return iter(self._rows.items())

    @property
    def added(self) -> Iterator[Pod]:
        """Pods that are in the world of some row, and not in the true cluster."""
        return (pod for change in self._rows.values() for pod in change.added)

    def get(self, row: int) -> Change | None:
        """Return what differs in *row*."""
        return self._rows.get(row)

    def select(self, chosen: NDArray[np.intp]) -> "Changes":
        """Return the changes of the rows *chosen*, under their new numbers."""
        if not self._rows:
            return self
        return Changes(
            {new: self._rows[old] for new, old in enumerate(chosen.tolist()) if old in self._rows}
        )

    def and_also(
        self, adding: Mapping[int, Sequence[Pod]], removing: Mapping[int, Sequence[Pod]]
    ) -> "Changes":
        """Return these changes and more; what is added and removed again cancels out."""
        rows = dict(self._rows)
        for row in adding.keys() | removing.keys():
            rows[row] = _combine(
                rows.get(row, Change()), tuple(adding.get(row, ())), tuple(removing.get(row, ()))
            )
        return Changes(rows)


def _combine(change: Change, adding: tuple[Pod, ...], removing: tuple[Pod, ...]) -> Change:
    back = {pod.uid for pod in change.removed} & {pod.uid for pod in adding}
    undone = {pod.uid for pod in change.added} & {pod.uid for pod in removing}
    return Change(
        added=_without(change.added, undone) + _without(adding, back),
        removed=_without(change.removed, back) + _without(removing, undone),
    )


def _without(pods: tuple[Pod, ...], uids: Collection[str]) -> tuple[Pod, ...]:
    return tuple(pod for pod in pods if pod.uid not in uids)


NO_CHANGES: Final = Changes({})
