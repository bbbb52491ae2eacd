"""Host ports."""

import pytest

from scheduler.framework.cluster_event import NODE, POD, Action
from scheduler.framework.rejection import Skip
from scheduler.plugins import NodePorts
from scheduler.testing import make_node, make_pod
from tests.unit.plugins.plugin_calls import OK, U, answers, codes, table_of, wakes

PLUGIN = NodePorts()


@pytest.mark.parametrize(
    ("used", "wanted", "expected"),
    [
        pytest.param([], ["8080"], OK, id="nothing used"),
        pytest.param(["127.0.0.1:8080/UDP"], ["127.0.0.1:8080/UDP"], U, id="the same"),
        pytest.param(["127.0.0.1:8080/TCP"], ["127.0.0.1:8080/UDP"], OK, id="another protocol"),
        pytest.param(["127.0.0.1:8080/UDP"], ["127.0.0.2:8080/UDP"], OK, id="another address"),
        pytest.param(["127.0.0.1:8001"], ["0.0.0.0:8001"], U, id="any address wanted"),
        pytest.param(["0.0.0.0:8001"], ["127.0.0.1:8001"], U, id="any address used"),
        pytest.param(["127.0.0.1:8001"], ["8001"], U, id="no address is any address"),
        pytest.param(
            ["127.0.0.1:8001"], ["10.0.10.10:8001", "0.0.0.0:8001"], U, id="the second collides"
        ),
        pytest.param(["0.0.0.0:8001/TCP"], ["127.0.0.1:8001/UDP"], OK, id="TCP everywhere"),
        pytest.param(
            ["0.0.0.0:8001/TCP", "0.0.0.0:8001/UDP"],
            ["127.0.0.1:8001/UDP"],
            U,
            id="TCP and UDP everywhere",
        ),
        pytest.param(["8080", "8081"], ["8081", "8082"], U, id="one of two collides"),
        pytest.param(["8080"], [":::8080"], U, id="other families are just other addresses"),
    ],
)
def test_a_host_port_is_had_once(used, wanted, expected):
    nodes = table_of([make_node("a")], [make_pod("x", node="a", host_ports=used)])

    assert codes(PLUGIN, make_pod(host_ports=wanted), nodes) == [expected]


def test_the_reason_is_upstreams():
    nodes = table_of([make_node("a")], [make_pod("x", node="a", host_ports=[80])])

    found = answers(PLUGIN, make_pod(host_ports=[80]), nodes)

    assert found == {"a": (U, ("node(s) didn't have free ports for the requested pod ports",))}


def init(restart):
    ports = [{"hostPort": 8001}]
    return {
        "containers": [{"name": "main"}],
        "init_containers": [{"name": "init", "ports": ports, "restartPolicy": restart}],
    }


def test_ports_of_a_plain_init_container_are_no_host_ports():
    nodes = table_of([make_node("a")], [make_pod("x", node="a", host_ports=[8001])])

    assert PLUGIN.pre_filter(make_pod(**init(None)), nodes) == Skip()
    assert codes(PLUGIN, make_pod(**init("Always")), nodes) == [U]


def test_a_shared_port_stays_taken_until_both_are_gone():
    pods = [make_pod(name, node="a", host_ports=[80]) for name in ("x", "y")]
    nodes = table_of([make_node("a")], pods)

    assert codes(PLUGIN, make_pod(host_ports=[80]), nodes.each(removing={0: pods[:1]})) == [U]
    assert codes(PLUGIN, make_pod(host_ports=[80]), nodes.each(removing={0: pods})) == [OK]


@pytest.mark.parametrize(
    ("gone", "expected"),
    [
        pytest.param({"node": "a", "host_ports": [8080]}, True, id="its port is wanted"),
        pytest.param({"nominated": "a", "host_ports": [8080]}, True, id="it was nominated"),
        pytest.param({"host_ports": [8080]}, False, id="it had no node"),
        pytest.param({"node": "a"}, False, id="it had no port"),
        pytest.param({"node": "a", "host_ports": [9090]}, False, id="it had another port"),
    ],
)
def test_a_freed_port_wakes_the_pod(gone, expected):
    pod = make_pod("pod", host_ports=[8080])

    assert wakes(PLUGIN, pod, POD, Action.DELETE, make_pod("gone", **gone)) == expected


def test_any_new_node_wakes_the_pod():
    assert wakes(PLUGIN, make_pod(host_ports=[80]), NODE, Action.ADD, None, make_node())
