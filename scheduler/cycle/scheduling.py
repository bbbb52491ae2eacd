"""The scheduling cycle: filter, make room if nothing is left, score, choose.

Source: ``pkg/scheduler/schedule_one.go`` (schedulingAlgorithm, schedulePod).
"""

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from scheduler.config.document import Extender
from scheduler.cycle.ties import pick
from scheduler.errors import PluginError
from scheduler.framework.asking import ask
from scheduler.framework.candidates import least_harm
from scheduler.framework.decision import (
    CLEAR,
    KEEP,
    Bind,
    Decision,
    Park,
    Preempt,
    Retry,
)
from scheduler.framework.diagnosis import Diagnosis, Filtered
from scheduler.framework.extending import (
    EXTENDER,
    Answer,
    Ask,
    ExtenderError,
    Questions,
    Unanswered,
    filter_question,
    is_interested,
    preempt_question,
    prioritize_question,
    read_filter,
    read_preempt,
    read_scores,
)
from scheduler.framework.filtering import (
    Narrowed,
    ask_pre_filters,
    diagnose,
    filter_nodes,
    judge_nodes,
    narrow,
)
from scheduler.framework.observer import SILENT, Observer
from scheduler.framework.profile import Profile
from scheduler.framework.rejection import Candidate, Proposal, Refusal, Scores
from scheduler.framework.scoring import score_nodes
from scheduler.model.pod import Pod
from scheduler.snapshot.mixing import mix
from scheduler.snapshot.node_table import NodeTable

NO_NODES: Final = "no nodes available to schedule pods"
_FEWEST_NODES_TO_SCORE: Final = 100
_TIES_TOLD: Final = 10


@dataclass(frozen=True, slots=True)
class Breathe:
    """A pause: the event loop may read and write, but facts wait until the cycle is over."""


BREATHE: Final = Breathe()

Answers = tuple[Answer, ...] | None
Cycle = Generator[Breathe | Questions, Answers, Decision]
Step = Generator[Breathe | Questions, Answers, "Filtered"]


@dataclass(frozen=True, slots=True)
class Attempt:
    """One attempt to place one pod: everything that the decision depends on.

    Args:
        nominated: Pods that others mean to place on a node, by the node's name.
        seed: Chooses among equals, together with the pod and the node.
        extenders: Asked beside the plugins, in this order.
    """

    profile: Profile
    pod: Pod
    nodes: NodeTable
    nominated: Mapping[str, Sequence[Pod]]
    seed: int = 0
    extenders: tuple[Extender, ...] = ()
    observer: Observer = SILENT


def schedule(attempt: Attempt) -> Cycle:
    """Decide what to do with the attempt's pod."""
    if not len(attempt.nodes):
        return Retry(attempt.pod, NO_NODES, unschedulable=True)
    try:
        return (yield from _schedule(attempt))
    except PluginError as error:
        return Retry(attempt.pod, str(error), plugin=error.plugin)
    except ExtenderError as error:
        return Retry(attempt.pod, str(error), plugin=EXTENDER)


def _schedule(attempt: Attempt) -> Cycle:
    narrowed = _narrow(attempt)
    if narrowed.refused is not None:
        return (yield from _make_room(attempt, narrowed, None))
    nominated = nominated_rows(attempt, attempt.nodes)
    row = yield from _nominee(attempt, narrowed, nominated)
    if row is not None:
        return _bind_to(attempt, row)
    filtered = filter_nodes(
        attempt.profile, narrowed, attempt.pod, attempt.nodes, nominated, attempt.observer
    )
    yield BREATHE
    filtered = yield from _extend(attempt, filtered, attempt.nodes)
    if not filtered.feasible.any():
        return (yield from _make_room(attempt, narrowed, filtered))
    return (yield from _choose(attempt, filtered))


def _narrow(attempt: Attempt) -> Narrowed:
    with attempt.observer.extension_point("PreFilter"):
        return ask_pre_filters(
            attempt.profile.pre_filter, attempt.pod, attempt.nodes, attempt.observer
        )


def nominated_rows(attempt: Attempt, nodes: NodeTable) -> dict[int, Sequence[Pod]]:
    """Return the pods that must be counted on, by row: nominated, as important, and not the pod."""
    rows: dict[int, Sequence[Pod]] = {}
    for name, pods in attempt.nominated.items():
        row = nodes.row_of(name)
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
) -> Generator[Breathe | Questions, Answers, int | None]:
    """Return the row of the pod's own nominated node, if that can take it now.

    Room was made there for it. Upstream tries it first and does not score the others.
    """
    row = attempt.nodes.row_of(attempt.pod.nominated_node) if attempt.pod.nominated_node else None
    if row is None:
        return None
    alone = attempt.nodes.alone(row)
    others = {0: nominated[row]} if row in nominated else {}
    unbounded = Narrowed(skipped=narrowed.skipped)
    verdict = filter_nodes(attempt.profile, unbounded, attempt.pod, alone, others, attempt.observer)
    verdict = yield from _extend(attempt, verdict, alone)
    return row if verdict.feasible[0] else None


def _extend(attempt: Attempt, filtered: Filtered, nodes: NodeTable) -> Step:
    """Let the extenders refuse some of the rows that the plugins left."""
    for extender in attempt.extenders:
        if not filtered.feasible.any():
            break
        if extender.filter_verb and is_interested(extender, attempt.pod):
            rows = filtered.feasible.nonzero()[0]
            left = nodes.select(rows)
            ask = filter_question(extender, attempt.pod, left)
            (answer,) = yield from _put(ask)
            filtered = narrow(filtered, read_filter(ask, answer, left), rows)
    return filtered


def _put(*asks: Ask) -> Generator[Breathe | Questions, Answers, tuple[Answer, ...]]:
    answers = yield Questions(asks)
    assert answers is not None
    assert len(answers) == len(asks)
    return answers


def _add_extender_scores(
    attempt: Attempt, totals: Scores, nodes: NodeTable
) -> Generator[Breathe | Questions, Answers, Scores]:
    """Add what the extenders think of *nodes*; they are asked all at once."""
    asks = [
        prioritize_question(extender, attempt.pod, nodes)
        for extender in attempt.extenders
        if extender.prioritize_verb and is_interested(extender, attempt.pod)
    ]
    if not asks:
        return totals
    answers = yield from _put(*asks)
    for question, answer in zip(asks, answers, strict=True):
        totals = totals + read_scores(question, answer, nodes)
    return totals


def _bind_to(attempt: Attempt, row: int) -> Bind:
    name = attempt.nodes.names[row]
    return Bind(attempt.pod, name, evaluated=1, feasible=1, ties=(name,))


def _choose(attempt: Attempt, filtered: Filtered) -> Cycle:
    """Score the feasible nodes and bind to the best."""
    rows = rows_to_score(attempt, filtered.feasible.nonzero()[0])
    feasible = len(rows)
    if feasible == 1:
        winner, best = int(rows[0]), rows
    else:
        table = attempt.nodes.select(rows) if feasible < len(attempt.nodes) else attempt.nodes
        scored = score_nodes(attempt.profile, attempt.pod, table, attempt.observer)
        yield BREATHE
        totals = yield from _add_extender_scores(attempt, scored.totals, table)
        ties = pick(totals, attempt.seed, attempt.pod.uid, table.name_hashes, _TIES_TOLD)
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


def rows_to_score(
    attempt: Attempt, rows: "np.typing.NDArray[np.intp]"
) -> "np.typing.NDArray[np.intp]":
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
    for found in _ask_post_filters(attempt, narrowed, diagnosis):
        yield BREATHE
        answer = yield from _consult(attempt, found)
        if isinstance(answer, Proposal):
            return Preempt(
                attempt.pod,
                answer.chosen.node,
                tuple(answer.chosen.victims),
                diagnosis.with_post_filter(answer.message),
                answer.message,
            )
        if answer.stop:
            said, clear = [], False
        if answer.message:
            said.append(answer.message)
        clear = clear or answer.clear_nomination
        if answer.stop:
            break
    return Park(attempt.pod, diagnosis.with_post_filter(", ".join(said)), CLEAR if clear else KEEP)


def _consult(
    attempt: Attempt, proposal: Proposal | Refusal
) -> Generator[Breathe | Questions, Answers, Proposal | Refusal]:
    """Let the extenders strike candidates out of a proposal, or change their victims."""
    consulted = [
        extender
        for extender in attempt.extenders
        if extender.preempt_verb and is_interested(extender, attempt.pod)
    ]
    if not consulted or isinstance(proposal, Refusal):
        return proposal
    candidates: Sequence[Candidate] = proposal.candidates or (proposal.chosen,)
    for extender in consulted:
        question = preempt_question(extender, attempt.pod, candidates)
        (answer,) = yield from _put(question)
        try:
            candidates = read_preempt(question, answer, attempt.nodes, candidates)
        except ExtenderError as error:
            return Refusal(f"preemption: {error}", stop=True)
        if not candidates:
            return Refusal("preemption: no candidate node for preemption")
    return Proposal(least_harm(candidates), tuple(candidates), proposal.message)


def _ask_post_filters(
    attempt: Attempt, narrowed: Narrowed, diagnosis: Diagnosis
) -> Iterator[Proposal | Refusal]:
    def filters(pod: Pod, nodes: NodeTable) -> Filtered:
        nominated = nominated_rows(attempt, nodes)
        return judge_nodes(attempt.profile, narrowed.skipped, pod, nodes, nominated, SILENT)

    with attempt.observer.extension_point("PostFilter"):
        for plugin in attempt.profile.post_filter:
            try:
                answer: object = ask(
                    "PostFilter",
                    plugin.name,
                    attempt.observer,
                    plugin.post_filter,
                    attempt.pod,
                    attempt.nodes,
                    diagnosis,
                    filters,
                )
            except PluginError as bug:
                answer = bug
            else:
                if not isinstance(answer, Proposal | Refusal):
                    answer = PluginError(plugin.name, f"answered PostFilter with {answer!r}")
            # The filters' verdict stands, whatever goes wrong in the search for room.
            yield (
                answer
                if isinstance(answer, Proposal | Refusal)
                else Refusal(str(answer), stop=True)
            )


def _unheard(ask: Ask) -> Answer:
    return Unanswered(f'extender "{ask.extender.url_prefix}" was not asked')


def decide(attempt: Attempt, ask: Callable[[Ask], Answer] = _unheard) -> Decision:
    """Run the cycle to its end without pausing: for tests, tools and whoever has no event loop.

    *ask* puts questions to extenders; by default they all fail to answer.
    """
    cycle = schedule(attempt)
    answers: Answers = None
    try:
        while True:
            step = cycle.send(answers)
            answers = (
                tuple(ask(each) for each in step.asks) if isinstance(step, Questions) else None
            )
    except StopIteration as end:
        decision: Decision = end.value
        return decision
