"""Taints and tolerations."""

import pytest

from scheduler.framework.cluster_event import NODE, POD, Action
from scheduler.plugins import TaintToleration
from scheduler.testing import make_node, make_pod
from tests.unit.plugins.plugin_calls import OK, UAU, answers, codes, scores, table_of, wakes

PLUGIN = TaintToleration()
DEDICATED = "dedicated=user1:NoSchedule"
GT = {"key": "level", "operator": "Gt", "value": "750", "effect": "NoSchedule"}


@pytest.mark.parametrize(
    ("taints", "tolerations", "expected"),
    [
        pytest.param([DEDICATED], [], UAU, id="nothing tolerated"),
        pytest.param([DEDICATED], [DEDICATED], OK, id="tolerated"),
        pytest.param([DEDICATED], ["dedicated=user2:NoSchedule"], UAU, id="another value"),
        pytest.param([DEDICATED], ["dedicated"], OK, id="an empty effect covers every effect"),
        pytest.param(["dedicated=x:NoExecute"], ["dedicated"], OK, id="NoExecute too"),
        pytest.param(["a=b:NoExecute"], [], UAU, id="NoExecute repels"),
        pytest.param([DEDICATED], ["dedicated=user1:NoExecute"], UAU, id="another effect"),
        pytest.param([DEDICATED, "b=c:NoSchedule"], [DEDICATED], UAU, id="one of two"),
        pytest.param(["a=b:PreferNoSchedule"], [], OK, id="PreferNoSchedule never filters"),
        pytest.param(
            [DEDICATED],
            [{"operator": "Exists", "effect": "NoSchedule"}],
            OK,
            id="an empty key covers every key",
        ),
        pytest.param(
            ["a=b:NoExecute"],
            [{"operator": "Exists", "effect": "NoSchedule"}],
            UAU,
            id="but not another effect",
        ),
        pytest.param(["foo:NoSchedule"], [{"key": "foo"}], OK, id="empty values are equal"),
        pytest.param(["foo=bar:NoSchedule"], [{"key": "foo"}], UAU, id="an empty value is a value"),
        pytest.param(["level=950:NoSchedule"], [GT], UAU, id="the gate for comparing is off"),
        pytest.param([DEDICATED], [GT, DEDICATED], OK, id="the rest of such a list still works"),
        pytest.param(
            [DEDICATED, "level=950:NoSchedule"], [GT, DEDICATED], UAU, id="but not for the other"
        ),
    ],
)
def test_untolerated_taints_repel(taints, tolerations, expected):
    nodes = table_of([make_node(taints=taints)])

    assert codes(PLUGIN, make_pod(tolerations=tolerations), nodes) == [expected]


def test_the_reason_names_no_taint():
    found = answers(PLUGIN, make_pod(), table_of([make_node("a", taints=DEDICATED)]))

    assert found == {"a": (UAU, ("node(s) had untolerated taint(s)",))}


@pytest.mark.parametrize(
    ("taints_by_node", "tolerations", "expected"),
    [
        pytest.param(
            [[], ["a=b:PreferNoSchedule"], ["a=b:PreferNoSchedule", "c=d:PreferNoSchedule"]],
            [],
            [100, 50, 0],
            id="they are counted",
        ),
        pytest.param(
            [["a=b:PreferNoSchedule", "c=d:PreferNoSchedule"], []],
            ["a=b:NoSchedule", "c=d:NoSchedule"],
            [0, 100],
            id="tolerations of another effect do not count",
        ),
        pytest.param(
            [["a=b:PreferNoSchedule"], [], ["a=b:PreferNoSchedule"] * 2],
            ["a=b:PreferNoSchedule"],
            [100, 100, 100],
            id="all tolerated",
        ),
        pytest.param([[DEDICATED], []], [], [100, 100], id="only PreferNoSchedule counts"),
        pytest.param(
            [["a=b:PreferNoSchedule"] * 1, ["a=b:PreferNoSchedule"] * 3],
            [],
            [67, 0],
            id="cut off before it is turned round",
        ),
    ],
)
def test_untolerated_preferences_lower_the_score(taints_by_node, tolerations, expected):
    nodes = table_of(make_node(f"n{i}", taints=t) for i, t in enumerate(taints_by_node))

    assert scores(PLUGIN, make_pod(tolerations=tolerations), nodes) == expected


ONE, TWO, BARE = (
    make_node("a", taints=DEDICATED),
    make_node("a", taints=f"{DEDICATED}, b=c:NoExecute"),
    make_node("a"),
)
TAINT = Action.UPDATE_NODE_TAINT


@pytest.mark.parametrize(
    ("action", "old", "new", "expected"),
    [
        pytest.param(Action.ADD, None, BARE, True, id="a bare node is added"),
        pytest.param(Action.ADD, None, ONE, False, id="a tainted node is added"),
        pytest.param(TAINT, ONE, BARE, True, id="the taint is removed"),
        pytest.param(TAINT, TWO, ONE, False, id="one of two is removed"),
        pytest.param(TAINT, BARE, BARE, False, id="it was tolerable before"),
        pytest.param(TAINT, BARE, ONE, False, id="a taint is added"),
    ],
)
def test_a_node_that_became_tolerable_wakes_the_pod(action, old, new, expected):
    assert wakes(PLUGIN, make_pod(), NODE, action, old, new) == expected


@pytest.mark.parametrize(("name", "expected"), [("pod", True), ("other", False)])
def test_a_new_toleration_wakes_its_own_pod(name, expected):
    new = make_pod(name, tolerations="foo")

    found = wakes(PLUGIN, make_pod("pod"), POD, Action.UPDATE_POD_TOLERATION, make_pod(name), new)

    assert found == expected
