"""A score plugin's answer about a template of pods, and what has changed since it was given."""

from typing import Final

import numpy as np

from scheduler.framework.invoke import call_plugin
from scheduler.framework.kept import Groups, Kept, Question, Values
from scheduler.framework.kept_answers import ROWS_REMEMBERED, VALUES_KEPT
from scheduler.framework.kept_normal import FeasibleRows, KeptNormal, Patch
from scheduler.framework.plugin import answers_by_template
from scheduler.framework.profile import Weighted
from scheduler.framework.rejection import NodeMask, Scores
from scheduler.framework.scoring import check_scores, normalized_scores_of
from scheduler.snapshot.alike import AlikeRows
from scheduler.snapshot.arrays import Rows, resized
from scheduler.snapshot.change_log import Reads
from scheduler.snapshot.node_table import NodeTable

_MISSES_MAXIMUM: Final = 4
_TRIED_AGAIN_AFTER: Final = 16
"""Twice each time: what the first try remembers, the second may find."""


class KeptScores(Kept):
    """What a score plugin answered about the rows that were feasible.

    Raw scores are kept by row, for each row that was ever feasible, if the plugin promises that
    they do not depend on the other rows that it is asked about. Others, and normalized ones, hold
    as long as the same rows are feasible.
    """

    __slots__ = (
        "_grouped",
        "_groups",
        "_known",
        "_misses",
        "_normal",
        "_silent",
        "adds_by_row",
        "asked",
        "keeps_rows",
        "raw",
        "weighted",
    )

    def __init__(self, weighted: Weighted) -> None:
        plugin = weighted.plugin
        super().__init__(
            keepable=answers_by_template(plugin),
            by_row=bool(getattr(plugin, "node_local", False)),
            by_domain=bool(getattr(plugin, "scores_by_row", False)),
        )
        self.weighted = weighted
        self.keeps_rows = self.by_row or self.by_domain
        normalizes = getattr(plugin, "normalize", None) is not None
        self.adds_by_row = self.keeps_rows and not normalizes
        """Whether the raw scores are what counts, row by row."""
        self.raw: Scores = np.zeros(0, dtype=np.int64)
        """Over all rows, 0 where not asked; unless *keeps_rows*, over the feasible ones.

        Over the groups of those if they are *_grouped*.
        """
        self._grouped: AlikeRows | None = None
        self.asked: NodeMask = np.zeros(0, dtype=np.bool_)
        self._normal = KeptNormal(weighted, keepable=self.keepable)
        self._silent = False
        self._known: dict[Values, int] = {}
        """The raw scores of rows with certain values."""
        self._misses = 0
        """How often one after the other the values of groups were not known."""
        self._groups = Groups() if getattr(plugin, "scores_alike", False) else None

    @property
    def size_bytes(self) -> int:
        """How much memory the arrays take."""
        values = 0 if self.values is None else self.values.nbytes
        groups = 0 if self._groups is None else self._groups.size_bytes
        return self.raw.nbytes + self.asked.nbytes + values + groups

    @property
    def values(self) -> Scores | None:
        """Normalized and weighted, over all rows; only the feasible count. None if there are none.

        Nor are there any where the raw scores are added up by row.
        """
        return self._normal.values

    @property
    def is_current(self) -> bool:
        """Whether nothing has to be asked if the same rows are feasible as the last time."""
        return self.stands and not self.stale_rows and (self.adds_by_row or self._normal.stands)

    @property
    def _is_about_no_row(self) -> bool:
        return self._groups is not None and self._groups.one_for_all

    def update(self, question: Question, these: FeasibleRows) -> Rows | None:
        """Bring the scores of the feasible rows up to date.

        Returns rows among which are all whose scores are new; None if there is none.

        Raises:
            PluginError: If the plugin fails.
        """
        if self._groups is not None and not self.keeps_rows and not these.same:
            self._groups.forget_rows()
        stood = self.stands
        pending = self._pending(question.nodes, these)
        if pending is None and (these.same or self._silent) and self._is_normal:
            return None
        patch = self._begin_patch(pending, these) if stood and not self.adds_by_row else None
        known = pending is None or (
            self._take_known(pending) or self._take_known_groups(question, pending)
        )
        if known and self.adds_by_row:
            return pending
        if known and patch is not None and patch.apply(self.raw):
            return patch.rows
        name, observer = self.weighted.plugin.name, question.observer
        to_ask = None if known else pending
        # One call: a plugin that scores well and normalizes badly has failed once, not each second
        # time.
        return call_plugin("Score", name, observer, self._answer, question, to_ask, these, patch)

    @property
    def _is_normal(self) -> bool:
        return self.adds_by_row or self._normal.stands

    def _begin_patch(self, pending: Rows | None, these: FeasibleRows) -> Patch | None:
        """Note the raw scores that *pending* had, and rows that are feasible no more."""
        if not self.keeps_rows or these.turned is None or self._silent:
            return None
        if pending is not None and len(pending) > ROWS_REMEMBERED:
            return None
        if not self._normal.measure(self.raw, these):
            return None
        rows = {*these.turned, *(() if pending is None else pending.tolist())}
        return Patch(self._normal, these, sorted(rows), self.raw)

    def _pending(self, nodes: NodeTable, these: FeasibleRows) -> Rows | None:
        """Return the feasible rows whose raw scores are unknown or have changed; None for none."""
        rows, same = these.rows, these.same
        if not self.keeps_rows:
            stands = same or (self._silent and self._is_about_no_row)
            return None if self.stands and stands else rows
        if not self.stands:
            self.raw = np.zeros(len(nodes), dtype=np.int64)
            self.asked = np.zeros(len(nodes), dtype=np.bool_)
            # About one row of each group is asked as soon as about one row of each feasible group.
            return rows if self._groups is None else np.arange(len(nodes))
        asked, mask = self.asked, these.mask
        if len(self.stale_rows) > ROWS_REMEMBERED:
            asked[list(self.stale_rows)] = False
        else:
            for row in self.stale_rows:
                asked[row] = False
        if these.turned is None:
            pending = rows[~asked[rows]]
        else:
            # All others that are feasible were so the last time, and were asked about.
            few = sorted({*self.stale_rows, *these.turned})
            few = [row for row in few if mask.item(row) and not asked.item(row)]
            pending = np.array(few, dtype=np.intp)
        self.stale_rows.clear()
        return pending if len(pending) else None

    def _answer(
        self, question: Question, pending: Rows | None, these: FeasibleRows, patch: Patch | None
    ) -> Rows | None:
        """Call the plugin for *pending*, and let it normalize; return the rows that are new."""
        rows, table = these.rows, these.table
        if pending is not None and not self._score(question, pending, table):
            # Only about some rows has it something to say, against its promise: ask about all.
            self.give_up()
            everything = self._pending(question.nodes, these)
            assert everything is not None, "nothing is kept"
            assert self._score(question, everything, table), "nothing is kept that contradicts"
            pending, patch = rows, None
        if self.adds_by_row:
            assert pending is not None, "called without need"
            return pending
        if self._silent:
            spoke = self.values is not None
            self._normal.give_up()
            self._normal.put(None, these)
            self._normal.stands = True
            return rows if spoke else None
        if patch is not None:
            if not patch.tried and patch.apply(self.raw):
                return patch.rows
            few = patch.apply_to_higher(self.raw, lambda rows: self._normalize_rows(question, rows))
            if few is not None:
                return few
        self._normal.give_up()
        changed = self._normalize_groups(question, these)
        if changed is None:
            normalized, reads = self._normalize(question, self._raw_of(these), table)
            self._normal.put(normalized, these)
            question.settle(self._normal, reads)
        elif not changed:
            return None
        if patch is not None:
            patch.learn(self.raw)
        return rows

    def _normalize(self, question: Question, raw: Scores, table: NodeTable) -> tuple[Scores, Reads]:
        plugin = self.weighted.plugin
        if self._normal.by_range:  # nothing of the table is read
            return normalized_scores_of(plugin, raw, question.pod, table), Reads()
        with table.recording() as reads:
            normalized = normalized_scores_of(plugin, raw, question.pod, table)
        return normalized, reads

    def _normalize_rows(self, question: Question, rows: Rows) -> Scores:
        table = question.nodes.select(rows)
        return normalized_scores_of(self.weighted.plugin, self.raw[rows], question.pod, table)

    def _raw_of(self, these: FeasibleRows) -> Scores:
        """Return the raw score of each feasible row."""
        if self._grouped is not None:
            return self._grouped.expand(self.raw)
        return self.raw[these.rows] if self.keeps_rows and not these.everywhere else self.raw

    def _groups_of(self, table: NodeTable) -> AlikeRows | None:
        """Return the groups of the rows of *table*, if these are the rows that were grouped."""
        if self._groups is None or (self.keeps_rows and len(table) < len(self.raw)):
            return None
        return self._groups.of(table)

    def _normalize_groups(self, question: Question, these: FeasibleRows) -> bool | None:
        """Normalize the score of one row of each group; tell whether any is new.

        None without groups.
        """
        table = these.table
        alike = self._groups_of(table)
        if alike is None:
            return None
        assert self._groups is not None, "whose groups are they?"
        raw = self.raw if self._grouped is alike else self._raw_of(these).take(alike.first)
        some = table if self._normal.by_range else self._groups.view(table, alike)
        normalized, reads = self._normalize(question, raw, some)
        if not self._groups.hold(reads):
            return None
        changed = self._normal.put_groups(alike, normalized, these)
        question.settle(self._normal, reads)
        return changed

    def _score(self, question: Question, pending: Rows, table: NodeTable) -> bool:
        """Ask for the raw scores of *pending*; False if they contradict those that are kept."""
        nodes = question.nodes
        self.stands, self._grouped = False, None
        if self.keeps_rows:
            table = nodes if len(pending) == len(nodes) else nodes.select(pending)
        found = self._ask_groups(question, table)
        if found is None:
            found = self._ask(question, table)
            if self._groups is not None and (not self.keeps_rows or table is nodes):
                self._groups.learn(found[1])
        raw, reads = found
        if self.keeps_rows and self._silent != (raw is None) and self.asked.any():
            return False
        self._silent = raw is None
        if raw is None:
            raw = np.zeros(len(pending), dtype=np.int64)
        if self.keeps_rows:
            # Without row numbers where there are all of them: that takes a sixth of the time.
            self.raw[pending if table is not nodes else slice(None)] = raw
            self._note_asked(pending)
        else:
            self.raw = raw
        question.settle(self, reads)
        if self._values_in is not None and not self._silent:
            alike = self._groups_of(table)
            if alike is None or len(table) < len(pending):
                self._remember(pending)
            elif self._may_be_known:
                self._remember(alike.first)
        return True

    def _ask(self, question: Question, table: NodeTable) -> tuple[Scores | None, Reads]:
        plugin = self.weighted.plugin
        with table.recording() as reads:
            raw = plugin.score(question.pod, table)
        if raw is not None:
            check_scores(plugin.name, raw, len(table))
            question.observer.evaluated("Score", plugin.name, len(table))
            if self.adds_by_row:  # nothing comes after
                normalized_scores_of(plugin, raw, question.pod, table)
        return raw, reads

    def _ask_groups(
        self, question: Question, table: NodeTable
    ) -> tuple[Scores | None, Reads] | None:
        """Ask about one row of each group of rows that are alike; None if there are no groups."""
        alike = self._groups_of(table)
        if alike is None:
            return None
        assert self._groups is not None, "whose groups are they?"
        raw, reads = self._ask(question, self._groups.view(table, alike))
        if not self._groups.hold(reads):
            return None
        if raw is not None and self.keeps_rows:
            raw = alike.expand(raw)
        elif raw is not None:
            self._grouped = alike  # a pass over all rows that only `normalize` may need
        return raw, reads

    def _note_asked(self, rows: Rows) -> None:
        self.asked[rows if len(rows) < len(self.asked) else slice(None)] = True

    def resize(self, size: int) -> None:
        """Let the rows that are new be among those that were not asked about."""
        self.raw, self.asked = resized(self.raw, size), resized(self.asked, size)
        self._normal.give_up()

    def forget_rows(self) -> None:
        """Forget which values of a row had which score."""
        self._known.clear()

    def _take_known(self, rows: Rows) -> bool:
        """Score *rows* as other rows with the same values; False if some of them are unknown."""
        scores = self._known_scores(rows)
        if scores is None:
            return False
        for row, score in zip(rows.tolist(), scores, strict=True):
            self.raw[row], self.asked[row] = score, True
        return True

    def _take_known_groups(self, question: Question, rows: Rows) -> bool:
        """Score all rows, if *rows* are all and these are in groups of which all is known."""
        if not self.keeps_rows or len(rows) < len(question.nodes) or self._groups is None:
            return False
        if not self._may_be_known:
            self._misses += 1
            return False
        alike = self._groups_of(question.nodes)
        scores = None if alike is None else self._known_scores(alike.first)
        if alike is None or scores is None:
            self._misses += 1
            return False
        self._misses = 0
        self.raw = alike.expand(np.array(scores, dtype=np.int64))
        self._note_asked(rows)
        self.stands = True
        return True

    @property
    def _may_be_known(self) -> bool:
        """Whether to look for the values of groups.

        The sum of the zone to which all pods of a workload go is a new one each time.
        """
        return self._misses < _MISSES_MAXIMUM or self._misses % _TRIED_AGAIN_AFTER < 2

    def _known_scores(self, rows: Rows) -> list[int] | None:
        if self._values_in is None or not self._known or len(rows) > ROWS_REMEMBERED:
            return None
        scores = []
        for row in rows.tolist():
            score = self._known.get(self.values_in(row) or ())
            if score is None:
                return None
            scores.append(score)
        return scores

    def _remember(self, rows: Rows) -> None:
        if len(rows) > ROWS_REMEMBERED:
            return
        if len(self._known) > VALUES_KEPT:
            self._known.clear()
        for row in rows.tolist():
            if values := self.values_in(row):
                self._known[values] = int(self.raw[row])
