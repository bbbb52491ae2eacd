"""What becomes of a pod that fits nowhere: a node and its victims, or why not.

As in TestPostFilter of ``plugins/defaultpreemption/default_preemption_test.go``.
"""

import numpy as np

from scheduler.framework.decision import CLEAR, KEEP, Park, Preempt
from scheduler.framework.rejection import Failure, Only, Refusal, Refused
from scheduler.plugins import NodeAffinity, NodeResourcesFit
from tests.unit.plugins.preempting import (
    HIGH,
    LOW,
    MID,
    NO_VICTIMS,
    budget,
    columns_with,
    node,
    pod,
    preempt,
    profile,
    proposal,
)


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


def test_no_candidate_if_evictions_do_not_help():
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


def test_closed_nodes_are_not_tried():
    columns = columns_with([node("a", "large")], [pod("x", "large", LOW, "a")])
    columns.set_closed(0, "node(s) could not be read")

    assert isinstance(preempt(pod("p", "large", HIGH), columns), Park)


class OnlyThese:
    """A pre-filter that names nodes."""

    name = "OnlyThese"

    def __init__(self, *names):
        self.names = frozenset(names)

    def pre_filter(self, incoming, nodes):
        return Only(self.names)


def test_a_node_without_a_verdict_is_not_tried():
    """Though somebody is there who could go."""
    decision = preempt(
        pod("p", "large", HIGH),
        [node("a", "large"), node("b", "large")],
        [pod("x", "large", LOW, "a"), pod("y", "large", HIGH, "b")],
        using=profile(OnlyThese("b"), NodeResourcesFit()),
    )

    assert isinstance(decision, Park)
    assert decision.message.endswith(
        f"preemption: 0/2 nodes are available: 1 {NO_VICTIMS}, "
        "1 Preemption is not helpful for scheduling."
    )


def test_hopeless_and_small_nodes_are_counted():
    """Two nodes are not meant, the others are too small even where the least important are gone."""
    nodes = [node(name, labels="disk=ssd" if name in "ab" else "") for name in "abcd"]
    pods = [pod(f"h-{name}", "large", HIGH, name) for name in "abcd"]
    pods += [pod(f"l-{name}", "small", LOW, name) for name in "abcd"]

    decision = preempt(
        pod("p", "large", HIGH, node_selector="disk=ssd"),
        nodes,
        pods,
        using=profile(NodeAffinity(), NodeResourcesFit()),
    )

    assert decision.message.endswith(
        "preemption: 0/4 nodes are available: 2 Insufficient cpu, 2 Insufficient memory, "
        "2 Preemption is not helpful for scheduling."
    )
