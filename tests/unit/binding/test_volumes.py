"""Volumes on their way: the real loop around a simulated API server."""

import pytest

from scheduler.errors import Forbidden
from scheduler.kube.watched import watched_for
from scheduler.loop.control_loop import LoopSettings
from scheduler.model.fact import Resource
from scheduler.testing import make_node, make_pod
from scheduler.testing.clock import in_virtual_time
from scheduler.testing.documents import pod_path
from scheduler.testing.harness import Harness, default_profile
from scheduler.testing.simulated_api import Refuse
from tests.unit.plugins.storing import claim, storage_class, using, volume

BINDING = r"/pods/[^/]+/binding$"
CLAIMS = "/api/v1/namespaces/default/persistentvolumeclaims/"
VOLUMES = "/api/v1/persistentvolumes/"
SELECTED = "volume.kubernetes.io/selected-node"
WATCHED = tuple(
    each.resource
    for each in watched_for(
        {each for p in default_profile().plugins for each in getattr(p, "needs", ())}
    )
)
LOCAL = storage_class("local", provisioner="kubernetes.io/no-provisioner")
MADE = storage_class("made")


def harness(**more):
    return Harness(watching=WATCHED, **more)


def pod_with(*names, name="pod", **more):
    return make_pod(name, volumes=using(*names), **more)


def annotations(cluster, name):
    return cluster.api.documents[CLAIMS + name]["metadata"].get("annotations", {})


def complete(cluster, name, volume_name):
    """Bind a claim, as the volume controller does."""

    def edit(document):
        document["spec"]["volumeName"] = volume_name
        kept = document["metadata"].setdefault("annotations", {})
        kept["pv.kubernetes.io/bind-completed"] = "yes"

    cluster.api.change(CLAIMS + name, edit)


def provision(cluster, name, node):
    """Make a volume for a claim and bind both, as provisioner and volume controller do."""
    cluster.create(volume(f"made-{name}", of="made", node=node, claimed=f"default/{name}", uid="u"))
    complete(cluster, name, f"made-{name}")


@in_virtual_time
async def test_a_volume_that_exists_is_bound_before_the_pod():
    async with harness() as cluster:
        cluster.create(make_node("a"), make_node("b"), LOCAL)
        cluster.create(claim("data", of="local"), volume("pv", of="local", node="b"))
        cluster.create(pod := pod_with("data"))
        await cluster.settle()

        written = cluster.api.documents[VOLUMES + "pv"]
        assert written["spec"]["claimRef"]["uid"] == "uid-default-data"
        assert cluster.node_of(pod) == ""
        assert cluster.document(pod)["status"]["nominatedNodeName"] == "b"
        complete(cluster, "data", "pv")
        await cluster.settle()

        assert cluster.node_of(pod) == "b"


@in_virtual_time
async def test_a_volume_is_made_before_the_pod_is_bound():
    async with harness() as cluster:
        cluster.create(make_node("a"), MADE, claim("data", of="made"), pod := pod_with("data"))
        await cluster.settle(30)

        assert annotations(cluster, "data")[SELECTED] == "a"
        assert cluster.node_of(pod) == ""
        assert cluster.core.cache.is_assumed(pod.uid)
        provision(cluster, "data", "a")
        await cluster.settle()

        assert cluster.node_of(pod) == "a"
        assert cluster.events_of(pod) == [("Scheduled", "Successfully assigned default/pod to a")]


@in_virtual_time
async def test_nothing_is_written_for_claims_that_are_bound():
    async with harness() as cluster:
        cluster.create(make_node("a"), claim("data", volume="pv"), volume("pv"))
        cluster.create(pod := pod_with("data"))
        await cluster.settle()

        assert cluster.node_of(pod) == "a"
        assert cluster.api.requests_to("PATCH") == []


@in_virtual_time
async def test_two_pods_do_not_get_one_volume():
    """The second decides before the watch has told what was written for the first."""
    async with harness() as cluster:
        cluster.create(make_node("a"), LOCAL, *(claim(name, of="local") for name in ("x", "y")))
        cluster.create(volume("pv", of="local"))
        cluster.create(first := pod_with("x", name="first"), second := pod_with("y", name="second"))
        await cluster.settle()

        assert cluster.condition(second)[2].startswith(
            "0/1 nodes are available: 1 node(s) didn't find available persistent volumes to bind."
        )
        complete(cluster, "x", "pv")
        await cluster.settle()
        assert cluster.node_of(first) == "a"


@in_virtual_time
async def test_a_wait_that_times_out_frees_the_node():
    """What was written stays, as upstream leaves it: the next attempt goes on from there."""
    async with harness() as cluster:
        cluster.create(make_node("a", allocatable="1 cpu"), MADE, claim("data", of="made"))
        cluster.create(pod := pod_with("data", requests="1 cpu"))
        await cluster.settle(599)
        cluster.create(other := make_pod("other", requests="1 cpu"))
        await cluster.settle(0.2)
        assert cluster.node_of(other) == ""

        await cluster.settle(2)

        assert cluster.condition(pod) == (
            "False",
            "SchedulerError",
            'running PreBind plugin "VolumeBinding": binding volumes did not happen within 600s',
        )
        assert cluster.node_of(other) == "a"
        assert annotations(cluster, "data")[SELECTED] == "a"
        assert "nominatedNodeName" not in cluster.document(pod)["status"]
        provision(cluster, "data", "a")
        cluster.api.remove(pod_path(other))
        await cluster.settle(20)
        assert cluster.node_of(pod) == "a"


@in_virtual_time
async def test_a_provisioner_that_gives_up_sends_the_pod_elsewhere():
    async with harness() as cluster:
        cluster.create(make_node("a"), make_node("b"), MADE, claim("data", of="made"))
        cluster.create(pod := pod_with("data"))
        await cluster.settle()
        first = annotations(cluster, "data")[SELECTED]
        other = ({"a", "b"} - {first}).pop()

        def give_up(document):
            document["metadata"]["annotations"] = {"why": "no space left"}

        cluster.api.change(CLAIMS + "data", give_up)
        cluster.api.remove(f"/api/v1/nodes/{first}")
        await cluster.settle(0.2)
        assert cluster.condition(pod)[1] == "SchedulerError"
        await cluster.settle(20)

        assert annotations(cluster, "data")[SELECTED] == other
        provision(cluster, "data", other)
        await cluster.settle()
        assert cluster.node_of(pod) == other


@pytest.mark.parametrize(
    ("path", "things"),
    [
        (VOLUMES + "pv$", [LOCAL, claim("data", of="local"), volume("pv", of="local")]),
        (CLAIMS + "data$", [MADE, claim("data", of="made")]),
    ],
)
@in_virtual_time
async def test_a_write_that_is_refused_is_taken_back_and_tried_again(path, things):
    async with harness() as cluster:
        cluster.api.plan("PATCH", path, Refuse(Forbidden("not yours", status=403)))
        cluster.create(make_node("a"), *things, pod := pod_with("data"))
        await cluster.settle(0.2)

        assert cluster.condition(pod)[1:] == ("SchedulerError", "not yours")
        objects = cluster.core.cache.view().objects
        assert objects.claim("default", "data").selected_node is None
        assert all(each.spec.claim_ref is None for each in objects.volumes_of_class("local"))
        await cluster.settle(5)
        assert cluster.core.cache.is_assumed(pod.uid)


@in_virtual_time
async def test_somebody_elses_write_is_not_overwritten():
    async with harness() as cluster:
        cluster.create(make_node("a"), LOCAL, claim("data", of="local"))
        cluster.create(volume("pv", of="local"))
        await cluster.settle()
        document = cluster.api.documents[VOLUMES + "pv"]
        document["metadata"]["resourceVersion"] = "somebody's"
        cluster.create(pod := pod_with("data"))
        await cluster.settle(0.2)

        assert cluster.condition(pod)[1] == "SchedulerError"
        assert "claimRef" not in document["spec"]


@in_virtual_time
async def test_a_pod_deleted_while_it_waits_gives_its_place_back():
    async with harness() as cluster:
        cluster.create(make_node("a", allocatable="1 cpu"), MADE, claim("data", of="made"))
        cluster.create(pod := pod_with("data", requests="1 cpu"))
        await cluster.settle(5)
        cluster.create(other := make_pod("other", requests="1 cpu"))
        await cluster.settle(5)
        assert cluster.node_of(other) == ""

        cluster.api.remove(pod_path(pod))
        await cluster.settle(5)

        assert cluster.node_of(other) == "a"
        assert cluster.core.binding.in_flight == 0


@in_virtual_time
async def test_pods_that_wait_for_volumes_do_not_hold_up_the_others():
    async with harness(loop=LoopSettings(binds_in_flight=2)) as cluster:
        names = ["x", "y", "z"]
        cluster.create(make_node("a"), MADE, *(claim(name, of="made") for name in names))
        cluster.create(*(pod_with(name, name=f"pod-{name}") for name in names))
        await cluster.settle(2)
        cluster.create(other := make_pod("other"))
        await cluster.settle(2)

        assert cluster.node_of(other) == "a"
        assert all(SELECTED in annotations(cluster, name) for name in names)


@in_virtual_time
async def test_a_new_scheduler_goes_on_where_the_last_one_was():
    """The node is in the claim and in the pod's status; nothing is written twice."""
    waiting = pod_with("data", nominated="b")
    async with harness() as cluster:
        cluster.create(make_node("a"), make_node("b"), MADE, claim("data", of="made", on="b"))
        cluster.create(waiting)
        await cluster.settle()
        assert cluster.api.requests_to("PATCH") == []
        assert cluster.core.cache.is_assumed(waiting.uid)
        provision(cluster, "data", "b")
        await cluster.settle()

        assert cluster.node_of(waiting) == "b"


@pytest.mark.parametrize(
    ("first", "then"),
    [
        ([], [claim("data", of="made"), MADE]),
        ([claim("data", of="made")], [MADE]),
        ([claim("data", of="local"), LOCAL], [volume("pv", of="local")]),
    ],
    ids=["claim", "class", "volume"],
)
@in_virtual_time
async def test_what_was_missing_wakes_the_pod(first, then):
    async with harness() as cluster:
        cluster.create(make_node("a"), *first, pod := pod_with("data"))
        await cluster.settle(20)
        assert cluster.condition(pod)[1] == "Unschedulable"

        cluster.create(*then)
        await cluster.settle(12)

        assert cluster.core.cache.is_assumed(pod.uid)


@in_virtual_time
async def test_a_claim_for_one_pod_is_had_by_the_next_when_the_first_is_gone():
    async with harness() as cluster:
        cluster.create(make_node("a"), volume("pv"))
        cluster.create(claim("data", volume="pv", modes=["ReadWriteOncePod"]))
        cluster.create(first := pod_with("data", name="first"))
        await cluster.settle()
        cluster.create(second := pod_with("data", name="second"))
        await cluster.settle()
        assert cluster.node_of(first) == "a"
        assert "ReadWriteOncePod" in cluster.condition(second)[2]

        cluster.api.remove(pod_path(first))
        await cluster.settle(12)

        assert cluster.node_of(second) == "a"


def test_everything_that_plugins_read_about_volumes_is_watched():
    assert {
        Resource.PERSISTENT_VOLUME_CLAIM,
        Resource.PERSISTENT_VOLUME,
        Resource.STORAGE_CLASS,
        Resource.CSI_NODE,
        Resource.CSI_DRIVER,
        Resource.CSI_STORAGE_CAPACITY,
        Resource.VOLUME_ATTACHMENT,
    } <= set(WATCHED)
