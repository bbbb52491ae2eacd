"""Compares two decisions about one pod: the debug switch decides every pod twice."""

import numpy as np

from scheduler.framework.decision import Bind, Decision, Park, Preempt, Retry
from scheduler.framework.diagnosis import Diagnosis


def difference(decision: Decision, fresh: Decision) -> str:
    """Return what *decision* says and *fresh* does not, in a few words; empty if they agree."""
    match decision, fresh:
        case Bind(), Bind():
            same = decision == fresh
        case Preempt(), Preempt():
            same = decision.node == fresh.node and _agree(decision.diagnosis, fresh.diagnosis)
            same = same and [each.uid for each in decision.victims] == [
                each.uid for each in fresh.victims
            ]
        case Park(), Park():
            same = decision.nomination == fresh.nomination and _agree(
                decision.diagnosis, fresh.diagnosis
            )
        case Retry(), Retry():
            same = decision.message == fresh.message and decision.plugin == fresh.plugin
        case _:
            same = False
    return "" if same else f"{_in_words(decision)}; decided anew: {_in_words(fresh)}"


def _agree(one: Diagnosis, other: Diagnosis) -> bool:
    """Tell whether both blame the same plugins for the same nodes, in whatever order."""
    return (
        one.message == other.message
        and one.rejected_by == other.rejected_by
        and one.unasked == other.unasked
        and np.array_equal(one.preemption_may_help, other.preemption_may_help)
        and _verdicts(one) == _verdicts(other)
    )


def _verdicts(diagnosis: Diagnosis) -> dict[tuple[str, str], tuple[set[int], set[int]]]:
    """Return the rows that each plugin rejects for each reason, and which are resolvable."""
    found: dict[tuple[str, str], tuple[set[int], set[int]]] = {}
    for each in diagnosis.verdicts:
        nodes, resolvable = found.setdefault((each.plugin, each.reason), (set(), set()))
        nodes.update(each.nodes.nonzero()[0].tolist())
        resolvable.update(each.resolvable.nonzero()[0].tolist())
    return found


def _in_words(decision: Decision) -> str:
    match decision:
        case Bind():
            return f"bind to one of {', '.join(decision.ties)} of {decision.feasible} nodes"
        case Preempt():
            victims = ", ".join(each.key for each in decision.victims)
            return f"preempt {victims} on {decision.node}"
        case Park():
            return f"park: {decision.diagnosis.message}"
        case Retry():
            return f"retry: {decision.message}"
