"""A view of columns: it shows some rows or all, as they are or with what-if changes."""

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager

import numpy as np
from numpy.typing import NDArray

from scheduler.errors import StaleView
from scheduler.snapshot.arrays import Int64s, Mask, Rows, T, read_only
from scheduler.snapshot.change_log import ChangeLog, Reads
from scheduler.snapshot.columns import ChangeLogs, ClusterColumns
from scheduler.snapshot.count_column import CountColumn
from scheduler.snapshot.pod_contribution import Contribution
from scheduler.snapshot.what_if import NO_CHANGES, RowChanges


class ColumnView:
    """Some rows of the columns or all of them, as they are or with what-if changes.

    Every method raises StaleView once the columns have changed. The alternative, a copy of the
    columns for each view, would cost a pass over all nodes for every pod (upstream's snapshot
    copies the nodes that changed, ``pkg/scheduler/backend/cache/cache.go``, UpdateSnapshot).

    Args:
        columns: The columns to read.
        rows: Which rows to show, in this order; all if None.
        changes: By row of this view, what differs there from the true cluster.
        shared: By row of the columns, what differs for all rows of this view alike.
        asked: Whether these are the rows that a plugin is asked about, and not what it compares
            them with.
    """

    __slots__ = ("_asked", "_changes", "_columns", "_generation", "_rows", "_shared")

    def __init__(
        self,
        columns: ClusterColumns,
        rows: Rows | None = None,
        changes: RowChanges = NO_CHANGES,
        shared: RowChanges = NO_CHANGES,
        *,
        asked: bool = True,
    ) -> None:
        assert rows is None or (rows.ndim == 1 and rows.dtype == np.intp), "rows are row numbers"
        assert not changes or changes.size == (len(columns) if rows is None else len(rows)), (
            "what-if changes are numbered by the rows of their own view"
        )
        self._columns = columns
        self._generation = columns.generation
        self._rows = rows
        self._changes = changes
        self._shared = shared
        self._asked = asked

    # Which rows.

    def __len__(self) -> int:
        self._check()
        self._read_of_all(self._columns.changes.size)
        return len(self._columns.nodes if self._rows is None else self._rows)

    @property
    def generation(self) -> int:
        """The generation of the columns that this view shows."""
        return self._generation

    @property
    def change_logs(self) -> ChangeLogs:
        """What has changed in the columns; for the runner of plugins, not for plugins."""
        return self._columns.changes

    def recording(self) -> AbstractContextManager[Reads]:
        """Record what is read through this view and any other; for the runner of plugins."""
        return self._columns.recording()

    @property
    def names(self) -> Sequence[str]:
        """The nodes' names."""
        self._check()
        self._read(self._columns.changes.rows)
        if self._rows is None:
            return self._columns.names
        return [self._columns.names[row] for row in self._rows.tolist()]

    def row_of(self, name: str) -> int | None:
        """Return the row of the node *name* in this view; None if the view does not show it."""
        self._check()
        self._read(self._columns.changes.rows)
        row = self._columns.rows.get(name)
        if row is None or self._rows is None:
            return row
        found = (self._rows == row).nonzero()[0]
        return int(found[0]) if len(found) else None

    def rows_of(self, names: Collection[str]) -> Iterator[tuple[str, int]]:
        """Yield those of *names* that are in this view, each with its row."""
        self._check()
        self._read(self._columns.changes.rows)
        if self._rows is None:
            rows = self._columns.rows
            return ((name, rows[name]) for name in names if name in rows)
        return ((name, row) for row, name in enumerate(self.names) if name in names)

    def named(self, names: Iterable[str]) -> Mask:
        """Return which rows have one of *names*."""
        self._check()
        self._read(self._columns.changes.rows)
        rows = (self._columns.rows[name] for name in names if name in self._columns.rows)
        mask = np.zeros(len(self._columns), dtype=np.bool_)
        mask[list(rows)] = True
        return self._gather(mask)

    # With which changes.

    @property
    def is_what_if(self) -> bool:
        """Whether any row may differ from the true cluster."""
        return bool(self._changes)

    @property
    def changed(self) -> Mask:
        """Which rows may differ from the true cluster."""
        self._check()
        mask = np.zeros(len(self), dtype=np.bool_)
        mask[list(self._changes.rows)] = True
        return read_only(mask)

    # How columns are read.

    @property
    def _column_rows(self) -> int:
        """How many rows the columns have."""
        return len(self._columns.nodes)

    def _read(self, changes: ChangeLog) -> None:
        """Note that something is read of each row, if reads are recorded."""
        reads = self._columns.reads
        if reads is not None:
            reads.setdefault(changes, changes.position)
            reads.more_of_rows |= self._asked

    def _read_label(self, key: str) -> None:
        """Note that the label *key* of each row is read."""
        reads = self._columns.reads
        if reads is not None:
            self._read_of_all(self._columns.labels.changes)
            if self._asked:
                reads.keys_of_rows.add(key)
                reads.numbers_only = False

    def _read_by_domain(self, key: str, changes: ChangeLog, in_general: ChangeLog) -> None:
        """Note that a number is read of each row's domain; *changes* tells where it changes.

        *in_general* has all changes from which those follow: they count for whoever compares rows,
        and where a what-if change adds to the number.
        """
        reads = self._columns.reads
        if reads is not None:
            self._read_of_all(self._columns.labels.changes)
            self._read_of_all(changes if self._asked and not self._changes else in_general)
            if self._asked:
                reads.keys_of_rows.add(key)

    def _read_of_all(self, changes: ChangeLog) -> None:
        """Note that something is read that is the same for every row."""
        reads = self._columns.reads
        if reads is not None:
            reads.setdefault(changes, changes.position)

    def _read_column(self, count_column: CountColumn | None) -> None:
        if self._columns.reads is not None:
            absent = self._columns.changes.directory
            self._read(absent if count_column is None else count_column.changes)

    def _check(self) -> None:
        if self._generation != self._columns.generation:
            raise StaleView("a NodeTable is valid only until the next fact is applied")

    def _column_row(self, row: int) -> int:
        """Return which row of the columns is shown as *row*."""
        return row if self._rows is None else int(self._rows[row])

    def _gather(self, column: NDArray[T]) -> NDArray[T]:
        """Return the rows of this view, out of a *column* over all."""
        return read_only(column.view() if self._rows is None else column[self._rows])

    def _counts(self, count_column: CountColumn | None) -> Int64s:
        """Return the count of *count_column* on each row; zeros without one."""
        self._check()
        self._read_column(count_column)
        if count_column is None:
            return read_only(np.zeros(len(self), dtype=np.int64))
        return self._gather(count_column.dense(self._column_rows))

    def _where(self, count_column: CountColumn | None) -> Mask:
        """Return on which rows *count_column* is not zero; on none without one."""
        self._check()
        self._read_column(count_column)
        if count_column is None:
            return read_only(np.zeros(len(self), dtype=np.bool_))
        return self._gather(count_column.where(self._column_rows))

    def _with_changes(self, column: Int64s, contribution: Contribution) -> Int64s:
        """Return *column*, of the true cluster, plus what the what-if changes contribute to it."""
        return read_only(column + self._changes.sums(contribution)) if self._changes else column

    def _with_changed_rows(self, mask: Mask, answer: Callable[[int], bool]) -> Mask:
        """Return *mask*, of the true cluster, with *answer* called for each changed row."""
        if not self._changes:
            return mask
        mask = mask.copy()
        for row in self._changes.rows:
            mask[row] = answer(row)
        return read_only(mask)
