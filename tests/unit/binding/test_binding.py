"""From a decision to a bound pod: the real loop around a simulated API server."""

import pytest

from scheduler.errors import Forbidden, Throttled, Unreachable
from scheduler.framework.effects import WaitUntil
from scheduler.loop.control_loop import LoopSettings
from scheduler.model.fact import Resource
from scheduler.testing import make_node, make_pod
from scheduler.testing.clock import in_virtual_time
from scheduler.testing.documents import pod_path
from scheduler.testing.harness import Harness, bare_profile
from scheduler.testing.simulated_api import Delay, Lose, Refuse
from tests.unit.binding.plugins import Clerk

BINDING = r"/pods/[^/]+/binding$"


@in_virtual_time
async def test_a_pod_is_bound_and_an_event_says_so():
    async with Harness() as cluster:
        cluster.create(make_node("a"), pod := make_pod(requests="1 cpu"))
        await cluster.settle()

        assert cluster.node_of(pod) == "a"
        assert cluster.events_of(pod) == [("Scheduled", "Successfully assigned default/pod to a")]
        assert cluster.attempts("scheduled") == 1
        assert cluster.state_of(pod) == ""


async def two_for_one_place(cluster):
    """Let the first of two pods get the only place; its binding takes five seconds."""
    cluster.api.plan("POST", BINDING, Delay(5))
    first = make_pod("first", requests="1 cpu", priority=1)
    second = make_pod("second", requests="1 cpu")
    cluster.create(make_node("a", allocatable="1 cpu"), first, second)
    await cluster.settle()
    return first, second


@in_virtual_time
async def test_a_pod_is_assumed_before_it_is_posted():
    async with Harness() as cluster:
        first, second = await two_for_one_place(cluster)

        assert cluster.core.cache.is_assumed(first.uid)
        assert cluster.node_of(first) == ""
        assert cluster.state_of(second) == "unschedulable"
        assert cluster.condition(second)[2].startswith(
            "0/1 nodes are available: 1 Insufficient cpu."
        )

        await cluster.settle(5)

        assert cluster.node_of(first) == "a"
        assert not cluster.core.cache.is_assumed(first.uid)


@pytest.mark.parametrize(
    "lost",
    [
        Lose(executed=True),
        Lose(executed=False),
        Lose(executed=True, after_seconds=3),
        Refuse(Unreachable("POST: 500", status=500)),
    ],
)
@in_virtual_time
async def test_a_lost_answer_is_neither_success_nor_failure(lost):
    """The assumption stays until the pod was read back, and the pod is bound once."""
    async with Harness() as cluster:
        cluster.api.plan("POST", BINDING, lost)
        cluster.create(make_node("a"), pod := make_pod(requests="1 cpu"))
        await cluster.settle(0.01)
        assert cluster.core.cache.pod(pod.uid) is not None

        await cluster.settle(120)

        assert cluster.api.bound == [(pod.uid, "a")]
        assert cluster.attempts("scheduled") == 1
        assert cluster.attempts("error") == 0
        assert cluster.api.requests_to("GET", "/pods/pod$")


@in_virtual_time
async def test_patience_asked_for_is_no_failed_attempt():
    async with Harness() as cluster:
        cluster.api.plan("POST", BINDING, Refuse(Throttled("slow down", retry_after_seconds=2)))
        cluster.create(make_node("a"), pod := make_pod())
        await cluster.settle(1.9)
        assert cluster.node_of(pod) == ""

        await cluster.settle(1)

        assert cluster.node_of(pod) == "a"
        assert cluster.attempts("error") == 0


@in_virtual_time
async def test_a_conflict_is_somebody_elses_decision():
    """The place is given back at once, and the pod is not posted again without a new decision."""
    async with Harness() as cluster:
        cluster.api.break_watch(Resource.POD)
        cluster.api.plan("POST", BINDING, Delay(0))
        cluster.create(make_node("a", allocatable="1 cpu"))
        await cluster.settle()
        cluster.api.relist(Resource.POD)
        cluster.create(pod := make_pod(requests="1 cpu"))
        cluster.api.break_watch(Resource.POD)
        cluster.api.change(pod_path(pod), lambda d: d["spec"].update(nodeName="b"))
        await cluster.settle(0.5)

        assert cluster.core.cache.pod(pod.uid) is None
        assert cluster.state_of(pod) == "backoff"
        assert len(cluster.api.requests_to("POST", BINDING)) == 1
        assert cluster.attempts("error") == 1

        cluster.api.relist(Resource.POD)
        await cluster.settle(10)

        assert cluster.state_of(pod) == ""
        assert cluster.core.cache.pod(pod.uid).node_name == "b"
        assert len(cluster.api.requests_to("POST", BINDING)) == 1
        assert cluster.api.bound == []


@in_virtual_time
async def test_a_refused_binding_is_retried_after_a_backoff():
    async with Harness() as cluster:
        cluster.api.plan("POST", BINDING, Refuse(Forbidden("no binding for you", status=403)))
        cluster.create(make_node("a"), pod := make_pod())
        await cluster.settle()

        assert cluster.condition(pod) == (
            "False",
            "SchedulerError",
            'running Bind plugin "DefaultBinder": no binding for you',
        )
        assert cluster.state_of(pod) == "backoff"

        await cluster.settle(3)

        assert cluster.node_of(pod) == "a"
        assert cluster.core.queue.in_flight_counts()["PodPopped"] == 0


@in_virtual_time
async def test_deletion_frees_the_node_of_an_assumed_pod():
    async with Harness() as cluster:
        first, second = await two_for_one_place(cluster)
        assert cluster.state_of(second) == "unschedulable"

        cluster.api.begin_deletion(pod_path(first))
        await cluster.settle(2)

        assert cluster.core.cache.pod(first.uid) is None
        assert cluster.node_of(second) == "a"

        cluster.api.remove(pod_path(first))
        await cluster.settle(10)

        assert cluster.state_of(first) == ""


@in_virtual_time
async def test_a_pod_that_vanished_while_it_was_bound_is_forgotten():
    async with Harness() as cluster:
        cluster.api.plan("POST", BINDING, Delay(1))
        cluster.create(make_node("a"), pod := make_pod())
        await cluster.settle()
        cluster.api.remove(pod_path(pod))
        await cluster.settle(5)

        assert len(list(cluster.core.queue)) == 0
        assert cluster.core.cache.sizes()["pods"] == 0


@in_virtual_time
async def test_a_bind_that_waited_is_checked_once_more():
    """While the pod's volume was prepared another scheduler took the room."""
    ready = []
    clerk = Clerk(effects=[WaitUntil(lambda _: bool(ready), 60, "the volume")])
    async with Harness(clerk) as cluster:
        cluster.create(make_node("a", allocatable="2 cpu"), pod := make_pod(requests="2 cpu"))
        await cluster.settle()
        cluster.create(make_pod("thief", requests="1 cpu", node="a", scheduler="default-scheduler"))
        ready.append(True)
        await cluster.settle()

        assert cluster.api.requests_to("POST", BINDING) == []
        assert cluster.condition(pod)[2] == "node a was filled meanwhile: Insufficient cpu"


@in_virtual_time
async def test_a_bind_is_checked_against_the_number_of_pods_too():
    ready = []
    clerk = Clerk(effects=[WaitUntil(lambda _: bool(ready), 60, "the volume")])
    async with Harness(clerk) as cluster:
        cluster.create(make_node("a", allocatable={"pods": "1"}), pod := make_pod())
        await cluster.settle()
        cluster.create(make_pod("thief", node="a", scheduler="default-scheduler"))
        ready.append(True)
        await cluster.settle()

        assert cluster.condition(pod)[2] == "node a was filled meanwhile: Too many pods"


@in_virtual_time
async def test_a_bind_whose_node_is_gone_is_not_posted():
    ready = []
    clerk = Clerk(effects=[WaitUntil(lambda _: bool(ready), 60, "the volume")])
    async with Harness(clerk) as cluster:
        cluster.create(make_node("a"), pod := make_pod(requests="2 cpu"))
        await cluster.settle()
        ready.append(True)
        cluster.api.remove("/api/v1/nodes/a")
        await cluster.settle()

        assert cluster.api.requests_to("POST", BINDING) == []
        assert cluster.condition(pod)[2] == "node a is gone"


@in_virtual_time
async def test_what_no_filter_minds_does_not_stop_a_bind():
    """Whoever switches a filter off wants nodes to be overcommitted."""
    async with Harness(profiles=[bare_profile()]) as cluster:
        cluster.create(make_node("a", allocatable="1 cpu"), pod := make_pod(requests="2 cpu"))
        await cluster.settle()

        assert cluster.node_of(pod) == "a"


@in_virtual_time
async def test_binds_in_flight_are_bounded():
    async with Harness(loop=LoopSettings(binds_in_flight=3)) as cluster:
        cluster.api.choose_fault = lambda method, path: (
            Delay(1) if path.endswith("/binding") else None
        )
        cluster.create(make_node("a"), *(make_pod(f"p{index}") for index in range(9)))
        most = 0
        for _ in range(100):
            await cluster.settle(0.1)
            most = max(most, cluster.core.binding.in_flight)

        assert most == 3
        assert len(cluster.api.bound) == 9


@in_virtual_time
async def test_stopping_lets_posted_binds_end():
    async with Harness() as cluster:
        cluster.api.plan("POST", BINDING, Delay(5))
        cluster.create(make_node("a"), pod := make_pod(), late := make_pod("late"))
        await cluster.settle(0.001)
        cluster.core.loop.stop()
        cluster.create(never := make_pod("never"))
        await cluster.settle(60)

        assert cluster.node_of(pod) == "a"
        assert cluster.node_of(late) == "a"
        assert cluster.node_of(never) == ""
        assert cluster.running.done()
        assert cluster.attempts("scheduled") == 2
