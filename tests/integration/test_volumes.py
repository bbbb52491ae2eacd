"""Volumes on a real API server, with the real volume controller at work.

Nobody makes volumes here but the tests. Storage classes and volumes live in no namespace, so each
test names its own and deletes them.
"""

from __future__ import annotations

import contextlib
from typing import Any

import pytest

from hack.api import MERGE_PATCH, ApiError
from tests.integration.storage import DRIVER, HOST, ZONE, Storage, mounting
from tests.integration.world import World, configuration, profile, refused, scheduler_process, until

pytestmark = pytest.mark.integration

REACH = "node(s) didn't match PersistentVolume's node affinity"
FIND = "node(s) didn't find available persistent volumes to bind"
RWOP = (
    "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already"
    " in-use by another pod"
)


def test_pod_is_bound_where_its_volume_is(world: World, storage: Storage) -> None:
    """The volume is found, bound by the volume controller, and only then is the pod."""
    world.nodes("a", "b")
    local = storage.storage_class()
    volume = storage.volume("disk", local, within={HOST: "b"})
    storage.claim("data", local)

    pod = world.pod(volumes=mounting("data"))

    world.expect_scheduled(pod, on="b")
    bound = storage.read_volume(volume)
    assert bound["spec"]["claimRef"]["name"] == "data"
    assert bound["metadata"]["annotations"]["pv.kubernetes.io/bound-by-controller"] == "yes"
    assert storage.read_claim("data")["spec"]["volumeName"] == volume
    # Another pod with the claim follows: it is bound now.
    world.expect_scheduled(world.pod(volumes=mounting("data")), on="b")


def test_smallest_claims_get_the_smallest_volumes(world: World, storage: Storage) -> None:
    world.nodes("a")
    local = storage.storage_class()
    volumes = {
        size: storage.volume(f"disk-{size}", local, size=f"{size}Gi") for size in (2, 10, 50)
    }
    storage.claim("large", local, size="5Gi")
    storage.claim("small", local, size="1Gi")

    world.expect_scheduled(world.pod(volumes=mounting("large", "small")))

    storage.await_bound("large")
    assert storage.read_claim("small")["spec"]["volumeName"] == volumes[2]
    assert storage.read_claim("large")["spec"]["volumeName"] == volumes[10]


def test_two_pods_never_get_one_volume(world: World, storage: Storage) -> None:
    world.nodes("a")
    local = storage.storage_class()
    volumes = {storage.volume(f"disk-{index}", local) for index in range(5)}
    claims = [storage.claim(f"data-{index}", local) for index in range(6)]
    pods = [world.pod(cpu="100m", volumes=mounting(claim)) for claim in claims]

    until(lambda: sum(bool(world.node_of(pod)) for pod in pods) == 5, "five of six pods are bound")

    (left,) = [pod for pod in pods if not world.node_of(pod)]
    world.expect_unschedulable(left, refused(1, FIND))
    bound = [storage.read_claim(claim)["spec"].get("volumeName") for claim in claims]
    assert volumes == set(bound) - {None}
    storage.volume("disk-new", local)
    world.expect_scheduled(left)


def test_volume_is_made_on_the_chosen_node(world: World, storage: Storage) -> None:
    """While it is made the pod says where it is going, and its place is kept."""
    world.nodes("a", cpu="1")
    slow = storage.storage_class("slow", provisioner=DRIVER)
    storage.claim("data", slow)
    pod = world.pod(cpu="1", volumes=mounting("data"))
    assert storage.await_selected_node("data") == "a"
    until(lambda: world.read(pod)["status"].get("nominatedNodeName") == "a", "it is nominated")
    world.expect_unschedulable(world.pod(cpu="1"), refused(1, "Insufficient cpu"))
    assert not world.node_of(pod)

    storage.provision("data", slow)

    world.expect_scheduled(pod, on="a")
    assert "nominatedNodeName" not in world.read(pod)["status"]
    assert world.events(pod, "FailedScheduling") == []


def test_volume_of_its_own_is_made(world: World, storage: Storage) -> None:
    """The claim of a generic ephemeral volume is made by a controller; the pod waits for both."""
    world.nodes("a")
    slow = storage.storage_class("slow", provisioner=DRIVER)
    template = {
        "spec": {
            "storageClassName": slow,
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Gi"}},
        }
    }
    volumes = [{"name": "scratch", "ephemeral": {"volumeClaimTemplate": template}}]

    pod = world.pod("owner", volumes=volumes)

    until(lambda: _exists(lambda: storage.read_claim("owner-scratch")), "its claim is made")
    storage.provision("owner-scratch", slow)
    world.expect_scheduled(pod, on="a")


def _exists(read: Any) -> bool:
    with contextlib.suppress(ApiError):
        read()
        return True
    return False


def test_volume_is_made_where_there_is_storage_for_it(world: World, storage: Storage) -> None:
    world.nodes("a", labels={ZONE: "z1"})
    world.nodes("b", labels={ZONE: "z2"})
    slow = storage.storage_class("slow", provisioner=storage.driver)
    storage.claim("data", slow, size="10Gi")
    storage.measure(slow, "1Gi", "z1")
    path = storage.measure(slow, "5Gi", "z2")
    world.settle()
    pod = world.pod(volumes=mounting("data"))
    world.expect_unschedulable(pod, refused(2, "node(s) did not have enough free storage"))

    world.plane.request("PATCH", path, {"capacity": "20Gi"}, content_type=MERGE_PATCH)

    assert storage.await_selected_node("data") == "b"


def test_provisioner_that_gives_up_is_tried_elsewhere(world: World, storage: Storage) -> None:
    world.nodes("a", "b")
    slow = storage.storage_class("slow", provisioner=DRIVER)
    storage.claim("data", slow)
    pod = world.pod(volumes=mounting("data"))
    first = storage.await_selected_node("data")
    other = ({"a", "b"} - {first}).pop()

    world.change_node(first, unschedulable=True)
    storage.deselect("data")

    until(lambda: storage.selected_node("data") == other, f"{other} is selected")
    (event,) = until(lambda: world.events(pod, "FailedScheduling"))
    assert 'binding volumes: provisioning failed for PVC "data"' in event["note"]
    storage.provision("data", slow)
    world.expect_scheduled(pod, on=other)


def test_zone_on_a_volume_binds_its_pod_to_it(world: World, storage: Storage) -> None:
    world.nodes("a", labels={ZONE: "z1"})
    world.nodes("b", labels={ZONE: "z2"})
    local, other = storage.storage_class(), storage.storage_class("other")
    storage.volume("disk", local, labels={ZONE: "z2"}, within={HOST: "b"})
    storage.volume("stray", other, labels={ZONE: "z3"}, within={HOST: "a"})
    storage.claim("data", local)
    storage.claim("lost", other)

    world.expect_scheduled(world.pod(volumes=mounting("data")), on="b")
    # Nothing is known of zones before a claim is bound; now it is.
    world.expect_scheduled(world.pod(volumes=mounting("lost")), on="a")
    world.expect_unschedulable(
        world.pod(volumes=mounting("lost")),
        "0/2 nodes are available: 1 node(s) didn't match PersistentVolume's node affinity,"
        " 1 node(s) had no available volume zone.",
    )


def test_claim_for_one_pod_has_one_pod(world: World, storage: Storage) -> None:
    world.nodes("a", "b")
    local = storage.storage_class()
    storage.volume("disk", local, modes=("ReadWriteOncePod",))
    storage.claim("data", local, mode="ReadWriteOncePod")
    first = world.pod(volumes=mounting("data"))
    world.expect_scheduled(first)

    second = world.pod(volumes=mounting("data"))
    world.expect_unschedulable(second, refused(2, RWOP))

    world.delete_pod(first)
    world.expect_scheduled(second)


def test_node_takes_only_so_many_volumes(world: World, storage: Storage) -> None:
    world.nodes("a")
    storage.limits("a", 2)
    # The class names the driver: a volume counts from the moment it is wished for.
    limited = storage.storage_class("limited", provisioner=DRIVER)
    for index in range(3):
        storage.volume(f"disk-{index}", limited)
        storage.claim(f"data-{index}", limited)
    both = world.pod("both", volumes=mounting("data-0", "data-1"))
    world.expect_scheduled(both)

    third = world.pod(volumes=mounting("data-2"))
    world.expect_unschedulable(third, refused(1, "node(s) exceed max volume count"))
    # A volume that is there already can be mounted once more.
    world.expect_scheduled(world.pod("again", volumes=mounting("data-1")))

    world.delete_pod("again")
    world.delete_pod("both")
    world.expect_scheduled(third)


def test_claim_that_is_not_there_is_awaited(world: World, storage: Storage) -> None:
    world.nodes("a")
    local = storage.storage_class()
    storage.volume("disk", local)
    pod = world.pod(volumes=mounting("data"))
    world.expect_unschedulable(
        pod, '0/1 nodes are available: persistentvolumeclaim "data" not found.'
    )

    storage.claim("data", local)

    world.expect_scheduled(pod)


def test_wait_in_vain_ends(world: World, storage: Storage) -> None:
    """The place is free again, the pod says why; it is bound when the volume is there at last."""
    world.nodes("a", cpu="1")
    slow = storage.storage_class("slow", provisioner=DRIVER)
    storage.claim("data", slow)
    config = configuration(profiles=[profile("hasty", VolumeBinding={"bindTimeoutSeconds": 2})])
    with scheduler_process(world.plane, config=config):
        pod = world.pod(cpu="1", scheduler="hasty", volumes=mounting("data"))
        world.expect_unschedulable(
            pod,
            'running PreBind plugin "VolumeBinding": binding volumes did not happen within 2s',
            reason="SchedulerError",
        )
        assert "nominatedNodeName" not in world.read(pod)["status"]
        # Until it is tried again, and from time to time, others have its place.
        other = world.pod("other", cpu="1", scheduler="hasty", priority=None)
        world.expect_scheduled(other)
        world.delete_pod("other")

        storage.provision("data", slow)

        world.expect_scheduled(pod, on="a")


def test_new_scheduler_resumes_where_the_last_one_stopped(world: World, storage: Storage) -> None:
    world.nodes("a", "b")
    slow = storage.storage_class("slow", provisioner=DRIVER)
    storage.claim("data", slow)
    config = configuration(profiles=[profile("mortal")])
    with scheduler_process(world.plane, config=config) as first:
        pod = world.pod(scheduler="mortal", volumes=mounting("data"))
        node = storage.await_selected_node("data")
        until(lambda: world.read(pod)["status"].get("nominatedNodeName"), "it is nominated")
        first.process.stop(grace_seconds=0)
    version = storage.read_claim("data")["metadata"]["resourceVersion"]

    with scheduler_process(world.plane, config=config):
        world.settle()
        assert storage.read_claim("data")["metadata"]["resourceVersion"] == version
        assert not world.node_of(pod)

        storage.provision("data", slow)

        world.expect_scheduled(pod, on=node)


def test_pod_with_a_resource_claim_is_refused(world: World) -> None:
    world.nodes("a")

    pod = world.pod(resourceClaims=[{"name": "gpu", "resourceClaimName": "gpu"}])

    world.expect_unschedulable(
        pod,
        "0/1 nodes are available: pod has resource claims (spec.resourceClaims), which this"
        " scheduler does not support.",
    )
