"""Constraints that are wished for: fewer pods around are better."""

import pytest

from scheduler.testing import make_pod
from tests.unit.plugins.plugin_calls import scores, table_of
from tests.unit.plugins.spreading import (
    ABXY,
    BAR,
    HOST4,
    HOSTNAME,
    IN_A_Y,
    NOT_IN_B,
    PLUGIN,
    incoming,
    node,
    placed,
    soft,
    spread,
)

NO_HOST_B = [node("a"), node("b", without=[HOSTNAME]), node("x")]
SCORES = [
    ("no pods", HOST4[:2], "", incoming(soft(HOSTNAME)), "ab", [100, 100]),
    ("one candidate", HOST4[:2], "a2 b1", incoming(soft(HOSTNAME)), "a", [100]),
    ("equal counts", HOST4[:2], "a1 b1", incoming(soft(HOSTNAME)), "ab", [100, 100]),
    ("hosts", HOST4, "a2 b1 d3", incoming(soft(HOSTNAME)), "abcd", [20, 60, 100, 0]),
    ("no selector", HOST4, "a2 b1 d3", incoming(soft(HOSTNAME, selector=None)), "abcd", [100] * 4),
    ("hosts, skew 2", HOST4, "a2 b1 d3", incoming(soft(HOSTNAME, 2)), "abcd", [33, 66, 100, 16]),
    ("hosts, skew 3", HOST4, "a4 b3 c2 d1", incoming(soft(HOSTNAME, 3)), "abcd",
     [44, 66, 77, 100]),
    ("one is no candidate", ABXY, "a4 b2 x1 y3", incoming(soft(HOSTNAME)), "abx", [33, 83, 100]),
    ("one lacks the label", NO_HOST_B, "a4 b1 x1", incoming(soft(HOSTNAME)), "abx", [16, 0, 100]),
    ("zones count what is no candidate", ABXY, "a4 b2 x1 y3", incoming(soft("zone")), "abx",
     [75, 75, 100]),
    ("zones and hosts", ABXY, "a2 b1 x2 y4", incoming(soft("zone"), soft(HOSTNAME)), "ax",
     [100, 63]),
    ("two kinds over zones", ABXY, "a3 a:bar b:bar x3 x:bar",
     incoming(soft("zone"), soft("zone", selector=BAR), labels="foo, bar"), "abxy",
     [85, 85, 100, 100]),
    ("foo over zones, bar over hosts", ABXY, "a2 x1 b:bar y:bar",
     incoming(soft("zone"), soft(HOSTNAME, selector=BAR), labels="foo, bar"), "abxy",
     [60, 20, 100, 60]),
    ("foo in one zone, bar over hosts", ABXY, "x2 b:bar y:bar",
     incoming(soft("zone"), soft(HOSTNAME, selector=BAR), labels="foo, bar"), "abxy",
     [100, 60, 40, 0]),
    ("foo over zones, bar over hosts, one no candidate", ABXY, "a2 x1 b:bar y:bar",
     incoming(soft("zone"), soft(HOSTNAME, selector=BAR), labels="foo, bar"), "abx",
     [50, 25, 100]),
    ("minDomains has no say", ABXY, "a4 b2 x1 y3", incoming(soft("zone", minDomains=10)), "abx",
     [75, 75, 100]),
    ("all are ignored", ABXY, "a1", incoming(soft("rack")), "ab", [0, 0]),
]  # fmt: skip


@pytest.mark.parametrize(
    ("nodes", "pods", "pod", "candidates", "expected"),
    [pytest.param(*case[1:], id=case[0]) for case in SCORES],
)
def test_fewer_pods_around_are_better(nodes, pods, pod, candidates, expected):
    table = table_of(nodes, placed(pods))

    assert scores(PLUGIN, pod, table.select(table.named(candidates))) == expected


def test_scores_leave_out_other_namespaces_and_terminating_pods():
    pods = [
        *placed("a1 b2"),
        make_pod("elsewhere", node="a", labels="foo", namespace="other"),
        make_pod("going", node="a", labels="foo", terminating=True),
    ]

    assert scores(PLUGIN, incoming(soft(HOSTNAME)), table_of(HOST4[:2], pods)) == [100, 33]


def test_a_host_counts_its_pods_whatever_policies_say():
    pod = incoming(soft(HOSTNAME), **IN_A_Y)

    assert scores(PLUGIN, pod, table_of(ABXY, placed("a1 b2"))) == [50, 0, 100, 100]


def test_excluded_nodes_do_not_count_for_zones():
    pod = incoming(soft("zone"), **NOT_IN_B)

    assert scores(PLUGIN, pod, table_of(ABXY, placed("a1 b9 x1"))) == [100] * 4


def test_a_pod_without_soft_constraints_is_not_scored():
    assert scores(PLUGIN, incoming(spread("zone")), table_of(ABXY)) is None
    assert scores(PLUGIN, make_pod(labels="foo"), table_of(ABXY)) is None
