"""Pods that have a node but wait for a permit."""

import pytest

from scheduler.binding.waiting_pods import PERMIT_SECONDS_MAXIMUM
from scheduler.framework.cluster_event import NODE_ADD, Requeue
from scheduler.framework.rejection import Allow, Reject, Wait
from scheduler.model.fact import Resource
from scheduler.testing import make_node, make_pod
from scheduler.testing.clock import in_virtual_time
from scheduler.testing.documents import pod_path
from scheduler.testing.harness import Harness
from tests.unit.binding.plugins import Doorman

ALLOW = Allow()


@pytest.fixture
def pod():
    return make_pod(requests="1 cpu")


async def stir(cluster):
    """Let a fact arrive."""
    cluster.create(make_pod(f"fact-{len(cluster.api.documents)}", scheduler="x", node="b"))
    await cluster.settle()


@in_virtual_time
async def test_who_is_allowed_is_bound(pod):
    async with Harness(Doorman(ALLOW)) as cluster:
        cluster.create(make_node("a"), pod)
        await cluster.settle()

        assert cluster.node_of(pod) == "a"
        assert cluster.metric("scheduler_scheduling_algorithm_duration_seconds_count") == 1


@in_virtual_time
async def test_a_waiting_pod_stays_assumed_and_is_checked_on_every_fact(pod):
    doorman = Doorman(Wait(60))
    async with Harness(doorman) as cluster:
        cluster.create(make_node("a"), pod)
        await cluster.settle(10)
        assert cluster.node_of(pod) == ""
        assert cluster.core.cache.is_assumed(pod.uid)
        assert cluster.state_of(pod) == "in flight"
        assert cluster.core.binding.in_flight == 1

        doorman.said = ALLOW
        await stir(cluster)

        assert cluster.node_of(pod) == "a"
        assert doorman.waiting[-1] == ["pod"]
        assert cluster.core.queue.in_flight_counts()["PodPopped"] == 0
        waited = cluster.metric("scheduler_permit_wait_duration_seconds_sum", result="Success")
        assert waited == pytest.approx(10, abs=0.1)


@in_virtual_time
async def test_who_was_let_go_waits_no_more_in_the_eyes_of_the_next(pod):
    """Whoever counts a group must not count a member twice."""

    class First(Doorman):
        def permit(self, pod, node, waiting):
            super().permit(pod, node, waiting)
            return ALLOW if self.said is ALLOW and pod.name == "p0" else Wait(60)

    doorman = First(Wait(60))
    async with Harness(doorman) as cluster:
        cluster.create(make_node("a"), *(make_pod(f"p{number}") for number in range(3)))
        await cluster.settle()
        doorman.waiting.clear()
        doorman.said = ALLOW
        await stir(cluster)

        assert doorman.waiting[:3] == [["p0", "p1", "p2"], ["p1", "p2"], ["p1", "p2"]]


@in_virtual_time
async def test_all_who_asked_to_wait_must_allow(pod):
    first, second = Doorman(Wait(60), "First"), Doorman(Wait(60), "Second")
    async with Harness(first, second) as cluster:
        cluster.create(make_node("a"), pod)
        await cluster.settle()
        first.said = ALLOW
        await stir(cluster)
        assert cluster.node_of(pod) == ""

        second.said = ALLOW
        await stir(cluster)

        assert cluster.node_of(pod) == "a"


@in_virtual_time
async def test_a_rejection_counts_more_than_a_wait(pod):
    async with Harness(Doorman(Wait(60), "Wait"), Doorman(Reject("full"), "Reject")) as cluster:
        cluster.create(make_node("a"), pod)
        await cluster.settle()

        assert cluster.condition(pod) == (
            "False",
            "Unschedulable",
            "0/1 nodes are available: 1 full.",
        )
        assert cluster.core.cache.pod(pod.uid) is None
        assert cluster.core.queue.find(pod.uid).rejected_by == {"Reject"}


@in_virtual_time
async def test_a_rejection_may_come_later(pod):
    doorman = Doorman(Wait(60))
    async with Harness(doorman) as cluster:
        cluster.create(make_node("a"), pod)
        await cluster.settle()
        doorman.said = Reject("changed my mind")
        await stir(cluster)

        assert cluster.condition(pod)[1:] == (
            "Unschedulable",
            "0/1 nodes are available: 1 changed my mind.",
        )
        assert cluster.state_of(pod) == "unschedulable"


@pytest.mark.parametrize(
    ("seconds", "limit", "told"), [(10, 10, "10s"), (10**6, PERMIT_SECONDS_MAXIMUM, "15m0s")]
)
@in_virtual_time
async def test_waiting_ends(pod, seconds, limit, told):
    async with Harness(Doorman(Wait(seconds))) as cluster:
        cluster.create(make_node("a"), pod)
        await cluster.settle(limit - 0.1)
        assert cluster.condition(pod) == ("", "", "")

        await cluster.settle(1)

        assert cluster.condition(pod)[2] == (
            "0/1 nodes are available: 1 rejected due to timeout after waiting "
            f"{told} at plugin Doorman."
        )
        assert cluster.core.cache.pod(pod.uid) is None


@pytest.mark.parametrize("said", [RuntimeError("boom"), "perhaps"])
@in_virtual_time
async def test_a_doorman_who_breaks_is_an_error(pod, said):
    async with Harness(Doorman(said)) as cluster:
        cluster.create(make_node("a"), pod)
        await cluster.settle()

        assert cluster.condition(pod)[1] == "SchedulerError"
        assert "Doorman" in cluster.condition(pod)[2]
        assert cluster.state_of(pod) == "backoff"


@in_virtual_time
async def test_a_doorman_may_break_later_and_nobody_else_suffers(pod):
    doorman = Doorman(Wait(60))
    async with Harness(doorman) as cluster:
        cluster.create(make_node("a"), pod)
        await cluster.settle()
        doorman.said = RuntimeError("boom")
        await stir(cluster)
        assert cluster.condition(pod)[1] == "SchedulerError"
        assert "Doorman" in cluster.condition(pod)[2]

        doorman.said = ALLOW
        cluster.create(other := make_pod("other"))
        await cluster.settle(5)

        assert cluster.node_of(other) == "a"
        assert cluster.node_of(pod) == "a"


@pytest.mark.parametrize("gone", ["condemned", "removed", "missed"])
@in_virtual_time
async def test_a_waiting_pod_that_is_deleted_frees_its_node(pod, gone):
    async with Harness(Doorman(Wait(600))) as cluster:
        cluster.create(make_node("a"), pod)
        await cluster.settle()
        match gone:
            case "condemned":
                cluster.api.begin_deletion(pod_path(pod))
            case "removed":
                cluster.api.remove(pod_path(pod))
            case "missed":
                cluster.api.break_watch(Resource.POD)
                cluster.api.remove(pod_path(pod))
                cluster.api.relist(Resource.POD)
        await cluster.settle()

        assert cluster.core.cache.sizes()["pods"] == 0
        assert cluster.core.binding.in_flight == 0
        assert cluster.events_of(pod)[-1] == (
            "FailedScheduling",
            "0/1 nodes are available: 1 removed.",
        )
        assert cluster.state_of(pod) == ("unschedulable" if gone == "condemned" else "")


@in_virtual_time
async def test_the_end_does_not_wait_for_who_is_held(pod):
    async with Harness(Doorman(Wait(600))) as cluster:
        cluster.create(make_node("a"), pod)
        await cluster.settle()
        cluster.core.loop.stop()
        await cluster.settle(1)

        assert cluster.running.done()
        assert cluster.node_of(pod) == ""


@in_virtual_time
async def test_a_change_while_a_pod_is_held_is_not_lost(pod):
    """The pod stays in flight, so that what changed meanwhile is held against its rejection."""
    doorman = Doorman(Wait(60))
    doorman.requeue_on = (Requeue(NODE_ADD),)
    async with Harness(doorman) as cluster:
        cluster.create(make_node("a"), pod)
        await cluster.settle()
        doorman.said = Reject("no")
        cluster.create(make_node("b"))
        await cluster.settle(0.001)

        assert cluster.core.queue.find(pod.uid).attempts == 2
