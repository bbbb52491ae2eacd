"""Where the volumes of bound claims can be reached, and what could help where they cannot."""

import numpy as np
import pytest

from scheduler.framework.cluster_event import NODE, Action
from scheduler.framework.rejection import Skip
from scheduler.model.fact import Resource
from scheduler.testing import make_node, make_pod
from tests.unit.plugins.binding_volumes import (
    FIND,
    GONE,
    HERE,
    MADE,
    MIGRATED,
    MOUNTING,
    NODES,
    PLUGIN,
    REACH,
    UNBOUND,
    ZONE,
    judged,
)
from tests.unit.plugins.plugin_calls import OK, UAU, E, answers, codes, wakes
from tests.unit.plugins.storing import (
    IMMEDIATE,
    capacity,
    claim,
    csi_driver,
    csi_node,
    storage_class,
    stored,
    using,
    volume,
)


def test_pods_without_claims_are_no_concern():
    assert PLUGIN.pre_filter(make_pod(), stored(NODES)) == Skip()
    inline = make_pod(volumes=[{"name": "x", "csi": {"driver": "d"}}])
    assert PLUGIN.pre_filter(inline, stored(NODES)) == Skip()


@pytest.mark.parametrize(
    ("volumes", "things", "why"),
    [
        pytest.param(using("data"), [], 'persistentvolumeclaim "data" not found', id="no claim"),
        pytest.param(
            using("data", "more"),
            [claim("data", volume="pv")],
            'persistentvolumeclaim "more" not found',
            id="one of two",
        ),
        pytest.param(
            using("own*"),
            [],
            'waiting for ephemeral volume controller to create the persistentvolumeclaim "pod-own"',
            id="its own is not made yet",
        ),
        pytest.param(
            using("own*"),
            [claim("pod-own")],
            "PVC default/pod-own was not created for pod default/pod (pod is not owner)",
            id="not its own",
        ),
        pytest.param(
            using("data"),
            [claim("data", volume="pv", phase="Lost")],
            'persistentvolumeclaim "data" bound to non-existent persistentvolume "pv"',
            id="lost",
        ),
        pytest.param(
            using("data"),
            [claim("data", metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"})],
            'persistentvolumeclaim "data" is being deleted',
            id="being deleted",
        ),
        pytest.param(using("data"), [claim("data")], UNBOUND, id="no class"),
        pytest.param(using("data"), [claim("data", of="none")], UNBOUND, id="unknown class"),
        pytest.param(
            using("data"), [claim("data", of="c"), storage_class("c", IMMEDIATE)], UNBOUND, id="now"
        ),
        pytest.param(
            using("data"),
            [claim("data", of="made", volume="pv", bound=False), MADE],
            UNBOUND,
            id="half",
        ),
    ],
)
def test_claims_that_no_node_can_do_anything_about(volumes, things, why):
    found = answers(PLUGIN, make_pod("pod", volumes=volumes), stored(NODES, (), things))

    assert found == dict.fromkeys("abc", (UAU, (why,)))


def test_a_class_without_a_mode_is_an_error():
    nodes = stored(NODES, (), [claim("data", of="c"), storage_class("c", None)])

    why = 'VolumeBindingMode not set for StorageClass "c"'
    assert answers(PLUGIN, MOUNTING, nodes)["a"] == (E, (why,))


def test_a_bound_volume_must_be_accessible():
    assert judged(claim("data", volume="pv"), volume("pv", node="b")) == {
        "a": [REACH],
        "b": [],
        "c": [REACH],
    }


def test_a_volume_without_affinity_is_accessible_everywhere():
    assert (
        codes(PLUGIN, MOUNTING, stored(NODES, (), [claim("data", volume="pv"), volume("pv")]))
        == [OK] * 3
    )


@pytest.mark.parametrize(
    ("terms", "expected"),
    [
        ([], [UAU, UAU]),
        ([{}], [UAU, UAU]),
        (
            [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["x"]}]}],
            [OK, OK],
        ),
        (
            [{"matchExpressions": [{"key": ZONE, "operator": "Sounds", "values": ["x"]}]}],
            [UAU, UAU],
        ),
        ([{"matchExpressions": [{"key": ZONE, "operator": "NotIn", "values": ["z1"]}]}], [UAU, OK]),
    ],
    ids=["no term", "an empty term", "fields are passed over", "nonsense", "not in"],
)
def test_affinity_is_about_labels_alone(terms, expected):
    pv = volume("pv", nodeAffinity={"required": {"nodeSelectorTerms": terms}})

    nodes = stored(NODES[:2], (), [claim("data", volume="pv"), pv])
    assert codes(PLUGIN, MOUNTING, nodes) == expected


def test_a_volume_that_is_gone_refuses_every_node():
    assert judged(claim("data", volume="gone")) == {key: [GONE] for key in "abc"}


def test_the_first_problem_of_bound_volumes_is_the_only_one():
    pod = make_pod(volumes=using("data", "more"))

    found = judged(
        claim("data", volume="pv"), volume("pv", node="b"), claim("more", volume="gone"), pod=pod
    )

    assert found == {"a": [REACH], "b": [GONE], "c": [REACH]}


def test_both_kinds_of_claims_are_reported_in_order():
    pod = make_pod(volumes=using("wish", "data"))

    found = judged(
        claim("data", volume="pv"), volume("pv", node="b"), claim("wish", of="here"), HERE, pod=pod
    )

    assert found == {"a": [REACH, FIND], "b": [FIND], "c": [REACH, FIND]}


def test_any_part_of_the_table_is_judged_the_same():
    things = [HERE, claim("data", of="here"), volume("pv", of="here", node="b")]
    nodes = stored(NODES, (), things)

    assert codes(PLUGIN, MOUNTING, nodes.select(np.array([2, 1]))) == [UAU, OK]
    assert codes(PLUGIN, MOUNTING, nodes.select(np.zeros(0, dtype=np.intp))) == []


CLAIM, VOLUME, CLASS = (
    Resource.PERSISTENT_VOLUME_CLAIM,
    Resource.PERSISTENT_VOLUME,
    Resource.STORAGE_CLASS,
)


DRIVER, SPACES = Resource.CSI_DRIVER, Resource.CSI_STORAGE_CAPACITY
WANTING = make_pod(
    "pod",
    volumes=[*using("data", "own*"), {"name": "inline", "csi": {"driver": "csi.example.com"}}],
)


@pytest.mark.parametrize(
    ("resource", "action", "old", "new", "expected"),
    [
        (CLASS, Action.ADD, None, MADE, True),
        (CLASS, Action.UPDATE, MADE, MADE, False),
        (CLASS, Action.UPDATE, MADE, storage_class("made", topologies=[{ZONE: ["a"]}]), True),
        (CLAIM, Action.ADD, None, claim("data"), True),
        (CLAIM, Action.UPDATE, claim("data"), claim("data", volume="pv"), True),
        (CLAIM, Action.ADD, None, claim("pod-own"), True),
        (CLAIM, Action.ADD, None, claim("other"), False),
        (CLAIM, Action.ADD, None, claim("data", namespace="x"), False),
        (VOLUME, Action.ADD, None, volume("pv"), True),
        (VOLUME, Action.UPDATE, volume("pv"), volume("pv"), True),
        (NODE, Action.ADD, None, make_node(), True),
        (NODE, Action.UPDATE_NODE_LABEL, make_node(), make_node(), True),
        (Resource.CSI_NODE, Action.ADD, None, csi_node("a"), True),
        (Resource.CSI_NODE, Action.UPDATE, csi_node("a"), csi_node("a", x=1), False),
        (Resource.CSI_NODE, Action.UPDATE, csi_node("a"), csi_node("a", **MIGRATED), True),
        (DRIVER, Action.UPDATE, csi_driver(), csi_driver(capacity=False), True),
        (DRIVER, Action.UPDATE, csi_driver(capacity=False), csi_driver(), False),
        (DRIVER, Action.UPDATE, csi_driver("x"), csi_driver("x", capacity=False), False),
        (SPACES, Action.ADD, None, capacity("made"), True),
        (SPACES, Action.UPDATE, capacity("made"), capacity("made", size="1"), True),
        (SPACES, Action.UPDATE, capacity("made", size="1"), capacity("made", size="2"), True),
        (SPACES, Action.UPDATE, capacity("made", size="2"), capacity("made", size="1"), False),
        (SPACES, Action.UPDATE, capacity("made", size="2"), capacity("made"), False),
    ],
)
def test_what_could_help(resource, action, old, new, expected):
    assert wakes(PLUGIN, WANTING, resource, action, old, new) == expected
