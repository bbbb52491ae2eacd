"""The explanation as a document: the schema that docs/explain.md promises."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from scheduler.cycle.explaining import Explanation
from scheduler.framework.decision import Bind, Decision, Park, Preempt, Retry
from scheduler.framework.profile import Profile
from scheduler.model.pod import Pod

SCHEMA_VERSION: Final = 1
"""Grows when a field is removed or changes its meaning; new fields may be added at any time."""

ExplanationDocument = dict[str, Any]


@dataclass(frozen=True, slots=True)
class ExplanationContext:
    """The parts of the document that do not come from the cycle.

    Args:
        nodes: How many nodes were judged.
        completed: What was filled into a pod that does not exist yet.
        missing: Kinds that the snapshot does not list, and the plugins that read them.
        notes: Anything else, one sentence each.
    """

    nodes: int
    completed: Sequence[str] = ()
    missing: Sequence[Mapping[str, Any]] = ()
    notes: Sequence[str] = ()


def write_document(
    profile: Profile, explanation: Explanation, context: ExplanationContext
) -> ExplanationDocument:
    """Return everything as plain values, JSON-encodable."""
    decision = explanation.decision
    pod = decision.pod
    return {
        "schemaVersion": SCHEMA_VERSION,
        "pod": {"namespace": pod.namespace, "name": pod.name, "priority": pod.priority},
        "profile": profile.scheduler_name,
        "decision": type(decision).__name__,
        "node": decision.node if isinstance(decision, Bind | Preempt) else None,
        "message": message(decision),
        "nodes": context.nodes,
        "feasible": sorted(explanation.feasible),
        "rejected": {
            name: [
                {"plugin": each.plugin, "reason": each.reason, "resolvable": each.resolvable}
                for each in rejections
            ]
            for name, rejections in sorted(explanation.rejected.items())
        },
        "weights": {each.plugin.name: each.weight for each in profile.score},
        "scores": _scores(explanation),
        "totals": _totals(explanation),
        "ties": list(decision.ties) if isinstance(decision, Bind) else [],
        "preemption": _preemption(decision),
        "gates": [{"plugin": name, "reason": reason} for name, reason in explanation.gates.items()],
        "failed": dict(explanation.failed),
        "completed": list(context.completed),
        "missing": [dict(each) for each in context.missing],
        "notes": list(context.notes),
    }


def message(decision: Decision) -> str:
    """Return the decision in one sentence, as the pod's event or condition would say it."""
    match decision:
        case Bind(pod, node):
            return f"{pod.key} would be bound to {node}"
        case Preempt(_, node, victims, diagnosis):
            return f"{len(victims)} pod(s) would be evicted from {node}; {diagnosis.message}"
        case Park():
            return decision.message
        case Retry():
            return decision.message


def _scores(explanation: Explanation) -> ExplanationDocument:
    found: ExplanationDocument = {name: {} for name in sorted(explanation.scored)}
    for each in explanation.scores.by_plugin if explanation.scores else ():
        columns = zip(
            explanation.scored,
            each.raw.tolist(),
            each.normalized.tolist(),
            each.weighted.tolist(),
            strict=True,
        )
        for name, raw, normalized, weighted in columns:
            found[name][each.plugin] = {"raw": raw, "normalized": normalized, "weighted": weighted}
    return found


def _totals(explanation: Explanation) -> dict[str, int]:
    """Return the sums, the best first."""
    if explanation.scores is None:
        return {}
    totals = zip(explanation.scored, explanation.scores.totals.tolist(), strict=True)
    return dict(sorted(totals, key=lambda each: (-each[1], each[0])))


def _preemption(decision: Decision) -> ExplanationDocument | None:
    """Return what the post-filter plugins found; None if none ran or answered with a text."""
    match decision:
        case Preempt(node=node, victims=victims, candidates=candidates, message=message):
            return {
                "node": node,
                "victims": _names(victims),
                "candidates": [
                    {
                        "node": each.node,
                        "victims": _names(each.victims),
                        "pdb_violations": each.pdb_violations,
                    }
                    for each in sorted(candidates, key=lambda each: each.node)
                ],
                "message": message,
            }
        case Park(diagnosis=diagnosis) if diagnosis.post_filter:
            return {"node": None, "victims": [], "candidates": [], "message": diagnosis.post_filter}
    return None


def _names(pods: Iterable[Pod]) -> list[str]:
    return [pod.key for pod in pods]
