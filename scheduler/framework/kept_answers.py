"""One plugin's answer about a template of pods, and what has changed since it was given.

`scheduler.framework.templates` combines them. Each class here asks its plugin again as far as
needed: not at all, for the rows that have changed, or for every row.
"""

from collections.abc import Iterable

import numpy as np

from scheduler.framework.filtering import ask_filter, ask_pre_filter
from scheduler.framework.invoke import call_plugin
from scheduler.framework.kept import Kept, Question, Values
from scheduler.framework.plugin import FilterPlugin, PreFilterPlugin, answers_by_template
from scheduler.framework.profile import Weighted
from scheduler.framework.rejection import (
    Failure,
    NodeMask,
    PreFilterAnswer,
    Rejection,
    Scores,
)
from scheduler.framework.scoring import check_scores, normalized_scores_of
from scheduler.snapshot.arrays import Rows, resized
from scheduler.snapshot.change_log import Reads
from scheduler.snapshot.node_table import NodeTable

_ROWS_REMEMBERED = 64
"""After more changes than this the plugin is called for all of them at once, which is cheaper."""
_VALUES_KEPT = 1024


class Unkeepable(Exception):  # noqa: N818 - not an error: the filters have to be run in the usual way
    """A filter could not judge some rows."""


class KeptPreFilter(Kept):
    """What a pre-filter plugin answered."""

    __slots__ = ("_reads_nothing", "answer", "plugin")

    def __init__(self, plugin: PreFilterPlugin) -> None:
        super().__init__(keepable=answers_by_template(plugin), by_row=False)
        self.plugin = plugin
        self.answer: PreFilterAnswer = None
        self._reads_nothing = False

    def update(self, question: Question) -> PreFilterAnswer:
        """Return the answer; call the plugin only if it does not stand."""
        if not self.stands:
            with question.nodes.recording() as reads:
                self.answer = ask_pre_filter(
                    self.plugin, question.pod, question.nodes, question.observer
                )
            self._reads_nothing = not reads
            if not isinstance(self.answer, Failure):
                question.settle(self, reads)
        return self.answer

    def rows_changed(self, rows: Iterable[int], size: int) -> None:
        """Let what follows from the pod alone stand, as that it has no volumes."""
        if not self._reads_nothing:
            super().rows_changed(rows, size)


class KeptFilter(Kept):
    """What a filter plugin answered about every row."""

    __slots__ = ("_accepted", "plugin", "rejected", "rejections")

    def __init__(self, plugin: FilterPlugin) -> None:
        super().__init__(
            keepable=answers_by_template(plugin), by_row=bool(getattr(plugin, "node_local", False))
        )
        self.plugin = plugin
        self.rejections: list[Rejection] = []
        self.rejected: NodeMask | None = None
        """Rows in any of the rejections; None if there is none."""
        self._accepted: set[Values] = set()
        """The values of rows that were asked about and not rejected."""

    @property
    def size_bytes(self) -> int:
        """How much memory the masks take."""
        return (
            len(self.rejected) * (1 + 2 * len(self.rejections)) if self.rejected is not None else 0
        )

    def update(self, question: Question) -> bool:
        """Bring the answer up to date; return whether other rows may be rejected now.

        Raises:
            PluginError: If the plugin fails.
            Unkeepable: If it could not judge some rows.
        """
        if not self.stands:
            self._judge_all(question)
            return True
        if not self.stale_rows:
            return False
        if self._are_accepted(self.stale_rows):
            self.stale_rows.clear()
            return False
        rows = np.fromiter(self.stale_rows, np.intp, len(self.stale_rows))
        self.stands = False
        answers, reads = self._ask(question, question.nodes.select(rows))
        if answers or self.rejections:
            reasons = [each.reason for each in answers]
            known = {each.reason for each in self.rejections}
            # In what order a new reason would be given, and how two with one reason differ, only
            # the plugin knows.
            if len(known) < len(self.rejections) or len(reasons) > len(known & set(reasons)):
                self._judge_all(question)
                return True
        changed = bool(self.rejections) and self._merge(rows, answers)
        question.settle(self, reads)
        self._remember(rows)
        return changed

    def resize(self, size: int) -> None:
        """Let no reason hold for rows that are new; they are stale."""
        self.rejections = [
            Rejection(nodes, each.reason, _resized(each.resolvable, size))
            for each in self.rejections
            if (nodes := resized(each.nodes, size)).any()
        ]
        self._combine()

    def forget_rows(self) -> None:
        """Forget the values of rows that were accepted."""
        self._accepted.clear()

    def _are_accepted(self, rows: Iterable[int]) -> bool:
        """Tell whether *rows* are not rejected, and would not be if the plugin were asked."""
        if self._values_in is None or not self._accepted:
            return False
        return all(
            (self.rejected is None or not self.rejected[row])
            and self.values_in(row) in self._accepted
            for row in rows
        )

    def _remember(self, rows: Rows) -> None:
        if self._values_in is None or len(rows) > _ROWS_REMEMBERED:
            return
        if len(self._accepted) > _VALUES_KEPT:
            self._accepted.clear()
        for row in rows.tolist():
            values = self.values_in(row)
            if values is not None and (self.rejected is None or not self.rejected[row]):
                self._accepted.add(values)

    def _ask(self, question: Question, nodes: NodeTable) -> tuple[list[Rejection], Reads]:
        with nodes.recording() as reads:
            answers = ask_filter(self.plugin, question.pod, nodes, question.observer)
        rejections = [each for each in answers if isinstance(each, Rejection)]
        if len(rejections) < len(answers):
            raise Unkeepable
        return rejections, reads

    def _judge_all(self, question: Question) -> None:
        self.give_up()
        answers, reads = self._ask(question, question.nodes)
        # Copies, since rows of them will be overwritten, and since the plugin may keep its own.
        self.rejections = [
            Rejection(each.nodes.copy(), each.reason, _copied(each.resolvable)) for each in answers
        ]
        self._combine()
        question.settle(self, reads)

    def _combine(self) -> None:
        self.rejected = None
        for each in self.rejections:
            self.rejected = each.nodes if self.rejected is None else self.rejected | each.nodes
        if self.rejected is not None and not self.rejected.any():
            self.rejected = None

    def _merge(self, rows: Rows, answers: list[Rejection]) -> bool:
        """Overwrite *rows* of the rejections; return whether other rows are rejected now."""
        before = None if self.rejected is None else self.rejected[rows]
        new = {each.reason: each for each in answers}
        merged = []
        for each in self.rejections:
            each.nodes[rows] = False
            resolvable = each.resolvable
            if (answer := new.get(each.reason)) is not None:
                each.nodes[rows[answer.nodes]] = True
                resolvable = _merged(resolvable, answer.resolvable, rows, len(each.nodes))
            if each.nodes.any():
                merged.append(Rejection(each.nodes, each.reason, resolvable))
        self.rejections = merged
        self._combine()
        after = None if self.rejected is None else self.rejected[rows]
        if before is None or after is None:
            return before is not after
        return bool((before != after).any())


def _copied(resolvable: NodeMask | bool) -> NodeMask | bool:
    return resolvable.copy() if isinstance(resolvable, np.ndarray) else resolvable


def _resized(resolvable: NodeMask | bool, size: int) -> NodeMask | bool:
    return resized(resolvable, size) if isinstance(resolvable, np.ndarray) else resolvable


def _merged(known: NodeMask | bool, new: NodeMask | bool, rows: Rows, size: int) -> NodeMask | bool:
    """Return *known* with the values of *rows* replaced by *new*."""
    if not isinstance(known, np.ndarray):
        if not isinstance(new, np.ndarray) and known == new:
            return known
        known = np.full(size, known, dtype=np.bool_)
    known[rows] = new
    return known


class KeptScores(Kept):
    """What a score plugin answered about the rows that were feasible.

    Raw scores are kept by row, for each row that was ever feasible, if the plugin promises that
    they do not depend on the other rows that it is asked about. Others, and normalized ones, hold
    as long as the same rows are feasible.
    """

    __slots__ = (
        "_known",
        "_normal",
        "_silent",
        "_unasked",
        "adds_by_row",
        "asked",
        "keeps_rows",
        "normalizes",
        "raw",
        "values",
        "weighted",
    )

    def __init__(self, weighted: Weighted) -> None:
        plugin = weighted.plugin
        super().__init__(
            keepable=answers_by_template(plugin), by_row=bool(getattr(plugin, "node_local", False))
        )
        self.weighted = weighted
        self.keeps_rows = self.by_row or bool(getattr(plugin, "scores_by_row", False))
        self.normalizes = getattr(plugin, "normalize", None) is not None
        self.adds_by_row = self.keeps_rows and not self.normalizes
        """Whether the raw scores are what counts, row by row."""
        self.raw: Scores = np.zeros(0, dtype=np.int64)
        """Over all rows, 0 where not asked; unless *keeps_rows*, over the feasible ones."""
        self.asked: NodeMask = np.zeros(0, dtype=np.bool_)
        self._unasked: set[int] | None = None
        """The rows that are not *asked*; None where they are more than a few."""
        self.values: Scores | None = None
        """Normalized and weighted, over the feasible rows; None without an answer."""
        self._normal = Kept(keepable=self.keepable, by_row=False)
        self._silent = False
        self._known: dict[Values, int] = {}
        """The raw scores of rows with certain values."""

    @property
    def size_bytes(self) -> int:
        """How much memory the arrays take."""
        return (
            self.raw.nbytes + self.asked.nbytes + (0 if self.values is None else self.values.nbytes)
        )

    @property
    def is_current(self) -> bool:
        """Whether nothing has to be asked if the same rows are feasible as the last time."""
        return self.stands and not self.stale_rows and (self.adds_by_row or self._normal.stands)

    def update(
        self, question: Question, rows: Rows, table: NodeTable, feasible: NodeMask | None
    ) -> Rows | None:
        """Bring the scores of the feasible *rows*, which *table* shows, up to date.

        *feasible* is None if the same rows were feasible the last time. Returns rows among which
        are all whose scores are new; None if there is none.

        Raises:
            PluginError: If the plugin fails.
        """
        pending = self._pending(question.nodes, rows, feasible)
        known = pending is not None and self._take_known(pending)
        if self.adds_by_row and (known or pending is None):
            return pending
        if pending is None and feasible is None and self._normal.stands:
            return None
        name, observer = self.weighted.plugin.name, question.observer
        to_ask = None if known else pending
        # One call: a plugin that scores well and normalizes badly has failed once, not each second
        # time.
        return call_plugin("Score", name, observer, self._answer, question, to_ask, rows, table)

    def _pending(self, nodes: NodeTable, rows: Rows, feasible: NodeMask | None) -> Rows | None:
        """Return those of *rows* whose raw scores are unknown or have changed; None for none."""
        if not self.keeps_rows:
            return None if self.stands and feasible is None else rows
        if not self.stands:
            self.raw = np.zeros(len(nodes), dtype=np.int64)
            self.asked = np.zeros(len(nodes), dtype=np.bool_)
            self._unasked = None
            return rows
        if self.stale_rows:
            stale = list(self.stale_rows)
            self.stale_rows.clear()
            self.asked[stale] = False
            if self._unasked is not None:
                self._unasked.update(stale)
        elif feasible is None:
            return None
        if self._unasked is None or (len(rows) < len(nodes) and feasible is None):
            pending = rows[~self.asked[rows]]
        else:
            few = [row for row in self._unasked if feasible is None or feasible[row]]
            pending = np.array(few, dtype=np.intp)
        return pending if len(pending) else None

    def _answer(
        self, question: Question, pending: Rows | None, rows: Rows, table: NodeTable
    ) -> Rows:
        """Call the plugin for *pending*, and let it normalize; return the rows that are new."""
        plugin, pod = self.weighted.plugin, question.pod
        if pending is not None and not self._score(question, pending, table):
            # Only about some rows has it something to say, against its promise: ask about all.
            self.give_up()
            everything = self._pending(question.nodes, rows, None)
            assert everything is rows, "nothing is kept"
            assert self._score(question, rows, table), "nothing is kept that could contradict"
            pending = rows
        if self.adds_by_row:
            assert pending is not None, "called without need"
            return pending
        self._normal.give_up()
        if self._silent:
            self.values, self._normal.stands = None, True
            return rows
        raw, weight = self.raw[rows] if self.keeps_rows else self.raw, self.weighted.weight
        with table.recording() as reads:
            normalized = normalized_scores_of(plugin, raw, pod, table)
        self.values = normalized * weight if weight != 1 else normalized
        question.settle(self._normal, reads)
        return rows

    def _score(self, question: Question, pending: Rows, table: NodeTable) -> bool:
        """Ask for the raw scores of *pending*; False if they contradict those that are kept."""
        nodes, plugin = question.nodes, self.weighted.plugin
        self.stands = False
        if self.keeps_rows:
            table = nodes if len(pending) == len(nodes) else nodes.select(pending)
        with table.recording() as reads:
            raw = plugin.score(question.pod, table)
        if self.keeps_rows and self._silent != (raw is None) and self.asked.any():
            return False
        self._silent = raw is None
        if raw is None:
            raw = np.zeros(len(pending), dtype=np.int64)
        else:
            check_scores(plugin.name, raw, len(pending))
            question.observer.evaluated("Score", plugin.name, len(pending))
            if self.adds_by_row:  # nothing comes after
                normalized_scores_of(plugin, raw, question.pod, table)
        if self.keeps_rows:
            self.raw[pending] = raw
            self._note_asked(pending)
        else:
            self.raw = raw
        question.settle(self, reads)
        self._remember(pending)
        return True

    def _note_asked(self, rows: Rows) -> None:
        self.asked[rows] = True
        if self._unasked is not None:
            self._unasked.difference_update(rows.tolist())
        elif self.asked.all():
            self._unasked = set()

    def resize(self, size: int) -> None:
        """Let the rows that are new be among those that were not asked about."""
        if self._unasked is not None:
            self._unasked = {row for row in self._unasked if row < size}
            self._unasked.update(range(len(self.raw), size))
        self.raw, self.asked = resized(self.raw, size), resized(self.asked, size)
        self._normal.give_up()

    def forget_rows(self) -> None:
        """Forget which values of a row had which score."""
        self._known.clear()

    def _take_known(self, rows: Rows) -> bool:
        """Score *rows* as other rows with the same values; False if some of them are unknown."""
        if self._values_in is None or not self._known or len(rows) > _ROWS_REMEMBERED:
            return False
        scores = []
        for row in rows.tolist():
            score = self._known.get(self.values_in(row) or ())
            if score is None:
                return False
            scores.append(score)
        self.raw[rows] = scores
        self._note_asked(rows)
        return True

    def _remember(self, rows: Rows) -> None:
        if self._values_in is None or self._silent or len(rows) > _ROWS_REMEMBERED:
            return
        if len(self._known) > _VALUES_KEPT:
            self._known.clear()
        for row in rows.tolist():
            if values := self.values_in(row):
                self._known[values] = int(self.raw[row])
