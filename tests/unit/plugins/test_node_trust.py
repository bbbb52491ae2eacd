"""Nodes that broke a promise are spared the owner's next pods."""

import pytest

from scheduler.framework.cluster_event import ASSIGNED_POD, NODE, Action
from scheduler.framework.rejection import Skip
from scheduler.model.trust import (
    NODE_DISTRUST,
    distrust,
    is_rejected_by_kubelet,
    owner_of,
    rejected_at,
)
from scheduler.plugins import IN_TREE, NodeTrust
from scheduler.snapshot.node_table import NodeTable
from scheduler.testing import make_node, make_pod
from tests.unit.plugins.plugin_calls import OK, UAU, answers, columns_of, wakes

WHY = "lately refused a pod of the same owner (OutOfcpu)"
PLUGIN = NodeTrust()


def replica(name="web-1", owner="web", **more):
    reference = {"kind": "ReplicaSet", "name": owner, "uid": f"{owner}-uid", "controller": True}
    return make_pod(name, metadata={"ownerReferences": [reference]}, **more)


def table(*held, pods=()):
    columns = columns_of([make_node(name) for name in "abc"], pods)
    for each in held:
        columns.objects.put(NODE_DISTRUST, each)
    return NodeTable(columns)


def test_an_owner_is_the_controller_or_the_pod_itself():
    assert owner_of(replica("web-1")) == owner_of(replica("web-2")) == "web-uid"
    assert owner_of(make_pod("bare")) == "uid-default-bare"
    nameless = {"ownerReferences": [{"kind": "Job", "name": "j", "controller": True}]}
    assert owner_of(make_pod("by-hand", metadata=nameless)) == "Job default/j"


def test_a_banned_node_is_rejected_and_not_resolvable():
    """Evicting pods there would be in vain."""
    nodes = table(distrust("web-uid", "b", WHY))

    assert answers(PLUGIN, replica(), nodes) == {
        "a": (OK, ()),
        "b": (UAU, (f"node(s) {WHY}",)),
        "c": (OK, ()),
    }


def test_it_concerns_one_owner():
    nodes = table(distrust("web-uid", "b", WHY))

    assert PLUGIN.pre_filter(replica(owner="db"), nodes) == Skip()
    assert PLUGIN.pre_filter(make_pod("bare"), nodes) == Skip()
    assert PLUGIN.pre_filter(replica(), nodes) is None


def test_reasons_are_separate_and_deleted_nodes_have_none():
    nodes = table(
        distrust("web-uid", "a", WHY), distrust("web-uid", "c", "x"), distrust("web-uid", "z", WHY)
    )

    found = answers(PLUGIN, replica(), nodes)

    assert [found[name][1] for name in "abc"] == [(f"node(s) {WHY}",), (), ("node(s) x",)]


def test_on_trial_one_pod_goes_at_a_time():
    """The next may come once the kubelet has let the one before in."""
    held = distrust("web-uid", "b", WHY, on_trial=True)
    started = {"startTime": "2026-01-01T00:00:00Z"}

    def verdict(*pods):
        return answers(PLUGIN, replica("web-9"), table(held, pods=pods))["b"]

    assert verdict() == (OK, ())
    assert verdict(replica("web-1", node="b")) == (
        UAU,
        ("node(s) are being tried again with another pod of the same owner",),
    )
    assert verdict(replica("web-1", node="b", status=started)) == (OK, ())
    assert verdict(replica("db-1", "db", node="b")) == (OK, ())
    assert verdict(replica("web-1", node="a")) == (OK, ())


def test_it_runs_first_and_by_default():
    own = list(IN_TREE)[:2]

    assert own == ["UnsupportedFeatures", "NodeTrust"]


BAN = distrust("web-uid", "b", WHY)
TRIAL = distrust("web-uid", "b", WHY, on_trial=True)
SCOUT = replica("web-1", node="b")


@pytest.mark.parametrize(
    ("what", "resource", "action", "old", "new", "expected"),
    [
        ("the ban is over", NODE_DISTRUST, Action.UPDATE, BAN, TRIAL, True),
        ("a new ban", NODE_DISTRUST, Action.UPDATE, TRIAL, BAN, False),
        ("all is forgotten", NODE_DISTRUST, Action.DELETE, TRIAL, None, True),
        ("another owner's", NODE_DISTRUST, Action.DELETE, distrust("db", "b", WHY), None, False),
        ("another node", NODE, Action.ADD, None, make_node("d"), True),
        ("the one before was let in", NODE_DISTRUST, Action.UPDATE, TRIAL, TRIAL, True),
        ("the one before is gone", ASSIGNED_POD, Action.DELETE, SCOUT, None, True),
        ("another's is gone", ASSIGNED_POD, Action.DELETE, replica("db-1", "db"), None, False),
    ],
    ids=lambda value: value if isinstance(value, str) and " " in value else "",
)
def test_what_wakes_a_pod(what, resource, action, old, new, expected):
    assert wakes(PLUGIN, replica("web-9"), resource, action, old, new) is expected


@pytest.mark.parametrize(
    ("status", "node", "expected"),
    [
        ({"phase": "Failed", "reason": "OutOfcpu"}, "a", True),
        ({"phase": "Failed", "reason": "OutOfexample.com/gpu"}, "a", True),
        ({"phase": "Failed", "reason": "NodeAffinity"}, "a", True),
        ({"phase": "Failed", "reason": "UnexpectedAdmissionError"}, "a", True),
        ({"phase": "Failed", "reason": "TopologyAffinityError"}, "a", True),
        ({"phase": "Failed", "reason": "Evicted"}, "a", False),
        ({"phase": "Failed"}, "a", False),
        ({"phase": "Running", "reason": "OutOfcpu"}, "a", False),
        ({"phase": "Failed", "reason": "OutOfcpu"}, "", False),
    ],
)
def test_which_failures_are_rejections_by_a_kubelet(status, node, expected):
    assert is_rejected_by_kubelet(make_pod(node=node, status=status)) is expected


def test_when_a_pod_was_rejected():
    """Some kubelets write no start time; then it was not long after the binding."""
    bound = {"type": "PodScheduled", "status": "True", "lastTransitionTime": "1970-01-01T00:00:50Z"}

    assert rejected_at(make_pod(status={"startTime": "1970-01-01T00:01:00Z"})) == 60
    assert rejected_at(make_pod(status={"conditions": [bound]})) == 50
    parked = {**bound, "status": "False"}
    assert rejected_at(make_pod(status={"conditions": [parked]})) is None
    assert rejected_at(make_pod(status={"startTime": "soon"})) is None
    assert rejected_at(make_pod()) is None
