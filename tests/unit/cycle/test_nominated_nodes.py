"""A pod's own nominated node, and the nodes that others are nominated to."""

import numpy as np
import pytest

from scheduler.cycle.scheduling import decide
from scheduler.framework.decision import Park, Retry
from scheduler.framework.rejection import Failure, Only, Refused
from scheduler.testing import make_pod
from tests.unit.cycle.cycles import First, Full, Likes, Refuses, attempt


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


def test_a_plugin_that_fails_on_the_nominated_node_runs_again_on_all_nodes():
    """Where the node is not among those that were named, nothing is amiss."""
    outside = decide(attempt(First(Only(frozenset("a"))), CannotTell("b"), pod=nominee()))
    inside = decide(attempt(CannotTell("b"), pod=nominee()))

    assert outside.node == "a"
    assert isinstance(inside, Retry)
    assert "failed in Filter: lost" in inside.message


def test_a_refusal_beforehand_counts_for_the_nominated_node_too():
    decision = decide(attempt(First(Refused("no")), Refuses(), pod=nominee()))

    assert isinstance(decision, Park)


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
