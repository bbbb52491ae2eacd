"""What may help a pod that has no company, or too much."""

import pytest

from scheduler.framework.cluster_event import NODE, POD, Action
from scheduler.testing import make_node, make_pod
from tests.unit.plugins.affinities import BAD, PLUGIN, term, wants
from tests.unit.plugins.plugin_calls import wakes

NEAR = make_pod("target", labels="foo", **wants(near=[term("zone", "app In web")]))
NEAR_TWO = make_pod(**wants(near=[term("zone", "app In web"), term("rack", "tier In x")]))
APART = make_pod("target", labels="foo", **wants(apart=[term("zone", "app In web")]))
APART_TWO = make_pod(**wants(apart=[term("zone", "app In web"), term("rack", "tier In x")]))
PLAIN = make_pod("target", labels="foo")
WEB = make_pod("other", node="a", labels="app=web")
WEB_X = make_pod("other", node="a", labels="app=web, tier=x")
DB = make_pod("other", node="a", labels="app=db")
SHY = make_pod("other", node="a", **wants(apart=[term("zone", "foo Exists")]))
FLOATING = make_pod("other", labels="app=web")
NOMINATED = make_pod("other", nominated="a", labels="app=web")
IN_TEAM1 = make_pod(**wants(near=[term("zone", "app In web", where="team In team1")]))
ANYWHERE = make_pod(**wants(near=[term("zone", "app In web", where="")]))
UNREADABLE = make_pod(**wants(near=[term("zone", BAD)]))
ADD, DELETE, LABELS = Action.ADD, Action.DELETE, Action.UPDATE_POD_LABEL
POD_HINTS = [
    ("company comes", NEAR, ADD, None, WEB, True),
    ("others come", NEAR, ADD, None, DB, False),
    ("company comes that has no node", NEAR, ADD, None, FLOATING, False),
    ("company is nominated", NEAR, ADD, None, NOMINATED, True),
    ("company for one of two terms", NEAR_TWO, ADD, None, WEB, False),
    ("company for both terms", NEAR_TWO, ADD, None, WEB_X, True),
    ("company comes, but distance was wanted", APART, ADD, None, WEB, False),
    ("company in any namespace", ANYWHERE, ADD, None, WEB, True),
    ("labels of namespaces are not seen", IN_TEAM1, ADD, None, WEB, False),
    ("somebody becomes company", NEAR, LABELS, DB, WEB, True),
    ("somebody is company still", NEAR, LABELS, WEB, WEB_X, False),
    ("somebody is company no more", NEAR, LABELS, WEB, DB, False),
    ("an unwanted one becomes another", APART, LABELS, WEB, DB, True),
    ("an unwanted one stays so", APART, LABELS, WEB, WEB_X, False),
    ("somebody becomes unwanted", APART, LABELS, DB, WEB, False),
    ("its own labels change", PLAIN, LABELS, PLAIN, PLAIN, True),
    ("labels of a pod without a node", NEAR, LABELS, FLOATING, FLOATING, False),
    ("an unwanted one goes", APART, DELETE, WEB, None, True),
    ("another goes", APART, DELETE, DB, None, False),
    ("one that only one of two terms is about goes", APART_TWO, DELETE, WEB, None, False),
    ("one that both terms are about goes", APART_TWO, DELETE, WEB_X, None, True),
    ("one that wanted distance goes", PLAIN, DELETE, SHY, None, True),
    ("one that wanted distance to others goes", make_pod(), DELETE, SHY, None, False),
    ("company goes", NEAR, DELETE, WEB, None, False),
    ("anything, where the terms cannot be read", UNREADABLE, ADD, None, DB, True),
]


@pytest.mark.parametrize(
    ("pod", "action", "old", "new", "expected"),
    [pytest.param(*case[1:], id=case[0]) for case in POD_HINTS],
)
def test_other_pods_may_help(pod, action, old, new, expected):
    assert wakes(PLUGIN, pod, POD, action, old, new) is expected


def zoned(words):
    return make_node("a", metadata={"labels": dict(pair.split("=") for pair in words.split())})


NODE_LABELS = Action.UPDATE_NODE_LABEL
NODE_HINTS = [
    ("a node with the key comes", NEAR, ADD, None, zoned("zone=1"), True),
    ("a node without the key comes", NEAR, ADD, None, zoned("rack=1"), False),
    ("a node with one of two keys comes", NEAR_TWO, ADD, None, zoned("rack=1"), True),
    ("any node comes, for distance", APART, ADD, None, zoned("rack=1"), True),
    ("the key appears", NEAR, NODE_LABELS, zoned("rack=1"), zoned("zone=1"), True),
    ("the zone changes", NEAR, NODE_LABELS, zoned("zone=1"), zoned("zone=2"), True),
    ("the key disappears", NEAR, NODE_LABELS, zoned("zone=1"), zoned("rack=1"), False),
    ("the zone stays", NEAR, NODE_LABELS, zoned("zone=1"), zoned("zone=1 rack=1"), False),
    ("distance: the key appears", APART, NODE_LABELS, zoned("rack=1"), zoned("zone=1"), False),
    ("distance: the zone changes", APART, NODE_LABELS, zoned("zone=1"), zoned("zone=2"), True),
    ("distance: the key disappears", APART, NODE_LABELS, zoned("zone=1"), zoned("rack=1"), True),
    ("a pod without terms gets a node", PLAIN, ADD, None, zoned("zone=1"), False),
    ("and new labels", PLAIN, NODE_LABELS, zoned("zone=1"), zoned("zone=2"), False),
    ("anything, where the terms cannot be read", UNREADABLE, ADD, None, zoned(""), True),
]


@pytest.mark.parametrize(
    ("pod", "action", "old", "new", "expected"),
    [pytest.param(*case[1:], id=case[0]) for case in NODE_HINTS],
)
def test_nodes_may_help(pod, action, old, new, expected):
    assert wakes(PLUGIN, pod, NODE, action, old, new) is expected


def test_other_changes_wake_no_pod():
    assert not wakes(PLUGIN, NEAR, NODE, Action.UPDATE_NODE_TAINT, zoned("zone=1"), zoned("zone=2"))
    assert not wakes(PLUGIN, NEAR, POD, Action.UPDATE_POD_TOLERATION, WEB, WEB)
