"""More important pods get room, on a real API server, with a kubelet that insists on admitting."""

from __future__ import annotations

import pytest

from hack.api import ApiError
from tests.integration.ranks import (
    CLASSES,
    budget,
    condition,
    expect_gone,
    gone,
    pod,
    running,
)
from tests.integration.world import until

pytestmark = pytest.mark.integration

NO_ROOM = "0/1 nodes are available: 1 Insufficient cpu."
NO_VICTIMS = (
    f"{NO_ROOM} no new claims to deallocate, preemption: 0/1 nodes are available: "
    "1 No preemption victims found for incoming pod."
)


def test_victims_are_evicted_and_the_nomination_is_written(world, kubelet):
    """The victim is told why, ends in its own time, and the node is nominated meanwhile."""
    world.nodes("a", cpu="2")
    victim = pod(world, "low", cpu="2", grace=3)
    running(world, victim, "a")
    high = pod(world, "high", cpu="2")

    told = until(lambda: condition(world, victim, "DisruptionTarget"), "the victim is told")
    assert (told["status"], told["reason"]) == ("True", "PreemptionByScheduler")
    assert told["message"] == "py-scheduler: preempting to accommodate a higher priority pod"
    until(lambda: world.read(high)["status"].get("nominatedNodeName") == "a", "it is nominated")
    until(lambda: world.read(victim)["metadata"].get("deletionTimestamp"), "the victim goes")
    assert world.read(victim)["metadata"]["deletionGracePeriodSeconds"] == 3
    assert not world.node_of(high)

    expect_gone(world, victim)
    running(world, high, "a")
    assert "nominatedNodeName" not in world.read(high)["status"]
    (event,) = until(lambda: world.events(victim, "Preempted"), "an event")
    uid = world.read(high)["metadata"]["uid"]
    assert event["note"] == f"Preempted by pod {uid} on node a"
    assert (event["type"], event["action"]) == ("Normal", "Preempting")
    assert event["related"]["name"] == high


def test_only_needed_victims_are_evicted(world, kubelet):
    """The least important first, and nobody that the pod does not need to go."""
    world.nodes("a", cpu="4")
    spared = [pod(world, "mid"), pod(world, "mid")]
    victims = [pod(world, "low"), pod(world, "low")]
    for each in (*spared, *victims):
        running(world, each, "a")

    high = pod(world, "high", cpu="2")
    world.expect_scheduled(high, on="a")
    expect_gone(world, *victims)
    assert {world.node_of(each) for each in spared} == {"a"}


def test_the_node_with_the_least_important_pods_is_chosen(world, kubelet):
    world.nodes("a", "b", cpu="2")
    where = {"a": "mid", "b": "low"}
    placed = {
        node: pod(world, of, cpu="2", nodeSelector={"kubernetes.io/hostname": node})
        for node, of in where.items()
    }
    for node, name in placed.items():
        running(world, name, node)

    world.expect_scheduled(pod(world, "high", cpu="2"), on="b")
    expect_gone(world, placed["b"])
    assert world.node_of(placed["a"]) == "a"


def test_a_budget_is_respected_where_there_is_another_way(world, kubelet):
    """Even if that costs a more important pod."""
    world.nodes("a", "b", cpu="2")
    kept = pod(
        world, "low", cpu="2", labels={"app": "db"}, nodeSelector={"kubernetes.io/hostname": "a"}
    )
    victim = pod(world, "mid", cpu="2", nodeSelector={"kubernetes.io/hostname": "b"})
    running(world, kept, "a")
    running(world, victim, "b")
    budget(world, "db", {"app": "db"}, 1, minAvailable=1)

    world.expect_scheduled(pod(world, "high", cpu="2"), on="b")
    expect_gone(world, victim)
    assert world.node_of(kept) == "a"


def test_a_budget_does_not_stop_what_there_is_no_other_way_for(world, kubelet):
    world.nodes("a", cpu="2")
    victim = pod(world, "low", cpu="2", labels={"app": "db"})
    running(world, victim, "a")
    budget(world, "db", {"app": "db"}, 1, minAvailable=1)

    world.expect_scheduled(pod(world, "high", cpu="2"), on="a")
    expect_gone(world, victim)


def test_a_pod_that_never_preempts_waits(world, kubelet):
    world.nodes("a", cpu="2")
    low = pod(world, "low", cpu="2")
    running(world, low, "a")
    control_plane = world.plane
    meek = {"metadata": {"name": "test-meek"}, "value": 5000, "preemptionPolicy": "Never"}
    control_plane.request("POST", CLASSES, meek)
    try:
        high = pod(world, "meek", cpu="2")
    finally:
        control_plane.request("DELETE", f"{CLASSES}/test-meek")

    world.expect_unschedulable(
        high,
        f"{NO_ROOM} no new claims to deallocate, "
        "preemption: not eligible due to preemptionPolicy=Never.",
    )
    assert world.node_of(low) == "a"
    world.delete_pod(low)
    world.expect_scheduled(high, on="a")


def test_no_pod_is_evicted_for_one_of_equal_priority(world, kubelet):
    world.nodes("a", cpu="2")
    first = pod(world, "mid", cpu="2")
    running(world, first, "a")
    second = pod(world, "mid", cpu="2")

    world.expect_unschedulable(second, NO_VICTIMS)
    assert world.node_of(first) == "a"


def test_freed_capacity_is_kept_for_the_nominated_pod(world, kubelet):
    """Pods that come while the victims end do not get it (upstream's issue 72124)."""
    world.nodes("a", cpu="4")
    victims = [pod(world, "low", grace=2) for _ in range(4)]
    for each in victims:
        running(world, each, "a")
    high = pod(world, "high", cpu="4")
    until(lambda: world.read(high)["status"].get("nominatedNodeName") == "a", "it is nominated")
    others = [pod(world, "mid") for _ in range(10)]

    world.expect_scheduled(high, on="a")
    world.settle()
    assert not any(world.node_of(each) for each in others)
    assert world.read(high)["status"].get("phase") != "Failed"


def test_a_more_important_pod_replaces_a_nominated_pod(world, kubelet):
    world.nodes("a", cpu="2")
    victim = pod(world, "low", cpu="2", grace=4)
    running(world, victim, "a")
    mid = pod(world, "mid", cpu="2")
    until(lambda: world.read(mid)["status"].get("nominatedNodeName") == "a", "mid is nominated")
    high = pod(world, "high", cpu="2")

    world.expect_scheduled(high, on="a")
    until(lambda: not world.read(mid)["status"].get("nominatedNodeName"), "mid is not any more")
    assert not world.node_of(mid)


def test_it_goes_down_the_ranks(world, kubelet):
    """Each rank takes the place of the one below; at the end the most important pods are there."""
    world.nodes("a", "b", cpu="4")
    pods = {of: [pod(world, of) for _ in range(8)] for of in ("low", "mid")}
    placed = [name for name in pods["low"] + pods["mid"] if not gone(world, name)]
    until(lambda: sum(_on_a_node(world, name) for name in placed) >= 8, "the nodes are full")
    pods["high"] = [pod(world, "high") for _ in range(4)]
    pods["highest"] = [pod(world, "highest") for _ in range(4)]

    world.expect_all_scheduled(pods["high"] + pods["highest"])
    until(
        lambda: not any(_on_a_node(world, name) for name in pods["low"] + pods["mid"]),
        "the others have left",
    )
    (scheduler,) = world.schedulers
    assert scheduler.metric("scheduler_preemption_victims_count") >= 8
    assert scheduler.metric("scheduler_preemption_goroutines_execution_total", result="error") == 0


def _on_a_node(world, name):
    try:
        return bool(world.node_of(name))
    except ApiError:
        return False
