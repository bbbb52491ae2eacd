"""How many volumes of a driver a node takes."""

import pytest

from scheduler.framework.cluster_event import POD, Action
from scheduler.framework.rejection import Skip
from scheduler.model.fact import Resource
from scheduler.plugins import NodeVolumeLimits
from scheduler.snapshot.node_table import NodeTable
from scheduler.testing import make_node, make_pod
from tests.unit.plugins.plugin_calls import OK, UAU, E, U, answers, codes, wakes
from tests.unit.plugins.storing import (
    attachment,
    claim,
    csi_node,
    storage_class,
    stored,
    stored_columns,
    using,
    volume,
)

PLUGIN = NodeVolumeLimits()
EBS, GCE = "ebs.csi.aws.com", "pd.csi.storage.gke.io"
FULL = "node(s) exceed max volume count"


def bound(name, csi=""):
    """Return a claim and its volume, of the driver ebs.csi.aws.com by default."""
    return [claim(name, volume=f"pv-{name}"), volume(f"pv-{name}", csi=csi or f"{EBS}/{name}")]


def pending(name, of="slow"):
    return [claim(name, of=of)]


def on_a(name, *claims, **more):
    return make_pod(name, node="a", volumes=using(*claims), **more)


def things(*groups):
    return [item for group in groups for item in group]


def limited(limit, pods, *groups, driver="ebs_csi_aws_com"):
    return stored([make_node("a")], pods, [csi_node("a", **{driver: limit}), *things(*groups)])


@pytest.mark.parametrize(
    ("limit", "there", "wanted", "expected"),
    [
        pytest.param(4, ["x", "y", "z"], ["new"], OK, id="one is left"),
        pytest.param(3, ["x", "y", "z"], ["new"], U, id="none is left"),
        pytest.param(0, [], ["new"], U, id="a limit of none"),
        pytest.param(4, ["x", "y", "z"], ["new", "newer"], U, id="one is too few"),
        pytest.param(3, ["x", "y", "z"], ["z"], OK, id="it is there already"),
        pytest.param(2, ["x", "y", "z"], ["z"], OK, id="it is there, on a node beyond its limit"),
        pytest.param(3, ["x", "y", "z"], ["z", "new"], U, id="one is there already"),
        pytest.param(4, ["x", "y", "z"], ["z", "new"], OK, id="one is there, one is left"),
    ],
)
def test_volumes_are_counted(limit, there, wanted, expected):
    pods = [on_a("one", *there[:2]), on_a("two", *there[1:])]
    nodes = limited(limit, pods, *map(bound, {*there, *wanted}))
    pod = make_pod(volumes=using(*wanted))

    assert codes(PLUGIN, pod, nodes) == [expected]
    if expected == U:
        assert answers(PLUGIN, pod, nodes)["a"] == (U, (FULL,))


def test_a_driver_without_a_limit_takes_any_number():
    nodes = limited(1, [on_a("x", "x")], *map(bound, ["x", "new"]), driver="other_driver")

    assert codes(PLUGIN, make_pod(volumes=using("new")), nodes) == [OK]


def test_drivers_are_counted_apart():
    nodes = limited(
        1, [on_a("x", "x")], bound("x", f"{GCE}/x"), bound("new"), bound("newer", f"{GCE}/newer")
    )

    assert codes(PLUGIN, make_pod(volumes=using("new")), nodes) == [OK]
    assert codes(PLUGIN, make_pod(volumes=using("new", "newer")), nodes) == [OK]


def test_a_node_without_a_csi_node_takes_any_number():
    nodes = stored([make_node("a")], [on_a("x", "x")], things(bound("x"), bound("new")))

    assert codes(PLUGIN, make_pod(volumes=using("new")), nodes) == [OK]


SLOW = storage_class("slow", provisioner=EBS)


def test_volumes_yet_to_be_made_are_counted_once_each():
    pods = [on_a("x", "wish"), on_a("y", "wish")]

    for limit, expected in [(1, U), (2, OK)]:
        nodes = limited(limit, pods, [SLOW], *map(pending, ["wish", "new"]))
        assert codes(PLUGIN, make_pod(volumes=using("new")), nodes) == [expected]
        assert codes(PLUGIN, make_pod(volumes=using("wish")), nodes) == [OK]


def test_a_claim_whose_volume_is_gone_is_counted_by_its_class():
    lost = [claim("lost", of="slow", volume="gone"), SLOW]
    nodes = limited(1, [on_a("x", "lost")], lost, bound("new"))

    assert codes(PLUGIN, make_pod(volumes=using("new")), nodes) == [U]


@pytest.mark.parametrize("nameless", [claim("x"), claim("x", of="unknown")])
def test_a_claim_of_no_class_is_not_counted(nameless):
    nodes = limited(1, [on_a("x", "x")], [nameless], bound("new"))

    assert codes(PLUGIN, make_pod(volumes=using("new")), nodes) == [OK]


def test_a_claim_that_is_gone_is_not_counted():
    nodes = limited(1, [on_a("x", "gone")], bound("new"))

    assert codes(PLUGIN, make_pod(volumes=using("new")), nodes) == [OK]


def test_a_claim_that_the_pod_needs_must_be_there():
    nodes = limited(1, [])
    pod = make_pod(volumes=using("new"))

    why = 'looking up PVC default/new: persistentvolumeclaim "new" not found'
    assert answers(PLUGIN, pod, nodes)["a"] == (UAU, (why,))


def test_a_claim_without_a_name_cannot_be_judged():
    nodes = limited(1, [])

    assert codes(PLUGIN, make_pod(volumes=using("")), nodes) == [E]


DISK = {"name": "disk", "awsElasticBlockStore": {"volumeID": "vol-1"}}


def ebs_volume(name, identity):
    return volume(name, awsElasticBlockStore={"volumeID": identity})


def test_disks_that_were_part_of_kubernetes_count_as_their_drivers():
    """In a pod or behind a claim, under any of their names; each one once."""
    pods = [
        make_pod("inline", node="a", volumes=[DISK]),
        on_a("old", "old"),
        on_a("new-name", "new-name"),
        on_a("csi", "csi"),
    ]
    known = [
        [claim("old", volume="old"), ebs_volume("old", "aws://eu-1a/vol-1")],
        [claim("new-name", volume="new-name"), ebs_volume("new-name", "vol-2")],
        bound("csi", f"{EBS}/vol-2"),
        bound("new"),
    ]

    for limit, expected in [(2, U), (3, OK)]:
        nodes = limited(limit, pods, *known)
        assert codes(PLUGIN, make_pod(volumes=using("new")), nodes) == [expected]
        assert codes(PLUGIN, make_pod(volumes=[DISK]), nodes) == [OK]


def test_what_a_provisioner_made_that_was_part_of_kubernetes_counts_too():
    old = storage_class("slow", provisioner="kubernetes.io/aws-ebs")
    nodes = limited(1, [on_a("x", "wish")], [old], pending("wish"), bound("new"))

    assert codes(PLUGIN, make_pod(volumes=using("new")), nodes) == [U]


@pytest.mark.parametrize(
    "source",
    [
        {"iscsi": {"iqn": "iqn.x"}},
        {"csi": {"driver": EBS}},
    ],
)
def test_other_disks_are_not_counted(source):
    pods = [make_pod("x", node="a", volumes=[{"name": "v", **source}])]
    nodes = limited(1, pods, bound("new"))

    assert codes(PLUGIN, make_pod(volumes=using("new")), nodes) == [OK]


STRANGE = [
    {"name": "v", "awsElasticBlockStore": {"volumeID": "aws://strange"}},
    {"name": "v", "azureDisk": {"diskURI": "/x", "kind": "Shared"}},
]


@pytest.mark.parametrize("disk", STRANGE)
def test_a_node_with_a_disk_that_its_driver_cannot_know_cannot_be_judged(disk):
    there = make_pod("x", node="a", volumes=[disk])

    assert codes(PLUGIN, make_pod(volumes=using("new")), limited(1, [there], bound("new"))) == [E]
    assert codes(PLUGIN, make_pod(), limited(1, [there])) == [OK]


@pytest.mark.parametrize("disk", STRANGE)
def test_a_pod_with_a_disk_that_no_driver_can_know_fails_where_there_are_drivers(disk):
    nodes = stored([make_node("a"), make_node("b")], (), [csi_node("a")])

    assert codes(PLUGIN, make_pod(volumes=[disk]), nodes) == [E, OK]
    # The first problem is reported; on nodes without drivers a disk is none.
    assert codes(PLUGIN, make_pod(volumes=[disk, *using("gone")]), nodes) == [E, UAU]
    assert codes(PLUGIN, make_pod(volumes=[*using("gone"), disk]), nodes) == [UAU, UAU]
    assert codes(PLUGIN, make_pod(volumes=[disk, *using("")]), nodes) == [E, E]


@pytest.mark.parametrize("named", ["aws://eu-1a/vol-1", "aws:///vol-1", "aws:////vol-1/", "vol-1"])
def test_a_disk_is_one_under_all_its_names(named):
    disk = {"name": "v", "awsElasticBlockStore": {"volumeID": named}}
    nodes = limited(1, [make_pod("x", node="a", volumes=[DISK])])

    assert codes(PLUGIN, make_pod(volumes=[disk]), nodes) == [OK]


def own(pod, owner):
    return [
        claim(f"{pod}-own", volume="pv-own", owner=owner),
        volume("pv-own", csi=f"{EBS}/own"),
    ]


def test_a_claim_of_the_pods_own_is_counted():
    pod = make_pod("pod", volumes=using("own*"))
    there = own("pod", pod.uid)

    assert codes(PLUGIN, pod, limited(1, [], there)) == [OK]
    assert codes(PLUGIN, pod, limited(1, [on_a("x", "x")], there, bound("x"))) == [U]
    assert codes(PLUGIN, pod, limited(1, [], own("pod", "another"))) == [E]
    assert codes(PLUGIN, pod, limited(1, [])) == [UAU]


def test_a_node_with_a_pod_whose_claim_is_not_its_own_cannot_be_judged():
    """A node without limits is not checked."""
    there = on_a("x", "own*")
    for limits, expected in [({"ebs_csi_aws_com": 9}, E), ({}, OK)]:
        nodes = stored(
            [make_node("a"), make_node("b")],
            [there],
            things([csi_node("a", **limits), csi_node("b", **limits)], own("x", "?"), bound("new")),
        )
        pod = make_pod(volumes=using("new"))
        assert codes(PLUGIN, pod, nodes) == [expected, OK]
        assert codes(PLUGIN, pod, nodes.each(removing={0: [there]})) == [OK, OK]


def test_what_is_attached_counts_though_no_pod_uses_it():
    attached = [attachment(f"va-{name}", "a", f"pv-{name}", EBS) for name in ("x", "y")]
    groups = attached, *map(bound, ["x", "y", "new"])

    assert codes(PLUGIN, make_pod(volumes=using("new")), limited(2, [], *groups)) == [U]
    assert codes(PLUGIN, make_pod(volumes=using("new")), limited(3, [], *groups)) == [OK]
    # Used and attached: once.
    pods = [on_a("p", "x")]
    assert codes(PLUGIN, make_pod(volumes=using("new")), limited(3, pods, *groups)) == [OK]
    # Upstream counts a volume twice that is attached already and wanted by the pod alone.
    assert codes(PLUGIN, make_pod(volumes=using("y")), limited(2, [], *groups)) == [U]


@pytest.mark.parametrize(
    "other",
    [
        [attachment("va", "b", "pv-x", EBS), *bound("x")],
        [attachment("va", "a", "gone", EBS)],
        [attachment("va", "a", "old", EBS), ebs_volume("old", "vol-1")],
        [attachment("va", "a", "pv-x", ""), *bound("x")],
        [attachment("va", "a", None, EBS)],
    ],
    ids=["elsewhere", "nothing", "no CSI volume", "by nobody", "inline"],
)
def test_other_attachments_are_not_counted(other):
    nodes = limited(1, [], other, bound("new"))

    assert codes(PLUGIN, make_pod(volumes=using("new")), nodes) == [OK]


@pytest.mark.parametrize("volumes", [[], [{"name": "x", "iscsi": {"iqn": "i"}}]])
def test_pods_without_such_volumes_are_no_concern(volumes):
    assert PLUGIN.pre_filter(make_pod(volumes=volumes), limited(0, [])) == Skip()


def test_each_row_is_judged_by_its_own_changes():
    there = on_a("x", "x")
    nodes = stored(
        [make_node("a"), make_node("b")],
        [there],
        things(
            [csi_node("a", ebs_csi_aws_com=1), csi_node("b", ebs_csi_aws_com=1)],
            *map(bound, ["x", "y", "new"]),
        ),
    )
    pod = make_pod(volumes=using("new"))
    coming = make_pod("y", node="b", volumes=using("y"))

    assert codes(PLUGIN, pod, nodes) == [U, OK]
    assert codes(PLUGIN, pod, nodes.each(removing={0: [there]}, adding={1: [coming]})) == [OK, U]


def test_counts_follow_what_happens():
    """Read in between, so that rows have to be counted again."""
    columns = stored_columns(
        [make_node("a"), make_node("b")], [], [csi_node("b", ebs_csi_aws_com=1), *bound("new")]
    )
    pod = make_pod(volumes=using("new"))

    def now():
        return dict(zip(columns.names, codes(PLUGIN, pod, NodeTable(columns)), strict=True))

    def put(item, resource):
        columns.generation += 1
        columns.objects.put(resource, item)

    there = make_pod("x", node="b", volumes=using("wish"))
    columns.add_pod(columns.rows["b"], there)
    assert now() == {"a": OK, "b": OK}
    put(claim("wish", of="slow"), Resource.PERSISTENT_VOLUME_CLAIM)
    assert now() == {"a": OK, "b": OK}
    put(SLOW, Resource.STORAGE_CLASS)
    assert now() == {"a": OK, "b": U}
    put(claim("wish", of="slow", volume="pv"), Resource.PERSISTENT_VOLUME_CLAIM)
    put(volume("pv", csi=f"{GCE}/x"), Resource.PERSISTENT_VOLUME)
    assert now() == {"a": OK, "b": OK}
    put(volume("pv", csi=f"{EBS}/x"), Resource.PERSISTENT_VOLUME)
    assert now() == {"a": OK, "b": U}
    columns.remove_node("a")
    assert now() == {"b": U}
    put(csi_node("b", ebs_csi_aws_com=2), Resource.CSI_NODE)
    assert now() == {"b": OK}
    put(attachment("va", "b", "pv-y", EBS), Resource.VOLUME_ATTACHMENT)
    assert now() == {"b": OK}
    put(volume("pv-y", csi=f"{EBS}/y"), Resource.PERSISTENT_VOLUME)
    assert now() == {"b": U}
    columns.objects.drop(Resource.VOLUME_ATTACHMENT, attachment("va", "b", "pv-y", EBS))
    assert now() == {"b": OK}
    columns.objects.drop(Resource.CSI_NODE, csi_node("b", ebs_csi_aws_com=2))
    put(csi_node("b", ebs_csi_aws_com=1), Resource.CSI_NODE)
    assert now() == {"b": U}
    columns.remove_pod(columns.rows["b"], there.uid)
    assert now() == {"b": OK}
    assert columns.volumes.users("default/wish") == 0


NODE, CLAIM, ATTACHED = (
    Resource.CSI_NODE,
    Resource.PERSISTENT_VOLUME_CLAIM,
    Resource.VOLUME_ATTACHMENT,
)
WANTING = make_pod("pod", volumes=using("data"))


@pytest.mark.parametrize(
    ("resource", "action", "old", "new", "expected"),
    [
        (NODE, Action.ADD, None, csi_node("a"), True),
        (NODE, Action.UPDATE, csi_node("a", x=1), csi_node("a", x=2), True),
        (NODE, Action.UPDATE, csi_node("a"), csi_node("a", x=2), True),
        (NODE, Action.UPDATE, csi_node("a", x=2), csi_node("a", x=2, y=0), False),
        (NODE, Action.UPDATE, csi_node("a", x=2), csi_node("a", x=1), False),
        (NODE, Action.UPDATE, csi_node("a", x=2), csi_node("a"), False),
        (CLAIM, Action.ADD, None, claim("data"), True),
        (CLAIM, Action.ADD, None, claim("other"), False),
        (ATTACHED, Action.DELETE, attachment("va", "a", "pv"), None, True),
        (POD, Action.DELETE, on_a("x", "y"), None, True),
        (POD, Action.DELETE, make_pod("x", volumes=using("y")), None, False),
        (POD, Action.DELETE, make_pod("x", nominated="a", volumes=using("y")), None, True),
        (POD, Action.DELETE, make_pod("x", node="a"), None, False),
    ],
)
def test_what_could_help(resource, action, old, new, expected):
    assert wakes(PLUGIN, WANTING, resource, action, old, new) == expected


@pytest.mark.parametrize("disk", STRANGE)
def test_any_attachment_may_help_a_pod_whose_disk_no_driver_can_know(disk):
    gone = attachment("va", "a", "pv", GCE)

    assert wakes(PLUGIN, make_pod(volumes=[disk]), ATTACHED, Action.DELETE, gone, None)


@pytest.mark.parametrize(("attacher", "expected"), [(EBS, True), (GCE, False)])
def test_an_attachment_of_the_disks_driver_helps_a_pod_that_names_a_disk(attacher, expected):
    pod = make_pod(volumes=[DISK])
    gone = attachment("va", "a", "pv", attacher)

    assert wakes(PLUGIN, pod, ATTACHED, Action.DELETE, gone, None) == expected
