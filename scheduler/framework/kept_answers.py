"""One plugin's answer about a template of pods, and what has changed since it was given.

`scheduler.framework.templates` combines them. Each class here asks its plugin again as far as
needed: not at all, for the rows that have changed, or for every row.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np

from scheduler.framework.filtering import ask_filter
from scheduler.framework.invoke import call_plugin
from scheduler.framework.observer import Observer
from scheduler.framework.plugin import FilterPlugin, PreFilterPlugin
from scheduler.framework.pre_filtering import ask_pre_filter
from scheduler.framework.profile import Weighted
from scheduler.framework.rejection import (
    Failure,
    NodeMask,
    PreFilterAnswer,
    Rejection,
    Scores,
)
from scheduler.framework.scoring import normalized_scores_of, raw_scores_of
from scheduler.model.pod import Pod
from scheduler.snapshot.arrays import Rows
from scheduler.snapshot.change_log import ChangeLog, Reads
from scheduler.snapshot.node_table import NodeTable

_Values = tuple[int, ...]
"""What a row has in each of the columns that were read."""

_ROWS_REMEMBERED = 64
"""After more changes than this the plugin is called for all of them at once, which is cheaper."""
_VALUES_KEPT = 1024

_LOGS_MAXIMUM = 256
"""Logs of columns that are gone pile up here; beyond this number all answers are given up."""


class Unkeepable(Exception):  # noqa: N818 - not an error: the filters have to be run in the usual way
    """A filter could not judge some rows."""


class Kept:
    """Something that was computed from columns.

    Args:
        by_row: Whether a row of it depends on that row of the columns alone.
    """

    __slots__ = ("_logs", "_values_in", "by_row", "stale_rows", "stands")

    def __init__(self, *, by_row: bool) -> None:
        self.by_row = by_row
        self.stands = False
        self.stale_rows: set[int] = set()
        """Rows that have changed since; never filled unless *by_row*."""
        # What was read while the answer has been standing, and how to read one row of it again.
        self._logs: set[ChangeLog] = set()
        self._values_in: tuple[Callable[[int], int], ...] | None = None

    def columns_changed(self, rows: Iterable[int] | None) -> None:
        """Note that *rows* of a column have changed; any may have if None."""
        if not self.stands:
            return
        if rows is None or not self.by_row:
            self.give_up()
        else:
            self.stale_rows.update(rows)

    def give_up(self) -> None:
        """Compute all of it anew when it is needed."""
        self.stands = False
        self.stale_rows.clear()
        self._logs.clear()

    def rest_on(self, reads: Reads, directory: ChangeLog) -> None:
        """Remember what was read for some rows; *directory* has no rows of its own."""
        if not self.by_row or reads.keys() <= self._logs:
            return
        self._logs.update(reads)
        numbers = [log.value_in for log in self._logs if log is not directory]
        known = [each for each in numbers if each is not None]
        self._values_in = tuple(known) if len(known) == len(numbers) else None
        self.forget_rows()

    def forget_rows(self) -> None:
        """Forget what was answered about rows with certain values: there are more columns now."""

    def values_in(self, row: int) -> _Values | None:
        """Return all that the answer about *row* depends on; None if it is more than numbers.

        Rows with the same numbers get the same answer, so the plugin is called for one of them.
        """
        if self._values_in is None:
            return None
        return tuple([value_in(row) for value_in in self._values_in])


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
            if log.position != dependents.position:
                rows = log.since(dependents.position)
                dependents.position = log.position
                for kept in dependents.kept:
                    kept.columns_changed(rows)


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
        kept.stands = self.nodes.change_logs.untracked not in reads


class KeptPreFilter(Kept):
    """What a pre-filter plugin answered."""

    __slots__ = ("answer", "plugin")

    def __init__(self, plugin: PreFilterPlugin) -> None:
        super().__init__(by_row=False)
        self.plugin = plugin
        self.answer: PreFilterAnswer = None

    def update(self, question: Question) -> PreFilterAnswer:
        """Return the answer; call the plugin only if it does not stand."""
        if not self.stands:
            with question.nodes.recording() as reads:
                self.answer = ask_pre_filter(
                    self.plugin, question.pod, question.nodes, question.observer
                )
            if not isinstance(self.answer, Failure):
                question.settle(self, reads)
        return self.answer


class KeptFilter(Kept):
    """What a filter plugin answered about every row."""

    __slots__ = ("_accepted", "plugin", "rejected", "rejections")

    def __init__(self, plugin: FilterPlugin) -> None:
        super().__init__(by_row=bool(getattr(plugin, "node_local", False)))
        self.plugin = plugin
        self.rejections: list[Rejection] = []
        self.rejected: NodeMask | None = None
        """Rows in any of the rejections; None if there is none."""
        self._accepted: set[_Values] = set()
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

    Raw scores of a ``node_local`` plugin are kept by row, for each row that was ever feasible.
    Others, and normalized ones, depend on which rows are feasible.
    """

    __slots__ = (
        "_known",
        "_normal",
        "_silent",
        "asked",
        "normalizes",
        "raw",
        "values",
        "weighted",
    )

    def __init__(self, weighted: Weighted) -> None:
        super().__init__(by_row=bool(getattr(weighted.plugin, "node_local", False)))
        self.weighted = weighted
        self.normalizes = getattr(weighted.plugin, "normalize", None) is not None
        self.raw: Scores = np.zeros(0, dtype=np.int64)
        """Over all rows, 0 where not asked; of no use unless *by_row*."""
        self.asked: NodeMask = np.zeros(0, dtype=np.bool_)
        self.values: Scores | None = None
        """Normalized and weighted, over the feasible rows; None without an answer."""
        self._normal = Kept(by_row=False)
        self._silent = False
        self._known: dict[_Values, int] = {}
        """The raw scores of rows with certain values."""

    @property
    def size_bytes(self) -> int:
        """How much memory the arrays take."""
        return (
            self.raw.nbytes + self.asked.nbytes + (0 if self.values is None else self.values.nbytes)
        )

    @property
    def adds_by_row(self) -> bool:
        """Whether the raw scores are what counts, row by row."""
        return self.by_row and not self.normalizes

    def update(
        self, question: Question, rows: Rows, table: NodeTable, *, same: bool
    ) -> Rows | None:
        """Bring the scores of the feasible *rows*, which *table* shows, up to date.

        *same* says whether the same rows were feasible the last time. Returns the rows whose raw
        scores are new (all of *rows* where the plugin is not asked by row); None if there is none.

        Raises:
            PluginError: If the plugin fails.
        """
        if not self.by_row:
            return None if self.stands and same else self._score_all(question, rows, table)
        asked = self._update_raw(question, rows, same=same)
        if not self.normalizes:
            return asked
        if asked is None and same and self._normal.stands:
            return None
        self._normalize(question, self.raw[rows], table)
        return rows

    def _score_all(self, question: Question, rows: Rows, table: NodeTable) -> Rows:
        self.give_up()
        with table.recording() as reads:
            raw = self._ask(question, table)
        self._silent = raw is None
        if raw is None:
            self.values = None
        else:
            with table.recording() as further:
                self._set_values(question, raw, table)
            reads.update({log: at for log, at in further.items() if log not in reads})
        question.settle(self, reads)
        return rows

    def _update_raw(self, question: Question, rows: Rows, *, same: bool) -> Rows | None:
        """Ask for the raw scores of those *rows* that are unknown or have changed; return them."""
        nodes, first = question.nodes, not self.stands
        if first:
            self.raw = np.zeros(len(nodes), dtype=np.int64)
            self.asked = np.zeros(len(nodes), dtype=np.bool_)
            pending = rows
        elif same and not self.stale_rows:
            return None
        else:
            stale = np.fromiter(self.stale_rows, np.intp, len(self.stale_rows))
            self.asked[stale] = False
            pending = stale if same and len(rows) == len(nodes) else rows[~self.asked[rows]]
            if not len(pending):
                self.stale_rows.clear()
                return None
            if self._take_known(pending):
                return pending
        self.stands = False
        with nodes.recording() as reads:
            raw = self._ask(
                question, nodes if len(pending) == len(nodes) else nodes.select(pending)
            )
        if not first and self._silent != (raw is None):
            self.give_up()
            # Only about some rows has it something to say, against its promise: ask about all.
            return self._update_raw(question, rows, same=False)
        self._silent = raw is None
        if raw is not None:
            self.raw[pending] = raw
        self.asked[pending] = True
        question.settle(self, reads)
        self._remember(pending)
        return pending

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
        self.asked[rows] = True
        self.stale_rows.clear()
        return True

    def _remember(self, rows: Rows) -> None:
        if self._values_in is None or self._silent or len(rows) > _ROWS_REMEMBERED:
            return
        if len(self._known) > _VALUES_KEPT:
            self._known.clear()
        for row in rows.tolist():
            if values := self.values_in(row):
                self._known[values] = int(self.raw[row])

    def _ask(self, question: Question, nodes: NodeTable) -> Scores | None:
        plugin = self.weighted.plugin
        raw = call_plugin(
            "Score", plugin.name, question.observer, raw_scores_of, plugin, question.pod, nodes
        )
        if raw is None:
            return None
        question.observer.evaluated("Score", plugin.name, len(nodes))
        if self.adds_by_row:  # nothing comes after: they must be valid as they are
            normalized_scores_of(plugin, raw, question.pod, nodes)
        return raw

    def _normalize(self, question: Question, raw: Scores, table: NodeTable) -> None:
        self._normal.give_up()
        if self._silent:
            self.values = None
            self._normal.stands = True
            return
        with table.recording() as reads:
            self._set_values(question, raw, table)
        question.settle(self._normal, reads)

    def _set_values(self, question: Question, raw: Scores, table: NodeTable) -> None:
        plugin = self.weighted.plugin
        normalized = call_plugin(
            "Score",
            plugin.name,
            question.observer,
            normalized_scores_of,
            plugin,
            raw,
            question.pod,
            table,
        )
        weight = self.weighted.weight
        self.values = normalized * weight if weight != 1 else normalized
