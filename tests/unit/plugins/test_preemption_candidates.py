"""How many nodes are tried for a preemption, in which order, and which of them is taken.

As in TestDryRunPreemption and TestSelectBestCandidate of
``plugins/defaultpreemption/default_preemption_test.go``.
"""

from itertools import pairwise

import pytest

from scheduler.config.plugin_args import DefaultPreemptionArgs
from scheduler.cycle.scheduling import Attempt, schedule
from scheduler.framework.candidates import least_harm
from scheduler.framework.rejection import Candidate
from scheduler.plugins import NodeResourcesFit
from scheduler.plugins.default_preemption import DefaultPreemption, _Shortlist
from scheduler.snapshot.node_table import NodeTable
from tests.unit.plugins.preempting import (
    HIGH,
    LOW,
    MID,
    NEGATIVE,
    Counts,
    budget,
    columns_with,
    node,
    pod,
    profile,
    proposal,
    victims_of,
)


def filled(names, *, hopeless=(), labels=None):
    """Return nodes that a pod fills each; it may go, except from those that are *hopeless*."""
    nodes = [node(name, "large") for name in names]
    pods = [
        pod(
            f"p-{name}",
            "large",
            HIGH if name in hopeless else LOW,
            name,
            labels=(labels or {}).get(name, ""),
        )
        for name in names
    ]
    return nodes, pods


def tried(nodes, pods, *budgets, percentage, absolute, name="p"):
    """Return what is proposed to a pod that needs a node for itself."""
    return proposal(
        pod(name, "large", HIGH),
        nodes,
        pods,
        budgets,
        min_candidate_nodes_percentage=percentage,
        min_candidate_nodes_absolute=absolute,
    )


FIVE = ["n1", "n2", "n3", "n4", "n5"]
MANY = [f"n{i}" for i in range(40)]


def test_enough_candidates_are_enough():
    """40 % of five nodes, and at least one."""
    found = tried(*filled(FIVE), percentage=40, absolute=1)

    assert len(found.candidates) == 2


@pytest.mark.parametrize(
    ("percentage", "absolute", "nodes", "expected"),
    [(10, 100, 50, 50), (10, 100, 1000, 100), (10, 100, 5000, 500), (0, 7, 50, 7), (100, 0, 9, 9)],
)
def test_how_many_are_enough(percentage, absolute, nodes, expected):
    plugin = DefaultPreemption(DefaultPreemptionArgs(percentage, absolute))

    assert plugin._candidates_wanted(nodes) == expected


def test_the_search_pauses_between_questions():
    """However many nodes and pods on each there are, no step calls the filters twice."""
    nodes, pods = filled([f"n{i}" for i in range(300)])
    counts = Counts()
    columns = columns_with(nodes, [*pods, pod("more", "small", LOW, "n7")])
    using = profile(counts, NodeResourcesFit())
    cycle = schedule(Attempt(using, pod("p", "large", HIGH), NodeTable(columns), {}))
    judged = [counts.rows for _ in cycle]

    assert max(after - before for before, after in pairwise(judged)) <= 128


def test_the_search_goes_on_until_one_violates_no_budget():
    """Two are wanted; the third that violates has no place in the list."""
    listed = _Shortlist(2)
    violating = [Candidate(name, (pod("x"),), 1) for name in ("n5", "n1", "n2")]
    harmless = [Candidate(name, (pod("x"),), 0) for name in ("n3", "n4")]

    assert not listed.fill(violating)
    assert listed.fill(harmless)
    assert [each.node for each in listed.candidates] == ["n3", "n5", "n1"]


@pytest.mark.parametrize(
    ("names", "helped", "percentage"),
    [(FIVE, ["n1", "n3"], 40), (MANY, ["n3", "n33"], 0)],
    ids=["at once", "in parts"],
)
def test_nodes_that_cannot_be_helped_are_passed_over(names, helped, percentage):
    """Until there are enough."""
    nodes, pods = filled(names, hopeless=set(names) - set(helped))

    found = tried(nodes, pods, percentage=percentage, absolute=2)

    assert sorted(victims_of(found)) == helped


def test_the_search_ends_with_the_first_that_violates_nothing():
    """Two candidates are enough, one of them harmless: with all of them covered it goes on."""
    nodes, pods = filled(FIVE, labels=dict.fromkeys(FIVE[1:], "app=foo"))

    found = tried(nodes, pods, budget(allowed=0), percentage=40, absolute=2)

    assert victims_of(found)["n1"] == (["p-n1"], 0)
    assert len(found.candidates) <= 3
    assert found.chosen.node == "n1"


def test_the_order_depends_on_the_pod_and_the_names_alone():
    nodes, pods = filled(MANY[:30])

    def order(name, nodes):
        return list(victims_of(tried(nodes, pods, name=name, percentage=0, absolute=3)))

    assert order("p", nodes) == order("p", nodes[::-1])
    assert len({tuple(order(f"p{i}", nodes)) for i in range(10)}) > 5


CHOICES = [
    ("highest", {"a": "MM", "b": "ML", "c": "LL"}, "c"),
    ("sum", {"a": "MM", "b": "ML", "c": "MM"}, "b"),
    ("sum of more", {"a": "MMNN", "b": "MN", "c": "MLN"}, "b"),
    ("adjusted sum", {"a": "MNN", "b": "MN", "c": "MLN"}, "b"),
    ("highest, then sum", {"a": "MLL", "b": "H", "c": "MLLL", "d": "MMMN"}, "a"),
    ("start", {"a": "M2M2", "b": "M3M3", "c": "M1M1"}, "b"),
    ("latest of the earliest", {"a": "M4M2", "b": "M5M1", "c": "M3M6"}, "c"),
    ("only the most important count", {"a": "M2L3", "b": "M6L2", "c": "M1L1"}, "b"),
]


PRIORITIES = {"N": NEGATIVE, "L": LOW, "M": MID, "H": HIGH}


def candidate(name, code, violations=0):
    victims = []
    for i, letter in enumerate(code):
        if letter in PRIORITIES:
            day = code[i + 1 : i + 2]
            start = int(day) if day.isdigit() else 1
            victims.append(pod(f"{name}-{i}", "", PRIORITIES[letter], name, start=start))
    return Candidate(name, tuple(victims), violations)


@pytest.mark.parametrize(
    ("given", "best"), [case[1:] for case in CHOICES], ids=[case[0] for case in CHOICES]
)
def test_the_least_harm(given, best):
    candidates = [candidate(name, code) for name, code in given.items()]

    assert least_harm(candidates).node == best
    assert least_harm(candidates[::-1]).node == best


def test_the_first_of_equals():
    assert least_harm([candidate("a", "M"), candidate("b", "M")]).node == "a"


def test_budgets_go_before_priorities():
    assert least_harm([candidate("a", "L", 1), candidate("b", "H", 0)]).node == "b"
