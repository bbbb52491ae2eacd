"""A filter's answer about a template of pods, and what has changed since it was given.

`scheduler.framework.templates` combines them. Each class here asks its plugin again as far as
needed: not at all, for the rows that have changed, or for every row.
"""

from collections.abc import Iterable
from itertools import chain
from typing import Final

import numpy as np

from scheduler.framework.filtering import ask_filter, ask_pre_filter
from scheduler.framework.kept import Groups, Kept, Question, Values
from scheduler.framework.plugin import FilterPlugin, PreFilterPlugin, answers_by_template
from scheduler.framework.rejection import (
    Failure,
    NodeMask,
    PreFilterAnswer,
    Rejection,
)
from scheduler.snapshot.alike import AlikeRows
from scheduler.snapshot.arrays import Rows, resized
from scheduler.snapshot.change_log import Reads
from scheduler.snapshot.node_table import NodeTable

ROWS_REMEMBERED: Final = 64
"""After more changes than this the plugin is called for all of them at once, which is cheaper."""
VALUES_KEPT: Final = 1024
_NO_ROWS: Final[Rows] = np.zeros(0, dtype=np.intp)


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


_Said = dict[str, bool]
"""Why a row is rejected, and whether preemption may help; empty for one that is not."""


class KeptFilter(Kept):
    """What a filter plugin answered about every row."""

    __slots__ = ("_groups", "_said", "plugin", "rejected", "rejections")

    def __init__(self, plugin: FilterPlugin) -> None:
        super().__init__(
            keepable=answers_by_template(plugin),
            by_row=bool(getattr(plugin, "node_local", False)),
            by_domain=bool(getattr(plugin, "each_world", False)),
        )
        self.plugin = plugin
        self.rejections: list[Rejection] = []
        self.rejected: NodeMask | None = None
        """Rows in any of the rejections; None if there is none."""
        self._said: dict[Values, _Said] = {}
        """What the plugin said about rows with certain values."""
        self._groups = Groups()

    @property
    def size_bytes(self) -> int:
        """How much memory the masks take."""
        rows = 0 if self.rejected is None else len(self.rejected)
        return rows * (1 + 2 * len(self.rejections)) + self._groups.size_bytes

    def update(self, question: Question) -> Rows:
        """Bring the answer up to date; return the rows that were rejected and are not, or are now.

        Raises:
            PluginError: If the plugin fails.
            Unkeepable: If it could not judge some rows.
        """
        if not self.stands:
            return self._judge_all(question)
        if not self.stale_rows:
            return _NO_ROWS
        # Fast path: most pods leave a node with room for more.
        if self._are_accepted():
            self.stale_rows.clear()
            return _NO_ROWS
        rows = np.fromiter(self.stale_rows, np.intp, len(self.stale_rows))
        answers = self._known_answers(rows)
        if answers is None:
            self.stands = False
            answers, reads = self._ask(question, question.nodes.select(rows))
            if not self._can_merge(answers):
                return self._judge_all(question)
            question.settle(self, reads)
            turned = self._merge(rows, answers)
            self._remember(rows)
            return turned
        self.stale_rows.clear()
        return self._merge(rows, answers)

    def resize(self, size: int) -> None:
        """Let no reason hold for rows that are new; they are stale."""
        self.rejections = [
            Rejection(nodes, each.reason, _resized(each.resolvable, size))
            for each in self.rejections
            if (nodes := resized(each.nodes, size)).any()
        ]
        self._combine()

    def forget_rows(self) -> None:
        """Forget what was said about rows with certain values."""
        self._said.clear()

    def _are_accepted(self) -> bool:
        """Tell whether no stale row is rejected, nor would be if the plugin were asked."""
        return self._values_in is not None and all(
            (self.rejected is None or not self.rejected.item(row))
            and self._said.get(self.values_in(row) or ()) == {}
            for row in self.stale_rows
        )

    def _known_answers(self, rows: Rows) -> list[Rejection] | None:
        """Return what the plugin said about rows like *rows*; None if not all of that is known."""
        if self._values_in is None or not self._said or len(rows) > ROWS_REMEMBERED:
            return None
        said = []
        for row in rows.tolist():
            known = self._said.get(self.values_in(row) or ())
            if known is None:
                return None
            said.append(known)
        answers = []
        for reason in dict.fromkeys(chain.from_iterable(said)):
            nodes = np.array([reason in each for each in said])
            found = {each[reason] for each in said if reason in each}
            # One value for all rows takes no array.
            resolvable = found.pop() if len(found) == 1 else _resolvable_by_row(said, reason)
            answers.append(Rejection(nodes, reason, resolvable))
        return answers if self._can_merge(answers) else None

    def _can_merge(self, answers: list[Rejection]) -> bool:
        """Tell whether *answers* about some rows say how all are to be told apart by reason."""
        # In what order a new reason would be given, and how two with one reason differ, only the
        # plugin knows.
        known = {each.reason for each in self.rejections}
        reasons = {each.reason for each in answers}
        return (
            len(known) == len(self.rejections) and len(reasons) == len(answers) and reasons <= known
        )

    def _remember(self, rows: Rows) -> None:
        if self._values_in is None or len(rows) > ROWS_REMEMBERED:
            return
        if len(self._said) > VALUES_KEPT:
            self._said.clear()
        for row in rows.tolist():
            if values := self.values_in(row):
                self._said[values] = {
                    each.reason: _resolvable_in(each, row)
                    for each in self.rejections
                    if each.nodes[row]
                }

    def _ask(self, question: Question, nodes: NodeTable) -> tuple[list[Rejection], Reads]:
        with nodes.recording() as reads:
            answers = ask_filter(self.plugin, question.pod, nodes, question.observer)
        rejections = [each for each in answers if isinstance(each, Rejection)]
        if len(rejections) < len(answers):
            raise Unkeepable
        return rejections, reads

    def _judge_all(self, question: Question) -> Rows:
        """Ask about all rows anew; return those that were rejected and are not, or are now."""
        self.give_up()
        before = self.rejected
        if (answers := self._ask_groups(question)) is not None:
            self.rejections = answers
        else:
            answers, reads = self._ask(question, question.nodes)
            # Copies, since rows of them will be overwritten, and the plugin may keep its own.
            self.rejections = [
                Rejection(each.nodes.copy(), each.reason, _copied(each.resolvable))
                for each in answers
            ]
            self._groups.learn(reads)
            question.settle(self, reads)
        self._combine()
        size = len(question.nodes)
        if before is not None and len(before) != size:
            return np.arange(size)
        turned = _differ(before, self.rejected)
        return _NO_ROWS if turned is None else turned.nonzero()[0]

    def _ask_groups(self, question: Question) -> list[Rejection] | None:
        """Ask about one row of each group of rows that are alike; None if there are no groups."""
        alike = self._groups.of(question.nodes)
        if alike is None:
            return None
        answers, reads = self._ask(question, question.nodes.select(alike.first))
        if not self._groups.hold(reads):
            return None
        question.settle(self, reads)
        return [
            Rejection(alike.expand(each.nodes), each.reason, _expanded(each.resolvable, alike))
            for each in answers
        ]

    def _combine(self) -> None:
        self.rejected = None
        for each in self.rejections:
            self.rejected = each.nodes if self.rejected is None else self.rejected | each.nodes
        if self.rejected is not None and not self.rejected.any():
            self.rejected = None

    def _merge(self, rows: Rows, answers: list[Rejection]) -> Rows:
        """Overwrite *rows* of the rejections; return those that were rejected and are not, or are.

        Most rows were feasible and are: then no array is touched.
        """
        before = None if self.rejected is None else self.rejected[rows]
        if before is None or not (answers or before.any()):
            assert not answers, "a reason that no row had is given by the plugin, for all rows"
            return _NO_ROWS
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
        turned = _differ(before, None if self.rejected is None else self.rejected[rows])
        return _NO_ROWS if turned is None else rows[turned]


def _differ(before: NodeMask | None, after: NodeMask | None) -> NodeMask | None:
    """Return where two masks differ, of which None has no row; None if neither has any."""
    if before is None or after is None:
        return after if before is None else before
    differ: NodeMask = before != after
    return differ


def _resolvable_in(rejection: Rejection, row: int) -> bool:
    resolvable = rejection.resolvable
    return bool(resolvable[row]) if isinstance(resolvable, np.ndarray) else resolvable


def _resolvable_by_row(said: list[_Said], reason: str) -> NodeMask:
    return np.array([each.get(reason, True) for each in said])


def _copied(resolvable: NodeMask | bool) -> NodeMask | bool:
    return resolvable.copy() if isinstance(resolvable, np.ndarray) else resolvable


def _expanded(resolvable: NodeMask | bool, alike: AlikeRows) -> NodeMask | bool:
    return alike.expand(resolvable) if isinstance(resolvable, np.ndarray) else resolvable


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
