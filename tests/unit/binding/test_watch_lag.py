"""The lag of the watch is measured by our own bindings."""

import pytest

from scheduler.model.fact import Resource
from scheduler.testing import make_node, make_pod
from scheduler.testing.clock import in_virtual_time
from scheduler.testing.harness import Harness
from scheduler.testing.simulated_api import SimulatedApi

FAMILY = "py_scheduler_watch_lag_seconds"


def lags(cluster):
    """Return how many lags were measured, and their sum in seconds."""
    value = cluster.metrics.registry.get_sample_value
    return value(f"{FAMILY}_count"), value(f"{FAMILY}_sum")


def oldest(cluster):
    return cluster.core.binding.watch_lag.oldest(cluster.core.clock.now())


@pytest.mark.parametrize(("latency", "lag", "measured"), [(0.0, 3.0, 3.0), (1.0, 3.0, 2.5)])
@in_virtual_time
async def test_it_is_the_time_from_the_answer_to_the_event(latency, lag, measured):
    """Half of the latency passes before a request takes effect, and half after it."""
    api = SimulatedApi(latency=lambda: latency, lag=lambda: lag)
    async with Harness(api=api) as cluster:
        cluster.create(make_node("n"), make_pod("a"), make_pod("b"))
        await cluster.settle(30)

        count, total = lags(cluster)
        assert count == 2
        assert total == pytest.approx(2 * measured, abs=0.01)
        assert oldest(cluster) == 0


@in_virtual_time
async def test_an_event_that_comes_before_the_answer_has_no_lag():
    api = SimulatedApi(latency=lambda: 2.0)
    async with Harness(api=api) as cluster:
        cluster.create(make_node("n"), make_pod("a"))
        await cluster.settle(30)

        assert lags(cluster) == (1, 0)


@in_virtual_time
async def test_a_watch_that_stands_still_is_seen_before_it_goes_on():
    async with Harness() as cluster:
        cluster.create(make_node("n"), make_pod("a"))
        await cluster.settle(5)
        assert (oldest(cluster), lags(cluster)) == (0, (1, 0))

        cluster.create(make_pod("b"))
        cluster.api.break_watch(Resource.POD)
        await cluster.settle(40)
        assert oldest(cluster) == pytest.approx(40, abs=0.1)

        cluster.api.relist(Resource.POD)
        await cluster.settle(1)
        assert oldest(cluster) == 0
        count, total = lags(cluster)
        assert count == 2
        assert total == pytest.approx(40, abs=0.1)


@in_virtual_time
async def test_a_pod_that_is_deleted_unseen_leaves_nothing():
    async with Harness() as cluster:
        pod = make_pod("a")
        cluster.create(make_node("n"), pod)
        cluster.api.break_watch(Resource.POD)
        await cluster.settle(5)
        assert oldest(cluster) > 4

        (path,) = [each for each in cluster.api.documents if each.endswith("/a")]
        cluster.api.remove(path)
        cluster.api.relist(Resource.POD)
        await cluster.settle(1)

        assert oldest(cluster) == 0
        assert lags(cluster) == (0, 0)


@in_virtual_time
async def test_what_others_bind_is_not_measured():
    async with Harness() as cluster:
        cluster.create(make_node("n"), make_pod("a", node="n"))
        await cluster.settle(5)

        assert lags(cluster) == (0, 0)
