"""What was computed from columns is kept until those columns change.

Each column knows which of its rows have changed since (`scheduler.snapshot.change_log`), and what
is read while a plugin answers is recorded.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

from scheduler.framework.observer import Observer
from scheduler.model.pod import Pod
from scheduler.snapshot.alike import AlikeRows
from scheduler.snapshot.change_log import ChangeLog, Reads
from scheduler.snapshot.node_table import NodeTable

Values = tuple[int, ...]
"""What a row has in each of the columns that were read."""

_LOGS_MAXIMUM: Final = 256
"""Logs of columns that are gone pile up here; beyond this number all answers are given up."""


class Kept:
    """Something that was computed from columns.

    Args:
        keepable: Whether it is of use for another pod.
        by_row: Whether a row of it depends on that row of the columns alone.
        by_domain: Whether it depends on the numbers of that row's domains, and on the cluster.
    """

    __slots__ = (
        "_logs",
        "_opaque",
        "_values_in",
        "by_domain",
        "by_row",
        "keepable",
        "stale_rows",
        "stands",
    )

    def __init__(self, *, keepable: bool, by_row: bool, by_domain: bool = False) -> None:
        self.keepable = keepable
        self.by_row = by_row
        self.by_domain = by_domain and not by_row
        self.stands = False
        self.stale_rows: set[int] = set()
        """Rows that have changed since; never filled unless *by_row* or *by_domain*."""
        # What was read while the answer has been standing, and how to read one row of it again.
        self._logs: set[ChangeLog] = set()
        self._values_in: tuple[Callable[[int], int], ...] | None = None
        self._opaque = False
        """Whether more was read of rows than numbers."""

    def log_changed(self, log: ChangeLog, rows: Iterable[int] | None) -> None:
        """Note that *rows* of what *log* is about have changed; any may have if None."""
        if not (self.by_domain and log.by_domain) or log.abandoned:
            self.columns_changed(rows)
        elif rows is None:
            # What was answered about rows with certain numbers holds: they are read anew.
            self.stands = False
            self.stale_rows.clear()
        elif self.stands:
            self.stale_rows.update(rows)

    def columns_changed(self, rows: Iterable[int] | None) -> None:
        """Note that *rows* of a column have changed; any may have if None."""
        if rows is None or not self.by_row:
            self.give_up()
        elif self.stands:
            self.stale_rows.update(rows)

    def keep_by_row(self, can_be_kept: bool) -> None:
        """Begin anew: it is kept row by row, or not at all."""
        self.keepable = self.by_row = can_be_kept
        self.give_up()

    def rows_changed(self, rows: Iterable[int], size: int) -> None:
        """Note that other nodes are in *rows* now, all below *size*, and none beyond.

        What rests on more than single rows is given up: it may rest on how many there are.
        """
        if not self.by_row:
            self.give_up()
        if not self.stands:
            return
        # Columns note changes of rows that are gone by now.
        self.stale_rows = {row for row in self.stale_rows if row < size}
        self.stale_rows.update(rows)
        self.resize(size)

    def resize(self, size: int) -> None:
        """Make room for *size* rows; those that are new are stale."""

    def give_up(self) -> None:
        """Compute all of it anew when it is needed."""
        self.stands = False
        self.stale_rows.clear()
        # Columns may have been replaced: rows can no longer be told by their numbers.
        self._logs.clear()
        self._values_in = None
        self._opaque = False

    def rest_on(self, reads: Reads, directory: ChangeLog) -> None:
        """Remember what was read for some rows; *directory* has no rows of its own."""
        opaque = self._opaque or reads.more_of_rows or not reads.numbers_only
        if not ((self.by_row or self.by_domain) and self.keepable) or (
            reads.keys() <= self._logs and opaque == self._opaque
        ):
            return
        self._logs.update(reads)
        self._opaque = opaque
        # For an answer by domain, all other logs end it altogether if they move.
        numbers = [
            log.value_in
            for log in self._logs
            if (log.by_domain if self.by_domain else log is not directory)
        ]
        known = [each for each in numbers if each is not None]
        complete = len(known) == len(numbers)
        if self.by_domain:
            complete &= bool(known) and not opaque
        self._values_in = tuple(known) if complete else None
        self.forget_rows()

    def forget_rows(self) -> None:
        """Forget what was answered about rows with certain values: there are more columns now."""

    def values_in(self, row: int) -> Values | None:
        """Return all that the answer about *row* depends on; None if it is more than numbers.

        Rows with the same numbers get the same answer, so the plugin is called for one of them.
        """
        if self._values_in is None:
            return None
        return tuple([value_in(row) for value_in in self._values_in])


class Groups:
    """Rows that a plugin could not tell apart, by what it read when it was asked about all.

    The plugin has promised that its answer about a row follows from what it reads of that row and
    of the cluster. So it need be asked about one row of each group, whatever changed elsewhere.
    """

    __slots__ = ("_alike", "_keys", "_position", "_table", "_view")

    def __init__(self) -> None:
        self._keys: frozenset[str] | None = None
        self._position = -1
        self._alike: AlikeRows | None = None
        self._table: NodeTable | None = None
        self._view: NodeTable | None = None
        """One row of each group of *_table*: scores and their normalization ask for the same."""

    @property
    def size_bytes(self) -> int:
        """How much memory they take."""
        return 0 if self._alike is None else self._alike.size_bytes

    @property
    def one_for_all(self) -> bool:
        """Whether nothing was read of any row."""
        return self._keys is not None and not self._keys

    def learn(self, reads: Reads) -> None:
        """Note what was read of each row to answer about all."""
        self._keys = None if reads.more_of_rows else frozenset(reads.keys_of_rows)
        self.forget_rows()

    def forget_rows(self) -> None:
        """Form the groups anew when they are needed: there are other rows."""
        self._position, self._alike = -1, None
        self._table = self._view = None

    def view(self, table: NodeTable, alike: AlikeRows) -> NodeTable:
        """Return a view of one row of each of the groups *alike* of *table*."""
        if self._view is None or self._table is not table:
            self._table, self._view = table, table.select(alike.first)
        return self._view

    def of(self, table: NodeTable) -> AlikeRows | None:
        """Return the groups of the rows of *table*, mostly the same as the last time."""
        if self._keys is None:
            return None
        position = table.labels_position
        if position != self._position:
            self._position, self._alike = position, table.alike(self._keys)
        return self._alike

    def hold(self, reads: Reads) -> bool:
        """Tell whether nothing was read by which the rows of one group may differ."""
        assert self._keys is not None, "there are no groups"
        return not reads.more_of_rows and reads.keys_of_rows <= self._keys


@dataclass(slots=True, eq=False)
class _Dependents:
    """What rests on one log, and the position up to which changes are known."""

    position: int
    kept: list[Kept]


class Dependencies:
    """Which answers of one template rest on which columns."""

    __slots__ = ("_dependents", "additions")

    def __init__(self) -> None:
        self._dependents: dict[ChangeLog, _Dependents] = {}
        self.additions = 0
        """How often a plugin was asked."""

    def add(self, kept: Kept, reads: Reads) -> None:
        """Let *kept* rest on what was read to compute it."""
        self.additions += 1
        for log, position in reads.items():
            known = self._dependents.get(log)
            if known is None:
                self._dependents[log] = _Dependents(position, [kept])
                continue
            # A column can change while another is read: a new one may take its place.
            known.position = min(known.position, position)
            if kept not in known.kept:
                known.kept.append(kept)

    def refresh(self) -> None:
        """Tell every answer which rows have changed since the last time."""
        if len(self._dependents) > _LOGS_MAXIMUM:
            for dependents in self._dependents.values():
                for kept in dependents.kept:
                    kept.give_up()
            self._dependents.clear()
        for log, dependents in self._dependents.items():
            if log.catch_up is not None:
                log.catch_up()
            if log.position != dependents.position:
                rows = log.since(dependents.position)
                dependents.position = log.position
                for kept in dependents.kept:
                    kept.log_changed(log, rows)


@dataclass(frozen=True, slots=True)
class Question:
    """The pod that is asked about now, and all nodes."""

    pod: Pod
    nodes: NodeTable
    observer: Observer
    dependencies: Dependencies

    def settle(self, kept: Kept, reads: Reads) -> None:
        """Let *kept* stand until something changes that was read for it."""
        self.dependencies.add(kept, reads)
        kept.rest_on(reads, self.nodes.change_logs.directory)
        kept.stale_rows.clear()
        kept.stands = kept.keepable and self.nodes.change_logs.untracked not in reads
