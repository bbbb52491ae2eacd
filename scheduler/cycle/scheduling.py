"""The scheduling cycle: filter the nodes, preempt if none passed, else score them and choose.

Source: ``pkg/scheduler/schedule_one.go`` (schedulingAlgorithm, schedulePod).
"""

from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, replace
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
    ExtenderError,
    ExtenderRequest,
    ExtenderRequests,
    ExtenderResponse,
    NoResponse,
    filter_request,
    is_interested,
    preempt_request,
    prioritize_request,
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
from scheduler.framework.kept_search import KeptSearch, SearchMemory
from scheduler.framework.observer import SILENT, Observer
from scheduler.framework.plugin import FilterQuestion, PostFilterPlugin, Search
from scheduler.framework.profile import Profile
from scheduler.framework.rejection import Candidate, NodeMask, Proposal, Refusal, Scores
from scheduler.framework.scoring import score_nodes
from scheduler.framework.templates import KeptAnswers, Templates
from scheduler.model.pod import Pod
from scheduler.snapshot.node_table import NodeTable
from scheduler.snapshot.tie_break import best, hash_of

NO_NODES: Final = "no nodes available to schedule pods"
_FEWEST_NODES_TO_SCORE: Final = 100
"""Upstream's minFeasibleNodesToFind."""

_TIES_SHOWN: Final = 10
"""How many of the nodes with the best score a decision names, for logs; the first is chosen."""


@dataclass(frozen=True, slots=True)
class Pause:
    """The cycle pauses: the event loop may serve sockets, and no fact is applied meanwhile."""


PAUSE: Final = Pause()

Step = Pause | ExtenderRequests
"""What the cycle yields; responses are sent into it after ExtenderRequests, else None."""
ExtenderResponses = tuple[ExtenderResponse, ...] | None
Cycle = Generator[Step, ExtenderResponses, Decision]


@dataclass(frozen=True, slots=True)
class Attempt:
    """One attempt to schedule one pod: everything that the decision depends on.

    Args:
        nominated: Nominated pods by node name, those of other schedulers included.
        seed: Breaks ties, together with the pod's UID and the node's name.
        extenders: In the order in which they filter.
        templates: Answers of plugins about earlier pods of the same template, which save most of
            the work; the decision is the same without.
    """

    profile: Profile
    pod: Pod
    nodes: NodeTable
    nominated: Mapping[str, Sequence[Pod]]
    seed: int = 0
    extenders: tuple[Extender, ...] = ()
    observer: Observer = SILENT
    templates: Templates | None = None


def schedule(attempt: Attempt) -> Cycle:
    """Decide what to do with the attempt's pod.

    In upstream's order: pre-filter, the pod's own nominated node, filter, extenders; then score and
    choose, or post-filter if no node passed.
    """
    profile, pod, nodes, observer = attempt.profile, attempt.pod, attempt.nodes, attempt.observer
    if not len(nodes):
        return Retry(pod, NO_NODES, unschedulable=True)
    # Nothing is kept about the first pod of a template: all plugins are called.
    kept = (
        None
        if attempt.templates is None
        else attempt.templates.about(profile, pod, nodes, observer)
    )
    try:
        # Columns are built when a pod first needs them. Those of volumes take long on thousands of
        # nodes, so their construction pauses.
        for _ in nodes.prepare(pod):
            yield PAUSE
        with observer.extension_point("PreFilter") as set_status:
            pre_filtered = (
                kept.pre_filter()
                if kept
                else run_pre_filters(profile.pre_filter, pod, nodes, observer)
            )
            if pre_filtered.refused is not None:
                resolvable = pre_filtered.refused.resolvable
                set_status("Unschedulable" if resolvable else "UnschedulableAndUnresolvable")
        if pre_filtered.refused is not None:
            return (yield from _post_filter(attempt, kept, pre_filtered, None))
        if pod.nominated_node and (yield from _fits_nominated_node(attempt, pre_filtered)):
            name = pod.nominated_node
            return Bind(pod, name, evaluated=1, feasible=1, ties=(name,))
        nominated = kept.nominated(attempt.nominated) if kept else nominated_rows(attempt, nodes)
        filtered = (
            # Extenders may reject the rest of the rows, and then the pod needs all reasons.
            kept.filter(pre_filtered, nominated, with_verdicts=bool(attempt.extenders))
            if kept
            else filter_nodes(profile, pre_filtered, pod, nodes, nominated, observer)
        )
        assert len(filtered.feasible) == len(nodes)
        yield PAUSE
        if attempt.extenders:
            filtered = yield from _filter_by_extenders(attempt, filtered, nodes)
        if not len(filtered.rows):
            return (yield from _post_filter(attempt, kept, pre_filtered, filtered))
        if profile.percentage_of_nodes_to_score:
            filtered = replace(filtered, feasible=sample(attempt, filtered.feasible))
        chosen = rows = filtered.rows
        if len(rows) > 1:  # upstream does not score a single node, either
            table = nodes.select(rows) if len(rows) < len(nodes) else nodes
            ranked = None
            if kept and profile.score:
                ranked = kept.score(filtered.feasible, rows, table)
            scored = score_nodes(profile, pod, table, observer) if ranked is None else ranked
            yield PAUSE
            requests = [
                prioritize_request(extender, pod, table)
                for extender in attempt.extenders
                if extender.prioritize_verb and is_interested(extender, pod)
            ]
            if ranked is not None and not requests:
                chosen = ranked.best(attempt.seed, pod.uid, nodes, _TIES_SHOWN)
            else:
                totals = yield from _add_extender_scores(scored.totals, requests, table)
                chosen = rows[best(totals, attempt.seed, pod.uid, table.name_hashes, _TIES_SHOWN)]
        names = nodes.names
        ties = tuple([names[row] for row in chosen.tolist()])
        assert ties
        return Bind(pod, ties[0], evaluated=len(nodes), feasible=len(rows), ties=ties)
    except PluginError as error:
        return Retry(pod, str(error), plugin=error.plugin)
    except ExtenderError as error:
        return Retry(pod, str(error), plugin=EXTENDER)


def nominated_rows(attempt: Attempt, nodes: NodeTable) -> dict[int, Sequence[Pod]]:
    """Return nominated pods by row of *nodes*: those of the pod's priority or a higher one.

    A pod of lower priority could be preempted there, so it does not count; nor does the pod itself.
    """
    priority, uid = attempt.pod.priority, attempt.pod.uid
    rows: dict[int, Sequence[Pod]] = {}
    for name, row in nodes.rows_of(attempt.nominated):
        pods = attempt.nominated[name]
        if counted := [pod for pod in pods if pod.priority >= priority and pod.uid != uid]:
            rows[row] = counted
    return rows


def _fits_nominated_node(
    attempt: Attempt, pre_filtered: PreFilterResult
) -> Generator[Step, ExtenderResponses, bool]:
    """Tell whether the pod's own nominated node can take it now.

    Capacity was freed there for it, so upstream tries this node first and does not score the
    others. A plugin or extender that fails for this node only makes it infeasible here: the plugin
    runs again on all nodes, and that run decides whether the attempt ends with an error.
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


def _filter_by_extenders(
    attempt: Attempt, filtered: Filtered, nodes: NodeTable
) -> Generator[Step, ExtenderResponses, Filtered]:
    """Let the extenders reject some of the rows that passed the plugins.

    One after the other, as upstream does: each is sent the nodes that passed the one before.
    """
    for extender in attempt.extenders:
        if not filtered.feasible.any():
            break
        if extender.filter_verb and is_interested(extender, attempt.pod):
            rows = filtered.feasible.nonzero()[0]
            passed = nodes.select(rows)
            request = filter_request(extender, attempt.pod, passed)
            (response,) = yield from _send(request)
            filtered = narrow(filtered, read_filter(request, response, passed), rows)
    return filtered


def _send(
    *requests: ExtenderRequest,
) -> Generator[Step, ExtenderResponses, tuple[ExtenderResponse, ...]]:
    """Yield requests, which the caller sends at once; return the responses in the same order."""
    responses = yield ExtenderRequests(requests)
    assert responses is not None
    assert len(responses) == len(requests)
    return responses


def _add_extender_scores(
    totals: Scores, requests: Sequence[ExtenderRequest], table: NodeTable
) -> Generator[Step, ExtenderResponses, Scores]:
    """Add the extenders' scores; none depends on another, so all requests are sent at once."""
    if requests:
        responses = yield from _send(*requests)
        for request, response in zip(requests, responses, strict=True):
            totals = totals + read_scores(request, response, table)
    return totals


def sample(attempt: Attempt, feasible: NodeMask) -> NodeMask:
    """Return which of the *feasible* rows are scored: all, unless the profile wants a sample.

    Upstream stops filtering once it has found enough nodes, and starts the next search behind them.
    Here every node is filtered anyway, and the sample is drawn by hash: it depends on no history.
    """
    percentage, rows = attempt.profile.percentage_of_nodes_to_score, feasible.nonzero()[0]
    wanted = max(_FEWEST_NODES_TO_SCORE, len(attempt.nodes) * percentage // 100)
    if not percentage or len(rows) <= wanted:
        return feasible
    order = np.argsort(hash_of(attempt.seed, attempt.pod.uid, attempt.nodes.name_hashes[rows]))
    drawn = np.zeros_like(feasible)
    drawn[rows[order[:wanted]]] = True
    return drawn


def _post_filter(
    attempt: Attempt,
    kept: KeptAnswers | None,
    pre_filtered: PreFilterResult,
    filtered: Filtered | None,
) -> Cycle:
    """Run the post-filter plugins until one proposes a preemption; without one the pod is parked.

    *filtered* is None where a pre-filter plugin refused every node.
    """
    assert filtered is None or not filtered.feasible.any()
    diagnosis = diagnose(attempt.nodes, pre_filtered, filtered)
    if not attempt.profile.post_filter:
        return Park(attempt.pod, diagnosis, CLEAR)
    if kept and filtered is None:
        kept.nominated(attempt.nominated)
    messages: list[str] = []
    clear = False
    with attempt.observer.extension_point("PostFilter") as set_status:
        set_status("Unschedulable")  # unless a plugin proposes
        for plugin in attempt.profile.post_filter:
            search = kept.search(plugin.name, pre_filtered) if kept else KeptSearch()
            ask = _FiltersAgain(attempt, pre_filtered.skipped, search.begin())
            found = yield from _run_post_filter(attempt, plugin, diagnosis, ask, search)
            if kept:
                kept.settle(search)
            answer = yield from _consult_extenders(attempt, found)
            if isinstance(answer, Proposal):
                set_status("Success")
                return Preempt(
                    attempt.pod,
                    answer.chosen.node,
                    tuple(answer.chosen.victims),
                    diagnosis.with_post_filter(answer.message),
                    answer.message,
                    answer.candidates or (answer.chosen,),
                )
            # Upstream returns such a status alone, and drops what earlier plugins said.
            if answer.stop:
                messages, clear = [], False
            if answer.message:
                messages.append(answer.message)
            clear = clear or answer.clear_nomination
            if answer.stop:
                break
    diagnosis = diagnosis.with_post_filter(", ".join(messages))
    return Park(attempt.pod, diagnosis, CLEAR if clear else KEEP)


@dataclass(frozen=True, slots=True)
class _FiltersAgain:
    """Lets a post-filter plugin run the filters of the profile; see `FilterQuestion`."""

    attempt: Attempt
    skipped: frozenset[str]
    memory: SearchMemory

    def __call__(self, pod: Pod, nodes: NodeTable) -> Filtered:
        attempt = self.attempt
        nominated = nominated_rows(attempt, nodes)
        # Their time is part of the post-filter plugin's: measured as well, it would count twice.
        unmeasured = attempt.observer.unmeasured()
        return run_filters(attempt.profile.filter, self.skipped, pod, nodes, nominated, unmeasured)


def _run_post_filter(
    attempt: Attempt,
    plugin: PostFilterPlugin,
    diagnosis: Diagnosis,
    ask: FilterQuestion,
    search: KeptSearch,
) -> Generator[Step, ExtenderResponses, Proposal | Refusal]:
    """Run one plugin; a plugin that searches for long is a generator, and yields to pause."""
    observer = attempt.observer
    observer.evaluated("PostFilter", plugin.name, 1)

    def begin() -> object:
        found: object = plugin.post_filter(attempt.pod, attempt.nodes, diagnosis, ask)
        return go_on(found) if isinstance(found, Generator) else found

    def go_on(found: Search) -> object:
        try:
            next(found)
        except StopIteration as end:
            return end.value
        observer.paused("PostFilter", plugin.name)
        return found

    try:
        with search.step(attempt.nodes):
            answer = call_plugin("PostFilter", plugin.name, observer, begin)
        while isinstance(answer, Generator):
            yield PAUSE
            with search.step(attempt.nodes):
                answer = call_plugin("PostFilter", plugin.name, observer, go_on, answer)
    except PluginError as bug:
        # Why the pod fits nowhere is known: a bug in the search must not hide it behind an error.
        return Refusal(str(bug), stop=True)
    yield PAUSE
    match answer:
        case Refusal(str()):
            return answer
        case Proposal(Candidate(), tuple(), str()):
            return answer
    return Refusal(str(PluginError(plugin.name, f"answered PostFilter with {answer!r}")), stop=True)


def _consult_extenders(
    attempt: Attempt, proposal: Proposal | Refusal
) -> Generator[Step, ExtenderResponses, Proposal | Refusal]:
    """Let the extenders remove candidates from a proposal, or change their victims."""
    consulted = [
        extender
        for extender in attempt.extenders
        if extender.preempt_verb and is_interested(extender, attempt.pod)
    ]
    if not consulted or isinstance(proposal, Refusal):
        return proposal
    candidates: Sequence[Candidate] = proposal.candidates or (proposal.chosen,)
    for extender in consulted:
        request = preempt_request(extender, attempt.pod, candidates)
        (response,) = yield from _send(request)
        try:
            candidates = read_preempt(request, response, attempt.nodes, candidates)
        except ExtenderError as error:
            return Refusal(f"preemption: {error}", stop=True)
        if not candidates:
            return Refusal("preemption: no candidate node for preemption")
    return Proposal(least_harm(candidates), tuple(candidates), proposal.message)


def _not_sent(request: ExtenderRequest) -> ExtenderResponse:
    return NoResponse(f'extender "{request.extender.url_prefix}" was not asked')


def decide(
    attempt: Attempt, send: Callable[[ExtenderRequest], ExtenderResponse] = _not_sent
) -> Decision:
    """Run the cycle to its end without pausing: for tests and tools, which have no event loop.

    *send* sends a request to an extender; by default every request fails.
    """
    cycle = schedule(attempt)
    responses: ExtenderResponses = None
    try:
        while True:
            step = cycle.send(responses)
            responses = (
                tuple(send(each) for each in step.requests)
                if isinstance(step, ExtenderRequests)
                else None
            )
    except StopIteration as end:
        decision: Decision = end.value
        return decision
