"""Whom a pod evicts, from where, and why not.

Tables from ``plugins/defaultpreemption/default_preemption_test.go`` and
``pkg/scheduler/framework/preemption/preemption_test.go``.
"""

from dataclasses import dataclass
from itertools import pairwise
from random import Random

import numpy as np
import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from scheduler.config.plugin_args import DefaultPreemptionArgs
from scheduler.cycle.scheduling import Attempt, decide, schedule
from scheduler.framework.candidates import by_importance, least_harm
from scheduler.framework.decision import CLEAR, KEEP, Park, Preempt
from scheduler.framework.rejection import Candidate, Failure, Proposal, Refusal, Refused, Rejection
from scheduler.model.fact import Resource
from scheduler.model.objects import PodDisruptionBudget
from scheduler.model.selectors import compile_selector
from scheduler.plugins import (
    InterPodAffinity,
    NodeAffinity,
    NodePorts,
    NodeResourcesFit,
    PodTopologySpread,
)
from scheduler.plugins.default_preemption import DefaultPreemption, _Shortlist
from scheduler.snapshot.columns import ClusterColumns
from scheduler.snapshot.node_table import NodeTable
from scheduler.testing import make_node, make_object, make_pod
from scheduler.testing.harness import bare_profile
from tests.unit.plugins.asking import columns_of
from tests.unit.plugins.test_every_plugin import any_node, any_pod

NEGATIVE, LOW, MID, HIGH, VERY_HIGH = -100, 0, 100, 1000, 10000
SIZES = {"small": 100, "medium": 200, "large": 300, "very large": 500}
VICTIM = {"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}
FILTERS = (NodeAffinity, NodePorts, NodeResourcesFit, PodTopologySpread, InterPodAffinity)
NO_VICTIMS = "No preemption victims found for incoming pod"


def size(name):
    return f"{SIZES[name]}m cpu, {SIZES[name]}"


def requests(name):
    return {"cpu": f"{SIZES[name]}m", "memory": str(SIZES[name])} if name else {}


def pod(name, of="", priority=LOW, node="", *, start=None, labels="", **more):
    """A pod of one of upstream's sizes; *start* is a day of January."""
    status = more.pop("status", {})
    if start is not None:
        status = {**status, "startTime": f"2026-01-{start:02}T00:00:00Z"}
    return make_pod(
        name,
        requests=requests(of),
        priority=priority,
        node=node,
        labels=labels,
        status=status,
        **more,
    )


def node(name, of="very large", **more):
    return make_node(name, allocatable={**requests(of), "pods": "32"}, **more)


def budget(name="pdb", *, allowed, labels="app=foo", disrupted=()):
    key, _, value = labels.partition("=")
    return make_object(
        PodDisruptionBudget,
        name,
        spec={"selector": {"matchLabels": {key: value}}},
        status={"disruptionsAllowed": allowed, "disruptedPods": dict.fromkeys(disrupted)},
    )


class Counts:
    """A filter that refuses nothing and counts the rows it is asked about in what-ifs."""

    name = "Counts"
    node_local = True

    def __init__(self):
        self.rows = 0

    def filter(self, pod, nodes):
        self.rows += len(nodes) if nodes.is_what_if else 0
        return ()


def profile(*filters, args=DefaultPreemptionArgs()):  # noqa: B008 - frozen
    chosen = filters or tuple(plugin() for plugin in FILTERS)
    return bare_profile(*chosen, DefaultPreemption(args))


def world(nodes, pods=(), budgets=()):
    columns = columns_of(nodes, pods)
    for each in budgets:
        columns.objects.put(Resource.POD_DISRUPTION_BUDGET, each)
    return columns


def preempt(incoming, nodes, pods=(), budgets=(), *, nominated=None, using=None, **options):
    columns = nodes if isinstance(nodes, ClusterColumns) else world(nodes, pods, budgets)
    chosen = using or profile(**options)
    return decide(Attempt(chosen, incoming, NodeTable(columns), nominated or {}))


def proposal(incoming, nodes, pods=(), budgets=(), *filters, **options):
    """Ask the plugin itself; return what it proposes or why not."""
    heard = []

    class Listens(DefaultPreemption):
        def post_filter(self, *asked):
            found = yield from super().post_filter(*asked)
            heard.append(found)
            return found

    chosen = filters or tuple(plugin() for plugin in FILTERS)
    args = DefaultPreemptionArgs(**options)
    preempt(incoming, nodes, pods, budgets, using=bare_profile(*chosen, Listens(args)))
    return heard[0]


def victims_of(found):
    """Return names of victims and the number of violations, by node."""
    assert isinstance(found, Proposal), found
    return {
        each.node: ([victim.name for victim in each.victims], each.pdb_violations)
        for each in found.candidates
    }


# TestPostFilter.


def test_pods_of_the_same_priority_are_no_victims():
    decision = preempt(
        pod("p", "large", HIGH), [node("a", "large")], [pod("x", "large", HIGH, "a")]
    )

    assert isinstance(decision, Park)
    assert decision.nomination == CLEAR
    assert decision.message.endswith(f"preemption: 0/1 nodes are available: 1 {NO_VICTIMS}.")


def test_nodes_beyond_help_are_not_tried():
    decision = preempt(
        pod("p", "large", HIGH, node_selector="disk=ssd"),
        [node("a", "large"), node("b", "small", labels="disk=ssd")],
        [pod("x", "large", LOW, "a"), pod("y", "small", LOW, "b")],
    )

    assert isinstance(decision, Park)
    assert decision.message.endswith(
        "preemption: 0/2 nodes are available: 2 Preemption is not helpful for scheduling."
    )


def test_the_least_important_victim_is_chosen():
    decision = preempt(
        pod("p", "large", HIGH),
        [node("a", "large"), node("b", "large")],
        [pod("x", "large", MID, "a"), pod("y", "large", LOW, "b")],
        [budget(allowed=1)],
    )

    assert (decision.node, [each.name for each in decision.victims]) == ("b", ["y"])
    assert decision.message == ""
    assert decision.diagnosis.message == (
        "0/2 nodes are available: 2 Insufficient cpu, 2 Insufficient memory."
    )


def test_no_room_even_where_everybody_is_gone():
    """A more important pod stays."""
    nodes = [node("a"), node("b")]
    pods = [pod(f"{name}-{n}", "large", prio, n) for n in "ab" for name, prio in [("h", HIGH)]]
    pods += [pod(f"l-{n}", "small", LOW, n) for n in "ab"]

    decision = preempt(pod("p", "large", HIGH), nodes, pods)

    assert decision.message.endswith(
        "preemption: 0/2 nodes are available: 2 Insufficient cpu, 2 Insufficient memory."
    )


def test_reasons_are_counted_beside_each_other():
    nodes = [node(name) for name in "abcd"]
    pods = [pod(f"h-{n}", "large", HIGH, n) for n in "abc"] + [pod("l-a", "small", LOW, "a")]
    pods += [pod("h2-c", "small", HIGH, "c")]
    incoming = pod("p", "large", HIGH, node_selector="disk=ssd")
    nodes = [node(name, labels="disk=ssd" if name != "d" else "") for name in "abcd"]

    decision = preempt(incoming, nodes, pods, using=profile(NodeAffinity(), NodeResourcesFit()))

    assert decision.message.endswith(
        "preemption: 0/4 nodes are available: 1 Insufficient cpu, 1 Insufficient memory, "
        f"1 Preemption is not helpful for scheduling, 2 {NO_VICTIMS}."
    )


class Fails:
    """A filter that cannot judge what-ifs of some nodes."""

    name = "Fails"
    node_local = True

    def __init__(self, *names):
        self.names = names

    def filter(self, pod, nodes):
        if nodes.is_what_if:
            yield Failure(np.array([name in self.names for name in nodes.names]), "cannot tell")


def test_what_cannot_be_judged_anywhere_is_an_error():
    found = proposal(
        pod("p", "large", HIGH),
        [node("a", "large")],
        [pod("x", "large", LOW, "a")],
        [],
        NodeResourcesFit(),
        Fails("a"),
    )

    assert found == Refusal('preemption: running "Fails" filter plugin: cannot tell', stop=True)


def test_what_cannot_be_judged_is_dropped_where_there_is_another_way():
    decision = preempt(
        pod("p", "large", HIGH),
        [node("a", "large"), node("b", "large")],
        [pod("x", "large", LOW, "a"), pod("y", "large", LOW, "b")],
        using=profile(NodeResourcesFit(), Fails("a")),
    )

    assert decision.node == "b"


def test_an_error_leaves_the_nomination_alone():
    decision = preempt(
        pod("p", "large", HIGH),
        [node("a", "large")],
        [pod("x", "large", LOW, "a")],
        using=profile(NodeResourcesFit(), Fails("a")),
    )

    assert (type(decision), decision.nomination) == (Park, KEEP)


class RefusesAll:
    """A pre-filter that refuses every node, but might be helped."""

    name = "RefusesAll"

    def pre_filter(self, pod, nodes):
        return Refused("not now")


def test_a_pre_filter_that_may_be_helped_makes_every_node_a_candidate():
    decision = preempt(
        pod("p", "large", HIGH),
        [node("a", "large")],
        [pod("x", "large", LOW, "a")],
        using=profile(RefusesAll(), NodeResourcesFit()),
    )

    assert isinstance(decision, Preempt)


def test_a_node_that_needs_no_victim_is_no_candidate():
    found = proposal(
        pod("p", "small", HIGH),
        [node("a")],
        [pod("x", "small", LOW, "a")],
        [],
        RefusesAll(),
        NodeResourcesFit(),
    )

    assert found.message == 'preemption: expected at least one victim pod on node "a"'
    assert found.stop


# TestDryRunPreemption.

AFFINITY = {
    "podAntiAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": [
            {
                "labelSelector": {"matchLabels": {"foo": ""}},
                "topologyKey": "kubernetes.io/hostname",
            }
        ]
    }
}
PLAIN = [
    (
        "one each",
        pod("p", "large", HIGH),
        "ab",
        [pod("p1", "large", MID, "a"), pod("p2", "large", MID, "b")],
        {"a": (["p1"], 0), "b": (["p2"], 0)},
        4,
    ),
    (
        "nobody is lower",
        pod("p", "large", LOW),
        "ab",
        [pod("p1", "large", MID, "a"), pod("p2", "large", MID, "b")],
        None,
        0,
    ),
    (
        "a small one is spared",
        pod("p", "large", HIGH),
        "ab",
        [
            pod("p1.1", "small", LOW, "a"),
            pod("p1.2", "large", MID, "a"),
            pod("p2", "large", MID, "b"),
        ],
        {"a": (["p1.2"], 0), "b": (["p2"], 0)},
        # One row more than upstream asks: a row that is done is asked along with the others.
        6,
    ),
    (
        "the more important of the small ones is spared",
        pod("p", "large", HIGH),
        "ab",
        [
            pod("p1.1", "small", MID, "a"),
            pod("p1.2", "small", LOW, "a"),
            pod("p1.3", "medium", MID, "a"),
            pod("p1.4", "small", HIGH, "a"),
            pod("p2", "large", HIGH, "b"),
        ],
        {"a": (["p1.3", "p1.2"], 0)},
        4,
    ),
    (
        "of equals those that started later go",
        pod("p", "large", HIGH),
        "ab",
        [
            pod("p1.1", "small", LOW, "a", start=5),
            pod("p1.2", "small", LOW, "a", start=4),
            pod("p1.3", "medium", MID, "a", start=3),
            pod("p1.4", "small", HIGH, "a", start=2),
            pod("p2", "large", HIGH, "b", start=1),
        ],
        {"a": (["p1.3", "p1.1"], 0)},
        4,
    ),
    (
        "who objects goes",
        pod("p", "small", HIGH, labels="foo"),
        "ab",
        [
            pod("p1.1", "small", LOW, "a", affinity=AFFINITY),
            pod("p1.2", "medium", MID, "a"),
            pod("p1.3", "small", HIGH, "a"),
            pod("p2", "very large", HIGH, "b"),
        ],
        {"a": (["p1.1"], 0)},
        3,
    ),
]


@pytest.mark.parametrize(
    ("incoming", "nodes", "pods", "expected", "asked"),
    [case[1:] for case in PLAIN],
    ids=[case[0] for case in PLAIN],
)
def test_who_goes(incoming, nodes, pods, expected, asked):
    counts = Counts()
    filters = (NodeResourcesFit(), InterPodAffinity())

    found = proposal(incoming, [node(name) for name in nodes], pods, [], counts, *filters)

    assert counts.rows == asked
    if expected is None:
        assert isinstance(found, Refusal)
    else:
        assert victims_of(found) == expected


def test_who_makes_the_spread_uneven_goes():
    def spread(key):
        selector = {"matchExpressions": [{"key": "app", "operator": "In", "values": ["foo"]}]}
        return {
            "maxSkew": 1,
            "topologyKey": key,
            "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": selector,
        }

    nodes = [
        make_node("node-a", zone="zone1", labels="hostname=node-a"),
        make_node("node-b", zone="zone1", labels="hostname=node-b"),
        make_node("node-x", zone="zone2", labels="hostname=node-x"),
    ]
    pods = [
        pod("pod-a1", "", MID, "node-a", labels="app=foo"),
        pod("pod-a2", "", LOW, "node-a", labels="app=foo"),
        pod("pod-b1", "", LOW, "node-b", labels="app=foo"),
        pod("pod-x1", "", HIGH, "node-x", labels="app=foo"),
        pod("pod-x2", "", HIGH, "node-x", labels="app=foo"),
    ]
    incoming = pod(
        "p",
        "",
        HIGH,
        labels="app=foo",
        topology_spread_constraints=[spread("topology.kubernetes.io/zone"), spread("hostname")],
    )

    assert victims_of(proposal(incoming, nodes, pods)) == {
        "node-a": (["pod-a2"], 0),
        "node-b": (["pod-b1"], 0),
    }


FOO = {"labels": "app=foo"}
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
def test_budgets_about_nobody_here(selector, namespace):
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


def test_pods_without_labels_are_protected_by_nobody():
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


def test_those_that_a_budget_protects_are_given_back_first():
    """Even the least important: the mid pod goes, as in upstream's PDBInPreemption."""
    pods = [
        pod("low", "medium", LOW, "a", **FOO),
        pod("mid", "large", MID, "a"),
    ]

    found = proposal(pod("p", "large", HIGH), [node("a")], pods, [budget(allowed=0)])

    assert victims_of(found) == {"a": (["mid"], 0)}


# How many nodes are tried (the limits of TestDryRunPreemption).


def filled(names, labels=None):
    nodes = [node(name, "large") for name in names]
    pods = [
        pod(f"p-{name}", "large", LOW, name, labels=(labels or {}).get(name, "")) for name in names
    ]
    return nodes, pods


def test_enough_candidates_are_enough():
    """40 % of five nodes, and at least one."""
    nodes, pods = filled(["n1", "n2", "n3", "n4", "n5"])

    found = proposal(
        pod("p", "large", HIGH),
        nodes,
        pods,
        min_candidate_nodes_percentage=40,
        min_candidate_nodes_absolute=1,
    )

    assert len(found.candidates) == 2


@pytest.mark.parametrize(
    ("percentage", "absolute", "nodes", "expected"),
    [(10, 100, 50, 50), (10, 100, 1000, 100), (10, 100, 5000, 500), (0, 7, 50, 7), (100, 0, 9, 9)],
)
def test_how_many_are_enough(percentage, absolute, nodes, expected):
    plugin = DefaultPreemption(DefaultPreemptionArgs(percentage, absolute))

    assert plugin._wanted(nodes) == expected


def test_the_search_pauses_between_questions():
    """However many nodes there are, and however many pods on each, no step asks twice."""
    nodes, pods = filled([f"n{i}" for i in range(300)])
    counts = Counts()
    columns = world(nodes, [*pods, pod("more", "small", LOW, "n7")])
    using = profile(counts, NodeResourcesFit())
    cycle = schedule(Attempt(using, pod("p", "large", HIGH), NodeTable(columns), {}))
    asked = [counts.rows for _ in cycle]

    assert max(after - before for before, after in pairwise(asked)) <= 128


def test_the_search_goes_on_until_one_violates_no_budget():
    """Two are wanted; the third that violates has no place in the list."""
    listed = _Shortlist(2)
    violating = [Candidate(name, (pod("x"),), 1) for name in ("n5", "n1", "n2")]
    harmless = [Candidate(name, (pod("x"),), 0) for name in ("n3", "n4")]

    assert not listed.fill(violating)
    assert listed.fill(harmless)
    assert [each.node for each in listed.candidates] == ["n3", "n5", "n1"]


def test_nodes_are_tried_until_there_are_enough():
    """In parts; nodes that cannot be helped are passed over."""
    nodes, pods = filled([f"n{i}" for i in range(40)])
    pods = [
        each if i in {3, 33} else pod(each.name, "large", HIGH, each.node_name)
        for i, each in enumerate(pods)
    ]

    found = proposal(
        pod("p", "large", HIGH),
        nodes,
        pods,
        min_candidate_nodes_percentage=0,
        min_candidate_nodes_absolute=2,
    )

    assert sorted(victims_of(found)) == ["n3", "n33"]


def test_the_order_depends_on_the_pod_and_the_names_alone():
    nodes, pods = filled([f"n{i}" for i in range(30)])
    options = {"min_candidate_nodes_percentage": 0, "min_candidate_nodes_absolute": 3}

    def tried(name, nodes):
        return list(victims_of(proposal(pod(name, "large", HIGH), nodes, pods, **options)))

    assert tried("p", nodes) == tried("p", nodes[::-1])
    assert len({tuple(tried(f"p{i}", nodes)) for i in range(10)}) > 5


# TestSelectBestCandidate.

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


def test_budgets_go_before_priorities():
    assert least_harm([candidate("a", "L", 1), candidate("b", "H", 0)]).node == "b"


def test_the_first_of_equals():
    assert least_harm([candidate("a", "M"), candidate("b", "M")]).node == "a"


def test_who_has_not_started_goes_first():
    pods = [pod("none"), pod("late", start=9), pod("early", start=2), pod("more", "", MID)]

    assert [each.name for each in sorted(pods, key=by_importance)] == [
        "more",
        "early",
        "late",
        "none",
    ]


# TestPodEligibleToPreemptOthers.


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
def test_who_may_preempt(more, pods, why):
    incoming = pod("p", "large", HIGH, **{"nominated": "a", **more})

    decision = preempt(incoming, [node("a", "large"), node("b", "small")], pods)

    if why is None:
        assert (type(decision), decision.node) == (Preempt, "a")
    else:
        assert isinstance(decision, Park)
        assert why in decision.message


def test_who_may_not_preempt_keeps_its_nomination():
    incoming = pod("p", "large", HIGH, nominated="a")

    waits = preempt(incoming, [node("a", "large")], [terminating("x", "a", VICTIM)])
    hopeless = preempt(incoming, [node("a", "large")], [pod("x", "large", HIGH, "a")])

    assert waits.nomination == KEEP
    assert hopeless.nomination == CLEAR


def test_a_nominated_node_beyond_help_makes_it_eligible_again():
    incoming = pod("p", "large", HIGH, nominated="a")

    decision = preempt(
        incoming,
        [node("a", "large"), node("b", "large")],
        [terminating("x", "a", VICTIM), pod("y", "large", LOW, "b")],
        using=profile(Cordons("a"), NodeResourcesFit()),
    )

    assert decision.node == "b"


class Cordons:
    """A filter that refuses nodes for good."""

    name = "Cordons"
    node_local = True

    def __init__(self, *names):
        self.names = names

    def filter(self, pod, nodes):
        yield Rejection(np.array([n in self.names for n in nodes.names]), "no", resolvable=False)


# Who else is there.


def test_pods_of_the_kubelets_own_are_never_victims():
    mirror = pod(
        "static",
        "large",
        LOW,
        "a",
        metadata={"ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": "a"}]},
    )

    decision = preempt(pod("p", "large", HIGH), [node("a", "large")], [mirror])

    assert decision.message.endswith(f"1 {NO_VICTIMS}.")


def test_nodes_with_something_unreadable_are_not_tried():
    columns = world([node("a", "large")], [pod("x", "large", LOW, "a")])
    columns.set_closed(0, "node(s) could not be read")

    assert isinstance(preempt(pod("p", "large", HIGH), columns), Park)


def test_those_as_important_that_are_nominated_are_counted_on():
    """In the dry run too: what is left for them must not be promised twice."""
    pods = [pod(f"x{i}", "small", LOW, "a") for i in range(5)]
    other = pod("other", "medium", HIGH)

    alone = preempt(pod("p", "medium", HIGH), [node("a")], pods)
    beside = preempt(pod("p", "medium", HIGH), [node("a")], pods, nominated={"a": [other]})
    below = preempt(pod("p", "medium", VERY_HIGH), [node("a")], pods, nominated={"a": [other]})

    assert [len(each.victims) for each in (alone, beside, below)] == [2, 4, 2]


class Apart:
    """A filter by somebody else, which looks at the whole cluster and promises nothing.

    Not more than two pods of the kind may run in the cluster.
    """

    name = "Apart"

    def __init__(self):
        self.asked = 0

    def filter(self, pod, nodes):
        self.asked += 1
        total = nodes.cluster.pod_count.sum()
        yield Rejection(np.full(len(nodes), total > 2), "too many pods in the cluster")


def test_filters_that_look_beyond_a_row_are_shown_one_world_after_the_other():
    """With three pods, each on a node of its own, one must go: any, and no more than that."""
    nodes = [node(name) for name in "abc"]
    pods = [pod(f"x-{name}", "small", LOW, name) for name in "abc"]

    found = proposal(pod("p", "small", HIGH), nodes, pods, [], apart := Apart())

    assert victims_of(found) == {name: ([f"x-{name}"], 0) for name in "abc"}
    assert apart.asked == 1 + 3 + 3


# One node at a time: what the plugin answers for many nodes at once, by the book.


@dataclass
class World:
    """A cluster, a pod that fits nowhere, and budgets."""

    nodes: list
    pods: list
    incoming: object
    budgets: list
    nominated: dict

    def columns(self, without=(), plus=()):
        gone = {each.uid for each in without}
        return world(
            self.nodes, [p for p in self.pods if p.uid not in gone] + list(plus), self.budgets
        )


def any_world(random):
    names = [f"n{i}" for i in range(random.randint(1, 5))]
    nodes = [any_node(random, name) for name in names]
    pods = [
        any_pod(
            random,
            f"p{i}",
            node=random.choice(names),
            priority=random.choice([-5, 0, 0, 5, 10, 20]),
            status={"startTime": f"2026-01-0{random.randint(1, 3)}T00:00:00Z"}
            if random.random() < 0.7
            else {},
            affinity=any_dislike(random),
        )
        for i in range(random.randint(0, 14))
    ]
    constraints = [
        {
            "maxSkew": random.choice([1, 2]),
            "topologyKey": random.choice(["topology.kubernetes.io/zone", "kubernetes.io/hostname"]),
            "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": {"matchLabels": {"app": "web"}},
        }
    ]
    incoming = any_pod(
        random,
        "incoming",
        priority=10,
        affinity=any_dislike(random),
        topology_spread_constraints=constraints if random.random() < 0.4 else [],
    )
    budgets = [
        budget(
            f"b{i}",
            allowed=random.randint(0, 2),
            labels=random.choice(["app=web", "app=db"]),
            disrupted=random.sample([f"p{i}" for i in range(14)], k=random.choice([0, 0, 2])),
        )
        for i in range(random.randint(0, 2))
    ]
    nominated = {
        random.choice(names): [any_pod(random, f"nom{i}", priority=random.choice([5, 10, 20]))]
        for i in range(random.choice([0, 0, 1, 2]))
    }
    return World(nodes, pods, incoming, budgets, nominated)


def any_dislike(random):
    if random.random() < 0.8:
        return None
    term = {
        "labelSelector": {"matchLabels": {"app": random.choice(["web", "db"])}},
        "topologyKey": random.choice(["topology.kubernetes.io/zone", "kubernetes.io/hostname"]),
    }
    kind = random.choice(["podAffinity", "podAntiAffinity", "podAntiAffinity"])
    return {kind: {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}


def reference(given, name, skipped):
    """Choose the victims on one node as upstream does: one question after the other."""
    counted = [p for p in given.nominated.get(name, ()) if p.priority >= given.incoming.priority]

    def fits(gone):
        crowded = [each.on(name) for each in counted]
        return all(_feasible(given, gone, plus, name, skipped) for plus in (crowded, ()))

    there = [p for p in given.pods if p.node_name == name]
    lower = [p for p in there if p.priority < given.incoming.priority]
    if not lower or not fits(lower):
        return None
    protected, free = _split(given.budgets, sorted(lower, key=by_importance))
    gone, victims, violations = list(lower), [], 0
    for each in (*protected, *free):
        gone.remove(each)
        if not fits(gone):
            gone.append(each)
            victims.append(each)
            violations += each in protected
    names = [each.name for each in sorted(victims, key=by_importance)]
    return (names, violations) if names else None


def _feasible(given, gone, plus, name, skipped):
    nodes = NodeTable(given.columns(gone, plus))
    row = nodes.row_of(name)
    for plugin in FILTERS:
        if plugin.__name__ not in skipped and any(
            each.nodes[row] for each in plugin().filter(given.incoming, nodes)
        ):
            return False
    return True


def _split(budgets, pods):
    protected, free = [], []
    allowed = [each.status.disruptions_allowed for each in budgets]
    for each in pods:
        overdrawn = False
        for i, limit in enumerate(budgets):
            selector = compile_selector(limit.spec.selector, "")
            if limit.metadata.namespace != each.namespace or not each.labels:
                continue
            if selector.matches(each.labels) and each.name not in limit.status.disrupted_pods:
                allowed[i] -= 1
                overdrawn |= allowed[i] < 0
        (protected if overdrawn else free).append(each)
    return protected, free


@settings(max_examples=150, deadline=None)
@given(given_world=st.builds(any_world, st.integers(0, 2**32).map(Random)))
def test_many_nodes_at_once_are_judged_like_one_after_the_other(given_world):
    seen = []

    class Listens(DefaultPreemption):
        def post_filter(self, pod, nodes, diagnosis, ask):
            found = yield from super().post_filter(pod, nodes, diagnosis, ask)
            seen.append((diagnosis, found))
            return found

    table = NodeTable(given_world.columns())
    using = bare_profile(*(plugin() for plugin in FILTERS), Listens())
    decide(Attempt(using, given_world.incoming, table, given_world.nominated))
    if not seen:
        return
    ((diagnosis, found),) = seen
    skipped = {
        plugin.__name__
        for plugin in FILTERS
        if hasattr(plugin, "pre_filter")
        and type(plugin().pre_filter(given_world.incoming, table)).__name__ == "Skip"
    }
    expected = {
        name: victims
        for row, name in enumerate(table.names)
        if diagnosis.preemption_may_help[row]
        and (victims := reference(given_world, name, skipped)) is not None
    }

    assert (victims_of(found) if isinstance(found, Proposal) else {}) == expected
    event(f"{len(expected)} candidates")
