"""Disruption budgets: who is protected, who is given back first, and what is counted.

As in TestDryRunPreemption of ``plugins/defaultpreemption/default_preemption_test.go``.
"""

import pytest

from scheduler.model.objects import PodDisruptionBudget
from scheduler.model.selectors import Selector
from scheduler.plugins import NodeResourcesFit
from scheduler.plugins.default_preemption import DefaultPreemption
from scheduler.snapshot.disruption_budgets import SUBTRACTIONS_AT_ONCE, NamespaceBudgets
from scheduler.testing import make_node, make_object, make_pod
from scheduler.testing.harness import bare_profile
from tests.unit.plugins.preempting import (
    FOO,
    HIGH,
    LOW,
    MID,
    VERY_HIGH,
    budget,
    node,
    pod,
    preempt,
    proposal,
    victims_of,
)

BUDGETS = [
    (
        "one more than allowed",
        ["p1.1", "p1.2"],
        budget(allowed=1),
        (["p1.1", "p1.2"], 1),
    ),
    (
        "who goes already is another",
        ["p1.1", "p1.2"],
        budget(allowed=1, disrupted=["p2"]),
        (["p1.1", "p1.2"], 1),
    ),
    (
        "who goes already does not count",
        ["p1.1", "p1.2"],
        budget(allowed=1, disrupted=["p1.2"]),
        (["p1.1", "p1.2"], 0),
    ),
    (
        "one of three goes already",
        ["p1.1", "p1.2", "p1.3"],
        budget(allowed=1, disrupted=["p1.3"]),
        (["p1.1", "p1.2", "p1.3"], 1),
    ),
    ("enough", ["p1.1", "p1.2"], budget(allowed=2), (["p1.1", "p1.2"], 0)),
    (
        "about somebody else",
        ["p1.1", "p1.2"],
        budget(allowed=0, labels="app=bar"),
        (["p1.1", "p1.2"], 0),
    ),
]


@pytest.mark.parametrize(
    ("names", "limit", "expected"), [case[1:] for case in BUDGETS], ids=[c[0] for c in BUDGETS]
)
def test_budgets_are_counted(names, limit, expected):
    pods = [pod(name, "medium", MID, "a", start=i + 1, **FOO) for i, name in enumerate(names)]
    nodes = [make_node("a", allocatable={"cpu": "600m", "memory": "600", "pods": "32"})]

    found = proposal(big(), nodes, pods, [limit])

    assert victims_of(found) == {"a": expected}


def big():
    return make_pod("p", requests={"cpu": "600m", "memory": "600"}, priority=VERY_HIGH)


@pytest.mark.parametrize(
    ("selector", "namespace"),
    [({}, "default"), (None, "default"), ({"matchLabels": {"app": "foo"}}, "other")],
    ids=["empty", "none", "elsewhere"],
)
def test_budgets_that_match_no_pod(selector, namespace):
    about_nobody = make_object(
        PodDisruptionBudget,
        "b",
        namespace=namespace,
        spec={"selector": selector},
        status={"disruptionsAllowed": 0},
    )

    there = [pod("x", "large", LOW, "a", **FOO)]
    found = proposal(pod("p", "large", HIGH), [node("a", "large")], there, [about_nobody])

    assert victims_of(found) == {"a": (["x"], 0)}


def test_no_budget_protects_pods_without_labels():
    everyone = make_object(
        PodDisruptionBudget,
        "b",
        spec={"selector": {"matchExpressions": [{"key": "a", "operator": "DoesNotExist"}]}},
        status={"disruptionsAllowed": 0},
    )
    nodes = [node("a", "large")]

    bare = proposal(pod("p", "large", HIGH), nodes, [pod("x", "large", LOW, "a")], [everyone])
    named = proposal(
        pod("p", "large", HIGH), nodes, [pod("x", "large", LOW, "a", labels="b")], [everyone]
    )

    assert victims_of(bare) == {"a": (["x"], 0)}
    assert victims_of(named) == {"a": (["x"], 1)}


def test_every_budget_of_a_pod_is_used_up():
    """Also those after the first that is overdrawn."""
    nodes = [make_node("a", allocatable={"cpu": "600m", "pods": "32"})]
    pods = [
        pod("x", "medium", MID, "a", start=1, labels="app=foo, tier=db"),
        pod("y", "medium", MID, "a", start=2, labels="tier=db"),
    ]
    limits = [budget("one", allowed=0), budget("two", allowed=1, labels="tier=db")]

    found = proposal(make_pod("p", requests="600m cpu", priority=HIGH), nodes, pods, limits)

    assert victims_of(found) == {"a": (["x", "y"], 2)}


def test_protected_pods_are_reprieved_first():
    """Even the least important: the mid pod goes, as in upstream's PDBInPreemption."""
    pods = [
        pod("low", "medium", LOW, "a", **FOO),
        pod("mid", "large", MID, "a"),
    ]

    found = proposal(pod("p", "large", HIGH), [node("a")], pods, [budget(allowed=0)])

    assert victims_of(found) == {"a": (["mid"], 0)}


def test_thousands_of_budgets_are_compared_with_the_pods_that_they_may_match(monkeypatch):
    """One step of a search took 49 s in a namespace with 5,000 of them."""
    compared = []
    matches = Selector.matches

    def counting(self, labels):
        compared.append(self)
        return matches(self, labels)

    nodes = [node(f"n{index}", "large") for index in range(20)]
    pods = [pod(f"x{index}", "large", LOW, f"n{index}", **FOO) for index in range(20)]
    limits = [budget(f"b{index}", allowed=0, labels=f"app=a{index}") for index in range(2000)]
    monkeypatch.setattr(Selector, "matches", counting)

    found = proposal(pod("p", "large", HIGH), nodes, pods, [*limits, budget(allowed=0)])

    assert set(victims_of(found)) == {each.name for each in nodes}
    assert all(violations == 1 for _, violations in victims_of(found).values())
    assert len(compared) <= 20, "pods with the same labels are matched once"


def test_a_search_pauses_while_pods_are_subtracted_from_thousands_of_budgets(monkeypatch):
    """Matched once and subtracted from 5,000 for each pod, they took 660 ms in one step."""
    steps = [0]
    matching = NamespaceBudgets.matching

    def counting(self, pod):
        found = matching(self, pod)
        steps[-1] += len(found)
        return found

    class Pausing(DefaultPreemption):
        def post_filter(self, *arguments):
            search = super().post_filter(*arguments)
            while True:
                try:
                    yield next(search)
                except StopIteration as end:
                    return end.value
                steps.append(0)

    monkeypatch.setattr(NamespaceBudgets, "matching", counting)
    excluding = {"matchExpressions": [{"key": "app", "operator": "NotIn", "values": ["none"]}]}
    limits = [
        make_object(
            PodDisruptionBudget,
            f"b{index}",
            spec={"selector": excluding},
            status={"disruptionsAllowed": 0},
        )
        for index in range(3000)
    ]
    nodes = [
        make_node(f"n{index}", allocatable={"cpu": "100", "pods": "110"}) for index in range(6)
    ]
    pods = [
        pod(f"x{index}", "small", LOW, f"n{index % 6}", start=index, **FOO) for index in range(600)
    ]
    incoming = make_pod("p", requests={"cpu": "100"}, priority=HIGH)

    preempt(incoming, nodes, pods, limits, using=bare_profile(NodeResourcesFit(), Pausing()))

    assert sum(steps) >= 600 * 3000
    assert max(steps) <= SUBTRACTIONS_AT_ONCE + 3000
