"""Features of kubelets that pods need."""

import pytest

from scheduler.framework.cluster_event import NODE, POD, Action
from scheduler.framework.rejection import Skip
from scheduler.plugins import NodeDeclaredFeatures
from scheduler.snapshot.node_table import NodeTable
from scheduler.testing import make_node, make_pod
from tests.unit.plugins.plugin_calls import OK, UAU, answers, codes, columns_of, table_of, wakes

PLUGIN = NodeDeclaredFeatures()
RESTARTS, USERS = "RestartAllContainersOnContainerExits", "UserNamespacesHostNetworkSupport"
RULES = {"restartPolicyRules": [{"action": "RestartAllContainers"}]}
RESTARTING = make_pod("pod", containers=[{"name": "main", **RULES}])


def node(*features, name="n"):
    return make_node(name, status={"declaredFeatures": list(features)})


@pytest.mark.parametrize(
    ("wish", "features", "expected"),
    [
        ({"containers": [{"name": "main", **RULES}]}, [RESTARTS], OK),
        ({"containers": [{"name": "main", **RULES}]}, [RESTARTS, "Other"], OK),
        ({"containers": [{"name": "main", **RULES}]}, ["Other"], UAU),
        ({"containers": [{"name": "main", **RULES}]}, [], UAU),
        ({"init_containers": [{"name": "first", **RULES}]}, [], UAU),
        ({"host_network": True, "host_users": False}, [USERS], OK),
        ({"host_network": True, "host_users": False}, [RESTARTS], UAU),
        (
            {
                "host_network": True,
                "host_users": False,
                "init_containers": [{"name": "i", **RULES}],
            },
            [USERS],
            UAU,
        ),
    ],
)
def test_a_pod_goes_where_its_features_are(wish, features, expected):
    nodes = table_of([node(*features)])

    assert codes(PLUGIN, make_pod(**wish), nodes) == [expected]
    if expected == UAU:
        assert answers(PLUGIN, make_pod(**wish), nodes)["n"][1] == (
            "node(s) didn't match Pod's required features",
        )


@pytest.mark.parametrize(
    "wish",
    [
        {},
        {"host_network": True},
        {"host_network": True, "host_users": True},
        {"host_users": False},
        {"containers": [{"name": "m", "restartPolicyRules": [{"action": "Restart"}]}]},
    ],
)
def test_other_pods_run_anywhere(wish):
    assert PLUGIN.pre_filter(make_pod(**wish), table_of([node()])) == Skip()


def test_features_follow_the_node():
    columns = columns_of([node(RESTARTS, name="a"), node(name="b"), node(RESTARTS, name="c")])

    columns.update_node(node(RESTARTS, name="b"))
    columns.update_node(node("Other", name="c"))
    columns.remove_node("a")

    found = answers(PLUGIN, RESTARTING, NodeTable(columns))
    assert {name: code for name, (code, _) in found.items()} == {"b": OK, "c": UAU}


CHANGED = Action.UPDATE_NODE_DECLARED_FEATURE


@pytest.mark.parametrize(
    ("resource", "action", "old", "new", "expected"),
    [
        (NODE, Action.ADD, None, node(), True),
        (NODE, CHANGED, node(), node(RESTARTS), True),
        (NODE, CHANGED, node("a", "b"), node("b", "a"), True),
        (NODE, CHANGED, node("a"), node("a"), False),
        (POD, Action.UPDATE, RESTARTING, make_pod("pod"), True),
        (POD, Action.UPDATE, RESTARTING, RESTARTING, False),
        (POD, Action.UPDATE, make_pod("other"), make_pod("other"), False),
    ],
)
def test_what_could_help(resource, action, old, new, expected):
    assert wakes(PLUGIN, RESTARTING, resource, action, old, new) == expected
