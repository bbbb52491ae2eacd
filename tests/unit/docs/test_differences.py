"""Deliberate differences from kube-scheduler that no other test is about (docs/semantics.md)."""

import numpy as np

from scheduler.cycle.scheduling import Attempt, decide
from scheduler.framework.decision import Bind
from scheduler.framework.profile import Profile
from scheduler.plugins import IN_TREE
from scheduler.testing import make_node, make_pod, make_table

PROFILE = Profile(
    scheduler_name="py-scheduler",
    queue_sort=IN_TREE["PrioritySort"](),
    filter=(IN_TREE["NodeName"](), IN_TREE["NodeUnschedulable"]()),
)


def _decide(pod, table):
    decision = decide(Attempt(PROFILE, pod, table, {}))
    assert isinstance(decision, Bind)
    return decision


def test_every_node_is_judged():
    """The only node that will do is found among two thousand, wherever its row is."""
    nodes = [make_node(f"n{number}", unschedulable=number != 1733) for number in range(2000)]

    decision = _decide(make_pod(), make_table(*nodes))

    assert (decision.node, decision.evaluated, decision.feasible) == ("n1733", 2000, 1)


def test_ties_depend_on_pod_and_node_alone():
    """Neither the order of rows nor earlier decisions count, and every node gets its share."""
    nodes = [make_node(f"n{number}") for number in range(10)]
    forwards, backwards = make_table(*nodes), make_table(*reversed(nodes))
    pods = [make_pod(f"p{number}") for number in range(500)]

    first = [_decide(pod, forwards).node for pod in pods]

    assert [_decide(pod, backwards).node for pod in reversed(pods)] == first[::-1]
    _, shares = np.unique(first, return_counts=True)
    assert len(shares) == 10
    assert shares.min() > 25
