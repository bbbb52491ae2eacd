"""Room that another scheduler keeps for a pod of its own is room that we leave alone."""

import pytest

from scheduler.queue.queue_settings import QueueSettings
from scheduler.testing import make_node, make_pod
from scheduler.testing.clock import in_virtual_time
from scheduler.testing.documents import pod_path
from scheduler.testing.harness import Harness
from scheduler.testing.simulated_api import SimulatedApi
from tests.unit.preemption.other_schedulers import theirs
from tests.unit.preemption.preempting import bind_elsewhere


async def nominee(cluster):
    """Let another scheduler nominate a pod to node a, which has room for no other beside it."""
    cluster.create(
        make_node("a", allocatable="2 cpu"), pod := theirs("x", nominated="a", priority=10)
    )
    await cluster.settle()
    return pod


def renounce(api, path):
    api.change(path, lambda d: d["status"].pop("nominatedNodeName"))


@in_virtual_time
async def test_room_is_kept_for_their_nominee_and_given_up_after_a_while():
    async with Harness() as cluster:
        await nominee(cluster)
        cluster.create(pod := make_pod(requests="1 cpu"))
        await cluster.settle(598)
        assert cluster.node_of(pod) == ""

        await cluster.settle(10)

        assert cluster.node_of(pod) == "a"


@in_virtual_time
async def test_a_more_important_pod_need_not_mind_their_nominee():
    async with Harness() as cluster:
        await nominee(cluster)
        cluster.create(pod := make_pod(requests="1 cpu", priority=11))
        await cluster.settle()

        assert cluster.node_of(pod) == "a"


@pytest.mark.parametrize(
    "end",
    [
        pytest.param(renounce, id="cleared"),
        pytest.param(SimulatedApi.remove, id="gone"),
        pytest.param(bind_elsewhere, id="bound elsewhere"),
    ],
)
@in_virtual_time
async def test_the_end_of_their_nomination_wakes_who_waited(end):
    async with Harness() as cluster:
        cluster.create(make_node("b", allocatable="1 cpu", unschedulable=True))
        x = await nominee(cluster)
        cluster.create(pod := make_pod(requests="1 cpu"))
        await cluster.settle(5)
        assert cluster.node_of(pod) == ""

        end(cluster.api, pod_path(x))
        await cluster.settle(2)

        assert cluster.node_of(pod) == "a"


@in_virtual_time
async def test_zero_seconds_keep_no_capacity_for_their_nominee():
    async with Harness(queue=QueueSettings(foreign_nomination_seconds=0.0)) as cluster:
        cluster.create(make_node("a", allocatable="2 cpu"))
        cluster.create(theirs("x", nominated="a", priority=10))
        cluster.create(pod := make_pod(requests="1 cpu"))
        await cluster.settle()

        assert cluster.node_of(pod) == "a"


@in_virtual_time
async def test_their_nominations_are_not_ours_to_end():
    """A less important nominee of ours would lose its nomination; theirs is left alone."""
    async with Harness() as cluster:
        cluster.create(make_node("a", allocatable="2 cpu"))
        cluster.create(make_pod("low", requests="2 cpu", node="a"))
        cluster.create(x := theirs("x", nominated="a", priority=1))
        await cluster.settle()
        cluster.create(pod := make_pod("high", requests="2 cpu", priority=9))
        await cluster.settle()

        assert cluster.document(pod)["status"]["nominatedNodeName"] == "a"
        assert cluster.document(x)["status"]["nominatedNodeName"] == "a"

        cluster.api.remove("/api/v1/nodes/a")
        await cluster.settle()

        assert cluster.document(x)["status"]["nominatedNodeName"] == "a"
        assert cluster.api.requests_to("PATCH", "/pods/x/") == []
