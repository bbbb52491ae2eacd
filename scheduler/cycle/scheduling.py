"""The scheduling cycle: filter, make room if nothing is left, score, choose.

Source: ``pkg/scheduler/schedule_one.go`` (schedulingAlgorithm, schedulePod).
"""

from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from scheduler.config.document import Extender
from scheduler.errors import PluginError
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
from scheduler.framework.extender_protocol import (
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
    PreFilterResult,
    diagnose,
    filter_nodes,
    narrow,
    run_filters,
    run_pre_filters,
)
from scheduler.framework.invoke import call_plugin
from scheduler.framework.observer import SILENT, Observer
from scheduler.framework.plugin import FilterQuestion, PostFilterPlugin, Search
from scheduler.framework.profile import Profile
from scheduler.framework.rejection import Candidate, Proposal, Refusal, Scores
from scheduler.framework.scoring import score_nodes
from scheduler.model.pod import Pod
from scheduler.snapshot.node_table import NodeTable
from scheduler.snapshot.tie_break import best, hash_of

NO_NODES: Final = "no nodes available to schedule pods"
_FEWEST_NODES_TO_SCORE: Final = 100
_TIES_TOLD: Final = 10


@dataclass(frozen=True, slots=True)
class Pause:
    """A pause: the event loop may read and write, but facts wait until the cycle is over."""


PAUSE: Final = Pause()

Answers = tuple[Answer, ...] | None
Cycle = Generator[Pause | Questions, Answers, Decision]
Step = Generator[Pause | Questions, Answers, "Filtered"]


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
    profile, pod, nodes, observer = attempt.profile, attempt.pod, attempt.nodes, attempt.observer
    if not len(nodes):
        return Retry(pod, NO_NODES, unschedulable=True)
    try:
        for _ in nodes.prepare(pod):
            yield PAUSE
        with observer.extension_point("PreFilter") as ends:
            pre_filtered = run_pre_filters(profile.pre_filter, pod, nodes, observer)
            if pre_filtered.refused is not None:
                resolvable = pre_filtered.refused.resolvable
                ends("Unschedulable" if resolvable else "UnschedulableAndUnresolvable")
        if pre_filtered.refused is not None:
            return (yield from _post_filter(attempt, pre_filtered, None))
        if pod.nominated_node and (yield from _fits_nominated_node(attempt, pre_filtered)):
            name = pod.nominated_node
            return Bind(pod, name, evaluated=1, feasible=1, ties=(name,))
        nominated = nominated_rows(attempt, nodes) if attempt.nominated else {}
        filtered = filter_nodes(profile, pre_filtered, pod, nodes, nominated, observer)
        yield PAUSE
        if attempt.extenders:
            filtered = yield from _filter_by_extenders(attempt, filtered, nodes)
        if not filtered.feasible.any():
            return (yield from _post_filter(attempt, pre_filtered, filtered))
        return (yield from _choose(attempt, filtered.feasible.nonzero()[0]))
    except PluginError as error:
        return Retry(pod, str(error), plugin=error.plugin)
    except ExtenderError as error:
        return Retry(pod, str(error), plugin=EXTENDER)


def nominated_rows(attempt: Attempt, nodes: NodeTable) -> dict[int, Sequence[Pod]]:
    """Return the pods that must be counted on, by row: nominated, as important, and not the pod."""
    priority, uid = attempt.pod.priority, attempt.pod.uid
    rows: dict[int, Sequence[Pod]] = {}
    for name, row in nodes.rows_of(attempt.nominated):
        pods = attempt.nominated[name]
        if counted := [pod for pod in pods if pod.priority >= priority and pod.uid != uid]:
            rows[row] = counted
    return rows


def _fits_nominated_node(
    attempt: Attempt, pre_filtered: PreFilterResult
) -> Generator[Pause | Questions, Answers, bool]:
    """Tell whether the pod's own nominated node can take it now.

    Capacity was freed there for it, so upstream tries this node first and does not score the
    others. A plugin that fails here is asked again together with all the nodes: one node that
    cannot be judged is no reason to end the attempt.
    """
    row = attempt.nodes.row_of(attempt.pod.nominated_node)
    if row is None:
        return False
    alone = attempt.nodes.alone(row)
    others = nominated_rows(attempt, alone)
    with attempt.observer.extension_point("Filter"):
        filtered = run_filters(
            attempt.profile.filter,
            pre_filtered.skipped,
            attempt.pod,
            alone,
            others,
            attempt.observer,
        )
    try:
        filtered = yield from _filter_by_extenders(attempt, filtered, alone)
    except ExtenderError:
        return False
    return bool(filtered.feasible[0])


def _filter_by_extenders(attempt: Attempt, filtered: Filtered, nodes: NodeTable) -> Step:
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


def _put(*asks: Ask) -> Generator[Pause | Questions, Answers, tuple[Answer, ...]]:
    answers = yield Questions(asks)
    assert answers is not None
    assert len(answers) == len(asks)
    return answers


def _add_extender_scores(
    attempt: Attempt, totals: Scores, nodes: NodeTable
) -> Generator[Pause | Questions, Answers, Scores]:
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


def _choose(attempt: Attempt, rows: "np.typing.NDArray[np.intp]") -> Cycle:
    """Score the feasible *rows* and bind to the best."""
    pod, nodes, profile = attempt.pod, attempt.nodes, attempt.profile
    if profile.percentage_of_nodes_to_score:
        rows = rows_to_score(attempt, rows)
    feasible = len(rows)
    tied = rows
    if feasible > 1:
        table = nodes.select(rows) if feasible < len(nodes) else nodes
        totals = score_nodes(profile, pod, table, attempt.observer).totals
        yield PAUSE
        if attempt.extenders:
            totals = yield from _add_extender_scores(attempt, totals, table)
        tied = rows[best(totals, attempt.seed, pod.uid, table.name_hashes, _TIES_TOLD)]
    names = nodes.names
    ties = tuple([names[row] for row in tied.tolist()])
    return Bind(pod, ties[0], len(nodes), feasible, ties)


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
    order = np.argsort(hash_of(attempt.seed, attempt.pod.uid, attempt.nodes.name_hashes[rows]))
    return np.sort(rows[order[:wanted]])


def _post_filter(
    attempt: Attempt, pre_filtered: PreFilterResult, filtered: Filtered | None
) -> Cycle:
    """Ask the post-filter plugins; without a proposal the pod is parked."""
    diagnosis = diagnose(attempt.nodes, pre_filtered, filtered)
    if not attempt.profile.post_filter:
        return Park(attempt.pod, diagnosis, CLEAR)
    ask_filters = _filter_question(attempt, pre_filtered)
    said: list[str] = []
    clear = False
    with attempt.observer.extension_point("PostFilter") as ends:
        ends("Unschedulable")  # until somebody finds room
        for plugin in attempt.profile.post_filter:
            found = yield from _ask_post_filter(attempt, plugin, diagnosis, ask_filters)
            answer = yield from _consult(attempt, found)
            if isinstance(answer, Proposal):
                ends("Success")
                return _preempt(attempt.pod, answer, diagnosis)
            if answer.stop:
                said, clear = [], False
            if answer.message:
                said.append(answer.message)
            clear = clear or answer.clear_nomination
            if answer.stop:
                break
    return Park(attempt.pod, diagnosis.with_post_filter(", ".join(said)), CLEAR if clear else KEEP)


def _preempt(pod: Pod, proposal: Proposal, diagnosis: Diagnosis) -> Preempt:
    return Preempt(
        pod,
        proposal.chosen.node,
        tuple(proposal.chosen.victims),
        diagnosis.with_post_filter(proposal.message),
        proposal.message,
        proposal.candidates or (proposal.chosen,),
    )


def _consult(
    attempt: Attempt, proposal: Proposal | Refusal
) -> Generator[Pause | Questions, Answers, Proposal | Refusal]:
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


def _filter_question(attempt: Attempt, pre_filtered: PreFilterResult) -> FilterQuestion:
    """Return how post-filter plugins may ask the filters of the profile."""
    unmeasured = attempt.observer.unmeasured()

    def filters(pod: Pod, nodes: NodeTable) -> Filtered:
        nominated = nominated_rows(attempt, nodes)
        skipped = pre_filtered.skipped
        return run_filters(attempt.profile.filter, skipped, pod, nodes, nominated, unmeasured)

    return filters


def _ask_post_filter(
    attempt: Attempt, plugin: PostFilterPlugin, diagnosis: Diagnosis, ask_filters: FilterQuestion
) -> Generator[Pause | Questions, Answers, Proposal | Refusal]:
    """Ask one plugin; where it searches for long, it says itself when to pause."""
    observer = attempt.observer
    observer.asked("PostFilter", plugin.name, 1)

    def begin() -> object:
        found: object = plugin.post_filter(attempt.pod, attempt.nodes, diagnosis, ask_filters)
        return go_on(found) if isinstance(found, Generator) else found

    def go_on(search: Search) -> object:
        try:
            next(search)
        except StopIteration as end:
            return end.value
        observer.paused("PostFilter", plugin.name)
        return search

    try:
        answer = call_plugin("PostFilter", plugin.name, observer, begin)
        while isinstance(answer, Generator):
            yield PAUSE
            answer = call_plugin("PostFilter", plugin.name, observer, go_on, answer)
    except PluginError as bug:
        # The filters' verdict stands, whatever goes wrong in the search for room.
        return Refusal(str(bug), stop=True)
    yield PAUSE
    match answer:
        case Refusal(str()):
            return answer
        case Proposal(Candidate(), tuple(), str()):
            return answer
    return Refusal(str(PluginError(plugin.name, f"answered PostFilter with {answer!r}")), stop=True)


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
