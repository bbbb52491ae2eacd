"""What the null scheduler answers: a node for each pod, known before the run.

The answer follows from a pod's name alone, so that the null scheduler decides nothing. It meets the
same constraints as a scheduler's: pods are dealt out over the nodes that take them, behind those
that run already.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path  # noqa: TC003 - msgspec reads annotations
from typing import TYPE_CHECKING, Final

import msgspec

from benchmarks.objects import group_of, index_of, node_names
from benchmarks.workload import Churn, Measured, Nodes, Pods

if TYPE_CHECKING:
    from benchmarks.workload import Workload

PROBE: Final = "probe"


class Answer(msgspec.Struct, frozen=True):
    """What becomes of the pods whose names begin alike.

    Args:
        group: The name of a group of nodes in the plan.
        first: The row of the node that takes the pod with the number 0.
        victims: How many running pods have to go for each.
        parked: Whether they fit nowhere.
    """

    group: str
    first: int = 0
    victims: int = 0
    parked: bool = False


class Plan(msgspec.Struct, frozen=True):
    """All answers.

    Args:
        groups: The names of nodes.
        answers: By the first part of the pods' names.
    """

    groups: dict[str, list[str]]
    answers: dict[str, Answer]

    def answer(self, pod: str) -> tuple[str, Answer]:
        """Return the node for a pod, and what else becomes of it."""
        answer = self.answers[pod.rpartition("-")[0]]
        names = self.groups[answer.group]
        return names[(answer.first + index_of(pod)) % len(names)], answer

    def write(self, path: Path) -> None:
        """Write the plan, for the null scheduler's process."""
        path.write_bytes(msgspec.json.encode(self))


def read_plan(path: Path) -> Plan:
    """Read what `Plan.write` wrote."""
    return msgspec.json.decode(path.read_bytes(), type=Plan)


def plan(workload: Workload) -> Plan:
    """Return the answers about all pods of a workload that are not created on their nodes."""
    first = workload.of(Nodes)[0]
    placed: list[Pods | Measured] = [*workload.of(Pods), workload.measured]
    groups = {phase.node_group or first.group: group_of(workload, phase) for phase in placed}
    groups.setdefault(first.group, node_names(first))
    answers = {PROBE: Answer(first.group)}
    taken: Counter[str] = Counter()
    for phase in workload.of(Pods):
        assert isinstance(phase.count, int)
        group = phase.node_group or first.group
        if phase.state == "pending":
            answers[phase.name] = Answer(group, taken[group])
        if phase.state != "gated":
            taken[group] += phase.count
    answers[workload.measured.name] = _measured(workload.measured, first.group, taken)
    for churn in workload.of(Churn):
        for template in churn.pods:
            answers[f"{churn.name}-{template}"] = Answer(
                first.group, victims=churn.victims, parked=churn.parked
            )
    return Plan(groups, answers)


def _measured(phase: Measured, default_group: str, taken: Counter[str]) -> Answer:
    group = phase.node_group or default_group
    return Answer(group, 0 if phase.victims else taken[group], victims=phase.victims)
