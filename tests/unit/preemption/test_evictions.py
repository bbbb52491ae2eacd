"""Room is made: victims are told and deleted, and the pod gets their place.

The real loop around a simulated API server; the table is in ``scheduler/preemption/evictions.py``.
"""

import pytest

from scheduler.framework.effects import WaitUntil
from scheduler.framework.rejection import Allow, Wait
from scheduler.model.fact import Resource
from scheduler.model.objects import PodDisruptionBudget
from scheduler.testing import make_node, make_object, make_pod
from scheduler.testing.clock import in_virtual_time
from scheduler.testing.harness import Harness
from scheduler.testing.simulated_api import Delay
from tests.unit.preemption.preempting import (
    deleted,
    full_node,
    high,
    is_there,
    low,
    state_of,
    target_condition,
)

FULL = "0/1 nodes are available: 1 Insufficient cpu."


@in_virtual_time
async def test_a_more_important_pod_gets_the_place():
    async with Harness() as cluster:
        await full_node(cluster, victim := low("low", 2))
        cluster.create(pod := high())
        await cluster.settle()

        assert not is_there(cluster, victim)
        assert cluster.node_of(pod) == "a"
        assert cluster.events_of(victim) == [
            ("Preempted", "Preempted by pod uid-default-high on node a")
        ]
        assert cluster.events_of(pod) == [
            ("FailedScheduling", FULL),
            ("Scheduled", "Successfully assigned default/high to a"),
        ]
        assert cluster.metric("scheduler_preemption_attempts_total") == 1
        assert cluster.metric("scheduler_preemption_victims_sum") == 1
        name = "scheduler_preemption_goroutines_execution_total"
        assert cluster.metric(name, result="success") == 1


@in_virtual_time
async def test_a_victim_is_told_and_deleted_by_its_uid():
    """First why, then that: with its own grace period, and nobody of the same name in its place."""
    async with Harness() as cluster:
        await full_node(cluster, victim := low("low", 2, grace=30))
        cluster.create(high())
        await cluster.settle()

        assert target_condition(cluster, victim) == (
            "True",
            "PreemptionByScheduler",
            "py-scheduler: preempting to accommodate a higher priority pod",
        )
        (patch,) = cluster.api.requests_to("PATCH", "/pods/low/status")
        (delete,) = cluster.api.requests_to("DELETE", "/pods/low$")
        assert patch.content["metadata"] == {"uid": victim.uid}
        assert delete.content["preconditions"] == {"uid": victim.uid}
        assert "gracePeriodSeconds" not in delete.content
        assert cluster.api.requests.index(patch) < cluster.api.requests.index(delete)


@in_virtual_time
async def test_the_nomination_is_written_with_the_condition():
    async with Harness() as cluster:
        await full_node(cluster, low("low", 2, grace=30))
        cluster.create(pod := high())
        await cluster.settle()

        assert cluster.document(pod)["status"]["nominatedNodeName"] == "a"
        assert cluster.condition(pod) == ("False", "Unschedulable", FULL)
        (patch, *_) = cluster.api.requests_to("PATCH", "/pods/high/status")
        assert patch.content["status"]["nominatedNodeName"] == "a"
        assert patch.content["status"]["conditions"][0]["message"] == FULL


@in_virtual_time
async def test_no_other_pod_takes_the_capacity_meanwhile():
    """It is counted on at once, before any request is answered."""
    async with Harness() as cluster:
        await full_node(cluster, low("low", 2, grace=5))
        cluster.create(pod := high())
        await cluster.settle()
        others = [high(f"other-{i}", 1, priority=50) for i in range(5)]
        cluster.create(*others)
        await cluster.settle(20)

        assert cluster.node_of(pod) == "a"
        assert [cluster.node_of(other) for other in others] == [""] * 5


@in_virtual_time
async def test_the_nominated_node_is_tried_first():
    async with Harness() as cluster:
        await full_node(cluster, low("low", 2, grace=5))
        cluster.create(pod := high())
        await cluster.settle()
        cluster.create(make_node("b", allocatable="1 cpu"))
        await cluster.settle(10)

        assert cluster.node_of(pod) == "a"


@in_virtual_time
async def test_another_node_is_taken_if_one_becomes_free():
    async with Harness() as cluster:
        await full_node(cluster, low("low", 2, grace=3000))
        cluster.create(pod := high())
        await cluster.settle()
        cluster.create(make_node("b", allocatable="2 cpu"))
        await cluster.settle(10)

        assert cluster.node_of(pod) == "b"
        assert "nominatedNodeName" not in cluster.document(pod)["status"]
        assert cluster.core.queue.nominated_node(pod.uid) == ""
        assert state_of(cluster, pod) is None


@pytest.mark.parametrize(
    ("more", "why"),
    [
        ({"preemption_policy": "Never"}, "not eligible due to preemptionPolicy=Never."),
        (
            {"priority": 0},
            "0/1 nodes are available: 1 No preemption victims found for incoming pod.",
        ),
        (
            {"node_selector": "disk=ssd"},
            "0/1 nodes are available: 1 Preemption is not helpful for scheduling.",
        ),
    ],
)
@in_virtual_time
async def test_where_it_is_no_use_nobody_goes(more, why):
    async with Harness() as cluster:
        await full_node(cluster, victim := low("low", 2))
        cluster.create(pod := high(**more))
        await cluster.settle()

        assert is_there(cluster, victim)
        assert cluster.condition(pod)[2].endswith(f" preemption: {why}")


@in_virtual_time
async def test_budgets_are_respected_where_there_is_another_way():
    watching = (Resource.POD, Resource.FAILED_POD, Resource.NODE, Resource.POD_DISRUPTION_BUDGET)
    async with Harness(watching=watching) as cluster:
        cluster.api.create(
            make_object(PodDisruptionBudget, "b", spec={"selector": {"matchLabels": {"app": "db"}}})
        )
        await full_node(cluster, low("db", 2, labels="app=db"))
        await full_node(cluster, low("web", 2, node="b", labels="app=web", priority=5), name="b")
        cluster.create(pod := high())
        await cluster.settle()

        assert deleted(cluster) == ["web"]
        assert cluster.node_of(pod) == "b"


@in_virtual_time
async def test_a_terminating_pod_keeps_no_capacity():
    """A finalizer may keep it for long, and nobody schedules it."""
    async with Harness() as cluster:
        await full_node(cluster, cpu=1)
        cluster.create(high("going", 1, nominated="a", terminating=True))
        await cluster.settle(5)
        cluster.create(pod := make_pod("other", requests="1 cpu"))
        await cluster.settle(5)

        assert cluster.node_of(pod) == "a"


class Holds:
    """A permit plugin that holds the pods it is told to hold."""

    name = "Holds"
    requeue_on = ()

    def __init__(self, *names):
        self.names = set(names)

    def permit(self, pod, node, waiting):
        return Wait(60.0) if pod.name in self.names else Allow()


class Prepares:
    """A pre-bind plugin that waits for ever on behalf of the pods it is told."""

    name = "Prepares"

    def __init__(self, *names):
        self.names = set(names)

    def pre_bind(self, pod, node, nodes):
        if pod.name in self.names:
            yield WaitUntil(lambda _: False, 600.0, "something")


@pytest.mark.parametrize(
    ("plugin", "why"),
    [(Holds("low"), "preempted"), (Prepares("low"), "preempted by DefaultPreemption")],
    ids=["permit", "pre-bind"],
)
@in_virtual_time
async def test_a_pod_that_is_not_bound_yet_is_called_off(plugin, why):
    """It is not deleted: it goes where there is room for it."""
    async with Harness(plugin) as cluster:
        cluster.create(make_node("a", allocatable="2 cpu"))
        waiting = make_pod("low", requests="1 cpu")
        cluster.create(waiting)
        await cluster.settle()
        assert cluster.core.cache.is_assumed(waiting.uid)
        cluster.create(pod := high())
        await cluster.settle(0.2)

        assert cluster.node_of(pod) == "a"
        assert is_there(cluster, waiting)
        assert deleted(cluster) == []
        assert cluster.condition(waiting)[:2] == ("False", "SchedulerError")
        assert cluster.condition(waiting)[2] == why
        assert (
            "Preempted",
            "Preempted by pod uid-default-high on node a (in kube-scheduler memory).",
        ) in cluster.events_of(waiting)

        plugin.names.clear()
        cluster.create(make_node("b", allocatable="1 cpu"))
        await cluster.settle(20)

        assert cluster.node_of(waiting) == "b"


@in_virtual_time
async def test_a_pod_whose_binding_is_posted_is_deleted():
    async with Harness() as cluster:
        cluster.create(make_node("a", allocatable="2 cpu"))
        cluster.api.plan("POST", "/pods/low/binding", Delay(5))
        cluster.create(bound := make_pod("low", requests="2 cpu"))
        await cluster.settle()
        cluster.create(pod := high())
        await cluster.settle(10)

        assert not is_there(cluster, bound)
        assert cluster.node_of(pod) == "a"
