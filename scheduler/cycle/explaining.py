"""Explains an attempt: the decision, and what every plugin answered about every node."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from scheduler.cycle.scheduling import Attempt, decide, nominated_rows, sample
from scheduler.errors import PluginError
from scheduler.framework import invoke
from scheduler.framework.all_rejections import AllRejections, find_all_rejections
from scheduler.framework.decision import Decision
from scheduler.framework.invoke import call_plugin
from scheduler.framework.scoring import Scored, score_nodes


@dataclass(frozen=True, slots=True)
class NodeRejection:
    """One plugin's reason against one node.

    Args:
        plugin: Its name; empty for a node that cannot be read and is closed to all pods.
        reason: In the plugin's words.
        resolvable: Whether evicting pods could help.
    """

    plugin: str
    reason: str
    resolvable: bool


@dataclass(frozen=True, slots=True, eq=False)
class Explanation:
    """The decision about one pod, and everything that plugins answered.

    Args:
        decision: What the scheduler would do.
        feasible: The nodes that no plugin rejects.
        rejected: All reasons against each of the others, by its name.
        scored: The nodes whose scores follow, in the order of the scores' rows.
        scores: Every plugin's scores; None where no node was scored.
        failed: The errors of plugins that failed, by plugin name.
        gates: Why the pod would not enter the queue, by plugin name.
    """

    decision: Decision
    feasible: tuple[str, ...] = ()
    rejected: Mapping[str, tuple[NodeRejection, ...]] = field(default_factory=dict)
    scored: tuple[str, ...] = ()
    scores: Scored | None = None
    failed: Mapping[str, str] = field(default_factory=dict)
    gates: Mapping[str, str] = field(default_factory=dict)


def explain(attempt: Attempt, decide: Callable[[Attempt], Decision] = decide) -> Explanation:
    """Decide about the attempt's pod, and run every plugin besides.

    Nodes are scored even where the decision needs no scores: with a single feasible node, or when
    the pod is bound to its nominated node.
    """
    decision = decide(attempt)
    nodes = attempt.nodes
    failed: dict[str, str] = {}
    gates = dict(_gates(attempt, failed))
    if not len(nodes):
        return Explanation(decision, failed=failed, gates=gates)
    rejections = find_all_rejections(
        attempt.profile, attempt.pod, nodes, nominated_rows(attempt, nodes), attempt.observer
    )
    feasible = rejections.feasible.nonzero()[0]
    failed |= rejections.failed
    scored: tuple[str, ...] = ()
    scores: Scored | None = None
    if len(feasible):
        table = nodes.select(sample(attempt, rejections.feasible).nonzero()[0])
        try:
            scores = score_nodes(attempt.profile, attempt.pod, table, attempt.observer)
            scored = tuple(table.names)
        except PluginError as error:
            failed[error.plugin] = str(error)
    names = nodes.names
    return Explanation(
        decision,
        tuple(names[row] for row in feasible.tolist()),
        _by_node(names, rejections),
        scored,
        scores,
        failed,
        gates,
    )


def _gates(attempt: Attempt, failed: dict[str, str]) -> Iterator[tuple[str, str]]:
    """Yield the pre-enqueue plugins that keep the pod out of the queue, and why.

    The running scheduler would decide nothing before they let it in.
    """
    for plugin in attempt.profile.pre_enqueue:
        try:
            gate = call_plugin(
                "PreEnqueue",
                plugin.name,
                attempt.observer,
                invoke.pre_enqueue,
                plugin,
                attempt.pod,
            )
        except PluginError as error:
            failed[plugin.name] = str(error)
        else:
            if gate is not None:
                yield plugin.name, gate.reason


def _by_node(names: Sequence[str], found: AllRejections) -> dict[str, tuple[NodeRejection, ...]]:
    """Return the rejections, which are sorted by plugin, by node."""
    reasons: dict[str, list[NodeRejection]] = {
        names[row]: [] for row in (~found.feasible).nonzero()[0].tolist()
    }
    for verdict in found.verdicts:
        for row in verdict.nodes.nonzero()[0].tolist():
            resolvable = bool(verdict.resolvable[row])
            reasons[names[row]].append(NodeRejection(verdict.plugin, verdict.reason, resolvable))
    return {name: tuple(dict.fromkeys(said)) for name, said in reasons.items()}
