"""Upstream's table tests of preemption: where each is held, and what they do from end to end.

Names are without ``test_``; where no file is named, the test stands here or in a file beside this.
Offsets, parallelism and the two lists of candidates are upstream's means; here nodes are tried in
an order of their own (docs/semantics.md). There is no hook that says which victims are eligible or
more important: CustomSelection and CustomOrdering test nothing that exists here. Pods of groups are
refused, and so are cases about them.

=====================================================  =============================================
``default_preemption_test.go``                         here
=====================================================  =============================================
PostFilter: pods with the same priority                pods_of_the_same_priority_are_no_victims
… preemption should respect filteredNodesStatuses      nodes_beyond_help_are_not_tried
… nodeStatuses has no entry for the node               a_node_without_a_verdict_is_not_tried
… pod with one of the lowest priorities                the_least_important_victim_is_chosen
… candidates filtered by an extender                   kube/test_extenders:
                                                       an_extender_strikes_out_candidates
… no candidate nodes found                             no_candidate_if_evictions_do_not_help
… mixed reasons                                        reasons_are_counted_beside_each_other
… unresolvable and too small                           hopeless_and_small_nodes_are_counted
… test plugin fails on the only node                   what_cannot_be_judged_anywhere_is_an_error
… test plugin fails on one node                        what_cannot_be_judged_is_dropped_where_…
DryRunPreemption: some pods have lower priority …      lower_pods_become_victims (6 cases)
… preemption to resolve spread constraints             a_pod_that_violates_the_spread_is_a_victim
… pods with PDB, disruptedPods (4)                     budgets_are_counted
… get unsorted candidates, limited                     enough_candidates_are_enough
… infeasible nodes are skipped                         nodes_that_cannot_be_helped_are_…
… three cycles with other offsets                      the_order_depends_on_the_pod_and_the_names_…
… until a non-violating candidate is found             the_search_ends_with_the_first_that_…
SelectBestCandidate (8)                                the_least_harm
PodEligibleToPreemptOthers (5)                         which_pods_may_preempt,
                                                       a_nominated_node_beyond_help_makes_it_…
Preempt: basic logic, spread                           preempt_from_end_to_end
… scheduler extenders, one of them ignorable           kube/test_extenders:
                                                       an_invalid_answer_of_an_extender_stops_…
… not interested                                       kube/test_extenders:
                                                       an_extender_without_the_resource_or_…
… no preemption with Never                             which_pods_may_preempt
… a second call deletes nothing more                   a_second_attempt_evicts_no_more_pods,
                                                       loop: who_has_preempted_waits_for_…
PreEnqueue                                             loop: the_preemptor_is_gated_until_…
=====================================================  =============================================

=====================================================  =============================================
``framework/preemption/*_test.go``                     ``tests/unit/preemption``
=====================================================  =============================================
IsPodRunningPreemption                                 the_preemptor_is_gated_until_its_…,
                                                       the_last_victim_may_be_gone_before_the_…
PrepareCandidate: victim is terminating                terminating_victims_are_awaited_and_…
… victim is not found                                  a_victim_that_is_gone_already_is_no_failure
… condition is there already                           kube/test_pod_status
… patch or delete fails                                what_fails_half_way_is_tried_again
AsyncPreemptionFailure                                 what_fails_half_way_is_tried_again,
                                                       trouble_of_the_api_server_is_ridden_out
RemoveNominatedNodeName                                a_less_important_nominee_loses_its_…
PreemptPod: waits in Permit or PreBind                 a_pod_that_is_not_bound_yet_is_called_off
CallExtenders (8)                                      kube/test_extenders
FilterVictimsWithPDB                                   plugins: budgets_are_counted,
                                                       plugins: budgets_that_match_no_pod
=====================================================  =============================================
"""

import re
from pathlib import Path

import pytest

from scheduler.framework.decision import Park, Preempt
from scheduler.plugins import InterPodAffinity, NodeResourcesFit, PodTopologySpread
from tests.unit.plugins.preempting import FOO, HIGH, LOW, MID, VICTIM, node, pod, preempt, profile


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


def test_a_second_attempt_evicts_no_more_pods():
    """In its next attempt, nominated and with a terminating victim, the pod waits."""
    incoming = pod("p", "large", HIGH)
    nodes = [node("a", "large"), node("b", "large")]
    pods = [pod("x", "large", LOW, "a"), pod("y", "large", MID, "b")]
    first = preempt(incoming, nodes, pods)
    going = pod("x", "large", LOW, "a", terminating=True, status={"conditions": [VICTIM]})
    second = preempt(incoming.nominated_to(first.node), nodes, [going, pods[1]])

    assert first.node == "a"
    assert isinstance(second, Park)
    assert second.message.endswith("due to a terminating pod on the nominated node.")


NAMED = re.compile(r"(?<![\w/])([a-z]+(?:_[a-z0-9]+)+_?)(…?)")


@pytest.mark.parametrize("room", ["unit/plugins", "integration"])
def test_every_test_that_upstreams_are_held_by_exists(room):
    tests = Path(__file__).parents[2]
    table = (tests / room / "test_upstream_preemption.py").read_text().split('"""')[1]
    sources = "\n".join(path.read_text() for path in tests.rglob("test_*.py"))
    rows = [line for line in table.splitlines() if "  " in line.strip() or line.startswith("  ")]
    named = NAMED.findall("\n".join(row.split("  ")[-1] for row in rows))

    def exists(name, cut):
        if name.startswith("test_"):
            return any(tests.rglob(f"{name}.py"))
        return re.search(rf"def test_{name}" + ("" if cut else r"\("), sources)

    assert len(named) > 20
    assert [name for name, cut in named if not exists(name, cut)] == []
