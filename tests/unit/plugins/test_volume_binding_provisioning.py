"""Where a volume can be made, and whether there is storage enough."""

import pytest

from scheduler.testing import make_pod
from tests.unit.plugins.binding_volumes import (
    FIND,
    MADE,
    MOUNTING,
    NODES,
    PLUGIN,
    SPACE,
    UNBOUND,
    ZONE,
    judged,
    plan_for,
)
from tests.unit.plugins.plugin_calls import OK, UAU, codes
from tests.unit.plugins.storing import (
    capacity,
    claim,
    csi_driver,
    storage_class,
    stored,
    using,
    volume,
)


def test_a_volume_can_be_made():
    assert judged(claim("data", of="made"), MADE) == {key: [] for key in "abc"}
    assert plan_for(MOUNTING, "b", claim("data", of="made"), MADE) == ({}, {"data": "b"})


def test_one_exists_and_one_is_made():
    pod = make_pod(volumes=using("data", "more"))
    things = [
        MADE,
        *(claim(name, of="made") for name in ("data", "more")),
        volume("pv", of="made", node="b"),
    ]

    assert judged(*things, pod=pod) == {key: [] for key in "abc"}
    assert plan_for(pod, "b", *things) == ({"data": "pv"}, {"more": "b"})
    assert plan_for(pod, "a", *things) == ({}, {"data": "a", "more": "a"})


def test_a_claim_that_was_promised_a_node_goes_there():
    things = [claim("data", of="made", on="b"), MADE, volume("pv", of="made", node="b")]

    assert judged(*things) == {"a": [FIND], "b": [], "c": [FIND]}
    # Nothing has to be written: the claim says so already.
    assert plan_for(MOUNTING, "b", *things) == ({}, {})


@pytest.mark.parametrize(
    ("topologies", "expected"),
    [
        ([], [OK, OK, OK]),
        ([{ZONE: ["z2"]}], [UAU, OK, OK]),
        ([{ZONE: ["z1"]}, {"kubernetes.io/hostname": ["c"]}], [OK, UAU, OK]),
        ([{ZONE: ["z2"], "kubernetes.io/hostname": ["c"]}], [UAU, UAU, OK]),
        ([{}], [UAU, UAU, UAU]),
        ([{"rack": ["1"]}], [UAU, UAU, UAU]),
    ],
)
def test_a_class_may_be_for_some_nodes(topologies, expected):
    things = [claim("data", of="made"), storage_class("made", topologies=topologies)]

    assert codes(PLUGIN, MOUNTING, stored(NODES, (), things)) == expected


@pytest.mark.parametrize(
    ("wish", "why"),
    [
        (claim("data", of="", on="a"), UNBOUND),
        (claim("data", of="nobody", on="a"), UNBOUND),
    ],
)
def test_a_claim_without_a_class_does_not_wait(wish, why):
    assert judged(wish) == {key: [why] for key in "abc"}


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        pytest.param([capacity("made", size="1Gi", within={})], OK, id="enough everywhere"),
        pytest.param([capacity("made", size="1Gi", within={ZONE: "z1"})], OK, id="enough here"),
        pytest.param([], UAU, id="nothing said"),
        pytest.param([capacity("made", size="1Gi", within={ZONE: "z2"})], UAU, id="elsewhere"),
        pytest.param([capacity("other", size="1Gi", within={})], UAU, id="of another class"),
        pytest.param([capacity("made", size="1Mi", within={})], UAU, id="too little"),
        pytest.param(
            [capacity("made", size="1Gi", maximum="1Mi", within={})], UAU, id="in small pieces"
        ),
        pytest.param(
            [capacity("made", size="1Mi", maximum="1Gi", within={})], OK, id="the maximum counts"
        ),
        pytest.param([capacity("made", size="0", within={})], UAU, id="none"),
        pytest.param([capacity("made", within={})], UAU, id="not said how much"),
        pytest.param([capacity("made", size="1Gi")], UAU, id="not said where"),
        pytest.param(
            [
                capacity("made", size="1Mi", within={}, name="x"),
                capacity("made", size="1Gi", within={}, name="y"),
            ],
            OK,
            id="enough in one of two",
        ),
    ],
)
def test_storage_must_suffice_if_the_driver_says_how_much_there_is(said, expected):
    things = [claim("data", of="made"), MADE, *said]
    alone = NODES[:1]

    assert codes(PLUGIN, MOUNTING, stored(alone, (), [*things, csi_driver()])) == [expected]
    for silent in ([], [csi_driver(capacity=False)], [csi_driver(capacity=None)]):
        assert codes(PLUGIN, MOUNTING, stored(alone, (), [*things, *silent])) == [OK]
    if expected == UAU:
        assert judged(*things, csi_driver(), nodes=alone) == {"a": [SPACE]}


def test_each_claim_is_measured_by_itself():
    pod = make_pod(volumes=using("data", "more"))
    things = [
        MADE,
        csi_driver(),
        *(claim(name, of="made", size="50Gi") for name in ("data", "more")),
        capacity("made", size="60Gi", within={}),
    ]

    assert judged(*things, pod=pod) == {key: [] for key in "abc"}


def test_a_claim_of_no_size_fits_anywhere():
    things = [claim("data", of="made", size=""), MADE, csi_driver()]

    assert judged(*things) == {key: [] for key in "abc"}


def test_the_first_claim_that_cannot_be_made_gives_the_reason():
    pod = make_pod(volumes=using("data", "more"))
    things = [
        claim("data", of="far", size="1Gi"),
        storage_class("far", topologies=[{ZONE: ["z1"]}], provisioner="unmeasured"),
        claim("more", of="made", size="2Gi"),
        MADE,
        csi_driver(),
    ]

    assert judged(*things, pod=pod) == {"a": [SPACE], "b": [FIND], "c": [FIND]}
