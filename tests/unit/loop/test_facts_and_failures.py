"""What facts do to cache and queue, and what becomes of a pod whose attempt failed."""

import msgspec
import pytest

from scheduler.framework.cluster_event import POD, Action, ClusterEvent, Requeue
from scheduler.framework.effects import WaitUntil
from scheduler.framework.rejection import Failure, Reject
from scheduler.model.fact import Resource
from scheduler.testing import make_node, make_pod
from scheduler.testing.clock import in_virtual_time
from scheduler.testing.documents import pod_path
from scheduler.testing.harness import Harness
from tests.unit.binding.plugins import Clerk

NO_ROOM = (
    "0/1 nodes are available: 1 Insufficient cpu. no new claims to deallocate, preemption: "
    "0/1 nodes are available: 1 No preemption victims found for incoming pod."
)


class Raises:
    """A filter that breaks on pods of one name."""

    name = "Raises"
    requeue_on = ()

    def filter(self, pod, nodes):
        if pod.name == "cursed":
            raise LookupError("no such thing")
        return ()


# Facts.


@in_virtual_time
async def test_no_pod_is_popped_before_every_resource_is_listed():
    async with Harness(listed=False) as cluster:
        cluster.create(make_node("a"), pod := make_pod())
        cluster.api.relist(Resource.POD)
        cluster.api.relist(Resource.FAILED_POD)
        await cluster.settle(5)
        assert not cluster.core.loop.synced
        assert cluster.node_of(pod) == ""

        cluster.api.relist(Resource.NODE)
        await cluster.settle()

        assert cluster.core.loop.synced
        assert cluster.node_of(pod) == "a"


@in_virtual_time
async def test_who_may_not_act_only_listens():
    leads = []
    async with Harness(may_act=lambda: bool(leads)) as cluster:
        cluster.create(make_node("a"), pod := make_pod())
        await cluster.settle(5)
        assert cluster.api.requests == []

        leads.append(True)
        await cluster.settle(2)

        assert cluster.node_of(pod) == "a"


@in_virtual_time
async def test_pods_of_others_count_but_are_not_touched():
    async with Harness() as cluster:
        cluster.create(make_node("a", allocatable="2 cpu"))
        cluster.create(foreign := make_pod("foreign", scheduler="default-scheduler"))
        cluster.create(make_pod("bound", scheduler="default-scheduler", node="a", requests="2 cpu"))
        cluster.create(pod := make_pod(requests="1 cpu"))
        await cluster.settle()

        assert cluster.node_of(foreign) == ""
        assert cluster.condition(pod) == ("False", "Unschedulable", NO_ROOM)


@in_virtual_time
async def test_gates_keep_a_pod_out_until_they_are_gone():
    async with Harness() as cluster:
        cluster.create(make_node("a"), pod := make_pod(gates=["wait"]))
        await cluster.settle()
        assert (cluster.state_of(pod), cluster.events_of(pod)) == ("gated", [])

        cluster.api.change(pod_path(pod), lambda d: d["spec"].pop("schedulingGates"))
        await cluster.settle()

        assert cluster.node_of(pod) == "a"


@in_virtual_time
async def test_a_pod_that_is_being_deleted_is_passed_over():
    async with Harness() as cluster:
        cluster.create(make_node("a"), pod := make_pod(terminating=True))
        await cluster.settle()

        assert cluster.events_of(pod) == [
            ("FailedScheduling", "skip schedule deleting pod: default/pod")
        ]
        assert cluster.condition(pod) == ("", "", "")
        assert cluster.core.queue.in_flight_counts()["PodPopped"] == 0


@in_virtual_time
async def test_a_pod_that_cannot_be_read_says_so_and_is_taken_up_once_repaired():
    async with Harness() as cluster:
        cluster.create(make_node("a"))
        good = make_pod(requests="1 cpu")
        document = msgspec.to_builtins(good)
        document.pop("malformed")
        document["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "plenty"
        cluster.api.create(document, Resource.POD)
        await cluster.settle()
        status, reason, message = cluster.condition(good)
        assert (status, reason) == ("False", "SchedulerError")
        assert "spec.containers[0].resources.requests[cpu]" in message
        assert cluster.state_of(good) == ""

        cluster.api.replace(good)
        await cluster.settle()

        assert cluster.node_of(good) == "a"


@in_virtual_time
async def test_a_bound_pod_that_cannot_be_read_closes_its_node():
    async with Harness() as cluster:
        cluster.create(make_node("a"), pod := make_pod())
        await cluster.settle()
        cluster.api.change(
            pod_path(pod),
            lambda d: d["spec"]["containers"][0]["resources"].update(requests={"cpu": "?"}),
        )
        cluster.create(late := make_pod("late"))
        await cluster.settle()

        assert "default/pod" in cluster.condition(late)[2]


@in_virtual_time
async def test_freed_capacity_requeues_the_pod_that_waits_for_it():
    async with Harness() as cluster:
        cluster.create(make_node("a", allocatable="1 cpu"))
        cluster.create(big := make_pod("big", requests="1 cpu", node="a"))
        cluster.create(pod := make_pod(requests="1 cpu"))
        await cluster.settle()
        assert cluster.state_of(pod) == "unschedulable"

        cluster.api.remove(pod_path(big))
        await cluster.settle()

        assert cluster.node_of(pod) == "a"


@in_virtual_time
async def test_a_nomination_keeps_capacity_until_it_is_cleared():
    """Others of equal or less importance wait for it, and are woken when it ends."""
    async with Harness() as cluster:
        cluster.create(make_node("a", allocatable="1 cpu"))
        nominee = make_pod("nominee", requests="1 cpu", priority=5, nominated="a", gates=["w"])
        cluster.create(nominee)
        # Gated pods hold nothing; a nomination counts from the first time a pod is ready.
        cluster.create(blocker := make_pod("blocker", node="a", host_ports=[80], priority=9))
        cluster.api.remove(pod_path(nominee))
        nominee = make_pod("nominee", requests="1 cpu", priority=5, nominated="a", host_ports=[80])
        cluster.create(nominee)
        await cluster.settle()
        assert cluster.state_of(nominee) == "unschedulable"
        cluster.api.change(pod_path(nominee), lambda d: d["status"].update(nominatedNodeName="a"))
        await cluster.settle()
        cluster.create(pod := make_pod(requests="1 cpu"))
        await cluster.settle()
        assert cluster.condition(pod)[2] == NO_ROOM

        cluster.api.change(pod_path(nominee), lambda d: d["status"].pop("nominatedNodeName"))
        await cluster.settle(3)

        assert cluster.node_of(pod) == "a"
        assert cluster.node_of(blocker) == "a"


@in_virtual_time
async def test_a_nominee_that_we_place_elsewhere_gives_its_room_up():
    """Nothing else changes on the node that it was nominated to."""
    async with Harness() as cluster:
        cluster.create(make_node("a", allocatable="2 cpu"), make_node("b", taints=["t:NoSchedule"]))
        cluster.create(make_pod("beside", node="a", requests="1 cpu"))
        await cluster.settle()
        nominee = make_pod("nominee", requests="2 cpu", nominated="a", tolerations=["t:NoSchedule"])
        cluster.create(pod := make_pod(requests="1 cpu"), nominee)
        await cluster.settle(3)

        assert cluster.node_of(nominee) == "b"
        assert cluster.attempts("unschedulable") == 1
        assert cluster.node_of(pod) == "a"


@in_virtual_time
async def test_a_nominee_that_others_bind_elsewhere_frees_its_capacity():
    """So may we have done, before we were started again."""
    async with Harness() as cluster:
        cluster.create(make_node("a", allocatable="2 cpu"))
        cluster.create(make_pod("beside", node="a", requests="1 cpu"))
        cluster.create(nominee := make_pod("nominee", requests="2 cpu"))
        await cluster.settle()
        cluster.api.change(pod_path(nominee), lambda d: d["status"].update(nominatedNodeName="a"))
        cluster.create(pod := make_pod(requests="1 cpu"))
        await cluster.settle()
        assert cluster.state_of(pod) == "unschedulable"

        cluster.api.change(pod_path(nominee), lambda d: d["spec"].update(nodeName="b"))
        await cluster.settle(3)

        assert cluster.node_of(pod) == "a"


@in_virtual_time
async def test_kubelet_rejections_of_ours_are_counted():
    async with Harness() as cluster:
        cluster.create(make_node("a"), pod := make_pod())
        await cluster.settle()
        cluster.api.change(
            pod_path(pod), lambda d: d["status"].update(phase="Failed", reason="OutOfcpu")
        )
        await cluster.settle()

        assert cluster.core.cache.sizes()["pods"] == 0
        assert cluster.metric("py_scheduler_kubelet_rejections_total", reason="OutOfcpu") == 1


@in_virtual_time
async def test_a_binding_whose_fact_was_missed_and_whose_pod_is_gone_is_forgotten():
    """We bound it; neither the binding nor the deletion was told."""
    async with Harness() as cluster:
        cluster.create(make_node("a"), pod := make_pod())
        cluster.api.break_watch(Resource.POD)
        await cluster.settle()
        assert cluster.core.cache.is_assumed(pod.uid)
        cluster.api.remove(pod_path(pod))
        cluster.api.relist(Resource.POD)
        await cluster.settle()

        assert cluster.core.cache.sizes()["pods"] == 0


# Failures.


@in_virtual_time
async def test_a_plugin_that_raises_is_named_and_harms_no_other_pod():
    async with Harness(Raises()) as cluster:
        cluster.create(make_node("a"), cursed := make_pod("cursed"), pod := make_pod())
        await cluster.settle()

        assert cluster.node_of(pod) == "a"
        assert cluster.condition(cursed) == (
            "False",
            "SchedulerError",
            "plugin 'Raises' raised LookupError in Filter: no such thing",
        )
        assert (cluster.attempts("error"), cluster.attempts("scheduled")) == (1, 1)


@in_virtual_time
async def test_a_cluster_without_nodes_is_tried_again_and_again():
    async with Harness() as cluster:
        cluster.create(pod := make_pod())
        await cluster.settle()
        assert cluster.condition(pod) == (
            "False",
            "Unschedulable",
            "no nodes available to schedule pods",
        )
        assert cluster.state_of(pod) == "backoff"

        await cluster.settle(60)

        assert cluster.attempts("unschedulable") == 8
        assert len(cluster.api.requests_to("PATCH", "/status")) == 1


@in_virtual_time
async def test_backoffs_end_on_time_although_somebody_else_waits_longer():
    async with Harness(Raises()) as cluster:
        cluster.create(make_node("a", allocatable="1 cpu"))
        cluster.create(make_pod("huge", requests="9 cpu"))
        await cluster.settle(5)
        cluster.create(make_pod("cursed"))
        await cluster.settle(20)

        assert cluster.attempts("error") == 5  # at 5, 7, 10, 15 and 24 seconds


@pytest.mark.parametrize(
    ("happens", "requeued", "told"),
    [
        ("nothing", True, True),
        ("removed", False, True),
        ("recreated", False, False),
        ("bound", False, True),
    ],
)
@in_virtual_time
async def test_what_becomes_of_a_pod_depends_on_what_became_of_it(happens, requeued, told):
    """The pod was removed, made anew or bound elsewhere while its binding was being prepared."""
    broken = []
    disk = WaitUntil(lambda _: "the disk broke" if broken else False, 60, "the disk")
    async with Harness(Clerk(effects=[disk])) as cluster:
        cluster.create(make_node("a"), pod := make_pod())
        await cluster.settle()
        match happens:
            case "removed":
                cluster.api.remove(pod_path(pod))
            case "recreated":
                cluster.api.remove(pod_path(pod))
                cluster.create(make_pod(uid="second", gates=["later"]))
            case "bound":
                cluster.api.change(pod_path(pod), lambda d: d["spec"].update(nodeName="b"))
        await cluster.settle()
        broken.append(True)
        cluster.create(make_node("b"))
        await cluster.settle()

        assert (cluster.state_of(pod) != "") is requeued
        assert bool(cluster.events_of(pod)) is told
        assert cluster.core.queue.in_flight_counts()["PodPopped"] == 0
        assert cluster.core.cache.is_assumed(pod.uid) is False


@pytest.mark.parametrize(
    ("rejects", "order"),
    [
        (True, ["failed", "freed"]),
        (False, ["freed", "failed"]),
    ],
)
@in_virtual_time
async def test_capacity_that_a_failed_binding_frees_requeues_others(rejects, order):
    """On a rejection the pod itself must not be woken by its own failure."""

    clerk = Clerk(reserve=Reject("no") if rejects else Failure(None, "down"))
    clerk.requeue_on = (Requeue(ClusterEvent(POD, Action.DELETE)),)
    async with Harness(clerk) as cluster:
        diary = []
        queue = cluster.core.queue
        requeue_on, park = queue.requeue_on, queue.park
        queue.requeue_on = lambda change, *a, **k: (
            diary.append("freed") if change.event.label == "AssignedPodDelete" else None,
            requeue_on(change, *a, **k),
        )[1]
        queue.park = lambda *a, **k: (diary.append("failed"), park(*a, **k))[1]
        cluster.create(make_node("a"), pod := make_pod())
        await cluster.settle(0.01)

        assert diary[:2] == order
        assert cluster.state_of(pod) == ("unschedulable" if rejects else "backoff")
