"""Which pods are nominated to which row, and what filters answered about such rows."""

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from scheduler.framework.diagnosis import Filtered, Verdict
from scheduler.framework.filtering import run_filters
from scheduler.framework.kept import Kept, Question
from scheduler.framework.plugin import FilterPlugin
from scheduler.framework.rejection import NodeMask
from scheduler.model.pod import Pod
from scheduler.snapshot.node_table import NodeTable


class NominatedRows:
    """The nominated pods that count for the pods of one template: of its priority or a higher one.

    A thousand pods may be nominated while hardly a nomination changes between two attempts, so
    only those that have changed are looked at.
    """

    __slots__ = ("_by_row", "_own", "_priority", "_row_of", "_seen")

    def __init__(self, priority: int) -> None:
        self._priority = priority
        self._seen: Mapping[str, Sequence[Pod]] = {}
        self._by_row: dict[int, Sequence[Pod]] = {}
        self._row_of: dict[str, int] = {}
        self._own: int | None = None

    def clear(self) -> None:
        """Forget everything: rows have other numbers now."""
        self._seen, self._own = {}, None
        self._by_row.clear()
        self._row_of.clear()

    def update(
        self, pod: Pod, nodes: NodeTable, nominated: Mapping[str, Sequence[Pod]]
    ) -> set[int]:
        """Take over what is *nominated* now, by node, and return the rows where that has changed.

        The row where *pod* itself is nominated counts as changed, now and the next time: the pod
        counts for all others, and not for itself.
        """
        changed = set() if self._own is None else {self._own}
        seen = self._seen
        names = [name for name, pods in nominated.items() if seen.get(name) is not pods]
        names += seen.keys() - nominated.keys()
        for name in names:
            if (row := nodes.row_of(name)) is not None:
                self._set(row, [p for p in nominated.get(name, ()) if p.priority >= self._priority])
                changed.add(row)
        self._seen = nominated
        self._own = self._row_of.get(pod.uid)
        if self._own is not None:
            changed.add(self._own)
        return changed

    def of(self, pod: Pod) -> Mapping[int, Sequence[Pod]]:
        """Return the pods that count for *pod*, by row."""
        if self._own is None:
            return self._by_row
        others = [each for each in self._by_row[self._own] if each.uid != pod.uid]
        rows = self._by_row | {self._own: others}
        return rows if others else {row: pods for row, pods in rows.items() if pods}

    def _set(self, row: int, pods: Sequence[Pod]) -> None:
        for pod in self._by_row.pop(row, ()):
            if self._row_of.get(pod.uid) == row:
                del self._row_of[pod.uid]
        if pods:
            self._by_row[row] = pods
            self._row_of.update((pod.uid, row) for pod in pods)


class KeptNominated(Kept):
    """What the filters answered about rows with nominated pods: with those pods, and without."""

    __slots__ = ("_feasible", "_known", "_verdicts")

    def __init__(self) -> None:
        super().__init__(keepable=False, by_row=False)
        self._known: set[int] = set()
        self._feasible: NodeMask = np.zeros(0, dtype=np.bool_)
        self._verdicts: dict[tuple[str, str], tuple[NodeMask, NodeMask]] = {}

    @property
    def size_bytes(self) -> int:
        """How much memory the masks take."""
        masks = [self._feasible, *(mask for both in self._verdicts.values() for mask in both)]
        return sum(mask.nbytes for mask in masks)

    def give_up(self) -> None:
        """Forget everything."""
        super().give_up()
        self._known.clear()
        self._feasible = np.zeros(0, dtype=np.bool_)
        self._verdicts.clear()

    def judge(
        self,
        question: Question,
        filters: Sequence[FilterPlugin],
        skipped: frozenset[str],
        nominated: Mapping[int, Sequence[Pod]],
    ) -> Filtered:
        """Return what all *filters* but those *skipped* say about the rows with *nominated* pods.

        Other rows are neither feasible nor in a verdict.

        Raises:
            PluginError: If a plugin fails, or could not judge one of these rows.
        """
        if self.stands:
            self._drop(self.stale_rows & self._known)
        else:
            self.give_up()
            self._feasible = np.zeros(len(question.nodes), dtype=np.bool_)
        self.stands = False
        new = nominated.keys() - self._known
        assert len(self._known) + len(new) == len(nominated), "rows that lost their nominations"
        with question.nodes.recording() as reads:
            if new:
                self._ask(question, filters, skipped, {row: nominated[row] for row in new})
        question.settle(self, reads)
        verdicts = (
            Verdict(plugin, reason, nodes.copy(), resolvable.copy())
            for (plugin, reason), (nodes, resolvable) in self._verdicts.items()
        )
        return Filtered(self._feasible.copy(), tuple(verdicts))

    def _ask(
        self,
        question: Question,
        filters: Sequence[FilterPlugin],
        skipped: frozenset[str],
        nominated: Mapping[int, Sequence[Pod]],
    ) -> None:
        rows = np.fromiter(nominated, np.intp, len(nominated))
        answers = run_filters(
            filters,
            skipped,
            question.pod,
            question.nodes.select(rows),
            dict(enumerate(nominated.values())),
            question.observer,
        )
        answers.raise_failure()
        self._known.update(nominated)
        self._feasible[rows] = answers.feasible
        for each in answers.verdicts:
            nodes, resolvable = self._masks(each.plugin, each.reason)
            nodes[rows] |= each.nodes
            resolvable[rows] |= each.resolvable

    def _masks(self, plugin: str, reason: str) -> tuple[NodeMask, NodeMask]:
        masks = self._verdicts.get((plugin, reason))
        if masks is None:
            none = np.zeros_like(self._feasible)
            masks = self._verdicts[plugin, reason] = none, none.copy()
        return masks

    def _drop(self, rows: Iterable[int]) -> None:
        dropped = list(rows)
        self._known.difference_update(dropped)
        self._feasible[dropped] = False
        for (plugin, reason), masks in tuple(self._verdicts.items()):
            for mask in masks:
                mask[dropped] = False
            if not masks[0].any():
                del self._verdicts[plugin, reason]
