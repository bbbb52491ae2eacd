"""Spreading pods of a kind over domains."""

import pytest

from scheduler.errors import MalformedObject
from scheduler.framework.rejection import Skip
from scheduler.testing import make_node, make_pod
from tests.unit.plugins.plugin_calls import OK, UAU, U, answers, codes, table_of
from tests.unit.plugins.spreading import (
    ABXY,
    BAR,
    IN_A_Y,
    LABEL_MISSING,
    NOT_IN_B,
    PLUGIN,
    SOFT,
    TYPO,
    incoming,
    node,
    placed,
    spread,
)

BOTH = [spread("zone"), spread("node")]
FOO_ZONE_BAR_NODE = [spread("zone"), spread("node", selector=BAR)]
FILTER = [
    ("no pods", ABXY, "", incoming(spread("zone")), [OK] * 4),
    ("even zones", ABXY, "a2 b1 y3", incoming(spread("zone")), [OK] * 4),
    ("uneven zones", ABXY, "a2 b1 y2", incoming(spread("zone")), [U, U, OK, OK]),
    ("a typo in a label", TYPO, "a1 b1 x1 y1", incoming(spread("zone")), [OK, UAU, U, U]),
    ("a key that no node has", ABXY, "a1", incoming(spread("rack")), [UAU] * 4),
    ("nodes", ABXY, "a2 b1 y3", incoming(spread("node")), [U, U, OK, U]),
    ("nodes, skew 2", ABXY, "a2 b1 y3", incoming(spread("node", 2)), [U, OK, OK, U]),
    ("it is not one of them", ABXY, "a2 b1 y3", incoming(spread("node"), labels=""),
     [U, OK, OK, U]),
    ("excluded nodes do not count, but fit here", ABXY, "a2 b1 y3",
     incoming(spread("node"), **IN_A_Y), [OK, OK, OK, U]),
    ("excluded nodes count with Ignore", ABXY, "a2 b1 y3",
     incoming(spread("node", nodeAffinityPolicy="Ignore"), **IN_A_Y), [U, U, OK, U]),
    ("an excluded node of a zone", ABXY, "b2 y1", incoming(spread("zone"), **NOT_IN_B),
     [OK, OK, U, U]),
    ("a selector excludes too", ABXY, "b2 y1",
     incoming(spread("zone"), node_selector="node=y"), [OK, OK, OK, OK]),
    ("too few domains", ABXY[:3], "a2 b2 x1", incoming(spread("node", 2, minDomains=4)),
     [U, U, OK]),
    ("enough domains", ABXY[:3], "a2 b2 x1", incoming(spread("node", 2, minDomains=2)), [OK] * 3),
    ("too few zones", ABXY, "a1 b1 x1", incoming(spread("zone", 2, minDomains=3)), [U, U, OK, OK]),
    ("enough zones", ABXY, "a1 b1 x1", incoming(spread("zone", 2, minDomains=1)), [OK] * 4),
    ("zone and node", ABXY, "a2 b1 y3", incoming(*BOTH), [U, U, OK, U]),
    ("zone and node, none", ABXY, "a2 b1 y4", incoming(*BOTH), [U] * 4),
    ("foo by zone, bar by node", ABXY, "a y:bar",
     incoming(*FOO_ZONE_BAR_NODE, labels="foo, bar"), [U, U, OK, U]),
    ("foo by zone, bar by node, none", ABXY, "a x:bar y:bar",
     incoming(*FOO_ZONE_BAR_NODE, labels="foo, bar"), [U] * 4),
    ("foo by zone, bar by node, one left", ABXY, "a2 x3 a:bar y:bar",
     incoming(*FOO_ZONE_BAR_NODE, labels="foo, bar"), [U, OK, U, U]),
    ("it is bar, not foo", ABXY, "a x:bar y:bar", incoming(*FOO_ZONE_BAR_NODE, labels="bar"),
     [OK, OK, U, U]),
    ("a node without a key counts for no constraint", LABEL_MISSING, "a1 y1", incoming(*BOTH),
     [U, OK, UAU, U]),
    ("pods on such a node count neither", LABEL_MISSING, "a1 x5 y1", incoming(*BOTH),
     [U, OK, UAU, U]),
    ("a missing key of a later constraint", LABEL_MISSING, "a1 b1", incoming(*BOTH),
     [U, U, UAU, OK]),
    ("an earlier constraint speaks first", LABEL_MISSING, "x1 y1", incoming(*BOTH),
     [OK, OK, U, U]),
    ("no selector matches nothing", ABXY, "a5", incoming(spread("node", selector=None)),
     [OK] * 4),
    ("an empty selector counts nobody", ABXY, "a5", incoming(spread("node", selector={})),
     [OK] * 4),
    ("two constraints on one key", ABXY, "a:bar x",
     incoming(spread("zone"), spread("zone", selector=BAR), labels="foo, bar"), [U] * 4),
]  # fmt: skip


@pytest.mark.parametrize(
    ("nodes", "pods", "pod", "expected"), [pytest.param(*case[1:], id=case[0]) for case in FILTER]
)
def test_uneven_nodes_are_rejected(nodes, pods, pod, expected):
    assert codes(PLUGIN, pod, table_of(nodes, placed(pods))) == expected


def test_the_reasons_are_upstreams():
    found = answers(PLUGIN, incoming(spread("zone")), table_of(TYPO, placed("a1 b1 x1 y1")))

    reason = "node(s) didn't match pod topology spread constraints"
    assert found["b"] == (UAU, (f"{reason} (missing required label)",))
    assert found["x"] == (U, (reason,))


def test_terminating_pods_are_not_counted():
    pods = [
        make_pod("going", node="a", labels="foo", terminating=True),
        make_pod("staying", node="b", labels="foo"),
    ]

    assert codes(PLUGIN, incoming(spread("node")), table_of(ABXY[:2], pods)) == [OK, U]


def test_an_empty_selector_counts_nobody_in_any_world():
    nodes = table_of(ABXY, placed("a2 b1"))
    nominated = make_pod("nominated", labels="foo")
    what_if = nodes.each(adding={0: [nominated]})

    for table in (nodes, what_if):
        assert codes(PLUGIN, incoming(spread("node", labelSelector={})), table) == [OK] * 4


def test_pods_of_other_namespaces_are_not_counted():
    nodes = table_of(ABXY, placed("a2", namespace="other"))

    assert codes(PLUGIN, incoming(spread("node")), nodes) == [OK] * 4


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        pytest.param({"nodeTaintsPolicy": "Honor"}, [OK, OK, OK], id="honored"),
        pytest.param({"nodeTaintsPolicy": "Ignore"}, [U, U, OK], id="ignored"),
        pytest.param({}, [U, U, OK], id="ignored by default"),
    ],
)
def test_tainted_nodes_count_or_not(more, expected):
    tainted = make_node("x", metadata={"labels": {"node": "x"}}, taints="foo:NoSchedule")
    nodes = table_of([node("a"), node("b"), tainted], placed("a1 b1"))

    assert codes(PLUGIN, incoming(spread("node", **more)), nodes) == expected


def test_labels_named_by_the_constraint_narrow_its_selector():
    pod = incoming(spread("node", matchLabelKeys=["rev", "absent"]), labels="foo, rev=2")
    pods = [
        make_pod("old", node="a", labels="foo, rev=1"),
        make_pod("new", node="b", labels="foo, rev=2"),
    ]

    assert codes(PLUGIN, pod, table_of(ABXY, pods)) == [OK, U, OK, OK]


@pytest.mark.parametrize(
    ("selector", "expected"),
    [pytest.param(None, OK, id="nothing"), pytest.param({}, U, id="those labels alone")],
)
def test_such_labels_narrow_nothing_and_everything(selector, expected):
    pod = incoming(spread("node", selector=selector, matchLabelKeys=["rev"]), labels="rev=2")
    nodes = table_of(ABXY, [make_pod("new", node="b", labels="rev=2")])

    assert codes(PLUGIN, pod, nodes) == [OK, expected, OK, OK]


@pytest.mark.parametrize(
    "pod",
    [
        pytest.param(make_pod(), id="no constraints"),
        pytest.param(incoming(spread("zone", action=SOFT)), id="soft constraints"),
    ],
)
def test_pods_without_hard_constraints_are_skipped(pod):
    assert PLUGIN.pre_filter(pod, table_of(ABXY)) == Skip()


def test_an_invalid_selector_cannot_be_judged():
    selector = {"matchExpressions": [{"key": "foo", "operator": "Gt", "values": ["1"]}]}

    with pytest.raises(MalformedObject, match=r"^spec\.topologySpreadConstraints\[0\]"):
        PLUGIN.pre_filter(incoming(spread("zone", selector=selector)), table_of(ABXY))


def test_a_part_of_the_cluster_is_judged_by_all_of_it():
    nodes = table_of(ABXY, placed("a2 b1 y3"))

    assert codes(PLUGIN, incoming(spread("node")), nodes.select(nodes.named("ab"))) == [U, U]
