"""Makes room for a pod that fits nowhere by evicting less important ones.

Source: ``plugins/defaultpreemption/default_preemption.go`` and
``pkg/scheduler/framework/preemption/preemption.go``.

Upstream tries one node after the other; here a what-if table stands for all that are tried. First
every lower pod is gone from every node, each in a world of its own; then the first pod of every
node is given back, if the node can still take the incoming pod, then the second, and so on.

Nodes are tried in an order that depends on the pod and their names alone (upstream begins at a
random one). Pods that a kubelet made by itself are never victims: they would only come back.

Between two questions to the filters the search pauses: a thousand nodes and dozens of pods on each
may take longer than sockets can wait.
"""

from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from scheduler.config.plugin_args import DefaultPreemptionArgs
from scheduler.errors import MalformedObject
from scheduler.framework.candidates import by_importance, least_harm
from scheduler.framework.diagnosis import Diagnosis, Filtered, Verdict
from scheduler.framework.plugin import FilterQuestion
from scheduler.framework.rejection import Candidate, Proposal, Refusal
from scheduler.model.fact import Resource
from scheduler.model.objects import PodDisruptionBudget
from scheduler.model.pod import DISRUPTION_TARGET, PREEMPTION_BY_SCHEDULER, Pod
from scheduler.model.selectors import Selector, compile_selector
from scheduler.snapshot.arrays import Rows
from scheduler.snapshot.node_table import NodeTable
from scheduler.snapshot.objects import ClusterObjects
from scheduler.snapshot.tie_break import hash_of

_ROWS_AT_ONCE: Final = 128
"""So many are tried in one step: more save little, and keep the sockets waiting."""

_NEVER: Final = "not eligible due to preemptionPolicy=Never."
_TERMINATING: Final = "not eligible due to a terminating pod on the nominated node."
_NO_VICTIMS: Final = "No preemption victims found for incoming pod"
_NOT_HELPFUL: Final = "Preemption is not helpful for scheduling"


class DefaultPreemption:
    """Proposes whom to evict, from the node where that hurts least.

    Args:
        args: How many nodes are tried, and whether pods of other schedulers may be evicted.
        schedulers: The names of the schedulers whose pods are not others'.
    """

    name = "DefaultPreemption"
    knows_schedulers = True
    needs = frozenset((Resource.POD_DISRUPTION_BUDGET,))

    def __init__(
        self,
        args: DefaultPreemptionArgs = DefaultPreemptionArgs(),  # noqa: B008 - frozen
        schedulers: frozenset[str] = frozenset(),
    ) -> None:
        self._args = args
        self._among = None if args.preempt_foreign_pods else schedulers

    def post_filter(
        self, pod: Pod, nodes: NodeTable, diagnosis: Diagnosis, ask: FilterQuestion
    ) -> Generator[None, None, Proposal | Refusal]:
        """Look for the node where the least harm makes room."""
        if why := _ineligible(pod, nodes, diagnosis):
            return _refusal(why)
        rows = _in_order(pod, nodes, diagnosis)
        dry_run = _DryRun(pod, nodes, ask, self._among)
        shortlist = _Shortlist(self._wanted(len(rows)))
        yield from _search(rows, dry_run, shortlist)
        if shortlist.candidates:
            return Proposal(least_harm(shortlist.candidates), shortlist.candidates)
        if dry_run.errors:
            return _refusal(_aggregate(dry_run.errors), stop=True)
        return _refusal(dry_run.message, clear_nomination=True)

    def _wanted(self, rows: int) -> int:
        """Return how many candidates are enough, of *rows* nodes that could become one."""
        share = rows * self._args.min_candidate_nodes_percentage // 100
        return max(1, min(max(share, self._args.min_candidate_nodes_absolute), rows))


def _refusal(why: str, *, clear_nomination: bool = False, stop: bool = False) -> Refusal:
    return Refusal(f"preemption: {why}", clear_nomination, stop)


def _aggregate(errors: Sequence[str]) -> str:
    distinct = tuple(dict.fromkeys(errors))
    return distinct[0] if len(distinct) == 1 else f"[{', '.join(distinct)}]"


def _ineligible(pod: Pod, nodes: NodeTable, diagnosis: Diagnosis) -> str:
    """Return why *pod* must not preempt; empty where it may.

    Who has preempted already waits for the victims to leave, unless its node is beyond help now.
    """
    if pod.spec.preemption_policy == "Never":
        return _NEVER
    row = nodes.row_of(pod.nominated_node) if pod.nominated_node else None
    if row is None or not diagnosis.preemption_may_help[row]:
        return ""
    leaving = any(_leaves_for(pod, other) for other in nodes.pods_on(row))
    return _TERMINATING if leaving else ""


def _leaves_for(pod: Pod, other: Pod) -> bool:
    """Tell whether *other* makes room that *pod* may count on."""
    condition = other.condition(DISRUPTION_TARGET)
    return (
        other.priority < pod.priority
        and other.terminating
        and condition is not None
        and (condition.status, condition.reason) == ("True", PREEMPTION_BY_SCHEDULER)
    )


def _in_order(pod: Pod, nodes: NodeTable, diagnosis: Diagnosis) -> Rows:
    """Return the rows that evictions could help, in the order in which they are tried."""
    may_help = diagnosis.preemption_may_help.copy()
    may_help[list(nodes.closed)] = False
    rows = may_help.nonzero()[0]
    order: Rows = rows[np.argsort(hash_of(0, pod.uid, nodes.name_hashes[rows]), kind="stable")]
    return order


@dataclass(slots=True)
class _Shortlist:
    """Candidates, until there are enough.

    Enough is *wanted*, with one among them that violates no budget: with none, all nodes are tried.
    """

    wanted: int
    _harmless: list[Candidate] = field(default_factory=list)
    _violating: list[Candidate] = field(default_factory=list)

    @property
    def candidates(self) -> tuple[Candidate, ...]:
        return (*self._harmless, *self._violating)

    def fill(self, found: Sequence[Candidate]) -> bool:
        """Take candidates in the order in which they were found; tell whether there are enough."""
        for candidate in found:
            part = self._violating if candidate.pdb_violations else self._harmless
            if len(part) < self.wanted:
                part.append(candidate)
            if self._harmless and len(self._harmless) + len(self._violating) >= self.wanted:
                return True
        return False


@dataclass(slots=True)
class _Row:
    """One node that is tried: who could go, in the order in which they are given back."""

    row: int
    pods: Sequence[Pod]
    protected: int
    """How many of them, the first ones, a budget protects."""
    victims: list[Pod] = field(default_factory=list)
    violations: int = 0

    def evict(self, turn: int) -> None:
        self.victims.append(self.pods[turn])
        self.violations += turn < self.protected


def _search(rows: Rows, dry_run: "_DryRun", shortlist: _Shortlist) -> Generator[None, None, None]:
    """Fill *shortlist* from *rows*, in order.

    Which of them could be helped at all is asked first: where many are nominated, few can.
    """
    together = min(shortlist.wanted, _ROWS_AT_ONCE)
    hopeful: list[_Row] = []
    for start in range(0, len(rows), _ROWS_AT_ONCE):
        hopeful += dry_run.helpable(rows[start : start + _ROWS_AT_ONCE])
        yield
        while len(hopeful) >= together:
            found = yield from dry_run.evict(hopeful[:together])
            if shortlist.fill(found):
                return
            del hopeful[:together]
    shortlist.fill((yield from dry_run.evict(hopeful)))


class _DryRun:
    """What evictions would do, on many nodes at once."""

    def __init__(
        self, pod: Pod, nodes: NodeTable, ask: FilterQuestion, among: frozenset[str] | None
    ) -> None:
        self._among = among
        self._pod = pod
        self._nodes = nodes
        self._ask = ask
        self._budgets = _Budgets(nodes.objects)
        self._verdicts: list[Verdict] = []
        self.errors: list[str] = []

    def helpable(self, rows: Rows) -> list[_Row]:
        """Return those of *rows* that could take the pod if everybody less important went."""
        there = _lower(self._nodes, rows, self._pod, self._among)
        some = np.fromiter(map(bool, there), dtype=np.bool_, count=len(rows))
        self._note_hopeless(rows[~some])
        tried = rows[some]
        if not len(tried):
            return []
        lower = list(filter(None, there))
        emptied = self._nodes.select(tried).each(removing=dict(enumerate(lower)))
        judged = self._ask(self._pod, emptied)
        self._note(judged, tried)
        return [
            self._arrange(row, pods)
            for row, pods, helps in zip(tried.tolist(), lower, judged.feasible, strict=True)
            if helps
        ]

    def evict(self, tried: Sequence[_Row]) -> Generator[None, None, list[Candidate]]:
        """Return what has to be done on each of the rows, in order: the fewest victims there."""
        chosen = np.array([each.row for each in tried], dtype=np.intp)
        removing = {index: each.pods for index, each in enumerate(tried)}
        yield from self._give_back(self._nodes.select(chosen).each(removing=removing), tried)
        return list(self._candidates(tried))

    @property
    def message(self) -> str:
        """Why no node became a candidate, counted over all nodes."""
        return Diagnosis(
            names=tuple(self._nodes.names),
            verdicts=tuple(self._verdicts),
            absent=_NOT_HELPFUL,
            nodes=len(self._nodes),
        ).message

    def _note_hopeless(self, rows: Rows) -> None:
        if len(rows):
            mask = np.zeros(len(self._nodes), dtype=np.bool_)
            mask[rows] = True
            self._verdicts.append(Verdict("", _NO_VICTIMS, mask, np.zeros_like(mask)))

    def _note(self, judged: Filtered, tried: Rows) -> None:
        size = len(self._nodes)
        self._verdicts += (verdict.among(tried, size) for verdict in judged.verdicts)
        self.errors += (
            f'running "{plugin}" filter plugin: {failure.text}'
            for plugin, failure in judged.failures
        )

    def _arrange(self, row: int, pods: Sequence[Pod]) -> _Row:
        protected, free = self._budgets.split(pods)
        return _Row(row, (*protected, *free) if protected else pods, len(protected))

    def _give_back(self, world: NodeTable, tried: Sequence[_Row]) -> Generator[None, None, None]:
        """Give back as many pods as can stay: those a budget protects first, then the others."""
        rows = list(tried)
        for turn in range(max((len(each.pods) for each in tried), default=0)):
            left = np.array([turn < len(each.pods) for each in rows], dtype=np.bool_)
            if 2 * left.sum() < len(rows):
                world = world.select(left)
                rows = [each for each, waits in zip(rows, left, strict=True) if waits]
            offers = {
                index: (each.pods[turn],)
                for index, each in enumerate(rows)
                if turn < len(each.pods)
            }
            fuller = world.each(adding=offers)
            feasible = self._ask(self._pod, fuller).feasible
            staying = {index: offer for index, offer in offers.items() if feasible[index]}
            for index in offers.keys() - staying.keys():
                rows[index].evict(turn)
            world = fuller if len(staying) == len(offers) else world.each(adding=staying)
            yield

    def _candidates(self, found: Sequence[_Row]) -> Iterator[Candidate]:
        for each in found:
            node = self._nodes.names[each.row]
            if each.victims:
                victims = tuple(sorted(each.victims, key=by_importance))
                yield Candidate(node, victims, each.violations)
            else:
                self.errors.append(f'expected at least one victim pod on node "{node}"')


def _lower(
    nodes: NodeTable, rows: Rows, pod: Pod, among: frozenset[str] | None
) -> list[Sequence[Pod]]:
    """Return the pods in each of *rows* that may have to go for *pod*, most important first."""
    return nodes.potential_victims(rows, pod.priority, among)


@dataclass(frozen=True, slots=True)
class _Budget:
    """How many more pods that match may go, those that are going already not counted."""

    matches: Selector
    allowed: int
    going: Mapping[str, str | None]


class _Budgets:
    """The disruption budgets of the cluster, read once a dry run."""

    def __init__(self, objects: ClusterObjects) -> None:
        self._objects = objects
        self._any = any(True for _ in objects.all(Resource.POD_DISRUPTION_BUDGET))
        self._known: dict[str, tuple[_Budget, ...]] = {}

    def split(self, pods: Sequence[Pod]) -> tuple[Sequence[Pod], Sequence[Pod]]:
        """Part *pods*, the most important first, into those that budgets protect and the others.

        What budgets allow is used up by the most important; each node has it all for itself.
        """
        if not self._any:
            return (), pods
        protected: list[Pod] = []
        free: list[Pod] = []
        spent: dict[int, int] = {}
        for pod in pods:
            (protected if self._protect(pod, spent) else free).append(pod)
        return protected, free

    def _protect(self, pod: Pod, spent: dict[int, int]) -> bool:
        """Take *pod* off every budget that is about it; tell whether one is overdrawn."""
        overdrawn = False
        if not pod.labels:
            return False
        for budget in self._of(pod.namespace):
            if budget.matches.matches(pod.labels) and pod.name not in budget.going:
                spent[id(budget)] = spent.get(id(budget), 0) + 1
                overdrawn |= spent[id(budget)] > budget.allowed
        return overdrawn

    def _of(self, namespace: str) -> tuple[_Budget, ...]:
        budgets = self._known.get(namespace)
        if budgets is None:
            read = map(_read, self._objects.budgets(namespace))
            budgets = self._known[namespace] = tuple(each for each in read if each is not None)
        return budgets


def _read(written: PodDisruptionBudget) -> _Budget | None:
    """Return a budget; None where it is about nobody: its selector is invalid or empty."""
    try:
        selector = compile_selector(written.spec.selector, "spec.selector")
    except MalformedObject:
        return None
    if selector.empty:
        return None
    return _Budget(selector, written.status.disruptions_allowed, written.status.disrupted_pods)
