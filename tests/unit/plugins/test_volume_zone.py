"""Zones that are written on volumes."""

import pytest

from scheduler.framework.cluster_event import NODE, Action
from scheduler.framework.rejection import Skip
from scheduler.model.fact import Resource
from scheduler.plugins import VolumeZone
from scheduler.testing import make_node, make_pod
from tests.unit.plugins.plugin_calls import OK, UAU, answers, codes, wakes
from tests.unit.plugins.storing import IMMEDIATE, claim, storage_class, stored, using, volume

PLUGIN = VolumeZone()
ZONE, REGION = "topology.kubernetes.io/zone", "topology.kubernetes.io/region"
BETA_ZONE = "failure-domain.beta.kubernetes.io/zone"
BETA_REGION = "failure-domain.beta.kubernetes.io/region"
MOUNTING = make_pod(volumes=using("data"))


@pytest.mark.parametrize(
    ("written", "node", "expected"),
    [
        pytest.param({ZONE: "a"}, {}, OK, id="a node that does not say where it is"),
        pytest.param({ZONE: "a"}, {ZONE: "a"}, OK, id="its zone"),
        pytest.param({ZONE: "a"}, {ZONE: "b"}, UAU, id="another zone"),
        pytest.param({BETA_ZONE: "a"}, {ZONE: "a"}, OK, id="an old label and a new one"),
        pytest.param({BETA_ZONE: "a"}, {ZONE: "b"}, UAU, id="an old label and another zone"),
        pytest.param(
            {BETA_ZONE: "a"}, {BETA_ZONE: "b", ZONE: "a"}, UAU, id="the old label goes first"
        ),
        pytest.param({ZONE: "a"}, {BETA_ZONE: "a"}, UAU, id="a new label and an old one"),
        pytest.param({ZONE: "a", REGION: "r"}, {ZONE: "a"}, UAU, id="no region"),
        pytest.param({ZONE: "a", REGION: "r"}, {ZONE: "a", REGION: "r"}, OK, id="both"),
        pytest.param({BETA_REGION: "r"}, {REGION: "s"}, UAU, id="another region"),
        pytest.param({ZONE: "c__a"}, {ZONE: "a"}, OK, id="one of two zones"),
        pytest.param({ZONE: "c__ a "}, {ZONE: "a"}, OK, id="spaces"),
        pytest.param({ZONE: "c____a"}, {ZONE: "b"}, OK, id="an unreadable label"),
        pytest.param({"rack": "1"}, {ZONE: "a"}, OK, id="other labels"),
    ],
)
def test_a_volume_stays_in_its_zone(written, node, expected):
    nodes = stored(
        [make_node("n", labels=node)],
        (),
        [claim("data", volume="pv"), volume("pv", labels=written)],
    )

    assert codes(PLUGIN, MOUNTING, nodes) == [expected]
    if expected == UAU:
        assert answers(PLUGIN, MOUNTING, nodes)["n"][1] == ("node(s) had no available volume zone",)


@pytest.mark.parametrize(
    ("things", "why"),
    [
        pytest.param([], 'persistentvolumeclaim "data" not found', id="no claim"),
        pytest.param([claim("data", volume="pv")], 'persistentvolume "pv" not found', id="no PV"),
        pytest.param(
            [claim("data")], "PersistentVolumeClaim had no pv name and storageClass name", id="bare"
        ),
        pytest.param(
            [claim("data", of="c")], 'storageclass.storage.k8s.io "c" not found', id="no class"
        ),
        pytest.param(
            [claim("data", of="c"), storage_class("c", None)],
            'VolumeBindingMode not set for StorageClass "c"',
            id="no mode",
        ),
        pytest.param(
            [claim("data", of="c"), storage_class("c", IMMEDIATE)],
            "PersistentVolume had no name",
            id="not bound yet",
        ),
    ],
)
def test_a_claim_that_leads_nowhere_refuses_the_pod(things, why):
    assert answers(PLUGIN, MOUNTING, stored([make_node("n")], (), things))["n"] == (UAU, (why,))


def test_a_claim_without_a_name_refuses_the_pod():
    nodes = stored([make_node("n")])

    assert answers(PLUGIN, make_pod(volumes=using("")), nodes)["n"][1] == (
        "PersistentVolumeClaim had no name",
    )


@pytest.mark.parametrize(
    ("pod", "things"),
    [
        pytest.param(make_pod(), [], id="no volume"),
        pytest.param(make_pod(volumes=using("own*")), [], id="a claim of its own"),
        pytest.param(MOUNTING, [claim("data", volume="pv"), volume("pv")], id="no label"),
        pytest.param(MOUNTING, [claim("data", of="c"), storage_class("c")], id="not bound yet"),
    ],
)
def test_nothing_is_said_where_nothing_is_written(pod, things):
    assert PLUGIN.pre_filter(pod, stored([make_node("n")], (), things)) == Skip()


CLAIM, VOLUME, CLASS = (
    Resource.PERSISTENT_VOLUME_CLAIM,
    Resource.PERSISTENT_VOLUME,
    Resource.STORAGE_CLASS,
)


@pytest.mark.parametrize(
    ("resource", "action", "old", "new", "expected"),
    [
        (CLASS, Action.ADD, None, storage_class("c"), True),
        (CLASS, Action.ADD, None, storage_class("c", IMMEDIATE), False),
        (CLASS, Action.ADD, None, storage_class("c", None), False),
        (CLAIM, Action.ADD, None, claim("data"), True),
        (CLAIM, Action.UPDATE, claim("data"), claim("data", volume="pv"), True),
        (CLAIM, Action.ADD, None, claim("other"), False),
        (VOLUME, Action.ADD, None, volume("pv"), True),
        (VOLUME, Action.UPDATE, volume("pv"), volume("pv", labels={ZONE: "a"}), True),
        (VOLUME, Action.UPDATE, volume("pv"), volume("pv", labels={"rack": "a"}), False),
        (NODE, Action.UPDATE_NODE_LABEL, make_node(), make_node(), True),
    ],
)
def test_what_could_help(resource, action, old, new, expected):
    assert wakes(PLUGIN, MOUNTING, resource, action, old, new) == expected
