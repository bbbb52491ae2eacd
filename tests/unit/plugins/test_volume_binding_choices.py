"""Which of the volumes that exist a claim gets."""

import pytest

from scheduler.testing import make_pod
from tests.unit.plugins.binding_volumes import FIND, HERE, MOUNTING, ZONE, judged, plan_for
from tests.unit.plugins.storing import claim, using, volume


def test_a_volume_that_waits_is_found_where_it_is():
    assert judged(claim("data", of="here"), HERE, volume("pv", of="here", node="b")) == {
        "a": [FIND],
        "b": [],
        "c": [FIND],
    }


@pytest.mark.parametrize(
    ("wish", "pv"),
    [
        pytest.param({}, {"of": "other"}, id="another class"),
        pytest.param({"size": "2Gi"}, {}, id="too small"),
        pytest.param({}, {"phase": "Released"}, id="released"),
        pytest.param({}, {"phase": ""}, id="not ready"),
        pytest.param({}, {"claimed": "default/other"}, id="of another claim"),
        pytest.param({}, {"claimed": "default/data", "uid": "x"}, id="of its predecessor"),
        pytest.param({"volumeMode": "Block"}, {}, id="another mode"),
        pytest.param({"modes": ["ReadWriteMany"]}, {}, id="too few access modes"),
        pytest.param(
            {"selector": {"matchLabels": {"disk": "ssd"}}}, {"labels": "disk=hdd"}, id="x"
        ),
        pytest.param({"volumeAttributesClassName": "gold"}, {}, id="another attributes class"),
        pytest.param({}, {"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}, id="going"),
    ],
)
def test_volumes_that_will_not_do(wish, pv):
    found = judged(
        claim("data", **{"of": "here"} | wish), HERE, volume("pv", **{"of": "here"} | pv)
    )

    assert found == {key: [FIND] for key in "abc"}


@pytest.mark.parametrize(
    ("wish", "pv"),
    [
        pytest.param({}, {}, id="as wished"),
        pytest.param({"size": ""}, {}, id="of any size"),
        pytest.param({"volumeMode": "Filesystem"}, {}, id="a filesystem is the default"),
        pytest.param(
            {"modes": ["ReadWriteOnce"]}, {"modes": ["ReadWriteOnce", "ReadOnlyMany"]}, id="m"
        ),
        pytest.param(
            {"selector": {"matchLabels": {"disk": "ssd"}}}, {"labels": "disk=ssd"}, id="x"
        ),
        pytest.param({}, {"claimed": "default/data"}, id="meant for it"),
        pytest.param(
            {}, {"claimed": "default/data", "phase": "Bound"}, id="meant for it, and bound"
        ),
    ],
)
def test_volumes_that_will_do(wish, pv):
    found = judged(
        claim("data", **{"of": "here"} | wish), HERE, volume("pv", **{"of": "here"} | pv)
    )

    assert found == {key: [] for key in "abc"}


def test_the_smallest_volume_goes_to_the_smallest_claim():
    pod = make_pod(volumes=using("large", "small"))
    things = [
        HERE,
        claim("large", of="here", size="5Gi"),
        claim("small", of="here", size="1Gi"),
        volume("huge", of="here", size="50Gi"),
        volume("big", of="here", size="10Gi"),
        volume("little", of="here", size="2Gi"),
    ]

    assert plan_for(pod, "a", *things) == ({"small": "little", "large": "big"}, {})


def test_equal_volumes_go_by_name():
    things = [HERE, claim("data", of="here"), volume("y", of="here"), volume("x", of="here")]

    assert plan_for(MOUNTING, "a", *things) == ({"data": "x"}, {})


def test_a_volume_is_matched_once():
    pod = make_pod(volumes=using("data", "more"))
    things = [HERE, *(claim(name, of="here") for name in ("data", "more"))]

    one = volume("pv", of="here", node="b")
    assert judged(*things, one, pod=pod) == {key: [FIND] for key in "abc"}
    assert judged(*things, one, volume("anywhere", of="here"), pod=pod)["b"] == []


def test_there_is_no_backtracking():
    """The first claim takes the only volume that the second could have had."""
    pod = make_pod(volumes=using("plain", "choosy"))
    choosy = {"selector": {"matchLabels": {"disk": "ssd"}}, "size": "2Gi"}
    things = [
        HERE,
        claim("plain", of="here"),
        claim("choosy", of="here", **choosy),
        volume("ssd", of="here", size="2Gi", labels="disk=ssd"),
        volume("hdd", of="here", size="3Gi", labels="disk=hdd"),
    ]

    assert judged(*things, pod=pod) == {key: [FIND] for key in "abc"}


def test_a_claim_takes_the_volume_that_is_meant_for_it_or_none():
    things = [
        HERE,
        claim("data", of="here"),
        volume("meant", of="here", node="b", claimed="default/data", size="50Gi"),
        volume("any", of="here"),
    ]

    assert judged(*things) == {"a": [FIND], "b": [], "c": [FIND]}
    assert plan_for(MOUNTING, "b", *things) == ({"data": "meant"}, {})


def test_many_local_volumes_are_matched_by_their_node():
    """Volumes by host name, by zone, by a rule and by nothing at all, on the nodes they are for."""
    rule = {
        "nodeAffinity": {
            "required": {
                "nodeSelectorTerms": [
                    {"matchExpressions": [{"key": ZONE, "operator": "NotIn", "values": ["z1"]}]}
                ]
            }
        }
    }
    things = [
        HERE,
        claim("data", of="here"),
        claim("more", of="here"),
        volume("1-host-a", of="here", node="a"),
        volume("2-host-b", of="here", node="b"),
        volume("3-zone-2", of="here", within={ZONE: "z2"}),
        volume("4-not-1", of="here", **rule),
        volume("5-any", of="here", size="2Gi"),
    ]
    pod = make_pod(volumes=using("data", "more"))

    plans = {node: plan_for(pod, node, *things)[0] for node in "abc"}
    assert plans == {
        "a": {"data": "1-host-a", "more": "5-any"},
        "b": {"data": "2-host-b", "more": "3-zone-2"},
        "c": {"data": "3-zone-2", "more": "4-not-1"},
    }
