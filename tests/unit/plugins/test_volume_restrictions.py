"""Disks with one writer, and claims with one user."""

import pytest

from scheduler.framework.cluster_event import NODE, POD, Action
from scheduler.framework.rejection import Skip
from scheduler.model.fact import Resource
from scheduler.plugins import VolumeRestrictions
from scheduler.testing import make_node, make_pod
from tests.unit.plugins.plugin_calls import OK, UAU, U, answers, codes, wakes
from tests.unit.plugins.storing import claim, stored, using

PLUGIN = VolumeRestrictions()
ALONE = ["ReadWriteOncePod"]
IN_USE = (
    "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already"
    " in-use by another pod"
)


def gce(name="disk", **more):
    return {"gcePersistentDisk": {"pdName": name, **more}}


def aws(name="vol-1", **more):
    return {"awsElasticBlockStore": {"volumeID": name, **more}}


def iscsi(name="iqn.2016-12.server:storage", **more):
    return {"iscsi": {"iqn": name, **more}}


def rbd(image="bar", *, monitors=("a", "b"), pool="foo", **more):
    return {"rbd": {"monitors": list(monitors), "pool": pool, "image": image, **more}}


READ = {"readOnly": True}


def inline(*volumes):
    return [{"name": f"v{index}", **volume} for index, volume in enumerate(volumes)]


@pytest.mark.parametrize(
    ("there", "wanted", "expected"),
    [
        pytest.param(gce(), gce(), U, id="the same GCE disk"),
        pytest.param(gce(), gce("other"), OK, id="another GCE disk"),
        pytest.param(gce(**READ), gce(**READ), OK, id="a GCE disk that both only read"),
        pytest.param(gce(**READ), gce(), U, id="a GCE disk that one writes"),
        pytest.param(aws(), aws(), U, id="the same EBS disk"),
        pytest.param(aws(**READ), aws(**READ), U, id="an EBS disk, even to read"),
        pytest.param(aws(), aws("vol-2"), OK, id="another EBS disk"),
        pytest.param(iscsi(), iscsi(), U, id="the same iSCSI disk"),
        pytest.param(iscsi(), iscsi("iqn.other"), OK, id="another iSCSI disk"),
        pytest.param(iscsi(**READ), iscsi(**READ), OK, id="an iSCSI disk that both only read"),
        pytest.param(rbd(), rbd(), U, id="the same RBD image"),
        pytest.param(rbd(), rbd(monitors=["b", "c"]), U, id="one common monitor"),
        pytest.param(rbd(), rbd(monitors=["c", "d"]), OK, id="other monitors"),
        pytest.param(rbd(), rbd(pool="other"), OK, id="another pool"),
        pytest.param(rbd(), rbd("other"), OK, id="another image"),
        pytest.param(rbd(**READ), rbd(**READ), OK, id="an image that both only read"),
        pytest.param(gce("x"), aws("x"), OK, id="one name in two systems"),
    ],
)
def test_a_disk_has_one_writer(there, wanted, expected):
    nodes = stored(
        [make_node("a"), make_node("b")], [make_pod("x", node="a", volumes=inline(there))]
    )
    pod = make_pod(volumes=inline(wanted))

    assert codes(PLUGIN, pod, nodes) == [expected, OK]
    if expected == U:
        assert answers(PLUGIN, pod, nodes)["a"] == (U, ("node(s) had no available disk",))


@pytest.mark.parametrize(
    "volumes",
    [[], [{"name": "token", "projected": {}}], using("shared")],
    ids=["none", "a token", "a claim that may be shared"],
)
def test_other_volumes_are_no_concern(volumes):
    others = [make_pod("x", node="a", volumes=using("shared"))]
    nodes = stored([make_node("a")], others, [claim("shared", modes=["ReadWriteMany"])])

    assert (
        PLUGIN.pre_filter(make_pod(volumes=[v for v in volumes if "projected" not in v]), nodes)
        == Skip()
    )


def test_a_claim_for_one_pod_is_refused_everywhere_while_it_is_in_use():
    nodes = stored(
        [make_node("a"), make_node("b")],
        [make_pod("x", node="a", volumes=using("data"))],
        [claim("data", modes=ALONE)],
    )

    assert answers(PLUGIN, make_pod(volumes=using("data")), nodes) == dict.fromkeys(
        ["a", "b"], (U, (IN_USE,))
    )


def test_an_unused_claim_is_free():
    nodes = stored([make_node("a")], (), [claim("data", modes=ALONE)])

    assert PLUGIN.pre_filter(make_pod(volumes=using("data")), nodes) == Skip()


def test_a_claim_of_the_same_name_elsewhere_is_another():
    others = [make_pod("x", namespace="other", node="a", volumes=using("data"))]
    nodes = stored([make_node("a")], others, [claim("data", modes=ALONE)])

    assert PLUGIN.pre_filter(make_pod(volumes=using("data")), nodes) == Skip()


def test_a_claim_that_is_not_there_refuses_the_pod():
    nodes = stored([make_node("a")])

    assert answers(PLUGIN, make_pod(volumes=using("data")), nodes)["a"] == (
        UAU,
        ('persistentvolumeclaim "data" not found',),
    )


def test_a_claim_of_the_pods_own_is_no_concern():
    assert PLUGIN.pre_filter(make_pod(volumes=using("own*")), stored([make_node("a")])) == Skip()


def test_evicting_its_user_frees_a_claim():
    """On the node where the user is; elsewhere it would still be in use."""
    user = make_pod("x", node="a", volumes=using("data", "data-again"))
    nodes = stored(
        [make_node("a"), make_node("b")],
        [user],
        [claim("data", modes=ALONE), claim("data-again", modes=ALONE)],
    )
    pod = make_pod(volumes=using("data", "data-again"))

    assert codes(PLUGIN, pod, nodes.each(removing={0: [user]})) == [OK, U]


def test_both_users_must_go():
    users = [make_pod(name, node="a", volumes=using(name)) for name in ("data", "more")]
    claims = [claim(name, modes=ALONE) for name in ("data", "more")]
    nodes = stored([make_node("a")], users, claims)
    pod = make_pod(volumes=using("data", "more"))

    assert codes(PLUGIN, pod, nodes) == [U]
    assert codes(PLUGIN, pod, nodes.each(removing={0: users[:1]})) == [U]
    assert codes(PLUGIN, pod, nodes.each(removing={0: users})) == [OK]


def test_a_user_elsewhere_with_a_claim_of_that_name_is_no_help():
    """Upstream counts names alone here, and would evict in vain."""
    user = make_pod("x", node="a", volumes=using("data"))
    namesake = make_pod("y", namespace="other", node="b", volumes=using("data"))
    nodes = stored([make_node("a"), make_node("b")], [user, namesake], [claim("data", modes=ALONE)])

    what_if = nodes.each(removing={1: [namesake]})
    assert codes(PLUGIN, make_pod(volumes=using("data")), what_if) == [U, U]


WANTING = make_pod("pod", volumes=[*using("data"), *inline(gce())])


@pytest.mark.parametrize(
    ("gone", "expected"),
    [
        pytest.param({"volumes": using("data")}, True, id="the claim"),
        pytest.param({"volumes": using("other")}, False, id="another claim"),
        pytest.param({"volumes": inline(gce())}, True, id="the disk"),
        pytest.param({"volumes": inline(gce("other"))}, False, id="another disk"),
        pytest.param({"volumes": using("data"), "namespace": "x"}, False, id="another namespace"),
        pytest.param({}, False, id="nothing"),
    ],
)
def test_a_freed_volume_wakes_the_pod(gone, expected):
    assert wakes(PLUGIN, WANTING, POD, Action.DELETE, make_pod("gone", **gone)) == expected


@pytest.mark.parametrize(
    ("made", "expected"),
    [(claim("data"), True), (claim("other"), False), (claim("data", namespace="x"), False)],
)
def test_its_claim_wakes_the_pod(made, expected):
    resource = Resource.PERSISTENT_VOLUME_CLAIM

    assert wakes(PLUGIN, WANTING, resource, Action.ADD, None, made) == expected
    assert not wakes(PLUGIN, WANTING, resource, Action.UPDATE, made, made)


def test_any_new_node_wakes_the_pod():
    assert wakes(PLUGIN, WANTING, NODE, Action.ADD, None, make_node())
