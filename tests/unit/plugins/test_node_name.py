"""A pod that names its node goes nowhere else."""

import pytest

from scheduler.framework.cluster_event import NODE, Action
from scheduler.plugins import NodeName
from scheduler.testing import make_node, make_pod
from tests.unit.plugins.plugin_calls import OK, UAU, answers, codes, table_of, wakes


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        pytest.param("", [OK, OK], id="no name fits everywhere"),
        pytest.param("foo", [OK, UAU], id="the node of that name"),
        pytest.param("nobody", [UAU, UAU], id="a name that no node has"),
    ],
)
def test_only_the_named_node_will_do(wanted, expected):
    nodes = table_of([make_node("foo"), make_node("bar")])

    assert codes(NodeName(), make_pod(node=wanted), nodes) == expected


def test_the_reason_is_upstreams():
    found = answers(NodeName(), make_pod(node="bar"), table_of([make_node("foo")]))

    assert found == {"foo": (UAU, ("node(s) didn't match the requested node name",))}


def test_any_new_node_wakes_the_pod():
    assert wakes(NodeName(), make_pod(node="a"), NODE, Action.ADD, None, make_node("b"))
