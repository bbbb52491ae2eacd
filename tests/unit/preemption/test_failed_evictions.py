"""What can go wrong between a victim and its end: refusals, lost answers, a killed process."""

import pytest

from scheduler.errors import Forbidden, NotFound, Unreachable
from scheduler.testing import make_pod
from scheduler.testing.clock import in_virtual_time
from scheduler.testing.documents import pod_path
from scheduler.testing.harness import Harness
from scheduler.testing.simulated_api import Delay, Lose, Refuse, SimulatedApi
from tests.unit.preemption.preempting import (
    deleted,
    full_node,
    high,
    is_there,
    low,
    slow_deletion,
    take_over,
)


@pytest.mark.parametrize(
    ("method", "path"),
    [("PATCH", "/pods/one/status"), ("DELETE", "/pods/one$"), ("DELETE", "/pods/two$")],
)
@in_virtual_time
async def test_what_fails_half_way_is_tried_again(method, path):
    """Nothing is rolled back: the next attempt needs fewer victims."""
    async with Harness() as cluster:
        await full_node(cluster, one := low("one"), two := low("two"))
        cluster.api.plan(method, path, Refuse(Forbidden("no", status=403)))
        cluster.create(pod := high())
        await cluster.settle(0.5)

        name = "scheduler_preemption_goroutines_execution_total"
        assert cluster.metric(name, result="error") == 1
        assert cluster.node_of(pod) == ""
        if "one" in path:
            assert "two" not in deleted(cluster), "the last is not told where another stays"

        await cluster.settle(5)

        assert cluster.node_of(pod) == "a"
        assert not is_there(cluster, one)
        assert not is_there(cluster, two)


@in_virtual_time
async def test_what_is_never_permitted_is_not_tried_all_the_time():
    async with Harness() as cluster:
        await full_node(cluster, low("low", 2))
        cluster.api.plan("DELETE", "/pods/low$", *[Refuse(Forbidden("no", status=403))] * 1000)
        cluster.create(high())
        await cluster.settle(60)

        assert 3 < len(cluster.api.requests_to("DELETE")) <= 60


@in_virtual_time
async def test_trouble_of_the_api_server_is_ridden_out():
    async with Harness() as cluster:
        await full_node(cluster, low("low", 2))
        trouble = Refuse(Unreachable("500", status=500))
        cluster.api.plan("PATCH", "/pods/low/status", trouble, Lose(executed=True))
        cluster.api.plan("DELETE", "/pods/low$", trouble, Lose(executed=False))
        cluster.create(pod := high())
        await cluster.settle(5)

        assert cluster.node_of(pod) == "a"
        name = "scheduler_preemption_goroutines_execution_total"
        assert cluster.metric(name, result="error") == 0


@pytest.mark.parametrize(("method", "path"), [("PATCH", "/low/status"), ("DELETE", "/low$")])
@in_virtual_time
async def test_a_victim_that_is_gone_already_is_no_failure(method, path):
    async with Harness() as cluster:
        await full_node(cluster, victim := low("low", 2))
        cluster.api.plan(method, path, Refuse(NotFound("gone", status=404)))
        cluster.create(pod := high())
        await cluster.settle()
        assert cluster.events_of(victim) == []
        cluster.api.remove(pod_path(victim))
        await cluster.settle()

        assert cluster.node_of(pod) == "a"


@in_virtual_time
async def test_a_pod_recreated_under_a_victims_name_stays():
    async with Harness() as cluster:
        await full_node(cluster, victim := low("low", 2))
        cluster.api.plan("DELETE", "/pods/low$", Delay(1))
        cluster.create(high())
        await cluster.settle(0.5)
        cluster.api.remove(pod_path(victim))
        cluster.create(successor := make_pod("low", uid="other", requests="2 cpu"))
        await cluster.settle(5)

        assert is_there(cluster, successor)


@in_virtual_time
async def test_another_process_goes_on_where_one_was_killed():
    """One victim is gone, one is not told: what the API server holds is enough to go on with."""
    api = SimulatedApi()
    killed = Harness(api=api)
    await killed.__aenter__()
    await full_node(killed, low("one"), low("two"))
    slow_deletion(killed, "one", 1)
    api.plan("PATCH", "/pods/two/status", Delay(1e6))
    killed.create(pod := high())
    await killed.settle(3)
    assert deleted(killed) == ["one"]
    killed.running.cancel()
    api.deliver = lambda _: None

    async with Harness(api=SimulatedApi()) as cluster:
        take_over(cluster, api)
        await cluster.settle(5)

        assert cluster.node_of(pod) == "a"
        assert deleted(cluster) == ["two"]


@in_virtual_time
async def test_stopping_lets_evictions_end():
    async with Harness() as cluster:
        await full_node(cluster, low("one"), low("two"))
        slow_deletion(cluster, "one", 3)
        cluster.create(high())
        await cluster.settle(1)

    assert deleted(cluster) == ["one", "two"]
