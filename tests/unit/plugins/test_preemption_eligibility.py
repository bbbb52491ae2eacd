"""Who may preempt.

As in TestPodEligibleToPreemptOthers of ``plugins/defaultpreemption/default_preemption_test.go``.
"""

import numpy as np
import pytest

from scheduler.framework.decision import CLEAR, KEEP, Park, Preempt
from scheduler.framework.rejection import Rejection
from scheduler.plugins import NodeResourcesFit
from tests.unit.plugins.preempting import HIGH, LOW, VICTIM, node, pod, preempt, profile


def terminating(name, node, *conditions, priority=LOW):
    return pod(name, "large", priority, node, terminating=True, status={"conditions": conditions})


NOT_OURS = {"type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI"}
WAITS = "preemption: not eligible due to a terminating pod on the nominated node."
ELIGIBLE = [
    ("its victim goes", {}, [terminating("x", "a", VICTIM)], WAITS),
    ("somebody goes for other reasons", {}, [terminating("x", "a")], None),
    ("evicted by others", {}, [terminating("x", "a", NOT_OURS)], None),
    ("the first condition counts", {}, [terminating("x", "a", NOT_OURS, VICTIM)], None),
    (
        "as important",
        {},
        [terminating("x", "a", VICTIM, priority=HIGH), pod("y", "small", LOW, "b")],
        "preemption: 0/2 nodes are available: ",
    ),
    ("not nominated", {"nominated": ""}, [terminating("x", "a", VICTIM)], None),
    ("nominated to what is gone", {"nominated": "gone"}, [terminating("x", "a", VICTIM)], None),
    (
        "never",
        {"preemption_policy": "Never"},
        [pod("x", "large", LOW, "a")],
        "preemption: not eligible due to preemptionPolicy=Never.",
    ),
]


@pytest.mark.parametrize(
    ("more", "pods", "why"), [case[1:] for case in ELIGIBLE], ids=[case[0] for case in ELIGIBLE]
)
def test_which_pods_may_preempt(more, pods, why):
    incoming = pod("p", "large", HIGH, **{"nominated": "a", **more})

    decision = preempt(incoming, [node("a", "large"), node("b", "small")], pods)

    if why is None:
        assert (type(decision), decision.node) == (Preempt, "a")
    else:
        assert isinstance(decision, Park)
        assert why in decision.message


def test_a_pod_that_may_not_preempt_keeps_its_nomination():
    incoming = pod("p", "large", HIGH, nominated="a")

    waits = preempt(incoming, [node("a", "large")], [terminating("x", "a", VICTIM)])
    hopeless = preempt(incoming, [node("a", "large")], [pod("x", "large", HIGH, "a")])

    assert waits.nomination == KEEP
    assert hopeless.nomination == CLEAR


class Cordons:
    """A filter that refuses nodes for good."""

    name = "Cordons"
    node_local = True

    def __init__(self, *names):
        self.names = names

    def filter(self, pod, nodes):
        yield Rejection(np.array([n in self.names for n in nodes.names]), "no", resolvable=False)


def test_a_nominated_node_beyond_help_makes_it_eligible_again():
    incoming = pod("p", "large", HIGH, nominated="a")

    decision = preempt(
        incoming,
        [node("a", "large"), node("b", "large")],
        [terminating("x", "a", VICTIM), pod("y", "large", LOW, "b")],
        using=profile(Cordons("a"), NodeResourcesFit()),
    )

    assert decision.node == "b"
