"""A column of counts; a column with few counts is a map and takes memory only for those."""

from typing import Final, TypeVar

import numpy as np
from numpy.typing import NDArray

from scheduler.snapshot.arrays import Int64s
from scheduler.snapshot.change_log import ChangeLog

K = TypeVar("K")

COUNT_MAXIMUM: Final = 2**62 - 1
"""The largest count that an array shows: the sum of two of them still fits int64."""

_DENSE_FROM: Final = 64
"""The number of rows with a count from which on an array is kept instead of a map."""


class CountColumn:
    """Integer counts by row, zero where nothing was added.

    A resource on two of five thousand nodes is a map of two entries; one on every node is an array.
    Rows are those of the columns that own it; they call `move` when they move a row.

    Counts are exact however large they grow, because a removed pod must subtract exactly what it
    added: pods bound by other means may together request more than int64 holds. An array shows
    COUNT_MAXIMUM in place of a larger count.
    """

    __slots__ = ("_array", "_changes", "_map", "_oversized")

    def __init__(self) -> None:
        # Most columns are never read by a plugin, so the log is made at the first such read.
        self._changes: ChangeLog | None = None
        self._map: dict[int, int] = {}
        self._array: Int64s | None = None
        # Exact counts of the rows that the array shows as COUNT_MAXIMUM.
        self._oversized: dict[int, int] = {}

    @classmethod
    def of(cls, counts: Int64s) -> "CountColumn":
        """Return a column with *counts*."""
        assert counts.dtype == np.int64, f"counts of {counts.dtype} could wrap around"
        count_column = cls()
        rows = counts.nonzero()[0]
        if len(rows) > _DENSE_FROM:
            count_column._array = counts.copy()
        else:
            count_column._map = {row: int(counts[row]) for row in rows.tolist()}
        return count_column

    @property
    def changes(self) -> ChangeLog:
        """Which rows have changed."""
        if self._changes is None:
            self._changes = ChangeLog(self.__getitem__)
        return self._changes

    def abandon(self) -> None:
        """Tell readers that this column is no longer updated: another may take its place."""
        if self._changes is not None:
            self._changes.abandon()

    def __getitem__(self, row: int) -> int:
        if self._array is None:
            return self._map.get(row, 0)
        if row in self._oversized:
            return self._oversized[row]
        return self._array.item(row) if row < len(self._array) else 0

    def __setitem__(self, row: int, count: int) -> None:
        if self._changes is not None:
            self._changes.note(row)
        if self._array is not None:
            self._grown(row)[row] = min(count, COUNT_MAXIMUM)
            if count > COUNT_MAXIMUM:
                self._oversized[row] = count
            else:
                self._oversized.pop(row, None)
        elif count:
            self._map[row] = count
            if len(self._map) > _DENSE_FROM:
                self._densify()
        else:
            self._map.pop(row, None)

    def add(self, row: int, count: int) -> None:
        """Add *count* to *row*."""
        array = self._array
        # Fast path: this runs for each resource of every pod that is added or removed.
        if array is not None and row < len(array) and not self._oversized:
            total = array.item(row) + count
            if total <= COUNT_MAXIMUM:
                array[row] = total
                if self._changes is not None:
                    self._changes.note(row)
                return
        self[row] = self[row] + count

    def move(self, source: int, target: int) -> None:
        """Move the count of *source* to *target*."""
        assert source != target, f"row {source} moved onto itself would be lost"
        self[target] = self[source]
        self[source] = 0

    def dense(self, rows: int) -> Int64s:
        """Return the first *rows* counts as a read-only array: the column's own if it has one."""
        if self._array is not None:
            column = self._grown(rows - 1)[:rows]
        else:
            column = np.zeros(rows, dtype=np.int64)
            for row, count in self._map.items():
                column[row] = min(count, COUNT_MAXIMUM)
        column.flags.writeable = False
        return column

    def add_to(self, total: Int64s, weight: int = 1) -> None:
        """Add the counts, *weight* times, to *total*, row by row."""
        if self._array is not None:
            total += weight * self.dense(len(total))
        else:
            for row, count in self._map.items():
                total[row] += weight * min(count, COUNT_MAXIMUM)

    def where(self, rows: int) -> NDArray[np.bool_]:
        """Return which of the first *rows* rows have a count other than zero."""
        if self._array is not None:
            return np.not_equal(self.dense(rows), 0)
        mask = np.zeros(rows, dtype=np.bool_)
        mask[list(self._map)] = True
        return mask

    @property
    def nonzero_rows(self) -> int:
        """The number of rows with a count other than zero."""
        return len(self._map) if self._array is None else int(np.count_nonzero(self._array))

    @property
    def rows(self) -> list[int]:
        """The rows with a count other than zero."""
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

    def _grown(self, row: int) -> Int64s:
        """Return the array, grown to have *row*."""
        assert self._array is not None, "the column is a map still"
        if row >= len(self._array):
            grown = np.zeros(2 * (row + 1), dtype=np.int64)
            grown[: len(self._array)] = self._array
            self._array = grown
        return self._array


def add_under(count_columns: dict[K, CountColumn], key: K, row: int, count: int) -> None:
    """Add *count* to *row* in the column of *key*; a column without counts is removed."""
    count_column = count_columns.get(key)
    if count_column is None:
        count_column = count_columns[key] = CountColumn()
    count_column.add(row, count)
    assert count_column[row] >= 0, f"{key} was removed from row {row} more often than added"
    if count < 0 and not count_column:
        count_column.abandon()
        del count_columns[key]
