"""Cordoned nodes."""

import pytest

from scheduler.framework.cluster_event import NODE, POD, Action
from scheduler.plugins import NodeUnschedulable
from scheduler.testing import make_node, make_pod
from tests.unit.plugins.plugin_calls import OK, UAU, answers, codes, table_of, wakes

CORDON = "node.kubernetes.io/unschedulable"
PLUGIN = NodeUnschedulable()


@pytest.mark.parametrize(
    ("tolerations", "expected"),
    [
        pytest.param([], [OK, UAU], id="no toleration"),
        pytest.param(["*"], [OK, OK], id="everything tolerated"),
        pytest.param([f"{CORDON}:NoSchedule"], [OK, OK], id="the cordon tolerated"),
        pytest.param(
            [{"key": CORDON, "effect": "NoSchedule"}], [OK, OK], id="an empty value equals it"
        ),
        pytest.param([f"{CORDON}=x:NoSchedule"], [OK, UAU], id="another value"),
        pytest.param([f"{CORDON}:NoExecute"], [OK, UAU], id="another effect"),
    ],
)
def test_a_cordon_counts_like_a_taint(tolerations, expected):
    nodes = table_of([make_node("open"), make_node("cordoned", unschedulable=True)])

    assert codes(PLUGIN, make_pod(tolerations=tolerations), nodes) == expected


def test_the_taint_of_a_cordon_alone_is_not_its_business():
    assert codes(PLUGIN, make_pod(), table_of([make_node(taints=f"{CORDON}:NoSchedule")])) == [OK]


def test_the_reason_is_upstreams():
    found = answers(PLUGIN, make_pod(), table_of([make_node("a", unschedulable=True)]))

    assert found == {"a": (UAU, ("node(s) were unschedulable",))}


OPEN, SHUT = make_node("a"), make_node("a", unschedulable=True)


@pytest.mark.parametrize(
    ("action", "old", "new", "expected"),
    [
        pytest.param(Action.ADD, None, OPEN, True, id="an open node is added"),
        pytest.param(Action.ADD, None, SHUT, False, id="a cordoned node is added"),
        pytest.param(Action.UPDATE_NODE_TAINT, SHUT, OPEN, True, id="uncordoned"),
        pytest.param(Action.UPDATE_NODE_TAINT, OPEN, OPEN, False, id="open before"),
        pytest.param(Action.UPDATE_NODE_TAINT, SHUT, SHUT, False, id="still cordoned"),
        pytest.param(Action.UPDATE_NODE_LABEL, SHUT, OPEN, False, id="not that event"),
    ],
)
def test_an_opened_node_wakes_the_pod(action, old, new, expected):
    assert wakes(PLUGIN, make_pod(), NODE, action, old, new) == expected


@pytest.mark.parametrize(
    ("name", "tolerations", "expected"),
    [
        pytest.param("pod", [f"{CORDON}:NoSchedule"], True, id="its own toleration"),
        pytest.param("pod", ["foo"], False, id="its own, which does not help"),
        pytest.param("other", [f"{CORDON}:NoSchedule"], False, id="of another pod"),
    ],
)
def test_a_new_toleration_wakes_its_pod(name, tolerations, expected):
    new = make_pod(name, tolerations=tolerations)

    found = wakes(PLUGIN, make_pod("pod"), POD, Action.UPDATE_POD_TOLERATION, make_pod(name), new)

    assert found == expected
