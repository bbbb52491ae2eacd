"""What plugins reserve before a pod is bound, and give back if it is not."""

import pytest

from scheduler.framework.rejection import Failure, Reject
from scheduler.testing import make_node, make_pod
from scheduler.testing.clock import in_virtual_time
from scheduler.testing.harness import Harness
from tests.unit.binding.plugins import Clerk


@in_virtual_time
async def test_reservations_are_taken_back_in_reverse_also_those_never_reached():
    diary = []
    plugins = (
        Clerk("A", diary=diary),
        Clerk("B", diary=diary, reserve=Reject("no device")),
        Clerk("C", diary=diary),
    )
    async with Harness(*plugins) as cluster:
        cluster.create(make_node("a"), pod := make_pod())
        await cluster.settle()

        assert diary == [
            "A reserves",
            "B reserves",
            "C unreserves",
            "B unreserves",
            "A unreserves",
        ]
        assert cluster.condition(pod) == (
            "False",
            "Unschedulable",
            "0/1 nodes are available: 1 no device.",
        )
        assert cluster.core.cache.pod(pod.uid) is None
        assert cluster.state_of(pod) == "unschedulable"


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (Failure(None, "the store is down"), 'running Reserve plugin "Clerk": the store is down'),
        (ValueError("oops"), "plugin 'Clerk' raised ValueError in Reserve: oops"),
    ],
)
@in_virtual_time
async def test_a_reservation_that_fails_is_an_error(answer, message):
    async with Harness(Clerk(reserve=answer)) as cluster:
        cluster.create(make_node("a"), pod := make_pod())
        await cluster.settle()

        assert cluster.condition(pod) == ("False", "SchedulerError", message)
        assert cluster.state_of(pod) == "backoff"


@in_virtual_time
async def test_what_an_unreserve_raises_stops_nobody():
    clerk = Clerk(reserve=Reject("no"))
    clerk.unreserve = lambda pod, node: 1 / 0
    async with Harness(clerk) as cluster:
        cluster.create(make_node("a"), pod := make_pod())
        await cluster.settle()

        assert cluster.condition(pod)[1] == "Unschedulable"
        assert cluster.core.cache.pod(pod.uid) is None
