"""Which changes may help a pod that fits nowhere evenly."""

import pytest

from scheduler.framework.cluster_event import NODE, POD, Action
from scheduler.testing import make_node, make_pod
from tests.unit.plugins.plugin_calls import wakes
from tests.unit.plugins.spreading import BAR, HARD_HOST, PLUGIN, incoming, listed, spread

LABEL, TOLERATION = Action.UPDATE_POD_LABEL, Action.UPDATE_POD_TOLERATION
TARGET = incoming(spread("zone"), spread("node", selector=BAR))
HONORING = incoming(spread("zone", nodeTaintsPolicy="Honor"))


def other(labels="foo", **more):
    return make_pod("other", labels=labels, **({"node": "a"} | more))


POD_HINTS = [
    ("a counted pod came", TARGET, Action.ADD, None, other(), True),
    ("counted by the second constraint", TARGET, Action.ADD, None, other("bar"), True),
    ("another kind came", TARGET, Action.ADD, None, other("baz"), False),
    ("one without a node", TARGET, Action.ADD, None, other(node=""), False),
    ("one that is nominated", TARGET, Action.ADD, None, other(node="", nominated="a"), True),
    ("one of another namespace", TARGET, Action.ADD, None, other(namespace="x"), False),
    ("a counted pod went", TARGET, Action.DELETE, other(), None, True),
    ("another kind went", TARGET, Action.DELETE, other("baz"), None, False),
    ("it became counted", TARGET, LABEL, other(""), other(), True),
    ("it is counted no more", TARGET, LABEL, other(), other(""), True),
    ("from one kind to the other", TARGET, LABEL, other(), other("bar"), True),
    ("a label that does not matter", TARGET, LABEL, other("foo"), other("foo, x"), False),
    ("the pod's own label", TARGET, LABEL, TARGET, incoming(labels=""), True),
    ("the pod's own tolerations", HONORING, TOLERATION, HONORING,
     incoming(tolerations="x"), True),
    ("the pod's own tolerations, taints ignored", TARGET, TOLERATION, TARGET,
     incoming(tolerations="x"), False),
    ("another pod's tolerations", HONORING, TOLERATION, other(), other(tolerations="x"), False),
]  # fmt: skip


@pytest.mark.parametrize(
    ("pod", "action", "old", "new", "expected"),
    [pytest.param(*case[1:], id=case[0]) for case in POD_HINTS],
)
def test_changed_counts_wake_the_pod(pod, action, old, new, expected):
    assert wakes(PLUGIN, pod, POD, action, old, new) == expected


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        pytest.param(None, other(), True, id="came"),
        pytest.param(other(), other("bar"), True, id="changed its labels"),
        pytest.param(other(), other(tolerations="x"), False, id="changed something else"),
    ],
)
def test_with_default_constraints_any_pod_of_the_namespace_may_count(old, new, expected):
    action = Action.ADD if old is None else LABEL

    assert wakes(listed(HARD_HOST), make_pod(), POD, action, old, new) == expected


def test_an_invalid_selector_is_in_doubt():
    selector = {"matchExpressions": [{"key": "foo", "operator": "Gt", "values": ["1"]}]}
    pod = incoming(spread("zone", selector=selector))

    assert wakes(PLUGIN, pod, POD, Action.ADD, None, other())


def zoned(zone="zone1", name="a", **more):
    return make_node("n", metadata={"labels": {"zone": zone, "node": name}}, **more)


BARE = make_node("n")
NODE_LABEL, NODE_TAINT = Action.UPDATE_NODE_LABEL, Action.UPDATE_NODE_TAINT
NODE_HINTS = [
    ("one with all keys came", TARGET, Action.ADD, None, zoned(), True),
    ("one without a key came", TARGET, Action.ADD, None, BARE, False),
    ("one with all keys went", TARGET, Action.DELETE, zoned(), None, True),
    ("one without a key went", TARGET, Action.DELETE, BARE, None, False),
    ("it got its keys", TARGET, NODE_LABEL, BARE, zoned(), True),
    ("it lost its keys", TARGET, NODE_LABEL, zoned(), BARE, True),
    ("it moved", TARGET, NODE_LABEL, zoned(), zoned("zone2"), True),
    ("other labels changed", incoming(spread("zone")), NODE_LABEL, zoned(), zoned(name="b"), False),
    ("its taints changed", TARGET, NODE_TAINT, zoned(), zoned(taints="x:NoSchedule"), True),
    ("without keys, its taints changed", TARGET, NODE_TAINT, BARE,
     make_node("n", taints="x:NoSchedule"), False),
    ("no constraint: any node", make_pod(), Action.ADD, None, BARE, True),
]  # fmt: skip


@pytest.mark.parametrize(
    ("pod", "action", "old", "new", "expected"),
    [pytest.param(*case[1:], id=case[0]) for case in NODE_HINTS],
)
def test_changed_domains_wake_the_pod(pod, action, old, new, expected):
    assert wakes(PLUGIN, pod, NODE, action, old, new) == expected
