"""Volumes of plugins that were part of Kubernetes, on nodes where a driver took over."""

import pytest

from scheduler.framework.rejection import Failure, Rejection
from scheduler.testing import make_node, make_pod
from tests.unit.plugins.binding_volumes import HERE, MIGRATED, MOUNTING, PLUGIN, ZONE
from tests.unit.plugins.plugin_calls import OK, UAU, codes
from tests.unit.plugins.storing import claim, csi_node, stored, using, volume

GKE_ZONE, BETA_ZONE = "topology.gke.io/zone", "failure-domain.beta.kubernetes.io/zone"
BETA_REGION = "failure-domain.beta.kubernetes.io/region"
Z1, Z3 = "europe-west1-b", "europe-west1-d"
DISK = {"gcePersistentDisk": {"pdName": "x"}}


def in_two_zones(pv, drivers):
    """Filter for *pv* on nodes where the driver's labels differ from the standard ones."""
    nodes = [
        make_node("a", zone=Z1, labels={GKE_ZONE: "z9"}),
        make_node("b", zone="z2", labels={GKE_ZONE: Z1, "topology.kubernetes.io/region": "r1"}),
    ]
    table = stored(nodes, (), [claim("data", volume="pv"), pv, *drivers])
    return codes(PLUGIN, MOUNTING, table)


@pytest.mark.parametrize(
    ("pv", "drivers", "expected"),
    [
        pytest.param(volume("pv", within={ZONE: Z1}, **DISK), [], [OK, UAU], id="no CSINode"),
        pytest.param(
            volume("pv", within={ZONE: Z1}, **DISK),
            [csi_node("a"), csi_node("b")],
            [OK, UAU],
            id="not migrated",
        ),
        pytest.param(
            volume("pv", within={ZONE: Z1}, **DISK),
            [csi_node("a", **MIGRATED), csi_node("b", **MIGRATED)],
            [UAU, OK],
            id="migrated",
        ),
        pytest.param(
            volume("pv", labels={BETA_ZONE: f"{Z1}__{Z3}"}, **DISK),
            [csi_node("a"), csi_node("b", **MIGRATED)],
            [OK, OK],
            id="by label, where migrated",
        ),
        pytest.param(
            volume("pv", labels={ZONE: "z2"}, **DISK),
            [csi_node("a"), csi_node("b", **MIGRATED)],
            [OK, UAU],
            id="by label, elsewhere",
        ),
        pytest.param(
            volume("pv", labels={ZONE: ""}, **DISK),
            [csi_node("a", **MIGRATED), csi_node("b", **MIGRATED)],
            [OK, OK],
            id="by a label that says nothing",
        ),
        pytest.param(
            volume("pv", within={ZONE: Z1}, azureDisk={"diskURI": "x"}),
            [csi_node("a", **MIGRATED)],
            [OK, UAU],
            id="a driver without zones",
        ),
        pytest.param(
            volume("pv", within={BETA_ZONE: Z1, BETA_REGION: "r1"}, **DISK),
            [csi_node("b", **MIGRATED)],
            [UAU, OK],
            id="zone and region as they were called once",
        ),
    ],
)
def test_a_migrated_volume_is_found_by_its_drivers_labels(pv, drivers, expected):
    assert in_two_zones(pv, drivers) == expected


@pytest.mark.parametrize(
    "pv",
    [
        pytest.param(volume("pv", labels={ZONE: "z1__z2"}, **DISK), id="zones of no region"),
        pytest.param(
            volume("pv", labels={BETA_ZONE: f"{Z1}__us-east1-a"}, **DISK), id="zones of two regions"
        ),
        pytest.param(
            volume("pv", awsElasticBlockStore={"volumeID": "aws://strange"}), id="not a disk's name"
        ),
        pytest.param(
            volume("pv", azureDisk={"diskURI": "x", "kind": "Dedicated"}), id="not a managed disk"
        ),
    ],
)
def test_a_volume_that_its_driver_cannot_know_is_an_error_where_the_driver_took_over(pv):
    assert in_two_zones(pv, [csi_node("a"), csi_node("b", **MIGRATED)]) == [OK, "E"]


def test_of_a_node_on_which_a_volume_cannot_be_judged_nothing_else_is_said():
    dedicated = volume("pv", azureDisk={"diskURI": "x", "kind": "Dedicated"}, node="elsewhere")
    things = [
        *(claim("data", volume="pv"), dedicated, csi_node("a", **MIGRATED)),
        *(claim("wish", of="here"), HERE),
    ]
    pod = make_pod(volumes=[*using("data"), *using("wish")])

    found = list(PLUGIN.filter(pod, stored([make_node("a"), make_node("b")], (), things)))

    assert [type(each) for each in found if each.nodes[0]] == [Failure]
    assert [type(each) for each in found if each.nodes[1]] == [Rejection, Rejection]
