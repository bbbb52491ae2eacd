"""A pod that fits nowhere: who looks for room, and what comes of it.

As in TestPostFilterPlugins.
"""

from dataclasses import replace

import pytest

from scheduler.cycle.scheduling import PAUSE, decide, schedule
from scheduler.framework.decision import CLEAR, KEEP, Park, Preempt, SetTo
from scheduler.framework.observer import Silent
from scheduler.framework.rejection import Candidate, Proposal, Refusal, Refused
from scheduler.testing import make_pod
from tests.unit.cycle.cycles import POD, After, First, Full, Refuses, attempt, table


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


def test_a_search_for_victims_may_pause():
    """Each of its pauses is one of the cycle; its end is its answer."""

    def pauses(answer):
        steps = list(schedule(attempt(Refuses("*"), After(answer))))
        assert set(steps) == {PAUSE}
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
        def evaluated(self, point, plugin, times):
            heard.append((point, plugin, times))

    after = After(searching(None, None, Refusal("no")))
    decide(replace(attempt(Refuses("*"), after), observer=Listens()))

    assert [each for each in heard if each[0] == "PostFilter"] == [("PostFilter", "After", 1)]


def test_a_proposal_after_a_refusal_counts():
    decision = decide(attempt(Refuses("*"), After(Refusal("one"), "A"), After(propose(), "B")))

    assert isinstance(decision, Preempt)


def test_post_filters_run_even_where_no_eviction_can_help():
    after = After(Refusal("x"))
    decide(attempt(Refuses("*", resolvable=False), after))
    decide(attempt(First(Refused("never", resolvable=False)), after))

    assert after.asked == 2


def test_a_post_filter_plugin_can_run_the_filters():
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
