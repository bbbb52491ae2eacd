"""Preemption: finds a node where evicting pods of lower priority lets a pod fit.

Source: ``plugins/defaultpreemption/default_preemption.go`` and
``pkg/scheduler/framework/preemption/preemption.go``.

Upstream runs the dry run on one node after another; here a what-if table has a row for each node.
First all potential victims are removed from every row. Then the first of them in every row is added
back (upstream: reprieved) if the incoming pod still fits there, then the second, and so on.

Nodes are tried in an order that depends on the pod and their names alone, so that a decision can be
replayed; upstream begins at a random node. Mirror pods are never victims: the kubelet would create
them again at once.

The search pauses after each call of the filters: with a thousand nodes and dozens of pods on each
it may take longer than sockets can wait (``docs/decisions/0008-a-search-for-room-pauses.md``).
"""

from collections.abc import Generator, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from scheduler.config.plugin_args import DefaultPreemptionArgs
from scheduler.framework.candidates import by_importance, least_harm
from scheduler.framework.diagnosis import Diagnosis, Filtered, Verdict
from scheduler.framework.plugin import FilterQuestion
from scheduler.framework.rejection import Candidate, Proposal, Refusal
from scheduler.model.fact import Resource
from scheduler.model.pod import DISRUPTION_TARGET, PREEMPTION_BY_SCHEDULER, Pod
from scheduler.snapshot.arrays import Rows
from scheduler.snapshot.disruption_budgets import DisruptionBudgets
from scheduler.snapshot.node_table import NodeTable
from scheduler.snapshot.potential_victims import PotentialVictims
from scheduler.snapshot.tie_break import hash_of

_ROWS_AT_ONCE: Final = 128
"""Rows in one step of the dry run: more rows save little and lengthen the time between pauses."""

_NEVER: Final = "not eligible due to preemptionPolicy=Never."
_TERMINATING: Final = "not eligible due to a terminating pod on the nominated node."
_NO_VICTIMS: Final = "No preemption victims found for incoming pod"
_NOT_HELPFUL: Final = "Preemption is not helpful for scheduling"


class DefaultPreemption:
    """Proposes a node and the victims to evict from it.

    Args:
        args: How many candidates are enough, and whether pods of other schedulers may be evicted.
        schedulers: The scheduler names of all profiles, whose pods are not foreign.
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
        self._victim_schedulers = None if args.preempt_foreign_pods else schedulers

    def post_filter(
        self, pod: Pod, nodes: NodeTable, diagnosis: Diagnosis, ask: FilterQuestion
    ) -> Generator[None, None, Proposal | Refusal]:
        """Propose the best candidate, or return why there is none."""
        if why := _ineligible(pod, nodes, diagnosis):
            return _refusal(why)
        rows = _in_order(pod, nodes, diagnosis)
        dry_run = _DryRun(pod, nodes, ask, self._victim_schedulers)
        shortlist = _Shortlist(self._candidates_wanted(len(rows)))
        yield from _search(rows, dry_run, shortlist)
        if shortlist.candidates:
            return Proposal(least_harm(shortlist.candidates), shortlist.candidates)
        if dry_run.errors:
            return _refusal(_aggregate(dry_run.errors), stop=True)
        return _refusal(dry_run.message(rows), clear_nomination=True)

    def _candidates_wanted(self, rows: int) -> int:
        """Return how many candidates are enough, of *rows* potential nodes.

        Upstream: ``default_preemption.go``, calculateNumCandidates.
        """
        share = rows * self._args.min_candidate_nodes_percentage // 100
        return max(1, min(max(share, self._args.min_candidate_nodes_absolute), rows))


def _refusal(why: str, *, clear_nomination: bool = False, stop: bool = False) -> Refusal:
    return Refusal(f"preemption: {why}", clear_nomination, stop)


def _aggregate(errors: Sequence[str]) -> str:
    distinct = tuple(dict.fromkeys(errors))
    return distinct[0] if len(distinct) == 1 else f"[{', '.join(distinct)}]"


def _ineligible(pod: Pod, nodes: NodeTable, diagnosis: Diagnosis) -> str:
    """Return why *pod* must not preempt; empty if it may.

    A pod that has preempted waits until its victims have terminated, unless preemption can no
    longer help on its nominated node: otherwise each attempt would evict pods from another node.
    """
    if pod.spec.preemption_policy == "Never":
        return _NEVER
    row = nodes.row_of(pod.nominated_node) if pod.nominated_node else None
    if row is None or not diagnosis.preemption_may_help[row]:
        return ""
    victims_left = any(_is_victim_of(pod, other) for other in nodes.pods_on(row))
    return _TERMINATING if victims_left else ""


def _is_victim_of(pod: Pod, other: Pod) -> bool:
    """Tell whether *other* is terminating because a scheduler preempted it.

    Any other terminating pod may have a grace period of hours, and does not keep *pod* waiting.
    """
    condition = other.condition(DISRUPTION_TARGET)
    return (
        other.priority < pod.priority
        and other.terminating
        and condition is not None
        and (condition.status, condition.reason) == ("True", PREEMPTION_BY_SCHEDULER)
    )


def _in_order(pod: Pod, nodes: NodeTable, diagnosis: Diagnosis) -> Rows:
    """Return the rows where preemption may help, in the order in which they are tried.

    Mostly only some of them are tried: by row number, the same nodes would always lose pods.
    """
    may_help = diagnosis.preemption_may_help.copy()
    # Evictions do not open a closed row: what is malformed on it may be the node itself.
    may_help[list(nodes.closed)] = False
    rows = may_help.nonzero()[0]
    order: Rows = rows[np.argsort(hash_of(0, pod.uid, nodes.name_hashes[rows]), kind="stable")]
    return order


@dataclass(slots=True)
class _Shortlist:
    """Collects candidates until there are enough.

    *wanted* candidates are enough if at least one of them violates no disruption budget. Otherwise
    all nodes are tried, as in upstream's DryRunPreemption.
    """

    wanted: int
    _non_violating: list[Candidate] = field(default_factory=list)
    _violating: list[Candidate] = field(default_factory=list)

    @property
    def candidates(self) -> tuple[Candidate, ...]:
        return (*self._non_violating, *self._violating)

    def fill(self, found: Sequence[Candidate]) -> bool:
        """Add candidates in the order in which they were found; tell whether there are enough."""
        for candidate in found:
            kind = self._violating if candidate.pdb_violations else self._non_violating
            if len(kind) < self.wanted:
                kind.append(candidate)
            if (
                self._non_violating
                and len(self._non_violating) + len(self._violating) >= self.wanted
            ):
                return True
        return False


@dataclass(slots=True)
class _DryRunRow:
    """One node in the dry run.

    Args:
        row: The node's row.
        pods: Its potential victims, in the order in which they are reprieved.
        protected: How many of them, from the first on, a disruption budget protects.
        victims: Those that cannot stay.
        violations: How many victims are protected.
    """

    row: int
    pods: Sequence[Pod]
    protected: int
    victims: list[Pod] = field(default_factory=list)
    violations: int = 0

    def add_victim(self, index: int) -> None:
        assert len(self.victims) <= index, "a pod is added back once, and is a victim once"
        self.victims.append(self.pods[index])
        self.violations += index < self.protected


def _search(rows: Rows, dry_run: "_DryRun", shortlist: _Shortlist) -> Generator[None, None, None]:
    """Fill *shortlist* from *rows*, in order.

    Rows where evicting all potential victims would not help are dropped first, in large steps: with
    many nominated pods they are most of the rows.
    """
    batch = min(shortlist.wanted, _ROWS_AT_ONCE)
    pending: list[_DryRunRow | Candidate] = []
    for start in range(0, len(rows), _ROWS_AT_ONCE):
        pending += yield from dry_run.promising(rows[start : start + _ROWS_AT_ONCE])
        yield
        while len(pending) >= batch:
            found = yield from dry_run.find_victims(pending[:batch])
            if shortlist.fill(found):
                return
            del pending[:batch]
    shortlist.fill((yield from dry_run.find_victims(pending)))


class _DryRun:
    """The dry run of evictions on many nodes at once (upstream's SelectVictimsOnNode)."""

    def __init__(
        self,
        pod: Pod,
        nodes: NodeTable,
        ask: FilterQuestion,
        victim_schedulers: frozenset[str] | None,
    ) -> None:
        self._victim_schedulers = victim_schedulers
        self._pod = pod
        self._nodes = nodes
        self._ask = ask
        self._budgets = DisruptionBudgets(nodes.objects)
        self._memory = ask.memory
        self.errors: list[str] = []

    def promising(self, rows: Rows) -> Generator[None, None, list[_DryRunRow | Candidate]]:
        """Return those of *rows* that fit the pod once all their potential victims are removed.

        A row that is remembered is not tried again.
        """
        known: dict[int, _DryRunRow | Candidate | None] = {}
        known |= self._remembered(rows)
        new = rows[np.array([row not in known for row in rows.tolist()], dtype=np.bool_)]
        found = self._victims(new)
        lower = {row: pods for row, pods in zip(new.tolist(), found, strict=True) if pods}
        self._memory.reasons |= dict.fromkeys(set(new.tolist()) - lower.keys(), (_NO_VICTIMS,))
        if lower:
            tried = np.fromiter(lower, np.intp, len(lower))
            emptied = self._nodes.select(tried).each(removing=dict(enumerate(lower.values())))
            judged = self._ask(self._pod, emptied)
            self._record(judged, tried)
            for row in tried[judged.rows].tolist():
                known[row] = yield from self._arrange(row, lower[row])
        return [each for row in rows.tolist() if (each := known.get(row)) is not None]

    def find_victims(
        self, tried: Sequence[_DryRunRow | Candidate]
    ) -> Generator[None, None, list[Candidate]]:
        """Return the candidates among the rows, in order, each with as few victims as possible."""
        new = [each for each in tried if isinstance(each, _DryRunRow)]
        if new:
            chosen = np.array([each.row for each in new], dtype=np.intp)
            removing = {index: each.pods for index, each in enumerate(new)}
            yield from self._reprieve(self._nodes.select(chosen).each(removing=removing), new)
        candidates = (self._candidate(e) if isinstance(e, _DryRunRow) else e for e in tried)
        return [each for each in candidates if each is not None]

    def message(self, rows: Rows) -> str:
        """Return why none of *rows*, all tried, became a candidate, counted over all nodes."""
        verdicts: dict[tuple[int, str], Verdict] = {}
        for row in rows.tolist():
            for key in enumerate(self._memory.reasons.get(row, ())):
                if key not in verdicts:
                    none = np.zeros(len(self._nodes), dtype=np.bool_)
                    verdicts[key] = Verdict("", key[1], none, none)
                verdicts[key].nodes[row] = True
        return Diagnosis(
            names=tuple(self._nodes.names),
            verdicts=tuple(verdicts.values()),
            absent=_NOT_HELPFUL,
            nodes=len(self._nodes),
        ).message

    def _victims(self, rows: Rows) -> Sequence[PotentialVictims]:
        return self._nodes.potential_victims(rows, self._pod.priority, self._victim_schedulers)

    def _remembered(self, rows: Rows) -> dict[int, Candidate | None]:
        """Return those of *rows* that are remembered, with their candidate."""
        reasons = [self._memory.reasons.get(row) for row in rows.tolist()]
        hopeless = dict.fromkeys(
            row for row, why in zip(rows.tolist(), reasons, strict=True) if why
        )
        fitting = rows[np.array([why == () for why in reasons], dtype=np.bool_)]
        found = (pods.found.get(self._memory.number) for pods in self._victims(fitting))
        candidates = zip(fitting.tolist(), found, strict=True)
        return hopeless | {row: each for row, each in candidates if isinstance(each, Candidate)}

    def _record(self, judged: Filtered, tried: Rows) -> None:
        reasons: dict[int, tuple[str, ...]] = {}
        for verdict in judged.verdicts:
            for row in tried[verdict.nodes].tolist():
                reasons[row] = (*reasons.get(row, ()), verdict.reason)
        self._memory.reasons |= reasons
        self.errors += (
            f'running "{plugin}" filter plugin: {failure.text}'
            for plugin, failure in judged.failures
        )

    def _arrange(self, row: int, pods: Sequence[Pod]) -> Generator[None, None, _DryRunRow]:
        protected, free = yield from self._budgets.split(pods)
        return _DryRunRow(row, (*protected, *free) if protected else pods, len(protected))

    def _reprieve(
        self, table: NodeTable, tried: Sequence[_DryRunRow]
    ) -> Generator[None, None, None]:
        """Add back as many pods as can stay: protected ones first, the most important first."""
        assert len(table) == len(tried), f"{len(table)} rows for {len(tried)} nodes in the dry run"
        rows = list(tried)
        for index in range(max((len(each.pods) for each in tried), default=0)):
            left = np.array([index < len(each.pods) for each in rows], dtype=np.bool_)
            # Selecting copies the sums of all rows, so it has to drop more than half of them.
            if 2 * left.sum() < len(rows):
                table = table.select(left)
                rows = [each for each, keep in zip(rows, left, strict=True) if keep]
            returning = {
                row: (each.pods[index],) for row, each in enumerate(rows) if index < len(each.pods)
            }
            with_all = table.each(adding=returning)
            feasible = self._ask(self._pod, with_all).feasible
            staying = {row: pods for row, pods in returning.items() if feasible[row]}
            for row in returning.keys() - staying.keys():
                rows[row].add_victim(index)
            table = with_all if len(staying) == len(returning) else table.each(adding=staying)
            yield

    def _candidate(self, found: _DryRunRow) -> Candidate | None:
        assert found.violations <= len(found.victims), "more violations than victims"
        node = self._nodes.names[found.row]
        if not found.victims:
            self.errors.append(f'expected at least one victim pod on node "{node}"')
            return None
        victims = tuple(sorted(found.victims, key=by_importance))
        candidate = Candidate(node, victims, found.violations)
        (pods,) = self._victims(np.array([found.row], dtype=np.intp))
        pods.remember(self._memory.number, candidate)
        self._memory.reasons[found.row] = ()
        return candidate
