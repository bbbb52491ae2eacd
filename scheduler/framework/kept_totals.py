"""The total score of each feasible row, and which rows share the best, kept between decisions.

Between two pods of a template few scores change, so totals are patched at those rows, and so are
the rows that share the best total: a decision needs no pass over all rows unless none is left.
"""

from collections.abc import Iterable, Iterator
from typing import Final

import numpy as np

from scheduler.framework.kept import Question
from scheduler.framework.kept_normal import FeasibleRows
from scheduler.framework.kept_scores import KeptScores
from scheduler.framework.rejection import NodeMask, Scores
from scheduler.snapshot.arrays import Rows, resized
from scheduler.snapshot.node_table import NodeTable
from scheduler.snapshot.tie_break import TiedRows

_PATCHED_AT_MOST: Final = 64
"""More totals than this are added up anew, all at once."""

_INFEASIBLE: Final = -1
"""Below every total."""


class KeptTotals:
    """The sum of what all score plugins of a profile answered about a template of pods.

    Args:
        scores: The answer of each plugin.
        size: How many rows there are.
    """

    __slots__ = ("_all", "_by_row", "_mask", "_scored", "_scores", "_tied")

    def __init__(self, scores: list[KeptScores], size: int) -> None:
        self._scores = scores
        self._scored: Rows | None = None
        """The rows that were feasible when scores were added up the last time."""
        self._mask: NodeMask | None = None
        """The same over all rows; None if rows have other numbers since."""
        self._by_row: Scores = np.zeros(size, dtype=np.int64)
        """The sum of the scores that count row by row, over all rows."""
        self._all: Scores = np.zeros(0, dtype=np.int64)
        """The totals over all rows, below zero where not feasible."""
        self._tied: TiedRows | None = None

    @property
    def size_bytes(self) -> int:
        """How much memory the arrays take."""
        arrays = self._scored, self._mask, self._by_row, self._all
        taken = sum(each.nbytes for each in arrays if each is not None)
        return taken + (0 if self._tied is None else self._tied.size_bytes)

    def rows_changed(self, size: int) -> None:
        """Note that rows were added, removed or numbered anew, and that there are *size* now."""
        self._by_row = resized(self._by_row, size)
        self._mask, self._tied = None, None

    def update(self, question: Question, mask: NodeMask, rows: Rows, table: NodeTable) -> None:
        """Bring the totals of *rows* up to date: all that are feasible by *mask*, shown by *table*.

        *mask* is kept, and must not be written to any more.

        Raises:
            PluginError: If a plugin fails.
        """
        assert self._scores, "a profile without score plugins has no totals"
        these = self._feasible(mask, rows, table)
        first, self._scored = self._scored is None, None
        new_rows: list[Rows] = []
        others: list[Rows] = []
        with question.observer.extension_point("Score"):
            for each in self._scores:
                if these.same and each.is_current:
                    continue
                new = each.update(question, these)
                if new is not None:
                    (new_rows if each.adds_by_row else others).append(new)
        if first:  # or a plugin failed the last time
            new_rows = [np.arange(len(self._by_row))]
        if new_rows:
            self._add_up(new_rows)
        changed, turned = new_rows + others, these.turned
        if (
            self._tied is not None
            and turned is not None
            and len(turned) + sum(map(len, changed)) <= _PATCHED_AT_MOST
        ):
            patched = {*turned, *(row for each in changed for row in each.tolist())}
            self._tied.put(self._totals_of(patched, these))
        else:
            self._all, self._tied = self._sum(these), None
        self._scored, self._mask = rows, mask

    @property
    def totals(self) -> Scores:
        """The total of each row that was scored, written to by the next decision."""
        assert self._scored is not None, "no row was scored"
        return self._all if len(self._scored) == len(self._all) else self._all[self._scored]

    def best(self, seed: int, uid: str, nodes: NodeTable, rows_maximum: int) -> Rows:
        """Return the best of the rows that were scored, the winner first."""
        assert self._scored is not None, "no row was scored"
        if self._tied is None:
            self._tied = TiedRows(self._all, nodes.name_hashes)
        return self._tied.first(seed, uid, rows_maximum)

    def _feasible(self, mask: NodeMask, rows: Rows, table: NodeTable) -> FeasibleRows:
        before = None if self._scored is None else self._mask
        if mask is before:
            return FeasibleRows(rows, table, mask, ())
        turned = None
        if before is not None:
            differ = (mask != before).nonzero()[0]
            turned = differ.tolist() if len(differ) <= _PATCHED_AT_MOST else None
        return FeasibleRows(rows, table, mask, turned)

    def _add_up(self, new_rows: list[Rows]) -> None:
        """Add up the scores that count row by row, at *new_rows*."""
        by_row = [(each.raw, each.weighted.weight) for each in self._scores if each.adds_by_row]
        count = sum(map(len, new_rows))
        if count <= _PATCHED_AT_MOST:  # number by number: NumPy's calls take longer
            for row in {row for each in new_rows for row in each.tolist()}:
                self._by_row[row] = sum([raw.item(row) * weight for raw, weight in by_row])
            return
        size = len(self._by_row)
        # Without row numbers where there are all of them: that takes a sixth of the time.
        everywhere = any(len(each) == size for each in new_rows)
        rows = slice(None) if everywhere else np.concatenate(new_rows)
        total = np.zeros_like(self._by_row[rows])
        for raw, weight in by_row:
            total += raw[rows] if weight == 1 else raw[rows] * weight
        self._by_row[rows] = total

    def _sum(self, these: FeasibleRows) -> Scores:
        """Return the total of every row."""
        totals = self._by_row.copy()
        for each in self._scores:
            if not each.adds_by_row and each.values is not None:
                totals += each.values
        if not these.everywhere:
            totals[~these.mask] = _INFEASIBLE
        return totals

    def _totals_of(self, rows: Iterable[int], these: FeasibleRows) -> Iterator[tuple[int, int]]:
        """Return the totals of a few *rows*."""
        others = [each.values for each in self._scores if not each.adds_by_row]
        values = [each for each in others if each is not None]
        for row in rows:
            if these.mask.item(row):
                yield row, self._by_row.item(row) + sum([each.item(row) for each in values])
            else:
                yield row, _INFEASIBLE
