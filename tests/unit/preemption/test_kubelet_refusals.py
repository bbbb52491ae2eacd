"""What kubelets refuse on our nodes, and where the pod of the same owner goes then.

The real loop around a simulated API server; the kubelets are played by the test.
"""

import datetime as dt

import pytest

from scheduler.model.fact import Resource
from scheduler.testing import make_node
from scheduler.testing.clock import in_virtual_time
from scheduler.testing.documents import pod_path
from scheduler.testing.harness import Harness, default_profile
from scheduler.testing.simulated_api import NOW
from tests.unit.preemption.other_schedulers import replica, theirs

REFUSED = "node(s) lately refused a pod of the same owner (OutOfcpu)"


def refuse(cluster, pod, reason="OutOfcpu", **status):
    """Let the kubelet of its node fail *pod*."""
    cluster.api.change(
        pod_path(pod), lambda d: d["status"].update(phase="Failed", reason=reason, **status)
    )


def refusals(cluster):
    """Return how many refusals were counted."""
    return cluster.metric("py_scheduler_kubelet_rejections_total", reason="OutOfcpu")


async def refusing_node(cluster):
    """Create a node with room for many, and let its kubelet refuse the first pod of an owner."""
    cluster.create(make_node("a", allocatable="8 cpu"), first := replica("web-1"))
    await cluster.settle()
    refuse(cluster, first)
    await cluster.settle()


def admit(cluster, pod):
    """Let the kubelet of its node take *pod*."""
    cluster.api.change(
        pod_path(pod), lambda d: d["status"].update(startTime="2026-01-01T00:00:00Z")
    )


@in_virtual_time
async def test_the_successor_of_a_refused_pod_goes_elsewhere():
    async with Harness() as cluster:
        await refusing_node(cluster)
        cluster.create(make_node("b", allocatable="2 cpu", taints="t:PreferNoSchedule"))
        cluster.create(second := replica("web-2"), other := replica("db-1", owner="db"))
        await cluster.settle()

        assert cluster.node_of(second) == "b"
        assert cluster.node_of(other) == "a"
        assert refusals(cluster) == 1


@in_virtual_time
async def test_a_standby_learns_from_a_refusal_and_leaves_counting_it_to_the_leader():
    async with Harness(may_act=lambda: False) as cluster:
        cluster.create(make_node("a"), bound := replica("web-1", node="a"))
        await cluster.settle()

        refuse(cluster, bound)
        await cluster.settle()

        assert refusals(cluster) == 0
        assert len(cluster.core.other_schedulers.ledger) == 1


@in_virtual_time
async def test_without_another_node_it_waits_for_a_minute_and_is_woken():
    async with Harness() as cluster:
        await refusing_node(cluster)
        cluster.create(second := replica("web-2"))
        await cluster.settle(59)

        assert cluster.node_of(second) == ""
        assert cluster.condition(second)[2].startswith(f"0/1 nodes are available: 1 {REFUSED}.")
        assert cluster.state_of(second) == "unschedulable"

        await cluster.settle(2)

        assert cluster.node_of(second) == "a"


@in_virtual_time
async def test_a_second_refusal_keeps_away_for_two_minutes():
    async with Harness() as cluster:
        await refusing_node(cluster)
        cluster.create(second := replica("web-2"))
        await cluster.settle(62)
        refuse(cluster, second)
        cluster.create(third := replica("web-3"))
        await cluster.settle(118)
        assert cluster.node_of(third) == ""

        await cluster.settle(4)

        assert cluster.node_of(third) == "a"


@in_virtual_time
async def test_after_the_ban_one_goes_first_and_the_others_follow_when_it_was_let_in():
    async with Harness() as cluster:
        await refusing_node(cluster)
        others = [replica(f"web-{i}") for i in range(2, 6)]
        cluster.create(*others)
        await cluster.settle(70)

        (scout,) = (pod for pod in others if cluster.node_of(pod))
        admit(cluster, scout)
        await cluster.settle(15)

        assert len([pod for pod in others if cluster.node_of(pod)]) == 2


@in_virtual_time
async def test_what_was_on_its_way_is_the_same_conflict():
    async with Harness() as cluster:
        cluster.create(make_node("a", allocatable="8 cpu"))
        pods = [replica(f"web-{i}") for i in range(4)]
        cluster.create(*pods)
        await cluster.settle()
        for pod in pods:
            refuse(cluster, pod)
        cluster.create(successor := replica("web-9"))
        await cluster.settle(62)

        assert cluster.node_of(successor) == "a"


@in_virtual_time
async def test_a_refusal_is_counted_once():
    """Whatever happens to the failed pod later on."""
    async with Harness() as cluster:
        cluster.create(make_node("a"), pod := replica("web-1"))
        await cluster.settle()
        refuse(cluster, pod)
        await cluster.settle()
        cluster.api.change(pod_path(pod), lambda d: d["metadata"]["labels"].update(v="2"))
        await cluster.settle()

        assert refusals(cluster) == 1


@in_virtual_time
async def test_what_other_schedulers_pods_are_refused_is_not_ours():
    async with Harness() as cluster:
        cluster.create(make_node("a"), pod := theirs("x", node="a"))
        await cluster.settle()
        refuse(cluster, pod)
        await cluster.settle()

        assert len(cluster.core.other_schedulers.ledger) == 0
        assert refusals(cluster) == 0


@pytest.mark.parametrize(("minutes", "expected"), [(0.5, ""), (3, "a"), (30, "a")])
@in_virtual_time
async def test_a_restart_does_not_forget(minutes, expected):
    """The failed pods that are listed say when they were refused."""
    at = dt.datetime.fromisoformat(NOW) - dt.timedelta(minutes=minutes)
    stamp = at.strftime("%Y-%m-%dT%H:%M:%SZ")
    async with Harness(listed=False) as cluster:
        cluster.create(make_node("a", allocatable="8 cpu"))
        cluster.create(replica("web-1", node="a", status={"startTime": stamp}))
        refuse(cluster, replica("web-1"), startTime=stamp)
        cluster.create(second := replica("web-2"))
        for resource in (Resource.FAILED_POD, Resource.NODE, Resource.POD):
            cluster.api.relist(resource)
        await cluster.settle(3)

        assert cluster.node_of(second) == expected
        assert refusals(cluster) == 0


@in_virtual_time
async def test_a_node_that_comes_back_is_another_node():
    async with Harness() as cluster:
        await refusing_node(cluster)
        cluster.create(second := replica("web-2"))
        await cluster.settle(3)
        cluster.api.remove("/api/v1/nodes/a")
        cluster.create(make_node("a", uid="another", allocatable="8 cpu"))
        await cluster.settle(3)

        assert cluster.node_of(second) == "a"


@in_virtual_time
async def test_without_the_plugin_it_goes_straight_back():
    profile = default_profile()
    kept = {
        point: tuple(p for p in getattr(profile, point) if p.name != "NodeTrust")
        for point in ("filter", "pre_filter")
    }
    bare = type(profile)(**{f: getattr(profile, f) for f in profile.__slots__} | kept)
    async with Harness(profiles=[bare]) as cluster:
        await refusing_node(cluster)
        cluster.create(second := replica("web-2"))
        await cluster.settle()

        assert cluster.node_of(second) == "a"
