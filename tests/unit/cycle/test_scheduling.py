"""One pod, one view, one decision (schedule_one_test.go: TestSchedulerSchedulePod and its kin)."""

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.cycle.scheduling import BREATHE, NO_NODES, Attempt, decide, schedule
from scheduler.cycle.ties import pick
from scheduler.framework.decision import CLEAR, KEEP, Bind, Park, Preempt, Retry, SetTo
from scheduler.framework.observer import Silent
from scheduler.framework.rejection import (
    Candidate,
    Failure,
    Only,
    Proposal,
    Refusal,
    Refused,
    Rejection,
)
from scheduler.snapshot.columns import ClusterColumns, hash_name
from scheduler.snapshot.mixing import mix
from scheduler.snapshot.node_table import NodeTable
from scheduler.testing import make_node, make_pod
from scheduler.testing.harness import bare_profile

POD = make_pod()


def table(*names, pods=()):
    columns = ClusterColumns()
    for name in names:
        columns.add_node(make_node(name) if isinstance(name, str) else name)
    for pod in pods:
        columns.add_pod(columns.rows[pod.node_name], pod)
    return NodeTable(columns)


def attempt(*plugins, nodes=("a", "b", "c"), pod=POD, percentage=0, **more):
    profile = replace(bare_profile(*plugins), percentage_of_nodes_to_score=percentage)
    view = nodes if isinstance(nodes, NodeTable) else table(*nodes)
    return Attempt(profile, pod, view, more.pop("nominated", {}), **more)


class Refuses:
    """A filter that refuses nodes by name; ``*`` refuses all."""

    def __init__(self, *names, name="Refuses", reason="no", resolvable=True):
        self.name = name
        self.names, self.reason, self.resolvable = names, reason, resolvable
        self.asked = []

    def filter(self, pod, nodes):
        self.asked.append(list(nodes.names))
        refused = np.array(["*" in self.names or n in self.names for n in nodes.names])
        if refused.any():
            yield Rejection(refused, self.reason, self.resolvable)


class Likes:
    """A score plugin that gives nodes points by name."""

    name = "Likes"

    def __init__(self, **points):
        self.points = points
        self.asked = []

    def score(self, pod, nodes):
        self.asked.append(sorted(nodes.names))
        return np.array([self.points.get(name, 0) for name in nodes.names], dtype=np.int64)


class First:
    """A pre-filter plugin with one answer."""

    def __init__(self, answer, name="First"):
        self.name = name
        self.answer = answer

    def pre_filter(self, pod, nodes):
        return self.answer


class After:
    """A post-filter plugin with one answer."""

    def __init__(self, answer, name="After"):
        self.name = name
        self.answer = answer
        self.asked = 0

    def post_filter(self, pod, nodes, diagnosis, ask):
        self.asked += 1
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer(ask) if callable(self.answer) else self.answer


def test_the_best_node_wins():
    decision = decide(attempt(Refuses("a"), Likes(a=100, b=1, c=2)))

    assert isinstance(decision, Bind)
    assert (decision.node, decision.evaluated, decision.feasible) == ("c", 3, 2)
    assert decision.ties == ("c",)
    assert decision.nomination == KEEP


def test_no_nodes_is_no_plugins_fault_and_tried_again():
    decision = decide(attempt(After(Refusal("x")), nodes=()))

    assert decision == Retry(POD, NO_NODES, unschedulable=True)
    assert decision.nomination == CLEAR


def test_a_single_feasible_node_is_not_scored():
    likes = Likes()
    decision = decide(attempt(Refuses("a", "b"), likes))

    assert (decision.node, decision.feasible) == ("c", 1)
    assert likes.asked == []


def test_only_feasible_nodes_are_scored():
    likes = Likes()
    decide(attempt(Refuses("a"), likes))

    assert likes.asked == [["b", "c"]]


@pytest.mark.parametrize(
    "broken",
    [
        First(Failure(None, "down"), name="Broken"),
        Refuses("a", name="Broken", reason=""),
        Likes(a=101),
    ],
)
def test_a_broken_plugin_ends_the_attempt_with_its_name(broken):
    decision = decide(attempt(broken))

    assert isinstance(decision, Retry)
    assert decision.plugin == broken.name
    assert broken.name in decision.message
    assert not decision.unschedulable


# What pre-filters decide (TestSchedulerSchedulePod, the PreFilter cases).


@pytest.mark.parametrize(
    ("plugins", "message", "by", "hope"),
    [
        (
            [First(Refused("injected unschedulable", resolvable=False))],
            "0/3 nodes are available: injected unschedulable.",
            {"First"},
            [False] * 3,
        ),
        (
            [First(Refused("pending")), Refuses("*")],
            "0/3 nodes are available: pending.",
            {"First"},
            [True] * 3,
        ),
        (
            [First(Only(frozenset("a")), "P1"), First(Only(frozenset("bc")), "P2")],
            "0/3 nodes are available: node(s) didn't satisfy plugin(s) [P1 P2] simultaneously.",
            {"P1", "P2"},
            [False] * 3,
        ),
        (
            [First(Only(frozenset("a")), "P1"), Refuses("a")],
            "0/3 nodes are available: 1 no, 2 node(s) didn't satisfy plugin(s) [P1].",
            {"P1", "Refuses"},
            [True, False, False],
        ),
        (
            [First(Only(frozenset({"elsewhere"})), "P1")],
            "0/3 nodes are available: 3 node(s) didn't satisfy plugin(s) [P1].",
            {"P1"},
            [False] * 3,
        ),
        (
            [Refuses("a", "b"), Refuses("*", name="R2", reason="never", resolvable=False)],
            "0/3 nodes are available: 1 never, 2 no.",
            {"Refuses", "R2"},
            [True, True, False],
        ),
    ],
)
def test_the_diagnosis_of_a_pod_that_fits_nowhere(plugins, message, by, hope):
    decision = decide(attempt(*plugins))

    assert isinstance(decision, Park)
    assert decision.message == message
    assert decision.diagnosis.rejected_by == by
    assert decision.diagnosis.preemption_may_help.tolist() == hope
    assert decision.nomination == CLEAR


def test_a_named_node_is_all_that_is_judged():
    refuses = Refuses()
    decision = decide(attempt(First(Only(frozenset("b"))), refuses, Likes(a=9)))

    assert decision.node == "b"
    assert refuses.asked == [["b"]]


# The pod's own nominated node.


def nominee(node="b"):
    return make_pod("nominee", nominated=node)


def test_the_nominated_node_is_tried_first_and_nothing_else_is():
    """TestPreferNominatedNodeFilterCallCounts."""
    refuses, likes = Refuses(), Likes(a=100)
    decision = decide(attempt(refuses, likes, pod=nominee()))

    assert (decision.node, decision.evaluated, decision.feasible) == ("b", 1, 1)
    assert refuses.asked == [["b"]]
    assert likes.asked == []


@pytest.mark.parametrize("node", ["b", "gone"])
def test_a_nominated_node_that_does_not_serve_is_passed_over(node):
    refuses = Refuses("b")
    decision = decide(attempt(refuses, Likes(a=100), pod=nominee(node)))

    assert decision.node == "a"


def test_the_nominated_node_need_not_be_among_the_named():
    decision = decide(attempt(First(Only(frozenset("a"))), Refuses(), pod=nominee()))

    assert decision.node == "b"


class CannotTell:
    """A filter that cannot judge some nodes."""

    name = "CannotTell"

    def __init__(self, *names):
        self.names = names

    def filter(self, pod, nodes):
        yield Failure(np.array([name in self.names for name in nodes.names]), "lost")


def test_who_cannot_judge_the_nominated_node_is_heard_with_all_the_nodes():
    """Where the node is not among those that were named, nothing is amiss."""
    outside = decide(attempt(First(Only(frozenset("a"))), CannotTell("b"), pod=nominee()))
    inside = decide(attempt(CannotTell("b"), pod=nominee()))

    assert outside.node == "a"
    assert isinstance(inside, Retry)
    assert "failed in Filter: lost" in inside.message


def test_a_refusal_beforehand_counts_for_the_nominated_node_too():
    decision = decide(attempt(First(Refused("no")), Refuses(), pod=nominee()))

    assert isinstance(decision, Park)


# Pods that others have nominated.


class Full:
    """A filter for which one pod a node is enough."""

    name = "Full"
    node_local = True

    def __init__(self):
        self.passes = 0

    def filter(self, pod, nodes):
        self.passes += 1
        yield Rejection(nodes.pod_count > 0, "full")


@pytest.mark.parametrize(
    ("other", "own", "node", "passes"),
    [
        (make_pod("x", priority=5), make_pod(priority=5), "b", 1),
        (make_pod("x", priority=6), make_pod(priority=5), "b", 1),
        (make_pod("x", priority=4), make_pod(priority=5), None, 1),
        (make_pod("same", priority=9), make_pod("same", priority=5), None, 1),
    ],
)
def test_those_as_important_count_where_they_are_nominated(other, own, node, passes):
    """Those less important, and the pod itself, do not (TestFindFitPredicateCallCounts)."""
    full = Full()
    decision = decide(attempt(full, nodes=("a", "b"), pod=own, nominated={"a": [other]}))

    assert full.passes == passes
    assert decision.node == node if node else decision.feasible == 2


def test_nominations_to_nodes_that_are_gone_are_passed_over():
    decision = decide(attempt(Full(), nodes=("a",), nominated={"gone": [make_pod("x")]}))

    assert decision.node == "a"


# Making room (TestPostFilterPlugins).


def propose(node="b"):
    return Proposal(Candidate(node, (make_pod("victim"),)), (), "preempted")


def test_a_proposal_becomes_a_preemption():
    decision = decide(attempt(Refuses("*"), After(propose())))

    assert isinstance(decision, Preempt)
    assert decision.node == "b"
    assert [pod.name for pod in decision.victims] == ["victim"]
    assert decision.nomination == SetTo("b")


@pytest.mark.parametrize(
    ("answers", "asked", "said", "nomination"),
    [
        ([Refusal("one"), Refusal("two")], 2, "one, two", KEEP),
        ([Refusal(""), Refusal("two")], 2, "two", KEEP),
        ([Refusal("one", clear_nomination=True), Refusal("two")], 2, "one, two", CLEAR),
        ([Refusal("one", stop=True), Refusal("two")], 1, "one", KEEP),
        ([Refusal("one", clear_nomination=True), Refusal("two", stop=True)], 2, "two", KEEP),
        ([Refusal("one"), ValueError("boom"), Refusal("three")], 2, "boom", KEEP),
    ],
)
def test_refusals_add_up_until_one_is_final(answers, asked, said, nomination):
    """A final one, or a failure, stands alone; the pod stays unschedulable whatever they say."""
    plugins = [After(answer, f"After{index}") for index, answer in enumerate(answers)]
    decision = decide(attempt(Refuses("*"), *plugins))

    assert isinstance(decision, Park)
    assert sum(plugin.asked for plugin in plugins) == asked
    assert decision.message.startswith("0/3 nodes are available: 3 no. ")
    if any(isinstance(answer, Exception) for answer in answers):
        assert said in decision.message
        assert "After1" in decision.message
        assert "one" not in decision.message
    else:
        assert decision.message == f"0/3 nodes are available: 3 no. {said}"
    assert decision.nomination == nomination
    assert decision.diagnosis.rejected_by == {"Refuses"}


def test_a_post_filter_must_answer():
    decision = decide(attempt(Refuses("*"), After(None)))

    assert decision.message.endswith("plugin 'After' answered PostFilter with None")


def searching(*steps):
    """Answer with a search that pauses after each step but the last, which is its answer."""

    def search(ask):
        yield from steps[:-1]
        if isinstance(steps[-1], Exception):
            raise steps[-1]
        return steps[-1]

    return search


def test_a_search_for_room_may_pause():
    """Each of its pauses is one of the cycle; its end is its answer."""

    def pauses(answer):
        steps = list(schedule(attempt(Refuses("*"), After(answer))))
        assert set(steps) == {BREATHE}
        return len(steps)

    assert pauses(searching(None, None, None, propose())) == pauses(propose()) + 3
    assert isinstance(decide(attempt(Refuses("*"), After(searching(None, propose())))), Preempt)


@pytest.mark.parametrize(
    ("last", "said"),
    [(ValueError("boom"), "raised ValueError in PostFilter: boom"), (None, "PostFilter with None")],
)
def test_a_search_that_fails_after_a_pause_is_blamed(last, said):
    decision = decide(attempt(Refuses("*"), After(searching(None, last))))

    assert isinstance(decision, Park)
    assert said in decision.message


def test_a_search_is_asked_once_however_often_it_pauses():
    heard = []

    class Listens(Silent):
        def asked(self, point, plugin, times):
            heard.append((point, plugin, times))

    after = After(searching(None, None, Refusal("no")))
    decide(replace(attempt(Refuses("*"), after), observer=Listens()))

    assert [each for each in heard if each[0] == "PostFilter"] == [("PostFilter", "After", 1)]


def test_a_proposal_after_a_refusal_counts():
    decision = decide(attempt(Refuses("*"), After(Refusal("one"), "A"), After(propose(), "B")))

    assert isinstance(decision, Preempt)


def test_room_is_looked_for_even_where_nothing_can_help():
    after = After(Refusal("x"))
    decide(attempt(Refuses("*", resolvable=False), after))
    decide(attempt(First(Refused("never", resolvable=False)), after))

    assert after.asked == 2


def test_whoever_looks_for_room_can_ask_the_filters():
    """Over a what-if table, and without the plugins that had nothing to say."""
    seen = []

    def asks(ask):
        nodes = table("a", "b", pods=[make_pod("x", node="a")])
        found = ask(POD, nodes.each(removing={0: nodes.pods_on(0)}))
        seen.append(found.feasible.tolist())
        return Refusal("x")

    full = table("a", "b", pods=[make_pod("x", node="a"), make_pod("y", node="b")])
    decide(attempt(Full(), After(asks), nodes=full))

    assert seen == [[True, True]]


# Pauses.


def pauses(given):
    steps = []
    cycle = schedule(given)
    try:
        while True:
            steps.append(next(cycle))
    except StopIteration:
        return steps


def test_the_cycle_pauses_between_its_parts():
    assert pauses(attempt(Likes())) == [BREATHE] * 2
    assert pauses(attempt(Refuses("a", "b"), Likes())) == [BREATHE]
    assert pauses(attempt(Refuses("*"), After(Refusal("x")))) == [BREATHE] * 2
    assert pauses(attempt(nodes=())) == []


def test_volumes_are_counted_node_by_node_before_they_are_asked_about():
    """The first pod with a volume may find all of them uncounted: thousands, after a start."""
    data = {"name": "data", "gcePersistentDisk": {"pdName": "d"}}
    names = [f"n{row}" for row in range(50)]
    pods = [make_pod(f"p-{name}", node=name, volumes=[data]) for name in names]
    nodes = table(*names, pods=pods)

    assert pauses(attempt(Likes(), nodes=nodes)) == [BREATHE] * 2
    assert pauses(attempt(Likes(), nodes=nodes, pod=make_pod(volumes=[data]))) == [BREATHE] * 52
    assert pauses(attempt(Likes(), nodes=nodes, pod=make_pod(volumes=[data]))) == [BREATHE] * 2


# A sample of the nodes (TestNumFeasibleNodesToFind).


@pytest.mark.parametrize(
    ("percentage", "rows", "feasible"),
    [(0, 1000, 1000), (40, 1000, 400), (100, 1000, 1000), (5, 1000, 100), (40, 90, 90)],
)
def test_how_many_feasible_nodes_are_scored(percentage, rows, feasible):
    """Zero means all: here every node is judged unless a profile says otherwise."""
    likes = Likes()
    names = [f"n{row}" for row in range(rows)]
    decision = decide(attempt(Refuses(), likes, nodes=names, percentage=percentage))

    assert decision.feasible == len(likes.asked[0]) == feasible
    assert decision.evaluated == rows


def test_the_sample_depends_on_the_pod_and_not_on_the_order_of_rows():
    names = [f"n{row}" for row in range(300)]
    samples = []
    for pod, order in ((POD, names), (POD, names[::-1]), (make_pod("other"), names)):
        likes = Likes()
        decide(attempt(likes, nodes=order, pod=pod, percentage=40))
        samples.append(likes.asked[0])

    assert samples[0] == samples[1] != samples[2]


# Ties.


def test_equals_share_the_pods_evenly():
    names = [f"n{row}" for row in range(10)]
    nodes = table(*names)
    chosen = Counter(
        decide(attempt(nodes=nodes, pod=make_pod(f"p{index}"))).node for index in range(2000)
    )

    assert set(chosen) == set(names)
    assert max(chosen.values()) < 260
    assert min(chosen.values()) > 140


def test_another_seed_chooses_anew():
    names = [f"n{row}" for row in range(50)]
    chosen = {decide(attempt(nodes=names, seed=seed)).node for seed in range(30)}

    assert len(chosen) > 15


def test_some_of_the_equals_are_told_the_winner_first():
    decision = decide(attempt(nodes=[f"n{row}" for row in range(25)]))

    assert len(decision.ties) == len(set(decision.ties)) == 10
    assert decision.ties[0] == decision.node


@settings(max_examples=60)
@given(
    names=st.lists(st.text("abcdef", min_size=1, max_size=4), unique=True, min_size=1, max_size=40),
    data=st.data(),
)
def test_the_choice_knows_no_history_and_no_order_of_rows(names, data):
    points = {name: data.draw(st.integers(0, 2), label=name) for name in names}
    shuffled = data.draw(st.permutations(names))

    first = decide(attempt(Likes(**points), nodes=names))
    again = decide(attempt(Likes(**points), nodes=shuffled))

    assert (first.node, first.ties) == (again.node, again.ties)
    assert points[first.node] == max(points.values())
    losers = [name for name in names if name not in first.ties]
    if losers:
        # One pod replayed on a smaller cluster chooses the same, if the winner is still there.
        left = [name for name in names if name != losers[0]]
        assert decide(attempt(Likes(**points), nodes=left)).node == first.node


def test_the_winner_has_the_smallest_mix():
    names = [f"n{row}" for row in range(40)]
    hashes = np.array([hash_name(name) for name in names], dtype=np.uint64)
    totals = np.array([row % 2 for row in range(40)], dtype=np.int64)

    rows = pick(totals, 7, "uid", hashes, 5)

    mixed = mix(7, "uid", hashes)
    odd = [row for row in range(40) if row % 2]
    assert rows.tolist() == sorted(odd, key=lambda row: mixed[row])[:5]
