"""The total score of each feasible row, and which rows share the best, kept between decisions.

Between two pods of a template few scores change, so totals are patched at those rows, and so are
the rows that share the best total: a decision needs no pass over all rows unless none is left.
"""

import numpy as np

from scheduler.framework.kept import Question
from scheduler.framework.kept_scores import KeptScores
from scheduler.framework.rejection import Scores
from scheduler.snapshot.arrays import Rows, resized
from scheduler.snapshot.node_table import NodeTable
from scheduler.snapshot.tie_break import TiedRows

_PATCHED_AT_MOST = 64
"""More totals than this are added up anew, all at once."""


class KeptTotals:
    """The sum of what all score plugins of a profile answered about a template of pods.

    Args:
        scores: The answer of each plugin.
        size: How many rows there are.
    """

    __slots__ = ("_by_row", "_others", "_scored", "_scores", "_tied", "_totals")

    def __init__(self, scores: list[KeptScores], size: int) -> None:
        self._scores = scores
        self._scored: Rows | None = None
        """The rows that were feasible when scores were added up the last time."""
        self._by_row: Scores = np.zeros(size, dtype=np.int64)
        """The sum of the scores that count row by row, over all rows."""
        self._others: Scores | None = None
        """The sum of all other scores, over the rows in *_scored*; None if there are none."""
        self._totals: Scores = np.zeros(0, dtype=np.int64)
        """Over the rows in *_scored*."""
        self._tied: TiedRows | None = None

    @property
    def size_bytes(self) -> int:
        """How much memory the arrays take."""
        arrays = self._scored, self._by_row, self._others, self._totals
        taken = sum(each.nbytes for each in arrays if each is not None)
        return taken + (0 if self._tied is None else self._tied.size_bytes)

    def rows_changed(self, size: int) -> None:
        """Note that rows were added, removed or numbered anew, and that there are *size* now."""
        self._by_row = resized(self._by_row, size)
        self._tied = None

    def update(self, question: Question, rows: Rows, table: NodeTable) -> Scores:
        """Return the total of each of *rows*, all feasible, which *table* shows.

        The array is written to by the next decision.

        Raises:
            PluginError: If a plugin fails.
        """
        if not self._scores:
            return np.ones(len(rows), dtype=np.int64)
        scored, self._scored = self._scored, None
        same = scored is not None and (rows is scored or np.array_equal(rows, scored))
        feasible = None
        if not same:
            feasible = np.zeros(len(question.nodes), dtype=np.bool_)
            feasible[rows] = True
        new_rows: list[Rows] = []
        changed = not same
        with question.observer.extension_point("Score"):
            for each in self._scores:
                if same and each.is_current:
                    continue
                new = each.update(question, rows, table, feasible)
                if new is None:
                    continue
                if each.adds_by_row:
                    new_rows.append(new)
                else:
                    changed = True
        if scored is None:  # the first time, or a plugin failed the last time
            new_rows = [np.arange(len(self._by_row))]
        if new_rows:
            self._add_up(new_rows)
        if changed:
            self._add_up_others()
        self._scored = scored if same else rows
        self._bring_up_to_date(new_rows, changed=changed)
        return self._totals

    def best(
        self, totals: Scores, seed: int, uid: str, table: NodeTable, rows_maximum: int
    ) -> Rows | None:
        """Return the best rows of *table*, the winner first; None unless *totals* are the kept."""
        if totals is not self._totals:
            return None
        if self._tied is None:
            self._tied = TiedRows(totals, table.name_hashes)
        return self._tied.first(seed, uid, rows_maximum)

    def _add_up(self, new_rows: list[Rows]) -> None:
        size = len(self._by_row)
        # Without row numbers where there are all of them: that takes a sixth of the time.
        everywhere = any(len(each) == size for each in new_rows)
        rows = slice(None) if everywhere else np.concatenate(new_rows)
        total = np.zeros_like(self._by_row[rows])
        for each in self._scores:
            if each.adds_by_row:
                raw, weight = each.raw[rows], each.weighted.weight
                total += raw if weight == 1 else raw * weight
        self._by_row[rows] = total

    def _add_up_others(self) -> None:
        self._others = None
        for each in self._scores:
            if not each.adds_by_row and each.values is not None:
                self._others = each.values if self._others is None else self._others + each.values

    def _bring_up_to_date(self, new_rows: list[Rows], *, changed: bool) -> None:
        """Add up the totals of *new_rows*, or if others have *changed* as well, all."""
        rows = self._scored
        assert rows is not None, "no rows were scored"
        everywhere = len(rows) == len(self._by_row)
        if changed or self._tied is None or sum(map(len, new_rows)) > _PATCHED_AT_MOST:
            by_row = self._by_row if everywhere else self._by_row[rows]
            others = self._others
            self._totals = by_row.copy() if others is None else by_row + others
            self._tied = None
            return
        for new in new_rows:
            places = new if everywhere else rows.searchsorted(new)
            totals = self._by_row[new]
            self._tied.put(
                places, totals if self._others is None else totals + self._others[places]
            )
