"""A column of counts that costs what it holds."""

from typing import Final, TypeVar

import numpy as np
from numpy.typing import NDArray

from scheduler.snapshot.arrays import Int64s

K = TypeVar("K")

COUNT_MAXIMUM: Final = 2**62 - 1
"""The largest count that is shown: two of them still add up within int64."""

_DENSE_FROM: Final = 64
"""Rows that count before an array is worth its memory."""


class CountColumn:
    """Integer counts by row, zero where nothing was added.

    A resource on two of five thousand nodes is a map of two entries; one on every node is an array.
    Rows are those of the table that owns the tally, which tells it of moved rows.

    Counts are exact however large they grow: anybody may put pods on a node that request more than
    int64 holds, and what goes must subtract what came. An array shows COUNT_MAXIMUM in place of
    what it cannot hold.
    """

    __slots__ = ("_array", "_beyond", "_map")

    def __init__(self) -> None:
        self._map: dict[int, int] = {}
        self._array: Int64s | None = None
        self._beyond: dict[int, int] = {}

    @classmethod
    def of(cls, counts: Int64s) -> "CountColumn":
        """Return a tally that counts what *counts* holds."""
        count_column = cls()
        rows = counts.nonzero()[0]
        if len(rows) > _DENSE_FROM:
            count_column._array = counts.copy()
        else:
            count_column._map = {row: int(counts[row]) for row in rows.tolist()}
        return count_column

    def __getitem__(self, row: int) -> int:
        if self._array is None:
            return self._map.get(row, 0)
        if row in self._beyond:
            return self._beyond[row]
        return self._array.item(row) if row < len(self._array) else 0

    def __setitem__(self, row: int, count: int) -> None:
        if self._array is not None:
            self._reach(row)[row] = min(count, COUNT_MAXIMUM)
            if count > COUNT_MAXIMUM:
                self._beyond[row] = count
            else:
                self._beyond.pop(row, None)
        elif count:
            self._map[row] = count
            if len(self._map) > _DENSE_FROM:
                self._densify()
        else:
            self._map.pop(row, None)

    def add(self, row: int, count: int) -> None:
        """Add *count* to *row*."""
        array = self._array
        if array is not None and row < len(array) and not self._beyond:
            total = array.item(row) + count
            if total <= COUNT_MAXIMUM:
                array[row] = total
                return
        self[row] = self[row] + count

    def move(self, source: int, target: int) -> None:
        """Carry the count of *source* over to *target*, and clear *source*."""
        self[target] = self[source]
        self[source] = 0

    def dense(self, rows: int) -> Int64s:
        """Return the first *rows* counts as a read-only array."""
        if self._array is not None:
            column = self._reach(rows - 1)[:rows]
        else:
            column = np.zeros(rows, dtype=np.int64)
            for row, count in self._map.items():
                column[row] = min(count, COUNT_MAXIMUM)
        column.flags.writeable = False
        return column

    def add_to(self, total: Int64s) -> None:
        """Add the first counts to *total*, as many as it has rows."""
        if self._array is not None:
            total += self.dense(len(total))
        else:
            for row, count in self._map.items():
                total[row] += min(count, COUNT_MAXIMUM)

    def where(self, rows: int) -> NDArray[np.bool_]:
        """Return which of the first *rows* rows count anything."""
        if self._array is not None:
            return np.not_equal(self.dense(rows), 0)
        mask = np.zeros(rows, dtype=np.bool_)
        mask[list(self._map)] = True
        return mask

    @property
    def counting(self) -> int:
        """How many rows hold a count other than zero."""
        return len(self._map) if self._array is None else int(np.count_nonzero(self._array))

    @property
    def rows(self) -> list[int]:
        """The rows that hold a count other than zero."""
        return list(self._map) if self._array is None else self._array.nonzero()[0].tolist()

    @property
    def total(self) -> int:
        """The sum over all rows."""
        return sum(self[row] for row in self.rows)

    def __bool__(self) -> bool:
        return bool(self._map) if self._array is None else bool(self._array.any())

    def _densify(self) -> None:
        counts, self._map = self._map, {}
        self._array = np.zeros(2 * (max(counts) + 1), dtype=np.int64)
        for row, count in counts.items():
            self[row] = count

    def _reach(self, row: int) -> Int64s:
        """Return the array, grown so that it has *row*."""
        assert self._array is not None
        if row >= len(self._array):
            grown = np.zeros(2 * (row + 1), dtype=np.int64)
            grown[: len(self._array)] = self._array
            self._array = grown
        return self._array


def count_under(count_columns: dict[K, CountColumn], key: K, row: int, count: int) -> None:
    """Add *count* to *row* in the tally of *key*, which is there as long as it counts anything."""
    count_column = count_columns.get(key)
    if count_column is None:
        count_column = count_columns[key] = CountColumn()
    count_column.add(row, count)
    if count < 0 and not count_column:
        del count_columns[key]
