"""Why a pod goes where it goes: the decision, and what every plugin said about every node."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from scheduler.cycle.scheduling import Attempt, decide, nominated_rows, rows_to_score
from scheduler.errors import PluginError
from scheduler.framework import checked_calls
from scheduler.framework.all_rejections import Objections, ask_everyone
from scheduler.framework.decision import Decision
from scheduler.framework.invoke import call_plugin
from scheduler.framework.scoring import Scored, score_nodes


@dataclass(frozen=True, slots=True)
class Objection:
    """One plugin's reason against one node.

    Args:
        plugin: Who says so; empty for a node that cannot be read and is closed to all pods.
        reason: In the plugin's words.
        resolvable: Whether evicting pods could help.
    """

    plugin: str
    reason: str
    resolvable: bool


@dataclass(frozen=True, slots=True, eq=False)
class Explanation:
    """Everything that was said about one pod.

    Args:
        decision: What the scheduler would do.
        feasible: The nodes that nobody objects to.
        rejected: All reasons against each of the others, by its name.
        scored: The nodes whose scores follow, in the order of the scores' rows.
        scores: What every score plugin said; None where no node was scored.
        failed: What went wrong with plugins that could not be heard, by their names.
        gates: Why the pod would not be let into the queue, by the plugin that says so.
    """

    decision: Decision
    feasible: tuple[str, ...] = ()
    rejected: Mapping[str, tuple[Objection, ...]] = field(default_factory=dict)
    scored: tuple[str, ...] = ()
    scores: Scored | None = None
    failed: Mapping[str, str] = field(default_factory=dict)
    gates: Mapping[str, str] = field(default_factory=dict)


def explain(attempt: Attempt, decide: Callable[[Attempt], Decision] = decide) -> Explanation:
    """Decide about the attempt's pod, and hear everyone out.

    Scores are told even where the decision did not need any: with a single feasible node, or when
    the pod goes to the node that it was nominated to.
    """
    decision = decide(attempt)
    nodes = attempt.nodes
    failed: dict[str, str] = {}
    gates = dict(_gates(attempt, failed))
    if not len(nodes):
        return Explanation(decision, failed=failed, gates=gates)
    objections = ask_everyone(
        attempt.profile, attempt.pod, nodes, nominated_rows(attempt, nodes), attempt.observer
    )
    feasible = objections.feasible.nonzero()[0]
    failed |= objections.failed
    scored: tuple[str, ...] = ()
    scores: Scored | None = None
    if len(feasible):
        table = nodes.select(rows_to_score(attempt, feasible))
        try:
            scores = score_nodes(attempt.profile, attempt.pod, table, attempt.observer)
            scored = tuple(table.names)
        except PluginError as error:
            failed[error.plugin] = str(error)
    names = nodes.names
    return Explanation(
        decision,
        tuple(names[row] for row in feasible.tolist()),
        _by_node(names, objections),
        scored,
        scores,
        failed,
        gates,
    )


def _gates(attempt: Attempt, failed: dict[str, str]) -> Iterator[tuple[str, str]]:
    """Yield who keeps the pod out of the queue: it would not be looked at before that ends."""
    for plugin in attempt.profile.pre_enqueue:
        try:
            gate = call_plugin(
                "PreEnqueue",
                plugin.name,
                attempt.observer,
                checked_calls.pre_enqueue,
                plugin,
                attempt.pod,
            )
        except PluginError as error:
            failed[plugin.name] = str(error)
        else:
            if gate is not None:
                yield plugin.name, gate.reason


def _by_node(names: Sequence[str], found: Objections) -> dict[str, tuple[Objection, ...]]:
    """Turn what was said by plugin into what was said by node."""
    reasons: dict[str, list[Objection]] = {
        names[row]: [] for row in (~found.feasible).nonzero()[0].tolist()
    }
    for verdict in found.verdicts:
        for row in verdict.nodes.nonzero()[0].tolist():
            resolvable = bool(verdict.resolvable[row])
            reasons[names[row]].append(Objection(verdict.plugin, verdict.reason, resolvable))
    return {name: tuple(dict.fromkeys(said)) for name, said in reasons.items()}
