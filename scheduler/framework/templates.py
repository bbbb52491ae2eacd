"""Keeps what the plugins answered about a template of pods, for as long as it stands.

Pods of one template differ in identity, times and status alone, so the plugins answer the same
about them until a column that they read has changed. What was read is recorded while a plugin
answers; each column knows which of its rows have changed since (`scheduler.snapshot.change_log`).
So a further pod of a template costs what has changed: usually the row that the one before it took.

- No column that a plugin read has changed: its answer stands.
- Some rows have, and the plugin is ``node_local``: it is called for those rows.
- Otherwise it is called for every row.

Nothing here depends on time, and nothing is assumed: an answer from this module equals the one
that the plugins would give, which the tests check over random histories.

Upstream keeps less: opportunistic batching (KEP-5598) reuses the order of the nodes for the next
pod of the same signature, within half a second.
"""

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from scheduler.framework.diagnosis import Filtered, Verdict
from scheduler.framework.filtering import (
    Judged,
    PreFilterResult,
    filter_nodes,
    judged_closed,
    run_pre_filters,
)
from scheduler.framework.kept import Dependencies, Question
from scheduler.framework.kept_answers import ROWS_REMEMBERED, KeptFilter, KeptPreFilter, Unkeepable
from scheduler.framework.kept_nominations import KeptNominated, NominatedRows
from scheduler.framework.kept_scores import KeptScores
from scheduler.framework.kept_search import KeptSearch
from scheduler.framework.kept_totals import KeptTotals
from scheduler.framework.observer import Observer
from scheduler.framework.profile import Profile
from scheduler.framework.rejection import NodeMask
from scheduler.model.pod import Pod
from scheduler.snapshot.arrays import Rows
from scheduler.snapshot.node_table import NodeTable

_Key = tuple[str, bytes]
"""A scheduler name, and the template key of a pod."""

_BYTES_MAXIMUM: Final = 64 << 20
_ADDITIONS: Final = 16
"""After so many calls of plugins it is added up again how much memory the answers take."""

_SEEN_MAXIMUM: Final = 4096
"""Templates of which one pod was seen; about most of them no further one comes."""


class Template:
    """The kept answers about the pods of one template."""

    __slots__ = (
        "_apart",
        "_closed",
        "_filtered",
        "_filters",
        "_judges_by_row",
        "_pre_filtered",
        "_pre_filters",
        "_reached",
        "_rows_position",
        "_scores",
        "_searches",
        "_skipped",
        "dependencies",
        "nominations",
        "profile",
        "size_bytes",
        "size_known_at",
        "totals",
    )

    def __init__(self, profile: Profile, priority: int, nodes: NodeTable) -> None:
        self.profile = profile
        self._rows_position = nodes.change_logs.rows.position
        self.dependencies = Dependencies()
        self._pre_filters = {each.name: KeptPreFilter(each) for each in profile.pre_filter}
        self._pre_filtered: PreFilterResult | None = None
        self._filters = [KeptFilter(each) for each in profile.filter]
        self._scores = [KeptScores(each) for each in profile.score]
        self._filtered: Filtered | None = None
        self._reached = 0
        """How many filters were asked before no row was feasible any more."""
        self._skipped: frozenset[str] = frozenset()
        self._closed = -1
        self.totals = KeptTotals(self._scores, len(nodes))
        self.nominations = NominatedRows(priority)
        self._apart = KeptNominated()
        self._searches: dict[str, KeptSearch] = {}
        self._judges_by_row: tuple[frozenset[str], bool] = frozenset(), False
        """Whether all filters but those with these names do."""
        self.size_bytes = 0
        self.size_known_at = 0

    def follow(self, nodes: NodeTable) -> bool:
        """Learn what has changed; return whether it could be told which rows are other nodes now.

        A node that was added is one more row that has changed. The last row moves to the number of
        a node that was removed, so that one has.
        """
        self.dependencies.refresh()
        log = nodes.change_logs.rows
        if log.position == self._rows_position:
            return True
        changed = log.since(self._rows_position)
        if changed is None:
            return False
        self._rows_position = log.position
        size = len(nodes)
        rows = {row for row in changed if row < size}
        for each in (*self._pre_filters.values(), *self._filters, *self._scores):
            each.rows_changed(rows, size)
        self.totals.rows_changed(size)
        # Nominations are by row as well; that nodes come or go while pods preempt is rare.
        self.nominations.clear()
        for search in (self._apart, *self._searches.values()):
            search.give_up()
        self._filtered = None
        if self._pre_filtered is not None and self._pre_filtered.only is not None:
            self._pre_filtered = None
        self.size_known_at = -1
        return True

    def measure(self) -> None:
        """Add up how much memory the answers take, if any can have grown."""
        # Arrays appear with the first answers, and few after that: adding up all is not free.
        if self.size_known_at > 0 and self.dependencies.additions < self.size_known_at + _ADDITIONS:
            return
        self.size_known_at = self.dependencies.additions
        self.size_bytes = (
            sum(each.size_bytes for each in self._filters)
            + sum(each.size_bytes for each in self._scores)
            + self.totals.size_bytes
            + self._apart.size_bytes
            + sum(each.size_bytes for each in self._searches.values())
        )

    def nominate(self, question: Question, nominated: Mapping[str, Sequence[Pod]]) -> None:
        """Take over which pods are *nominated*; what rests on them is judged anew."""
        changed = self.nominations.update(question.pod, question.nodes, nominated)
        for each in (self._apart, *self._searches.values()):
            each.columns_changed(changed)

    def judges_by_row(self, skipped: frozenset[str]) -> bool:
        """Tell whether all filters but those *skipped* judge each row by that row alone."""
        known, by_row = self._judges_by_row
        if known != skipped or not by_row:
            by_row = all(
                each.by_row and each.keepable
                for each in self._filters
                if each.plugin.name not in skipped
            )
            self._judges_by_row = skipped, by_row
            for each in (self._apart, *self._searches.values()):
                each.keep_by_row(by_row)
        return by_row

    def apart(
        self,
        question: Question,
        skipped: frozenset[str],
        nominated: Mapping[int, Sequence[Pod]],
    ) -> Filtered:
        """Return what the filters but those *skipped* say about the rows with *nominated* pods."""
        return self._apart.judge(question, self.profile.filter, skipped, nominated)

    def search(self, plugin: str, skipped: frozenset[str]) -> KeptSearch:
        """Return what the post-filter *plugin* found out with all filters but those *skipped*."""
        by_row = self.judges_by_row(skipped)
        search = self._searches.get(plugin)
        if search is None:
            search = self._searches[plugin] = KeptSearch()
            search.keep_by_row(by_row)
        return search

    def pre_filter(self, question: Question) -> PreFilterResult:
        """Return the combined answers of the pre-filter plugins."""
        result, self._pre_filtered = self._pre_filtered, None
        # A plugin whose answer does not stand mostly gives it again.
        if result is not None and result.refused is None:
            for each in self._pre_filters.values():
                if not each.stands and each.answer != each.update(question):
                    result = None
                    break
        if result is None or result.refused is not None:
            result = run_pre_filters(
                self.profile.pre_filter,
                question.pod,
                question.nodes,
                question.observer,
                lambda plugin, *_: self._pre_filters[plugin.name].update(question),
            )
        self._pre_filtered = result
        return result

    def filter(self, question: Question, skipped: frozenset[str]) -> Filtered:
        """Return which rows no filter but those *skipped* rejects; see `verdicts` for the others.

        If those are the same rows as the last time, so is the object.

        Raises:
            PluginError: If a plugin fails.
            Unkeepable: If one could not judge some rows.
        """
        closed = question.nodes.change_logs.closed.position
        # Put back below, unless a plugin fails before all have said whether they changed.
        filtered, self._filtered = self._filtered, None
        changed = filtered is None or self._closed != closed or self._skipped != skipped
        asked = [each for each in self._filters if each.plugin.name not in skipped]
        turned: list[int] = []
        for each in asked[: self._reached]:
            if not each.stands or each.stale_rows:
                turned += each.update(question).tolist()
        if filtered is not None and not changed:
            if turned:
                everyone = self._reached == len(asked)
                filtered = _turned(filtered, turned, asked, question.nodes) if everyone else None
            if filtered is not None:
                self._filtered = filtered
                return filtered
        feasible = judged_closed(question.nodes).feasible
        updated, reached = self._reached, 0
        for each in asked:
            if reached >= updated:  # the others are up to date
                each.update(question)
            reached += 1
            if each.rejected is not None:
                feasible = feasible & ~each.rejected
                # Upstream, too, runs no further plugin on a node that one has rejected.
                if not feasible.any():
                    break
        self._reached, self._skipped, self._closed = reached, skipped, closed
        self._filtered = Filtered(feasible, ())
        return self._filtered

    def verdicts(self, nodes: NodeTable) -> Judged:
        """Return why the rows are not feasible, in the order of the plugins."""
        judged = judged_closed(nodes)
        asked = [each for each in self._filters if each.plugin.name not in self._skipped]
        for each in asked[: self._reached]:
            judged.add(each.plugin.name, each.rejections)
        return judged


def _turned(
    filtered: Filtered, rows: Sequence[int], asked: Sequence[KeptFilter], nodes: NodeTable
) -> Filtered | None:
    """Return *filtered* with *rows* judged anew, by what all filters said; None if none is left.

    A node that becomes full is one row: there is no need to combine the masks of all filters.
    """
    if len(rows) > ROWS_REMEMBERED:
        return None
    feasible, closed = filtered.feasible.copy(), nodes.closed
    for row in rows:
        feasible[row] = row not in closed and not any(
            each.rejected is not None and each.rejected[row] for each in asked
        )
    # Once no row is feasible, it counts which filters were asked before.
    return Filtered(feasible, ()) if feasible.any() else None


@dataclass(frozen=True, slots=True)
class KeptAnswers:
    """Answers about one pod of a template: plugins are called as far as something has changed."""

    template: Template
    question: Question

    def nominated(self, nominated: Mapping[str, Sequence[Pod]]) -> Mapping[int, Sequence[Pod]]:
        """Return by row the pods that are *nominated* by node, as far as they count for the pod."""
        self.template.nominate(self.question, nominated)
        return self.template.nominations.of(self.question.pod)

    def pre_filter(self) -> PreFilterResult:
        """Call the pre-filter plugins whose answers do not stand."""
        return self.template.pre_filter(self.question)

    def filter(
        self,
        pre_filtered: PreFilterResult,
        nominated: Mapping[int, Sequence[Pod]],
        *,
        with_verdicts: bool,
    ) -> Filtered:
        """Call the filters whose answers do not stand, for the rows that have changed.

        A row with *nominated* pods must be able to take the pod with them and without. Unless
        *with_verdicts*, they are there only if no row is feasible.
        """
        question = self.question
        pod, nodes, observer = question.pod, question.nodes, question.observer
        skipped = pre_filtered.skipped
        if pre_filtered.only is None and (
            self.template.judges_by_row(skipped) or 2 * len(nominated) <= len(nodes)
        ):
            try:
                with observer.extension_point("Filter"):
                    filtered = self.template.filter(question, skipped)
                    if nominated:
                        return self._with_nominated(filtered.feasible, skipped, nominated)
                    if with_verdicts or not len(filtered.rows):
                        verdicts = tuple(self.template.verdicts(nodes).verdicts)
                        return Filtered(filtered.feasible, verdicts)
                    return filtered
            except Unkeepable:
                pass  # run below, in full: the usual way says what follows from rows not judged
        return filter_nodes(self.template.profile, pre_filtered, pod, nodes, nominated, observer)

    def _with_nominated(
        self, feasible: NodeMask, skipped: frozenset[str], nominated: Mapping[int, Sequence[Pod]]
    ) -> Filtered:
        """Judge the rows with *nominated* pods apart: no other row is changed by them."""
        nodes = self.question.nodes
        apart = self.template.apart(self.question, skipped, nominated)
        elsewhere = np.ones(len(nodes), dtype=np.bool_)
        elsewhere[list(nominated)] = False
        feasible = (feasible & elsewhere) | apart.feasible
        verdicts = [
            Verdict(each.plugin, each.reason, each.nodes & elsewhere, each.resolvable & elsewhere)
            for each in self.template.verdicts(nodes).verdicts
        ]
        verdicts += apart.verdicts
        return Filtered(feasible, tuple(each for each in verdicts if each.nodes.any()))

    def score(self, feasible: NodeMask, rows: Rows, table: NodeTable) -> KeptTotals:
        """Call the score plugins whose answers do not stand; *table* shows the *feasible* rows."""
        totals = self.template.totals
        totals.update(self.question, feasible, rows, table)
        return totals

    def search(self, plugin: str, pre_filtered: PreFilterResult) -> KeptSearch:
        """Return what the post-filter *plugin* found out for earlier pods."""
        return self.template.search(plugin, pre_filtered.skipped)

    def settle(self, search: KeptSearch) -> None:
        """Let what a *search* found out, which has ended, stand until something changes."""
        self.question.settle(search, search.reads)


class Templates:
    """The templates of pods that came last, as many as fit into some memory.

    Args:
        bytes_maximum: How much memory their answers may take together.
    """

    def __init__(self, bytes_maximum: int = _BYTES_MAXIMUM) -> None:
        self._bytes_maximum = bytes_maximum
        self._templates: OrderedDict[_Key, Template] = OrderedDict()
        self._bytes = 0
        self._last: Template | None = None
        self._seen: OrderedDict[_Key, str] = OrderedDict()
        """The UID of the first pod of each template that has no answers."""

    @property
    def count(self) -> int:
        """How many templates have answers."""
        return len(self._templates)

    @property
    def size_bytes(self) -> int:
        """How much memory the answers took before the last decision."""
        return self._bytes

    def about(
        self, profile: Profile, pod: Pod, nodes: NodeTable, observer: Observer
    ) -> KeptAnswers | None:
        """Return what is kept about *pod*; None for the first pod of a template.

        A template is kept from its second pod on: pods that are unlike all others must not displace
        the answers about those that come by the hundred.
        """
        self._measure_last()
        key = profile.scheduler_name, pod.template_key
        template = self._templates.get(key)
        if template is not None:
            if template.profile is profile and template.follow(nodes):
                self._templates.move_to_end(key)
            else:
                self._drop(key)
                template = None
        # One that is parked and comes again is still the only one.
        elif self._seen.setdefault(key, pod.uid) == pod.uid:
            if len(self._seen) > _SEEN_MAXIMUM:
                self._seen.popitem(last=False)
            return None
        if template is None:
            template = self._templates[key] = Template(profile, pod.priority, nodes)
        self._last = template
        return KeptAnswers(template, Question(pod, nodes, observer, template.dependencies))

    def clear(self) -> None:
        """Drop everything, as after a change of the configuration."""
        self._templates.clear()
        self._seen.clear()
        self._bytes, self._last = 0, None

    def _measure_last(self) -> None:
        """Count the memory that the last decision took, and drop what was not used for longest."""
        if self._last is None:
            return
        last, self._last = self._last, None
        self._bytes -= last.size_bytes
        last.measure()
        self._bytes += last.size_bytes
        while self._bytes > self._bytes_maximum:
            self._drop(next(iter(self._templates)))

    def _drop(self, key: _Key) -> None:
        self._bytes -= self._templates.pop(key).size_bytes
        assert self._bytes >= 0, "templates take less than nothing"
