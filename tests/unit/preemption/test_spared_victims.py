"""Who was not told to go is spared once the pod needs no room any more."""

import pytest

from scheduler.errors import Throttled
from scheduler.testing import make_node
from scheduler.testing.clock import in_virtual_time
from scheduler.testing.documents import pod_path
from scheduler.testing.harness import Harness
from scheduler.testing.simulated_api import Delay, Refuse, SimulatedApi
from tests.unit.preemption.preempting import (
    bind_elsewhere,
    deleted,
    full_node,
    high,
    is_there,
    low,
    slow_deletion,
    state_of,
    target_condition,
)


@pytest.mark.parametrize(
    "end",
    [
        pytest.param(SimulatedApi.remove, id="it is deleted"),
        # A finalizer may keep it for long; it needs no room any more.
        pytest.param(SimulatedApi.begin_deletion, id="it begins to go"),
        pytest.param(bind_elsewhere, id="somebody else binds it"),
    ],
)
@in_virtual_time
async def test_victims_are_spared_when_the_pod_needs_no_room_any_more(end):
    async with Harness() as cluster:
        cluster.create(make_node("b", allocatable="1 cpu"))
        await full_node(cluster, low("one"), two := low("two"))
        slow_deletion(cluster, "one", 2)
        cluster.create(pod := high())
        await cluster.settle(1)
        end(cluster.api, pod_path(pod))
        await cluster.settle(5)

        assert is_there(cluster, two)
        assert target_condition(cluster, two) == ("", "", "")
        assert state_of(cluster, pod) is None
        assert cluster.core.evictions.in_flight == 0


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (None, ("False", "PreemptionByScheduler", "its room is not needed any more")),
        (
            {"status": "True", "reason": "EvictionByEvictionAPI", "message": "drained"},
            ("True", "EvictionByEvictionAPI", "drained"),
        ),
    ],
    ids=["untold", "told by others"],
)
@in_virtual_time
async def test_a_victim_that_is_spared_between_the_two_requests_is_told_so(before, after):
    status = {"conditions": [{"type": "DisruptionTarget", **before}]} if before else {}
    async with Harness() as cluster:
        await full_node(cluster, victim := low("low", 2, status=status))
        cluster.api.plan("PATCH", "/pods/low/status", Delay(2))
        cluster.create(pod := high())
        await cluster.settle(1)
        cluster.api.remove(pod_path(pod))
        await cluster.settle(5)

        assert deleted(cluster) == []
        assert target_condition(cluster, victim) == after


@pytest.mark.parametrize("method", ["PATCH", "DELETE"])
@in_virtual_time
async def test_nothing_is_repeated_for_a_pod_that_has_found_a_node_meanwhile(method):
    async with Harness() as cluster:
        cluster.create(make_node("b", allocatable="1 cpu"))
        await full_node(cluster, victim := low("low", 2))
        later = Refuse(Throttled("slow down", retry_after_seconds=2))
        cluster.api.plan(method, "/pods/low(/status)?$", later)
        cluster.create(pod := high())
        await cluster.settle(1)
        bind_elsewhere(cluster.api, pod_path(pod))
        await cluster.settle(5)

        asked = cluster.api.requests_to(method, "/pods/low(/status)?$")
        assert len([each for each in asked if b'"status":"False"' not in each.body]) == 1
        assert is_there(cluster, victim)
