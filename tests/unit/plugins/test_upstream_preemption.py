"""Upstream's table tests of preemption: where each is held, and those that had no place yet.

Names are without ``test_``; where no file is named, the test is in ``test_default_preemption.py``.
Offsets, parallelism and the two lists of candidates are upstream's means; here nodes are tried in
an order of their own (docs/semantics.md). There is no hook that says which victims are eligible or
more important: CustomSelection and CustomOrdering test nothing that exists here. Pods of groups are
refused, and so are cases about them.

=====================================================  =============================================
``default_preemption_test.go``                         here
=====================================================  =============================================
PostFilter: pods with the same priority                pods_of_the_same_priority_are_no_victims
… preemption should respect filteredNodesStatuses      nodes_beyond_help_are_not_tried
… nodeStatuses has no entry for the node               *a_node_that_nobody_judged_is_not_tried*
… pod with one of the lowest priorities                the_least_important_victim_is_chosen
… candidates filtered by an extender                   kube/test_extenders:
                                                       an_extender_strikes_out_candidates
… no candidate nodes found                             no_room_even_where_everybody_is_gone
… mixed reasons                                        reasons_are_counted_beside_each_other
… unresolvable and too small                           *hopeless_and_small_nodes_are_counted*
… test plugin fails on the only node                   what_cannot_be_judged_anywhere_is_an_error
… test plugin fails on one node                        what_cannot_be_judged_is_dropped_where_…
DryRunPreemption: some pods have lower priority …      who_goes (6 cases)
… preemption to resolve spread constraints             who_makes_the_spread_uneven_goes
… pods with PDB, disruptedPods (4)                     budgets_are_counted
… get unsorted candidates, limited                     enough_candidates_are_enough
… infeasible nodes are skipped                         *nodes_that_cannot_be_helped_are_…*
… three cycles with other offsets                      the_order_depends_on_the_pod_and_the_names_…
… until a non-violating candidate is found             *the_search_ends_with_the_first_that_…*
SelectBestCandidate (8)                                the_least_harm
PodEligibleToPreemptOthers (5)                         who_may_preempt,
                                                       a_nominated_node_beyond_help_makes_it_…
Preempt: basic logic, spread                           *preempt_from_end_to_end*
… scheduler extenders, one of them ignorable           kube/test_extenders:
                                                       an_extender_that_speaks_nonsense_stops_…
… not interested                                       kube/test_extenders:
                                                       an_extender_that_is_not_interested_…
… no preemption with Never                             who_may_preempt
… a second call deletes nothing more                   *who_was_told_is_not_told_again*,
                                                       loop: who_has_preempted_waits_for_…
PreEnqueue                                             loop: the_pod_waits_outside_until_…
=====================================================  =============================================

=====================================================  =============================================
``framework/preemption/*_test.go``                     ``tests/unit/loop``
=====================================================  =============================================
IsPodRunningPreemption                                 the_pod_waits_outside_until_its_victims_…,
                                                       the_last_end_may_be_heard_before_the_answer
PrepareCandidate: victim is terminating                victims_that_go_already_are_waited_for_…
… victim is not found                                  a_victim_that_is_gone_already_is_no_failure
… condition is there already                           kube/test_pod_status
… patch or delete fails                                what_fails_half_way_is_tried_again
AsyncPreemptionFailure                                 what_fails_half_way_is_tried_again,
                                                       trouble_of_the_api_server_is_ridden_out
RemoveNominatedNodeName                                a_less_important_nominee_makes_room
PreemptPod: waits in Permit or PreBind                 a_pod_that_is_not_bound_yet_is_called_off
CallExtenders (8)                                      kube/test_extenders
FilterVictimsWithPDB                                   plugins: budgets_are_counted,
                                                       budgets_about_nobody_here
=====================================================  =============================================
"""

import pytest

from scheduler.framework.decision import Park, Preempt
from scheduler.framework.rejection import Only
from scheduler.plugins import InterPodAffinity, NodeAffinity, NodeResourcesFit, PodTopologySpread
from tests.unit.plugins.test_default_preemption import (
    FOO,
    HIGH,
    LOW,
    MID,
    NO_VICTIMS,
    VICTIM,
    budget,
    filled,
    node,
    pod,
    preempt,
    profile,
    proposal,
    victims_of,
)


class OnlyThese:
    """A pre-filter that names nodes."""

    name = "OnlyThese"

    def __init__(self, *names):
        self.names = frozenset(names)

    def pre_filter(self, incoming, nodes):
        return Only(self.names)


def test_a_node_that_nobody_judged_is_not_tried():
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


def test_nodes_that_cannot_be_helped_are_passed_over():
    nodes, pods = filled(["n1", "n2", "n3", "n4", "n5"])
    pods = [
        each if each.node_name in {"n1", "n3"} else pod(each.name, "large", HIGH, each.node_name)
        for each in pods
    ]

    found = proposal(
        pod("p", "large", HIGH),
        nodes,
        pods,
        min_candidate_nodes_percentage=40,
        min_candidate_nodes_absolute=2,
    )

    assert sorted(victims_of(found)) == ["n1", "n3"]


def test_the_search_ends_with_the_first_that_violates_nothing():
    """Two candidates are enough, one of them harmless: with all of them covered it goes on."""
    names = ["n1", "n2", "n3", "n4", "n5"]
    nodes, pods = filled(names, labels=dict.fromkeys(names[1:], "app=foo"))

    found = proposal(
        pod("p", "large", HIGH),
        nodes,
        pods,
        [budget(allowed=0)],
        min_candidate_nodes_percentage=40,
        min_candidate_nodes_absolute=2,
    )

    assert victims_of(found)["n1"] == (["p-n1"], 0)
    assert len(found.candidates) <= 3
    assert found.chosen.node == "n1"


def spread(key, skew=1):
    return {
        "maxSkew": skew,
        "topologyKey": key,
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "foo"}},
    }


@pytest.mark.parametrize(
    ("incoming", "nodes", "pods", "expected"),
    [
        (
            pod("p", "very large", HIGH),
            [node("a"), node("b"), node("c")],
            [
                pod("a1", "small", LOW, "a"),
                pod("a2", "small", LOW, "a"),
                pod("b1", "large", MID, "b"),
                pod("b2", "medium", MID, "b"),
                pod("c1", "large", MID, "c"),
            ],
            ("a", {"a1", "a2"}),
        ),
        (
            pod("p", "", HIGH, topology_spread_constraints=[spread("zone"), spread("host")], **FOO),
            [
                node("a", labels="zone=one,host=a"),
                node("b", labels="zone=one,host=b"),
                node("x", labels="zone=two,host=x"),
            ],
            [
                pod("a1", "", MID, "a", **FOO),
                pod("a2", "", LOW, "a", **FOO),
                pod("b1", "", MID, "b", **FOO),
                pod("x1", "", HIGH, "x", **FOO),
                pod("x2", "", HIGH, "x", **FOO),
            ],
            ("a", {"a2"}),
        ),
    ],
    ids=["the least important", "to even out the spread"],
)
def test_preempt_from_end_to_end(incoming, nodes, pods, expected):
    decision = preempt(
        incoming,
        nodes,
        pods,
        using=profile(NodeResourcesFit(), PodTopologySpread(), InterPodAffinity()),
    )

    assert isinstance(decision, Preempt)
    assert (decision.node, {each.name for each in decision.victims}) == expected


def test_who_was_told_is_not_told_again():
    """Asked once more, nominated and with its victim on the way out, the pod waits."""
    incoming = pod("p", "large", HIGH)
    nodes = [node("a", "large"), node("b", "large")]
    pods = [pod("x", "large", LOW, "a"), pod("y", "large", MID, "b")]
    first = preempt(incoming, nodes, pods)
    going = pod("x", "large", LOW, "a", terminating=True, status={"conditions": [VICTIM]})
    second = preempt(incoming.nominated_to(first.node), nodes, [going, pods[1]])

    assert first.node == "a"
    assert isinstance(second, Park)
    assert second.message.endswith("due to a terminating pod on the nominated node.")
