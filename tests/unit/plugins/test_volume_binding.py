"""Where a pod's volumes are, or can be, and what is written so that they will be."""

import numpy as np
import pytest

from scheduler.config.plugin_args import VolumeBindingArgs
from scheduler.framework.cluster_event import NODE, Action
from scheduler.framework.effects import Assume, Patch, WaitUntil
from scheduler.framework.rejection import Failure, Rejection, Skip
from scheduler.model.fact import Resource
from scheduler.plugins import VolumeBinding
from scheduler.snapshot.node_table import NodeTable
from scheduler.testing import make_node, make_pod
from tests.unit.plugins.asking import OK, UAU, E, answers, codes, wakes
from tests.unit.plugins.storing import (
    IMMEDIATE,
    RESOURCES,
    capacity,
    claim,
    csi_driver,
    csi_node,
    storage_class,
    stored,
    stored_columns,
    using,
    volume,
)

PLUGIN = VolumeBinding()
REACH = "node(s) didn't match PersistentVolume's node affinity"
FIND = "node(s) didn't find available persistent volumes to bind"
SPACE = "node(s) did not have enough free storage"
GONE = "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)"
UNBOUND = "pod has unbound immediate PersistentVolumeClaims"
ZONE = "topology.kubernetes.io/zone"
HERE = storage_class("here", provisioner="kubernetes.io/no-provisioner")
MADE = storage_class("made")
NODES = [make_node("a", zone="z1"), make_node("b", zone="z2"), make_node("c", zone="z2")]
MOUNTING = make_pod(volumes=using("data"))


def judged(*things, pod=MOUNTING, nodes=NODES):
    """Return the reasons by node; nothing where there is none."""
    found = answers(PLUGIN, pod, stored(nodes, (), things))
    assert all(code in {OK, UAU} for code, _ in found.values())
    return {name: list(reasons) for name, (_, reasons) in found.items()}


# Before nodes are judged.


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


# Bound claims.


def test_a_bound_volume_must_be_within_reach():
    assert judged(claim("data", volume="pv"), volume("pv", node="b")) == {
        "a": [REACH],
        "b": [],
        "c": [REACH],
    }


def test_a_volume_without_affinity_is_within_reach_everywhere():
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


def test_both_kinds_of_claims_are_told_of_in_order():
    pod = make_pod(volumes=using("wish", "data"))

    found = judged(
        claim("data", volume="pv"), volume("pv", node="b"), claim("wish", of="here"), HERE, pod=pod
    )

    assert found == {"a": [REACH, FIND], "b": [FIND], "c": [REACH, FIND]}


# Volumes of plugins that were part of Kubernetes.

GKE_ZONE, BETA_ZONE = "topology.gke.io/zone", "failure-domain.beta.kubernetes.io/zone"
BETA_REGION = "failure-domain.beta.kubernetes.io/region"
Z1, Z3 = "europe-west1-b", "europe-west1-d"
DISK = {"gcePersistentDisk": {"pdName": "x"}}
MIGRATED = {"migrated": "kubernetes.io/gce-pd,kubernetes.io/aws-ebs,kubernetes.io/azure-disk"}


def in_two_zones(pv, drivers):
    """Ask about *pv* on nodes of which the driver says something else than others do."""
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


# Volumes that exist.


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


def plan_for(pod, node, *things):
    """Return what would be assumed for *pod* on *node*: volumes by claim, and claims."""
    assumed = PLUGIN.reserve(pod, node, stored(NODES, (), things))
    assert not isinstance(assumed, Failure), assumed
    assert all(isinstance(each, Assume) for each in assumed)
    bound = {
        each.item.spec.claim_ref.name: each.item.name
        for each in assumed
        if each.resource is Resource.PERSISTENT_VOLUME
    }
    made = {
        each.item.metadata.name: each.item.selected_node
        for each in assumed
        if each.resource is Resource.PERSISTENT_VOLUME_CLAIM
    }
    return bound, made


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


def test_what_one_claim_took_another_cannot_have():
    pod = make_pod(volumes=using("data", "more"))
    things = [HERE, *(claim(name, of="here") for name in ("data", "more"))]

    one = volume("pv", of="here", node="b")
    assert judged(*things, one, pod=pod) == {key: [FIND] for key in "abc"}
    assert judged(*things, one, volume("anywhere", of="here"), pod=pod)["b"] == []


def test_there_is_no_way_back():
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


def test_many_local_volumes_are_told_apart():
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


# Volumes that would be made.


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


# What is done after the choice.


def test_nothing_is_done_where_all_is_bound():
    nodes = stored(NODES, (), [claim("data", volume="pv"), volume("pv")])

    assert PLUGIN.reserve(MOUNTING, "a", nodes) == ()
    assert list(PLUGIN.pre_bind(MOUNTING, "a", nodes)) == []
    assert list(PLUGIN.pre_bind(make_pod(), "a", nodes)) == []


class Binding:
    """A pod on its way to node b, its assumptions made."""

    def __init__(self, *things, pod=MOUNTING, plugin=PLUGIN):
        self.columns = stored_columns(NODES, (), things)
        for each in plugin.reserve(pod, "b", NodeTable(self.columns)):
            assert self.columns.objects.assume(each.resource, each.item)
        effects = list(plugin.pre_bind(pod, "b", NodeTable(self.columns)))
        self.patches = [each for each in effects if isinstance(each, Patch)]
        (self.wait,) = (each for each in effects if isinstance(each, WaitUntil))
        assert effects[-1] is self.wait

    def tell(self, *items):
        for item in items:
            self.columns.objects.put(RESOURCES[type(item)], item)

    def forget(self, item):
        self.columns.objects.drop(RESOURCES[type(item)], item)

    @property
    def answer(self):
        return self.wait.condition(NodeTable(self.columns))


SECOND = {"resourceVersion": "2"}


def static(plugin=PLUGIN, **pv):
    return Binding(
        HERE, claim("data", of="here"), volume("pv", of="here", node="b", **pv), plugin=plugin
    )


def dynamic(**wish):
    return Binding(MADE, claim("data", of="made", **wish))


def test_the_claim_is_written_into_the_volume():
    binding = static()

    assert [(each.path, each.body, each.undo) for each in binding.patches] == [
        (
            "/api/v1/persistentvolumes/pv",
            {
                "metadata": {
                    "resourceVersion": "1",
                    "annotations": {"pv.kubernetes.io/bound-by-controller": "yes"},
                },
                "spec": {
                    "claimRef": {
                        "kind": "PersistentVolumeClaim",
                        "apiVersion": "v1",
                        "namespace": "default",
                        "name": "data",
                        "uid": "uid-default-data",
                        "resourceVersion": "1",
                    }
                },
            },
            None,
        )
    ]


def test_a_volume_that_a_person_meant_for_the_claim_is_not_said_to_be_bound_by_us():
    (patch,) = static(claimed="default/data").patches

    assert patch.body["metadata"]["annotations"] == {}
    assert patch.body["spec"]["claimRef"]["uid"] == "uid-default-data"


def test_a_volume_that_says_so_already_is_not_written():
    assert static(claimed="default/data", uid="uid-default-data").patches == []


def test_the_node_is_written_into_the_claim():
    binding = dynamic()

    assert [(each.path, each.body, each.undo) for each in binding.patches] == [
        (
            "/api/v1/namespaces/default/persistentvolumeclaims/data",
            {
                "metadata": {
                    "resourceVersion": "1",
                    "annotations": {"volume.kubernetes.io/selected-node": "b"},
                }
            },
            None,
        )
    ]
    assert dynamic(on="b").patches == []


def test_the_wait_is_as_long_as_configured():
    assert static().wait.timeout_seconds == 600
    short = VolumeBinding(VolumeBindingArgs(bind_timeout_seconds=3))
    assert static(short).wait.timeout_seconds == 3


BOUND_VOLUME = volume(
    "pv", of="here", node="b", claimed="default/data", uid="uid-default-data", metadata=SECOND
)
BOUND_CLAIM = claim(
    "data",
    of="here",
    volume="pv",
    metadata=SECOND | {"annotations": {"pv.kubernetes.io/bind-completed": "yes"}},
)


def test_a_volume_that_exists_is_waited_for():
    binding = static()
    assert binding.answer is False  # nothing told yet: the assumption does not count

    binding.tell(BOUND_VOLUME)
    assert binding.answer is False
    binding.tell(claim("data", of="here", volume="pv", bound=False, metadata=SECOND))
    assert binding.answer is False
    binding.tell(BOUND_CLAIM)
    assert binding.answer is True


@pytest.mark.parametrize(
    ("told", "why"),
    [
        ([volume("pv", of="here", node="b", metadata=SECOND)], 'ClaimRef got reset for pv "pv"'),
        (
            [volume("pv", of="here", node="b", claimed="default/data", metadata=SECOND)],
            'ClaimRef got reset for pv "pv"',
        ),
        (
            [volume("pv", node="a", claimed="default/data", uid="u", metadata=SECOND)],
            'pv "pv" node affinity doesn\'t match node "b": no matching NodeSelectorTerms',
        ),
    ],
    ids=["no claim", "no UID", "moved"],
)
def test_a_volume_that_went_elsewhere_is_given_up(told, why):
    binding = static()
    binding.tell(*told)

    assert binding.answer == f"binding volumes: {why}"


def test_what_is_gone_is_given_up():
    binding = static()
    binding.tell(BOUND_VOLUME)
    binding.forget(claim("data"))
    assert (
        binding.answer
        == 'binding volumes: failed to check binding: persistentvolumeclaim "data" not found'
    )
    binding.forget(BOUND_VOLUME)
    assert (
        binding.answer
        == 'binding volumes: failed to check binding: persistentvolume "pv" not found'
    )
    made = dynamic()
    made.forget(claim("data"))
    assert made.answer == (
        'binding volumes: failed to check provisioning pvc: persistentvolumeclaim "data" not found'
    )


def written(node="b", version="2", **more):
    annotations = {"volume.kubernetes.io/selected-node": node} if node else {"other": "x"}
    if more.get("done"):
        annotations["pv.kubernetes.io/bind-completed"] = "yes"
    return claim(
        "data",
        of="made",
        volume=more.get("volume", ""),
        metadata={"resourceVersion": version, "annotations": annotations},
    )


def test_a_volume_that_is_made_is_waited_for():
    binding = dynamic()
    assert binding.answer is False

    binding.tell(written())
    assert binding.answer is False
    binding.tell(written(volume="new", done=True))
    assert binding.answer is False  # the volume is not told yet
    binding.tell(volume("new", of="made", within={ZONE: "z2"}))
    assert binding.answer is True


@pytest.mark.parametrize(
    ("told", "why"),
    [
        ([written(node="")], 'provisioning failed for PVC "data"'),
        ([written(node="a")], 'provisioning failed for PVC "data"'),
        (
            [claim("data", of="made", metadata=SECOND | {"annotations": {}})],
            'selectedNode annotation reset for PVC "data"',
        ),
        (
            [written(volume="new"), volume("new", node="a")],
            'pv "new" node affinity doesn\'t match node "b": no matching NodeSelectorTerms',
        ),
        (
            [
                csi_node("b", **MIGRATED),
                written(volume="new"),
                volume("new", azureDisk={"diskURI": "x", "kind": "Shared"}),
            ],
            (
                "failed to translate pv to csi: could not translate pv:"
                " kind(Shared) is not supported in csi migration"
            ),
        ),
    ],
)
def test_a_volume_that_could_not_be_made_is_given_up(told, why):
    binding = dynamic()
    binding.tell(*told)

    assert binding.answer == f"binding volumes: {why}"


def test_a_node_that_is_gone_is_given_up():
    binding = dynamic()
    binding.columns.remove_node("b")

    assert 'failed to get node "b"' in binding.answer


def test_the_next_pod_sees_what_was_assumed():
    binding = static()
    other = make_pod("other", volumes=using("more"))
    binding.tell(claim("more", of="here"))

    assert codes(PLUGIN, other, NodeTable(binding.columns)) == [UAU] * 3
    shared = dynamic()
    assert codes(PLUGIN, MOUNTING, NodeTable(shared.columns)) == [UAU, OK, UAU]


def test_what_cannot_be_done_any_more_ends_the_wait_at_once():
    """A fact may come in between the decision and its execution."""
    nodes = stored(NODES, (), [HERE, claim("data", of="here")])
    (wait,) = PLUGIN.pre_bind(MOUNTING, "b", nodes)

    assert wait.condition(nodes) == f"binding volumes: {FIND}"
    failed = PLUGIN.reserve(MOUNTING, "b", nodes)
    assert isinstance(failed, Failure)
    assert failed.text == FIND
    (wait,) = PLUGIN.pre_bind(MOUNTING, "b", stored(NODES))
    assert wait.condition(nodes) == 'binding volumes: persistentvolumeclaim "data" not found'


# What could help.

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


def test_any_part_of_the_table_is_judged_the_same():
    things = [HERE, claim("data", of="here"), volume("pv", of="here", node="b")]
    nodes = stored(NODES, (), things)

    assert codes(PLUGIN, MOUNTING, nodes.select(np.array([2, 1]))) == [UAU, OK]
    assert codes(PLUGIN, MOUNTING, nodes.select(np.zeros(0, dtype=np.intp))) == []
