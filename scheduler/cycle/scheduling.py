"""The scheduling cycle: filter, make room if nothing is left, score, choose.

Source: ``pkg/scheduler/schedule_one.go`` (schedulingAlgorithm, schedulePod).
"""

from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from scheduler.cycle.ties import mix, pick
from scheduler.errors import PluginError
from scheduler.framework.asking import ask
from scheduler.framework.decision import (
    CLEAR,
    KEEP,
    Bind,
    Decision,
    Park,
    Preempt,
    Retry,
)
from scheduler.framework.diagnosis import Diagnosis
from scheduler.framework.filtering import (
    Filtered,
    Narrowed,
    ask_filters,
    ask_pre_filters,
    diagnose,
    filter_nodes,
)
from scheduler.framework.observer import SILENT, Observer
from scheduler.framework.profile import Profile
from scheduler.framework.rejection import Proposal, Refusal
from scheduler.framework.scoring import score_nodes
from scheduler.model.pod import Pod
from scheduler.snapshot.node_table import NodeTable

NO_NODES: Final = "no nodes available to schedule pods"
_FEWEST_NODES_TO_SCORE: Final = 100
_TIES_TOLD: Final = 10


@dataclass(frozen=True, slots=True)
class Breathe:
    """A pause: the event loop may read and write, but facts wait until the cycle is over."""


BREATHE: Final = Breathe()

Cycle = Generator[Breathe, None, Decision]


@dataclass(frozen=True, slots=True)
class Attempt:
    """One attempt to place one pod: everything that the decision depends on.

    Args:
        nominated: Pods that others mean to place on a node, by the node's name.
        seed: Chooses among equals, together with the pod and the node.
    """

    profile: Profile
    pod: Pod
    nodes: NodeTable
    nominated: Mapping[str, Sequence[Pod]]
    seed: int = 0
    observer: Observer = SILENT


def schedule(attempt: Attempt) -> Cycle:
    """Decide what to do with the attempt's pod."""
    if not len(attempt.nodes):
        return Retry(attempt.pod, NO_NODES, unschedulable=True)
    try:
        return (yield from _schedule(attempt))
    except PluginError as error:
        return Retry(attempt.pod, str(error), plugin=error.plugin)


def _schedule(attempt: Attempt) -> Cycle:
    narrowed = _narrow(attempt)
    if narrowed.refused is not None:
        return (yield from _make_room(attempt, narrowed, None))
    nominated = _nominated_rows(attempt)
    if (row := _nominee(attempt, narrowed, nominated)) is not None:
        return _bind_to(attempt, row)
    filtered = filter_nodes(
        attempt.profile, narrowed, attempt.pod, attempt.nodes, nominated, attempt.observer
    )
    yield BREATHE
    if not filtered.feasible.any():
        return (yield from _make_room(attempt, narrowed, filtered))
    return (yield from _choose(attempt, filtered))


def _narrow(attempt: Attempt) -> Narrowed:
    with attempt.observer.extension_point("PreFilter"):
        return ask_pre_filters(
            attempt.profile.pre_filter, attempt.pod, attempt.nodes, attempt.observer
        )


def _nominated_rows(attempt: Attempt) -> dict[int, Sequence[Pod]]:
    """Return the pods that must be counted on, by row: nominated, as important, and not the pod."""
    rows: dict[int, Sequence[Pod]] = {}
    for name, pods in attempt.nominated.items():
        row = attempt.nodes.row_of(name)
        counted = [
            pod
            for pod in pods
            if pod.priority >= attempt.pod.priority and pod.uid != attempt.pod.uid
        ]
        if row is not None and counted:
            rows[row] = counted
    return rows


def _nominee(
    attempt: Attempt, narrowed: Narrowed, nominated: Mapping[int, Sequence[Pod]]
) -> int | None:
    """Return the row of the pod's own nominated node, if that can take it now.

    Room was made there for it. Upstream tries it first and does not score the others.
    """
    row = attempt.nodes.row_of(attempt.pod.nominated_node) if attempt.pod.nominated_node else None
    if row is None:
        return None
    alone = attempt.nodes.select(np.array([row], dtype=np.intp))
    others = {0: nominated[row]} if row in nominated else {}
    unbounded = Narrowed(skipped=narrowed.skipped)
    verdict = filter_nodes(attempt.profile, unbounded, attempt.pod, alone, others, attempt.observer)
    return row if verdict.feasible[0] else None


def _bind_to(attempt: Attempt, row: int) -> Bind:
    name = attempt.nodes.names[row]
    return Bind(attempt.pod, name, evaluated=1, feasible=1, ties=(name,))


def _choose(attempt: Attempt, filtered: Filtered) -> Cycle:
    """Score the feasible nodes and bind to the best."""
    rows = _to_score(attempt, filtered.feasible.nonzero()[0])
    feasible = len(rows)
    if feasible == 1:
        winner, best = int(rows[0]), rows
    else:
        table = attempt.nodes.select(rows) if feasible < len(attempt.nodes) else attempt.nodes
        scored = score_nodes(attempt.profile, attempt.pod, table, attempt.observer)
        yield BREATHE
        ties = pick(
            scored.totals, attempt.seed, attempt.pod.uid, table.name_hashes, _TIES_TOLD
        )
        winner, best = int(rows[ties[0]]), rows[ties]
    names = attempt.nodes.names
    return Bind(
        attempt.pod,
        names[winner],
        evaluated=len(attempt.nodes),
        feasible=feasible,
        ties=tuple(names[row] for row in best.tolist()),
        nomination=KEEP,
    )


def _to_score(attempt: Attempt, rows: "np.typing.NDArray[np.intp]") -> "np.typing.NDArray[np.intp]":
    """Return which of the feasible *rows* are scored: all, unless the profile wants a sample."""
    percentage = attempt.profile.percentage_of_nodes_to_score
    if not percentage:
        return rows
    wanted = max(_FEWEST_NODES_TO_SCORE, len(attempt.nodes) * percentage // 100)
    if len(rows) <= wanted:
        return rows
    order = np.argsort(mix(attempt.seed, attempt.pod.uid, attempt.nodes.name_hashes[rows]))
    return np.sort(rows[order[:wanted]])


def _make_room(attempt: Attempt, narrowed: Narrowed, filtered: Filtered | None) -> Cycle:
    """Ask the post-filter plugins; without a proposal the pod is parked."""
    diagnosis = diagnose(attempt.nodes, narrowed, filtered)
    if not attempt.profile.post_filter:
        return Park(attempt.pod, diagnosis, CLEAR)
    said: list[str] = []
    clear = False
    for answer in _ask_post_filters(attempt, narrowed, diagnosis):
        yield BREATHE
        if isinstance(answer, Proposal):
            return Preempt(
                attempt.pod,
                answer.chosen.node,
                tuple(answer.chosen.victims),
                diagnosis.with_post_filter(answer.message),
                answer.message,
            )
        if answer.message:
            said.append(answer.message)
        clear = clear or answer.clear_nomination
        if answer.stop:
            break
    return Park(attempt.pod, diagnosis.with_post_filter(", ".join(said)), CLEAR if clear else KEEP)


def _ask_post_filters(
    attempt: Attempt, narrowed: Narrowed, diagnosis: Diagnosis
) -> Iterator[Proposal | Refusal]:
    def filters(pod: Pod, nodes: NodeTable) -> Diagnosis:
        asked = Narrowed(skipped=narrowed.skipped)
        found = ask_filters(attempt.profile.filter, asked.skipped, pod, nodes, attempt.observer)
        return diagnose(nodes, asked, found)

    with attempt.observer.extension_point("PostFilter"):
        for plugin in attempt.profile.post_filter:
            yield ask(
                "PostFilter",
                plugin.name,
                attempt.observer,
                plugin.post_filter,
                attempt.pod,
                attempt.nodes,
                diagnosis,
                filters,
            )


def decide(attempt: Attempt) -> Decision:
    """Run the cycle to its end without pausing: for tests, tools and whoever has no event loop."""
    cycle = schedule(attempt)
    try:
        while True:
            next(cycle)
    except StopIteration as end:
        decision: Decision = end.value
        return decision
