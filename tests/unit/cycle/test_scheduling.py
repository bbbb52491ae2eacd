"""One pod, one view, one decision (schedule_one_test.go: TestSchedulerSchedulePod and its kin)."""

import pytest

from scheduler.cycle.scheduling import NO_NODES, PAUSE, decide, schedule
from scheduler.framework.decision import CLEAR, KEEP, Bind, Park, Retry
from scheduler.framework.rejection import Failure, Only, Refusal, Refused
from scheduler.testing import make_pod
from tests.unit.cycle.cycles import POD, After, First, Likes, Refuses, attempt, table


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


def pauses(given):
    steps = []
    cycle = schedule(given)
    try:
        while True:
            steps.append(next(cycle))
    except StopIteration:
        return steps


def test_the_cycle_pauses_between_its_parts():
    assert pauses(attempt(Likes())) == [PAUSE] * 2
    assert pauses(attempt(Refuses("a", "b"), Likes())) == [PAUSE]
    assert pauses(attempt(Refuses("*"), After(Refusal("x")))) == [PAUSE] * 2
    assert pauses(attempt(nodes=())) == []


def test_volumes_are_counted_node_by_node_before_they_are_asked_about():
    """The first pod with a volume may find all of them uncounted: thousands, after a start."""
    data = {"name": "data", "gcePersistentDisk": {"pdName": "d"}}
    names = [f"n{row}" for row in range(50)]
    pods = [make_pod(f"p-{name}", node=name, volumes=[data]) for name in names]
    nodes = table(*names, pods=pods)

    assert pauses(attempt(Likes(), nodes=nodes)) == [PAUSE] * 2
    assert pauses(attempt(Likes(), nodes=nodes, pod=make_pod(volumes=[data]))) == [PAUSE] * 52
    assert pauses(attempt(Likes(), nodes=nodes, pod=make_pod(volumes=[data]))) == [PAUSE] * 2
