"""Room is made: victims are told and deleted, and the pod that needs it waits for that, no longer.

The real loop around a simulated API server; the table is in ``scheduler/loop/evictions.py``.
"""

import asyncio
import json

import pytest

from scheduler.errors import Forbidden, NotFound, Throttled, Unreachable
from scheduler.framework.effects import WaitUntil
from scheduler.framework.rejection import Allow, Wait
from scheduler.loop.evictions import WAITING, State
from scheduler.model.fact import Added, Deleted, Resource
from scheduler.model.objects import PodDisruptionBudget
from scheduler.model.pod import DISRUPTION_TARGET, PREEMPTION_BY_SCHEDULER
from scheduler.queue.place import Place
from scheduler.queue.scheduling_queue import QueueSettings
from scheduler.testing import make_node, make_object, make_pod
from scheduler.testing.clock import in_virtual_time
from scheduler.testing.documents import pod_path
from scheduler.testing.harness import Harness
from scheduler.testing.simulated_api import Delay, Lose, Refuse, SimulatedApi

FULL = "0/1 nodes are available: 1 Insufficient cpu."


def low(name, cpu=1, *, node="a", grace=0, **more):
    """A pod that runs already, of no importance."""
    return make_pod(
        name,
        requests=f"{cpu} cpu",
        node=node,
        termination_grace_period_seconds=grace,
        **more,
    )


def high(name="high", cpu=2, *, priority=100, **more):
    return make_pod(name, requests=f"{cpu} cpu", priority=priority, **more)


def full_node(cluster, *pods, name="a", cpu=2):
    cluster.create(make_node(name, allocatable=f"{cpu} cpu"), *pods)


def deleted(cluster):
    """Return the names of the pods whose deletion was asked for, in order."""
    return [each.path.rpartition("/")[2] for each in cluster.api.asked("DELETE")]


def is_there(cluster, pod):
    return pod_path(pod) in cluster.api.documents


def target_condition(cluster, pod):
    for each in cluster.document(pod).get("status", {}).get("conditions") or []:
        if each["type"] == "DisruptionTarget":
            return each
    return {}


def metric(cluster, name, **labels):
    return cluster.metrics.registry.get_sample_value(name, labels) or 0


# The whole way.


@in_virtual_time
async def test_a_more_important_pod_gets_the_place():
    async with Harness() as cluster:
        full_node(cluster, victim := low("low", 2))
        await cluster.settle()
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
        assert metric(cluster, "scheduler_preemption_attempts_total") == 1
        assert metric(cluster, "scheduler_preemption_victims_sum") == 1
        name = "scheduler_preemption_goroutines_execution_total"
        assert metric(cluster, name, result="success") == 1


@in_virtual_time
async def test_a_victim_is_told_and_deleted_by_its_uid():
    """First why, then that: with its own grace period, and nobody of the same name in its place."""
    async with Harness() as cluster:
        full_node(cluster, victim := low("low", 2, grace=30))
        await cluster.settle()
        cluster.create(high())
        await cluster.settle()

        condition = target_condition(cluster, victim)
        assert (condition["status"], condition["reason"], condition["message"]) == (
            "True",
            "PreemptionByScheduler",
            "py-scheduler: preempting to accommodate a higher priority pod",
        )
        (patch,) = cluster.api.asked("PATCH", "/pods/low/status")
        (delete,) = cluster.api.asked("DELETE", "/pods/low$")
        assert patch.content["metadata"] == {"uid": victim.uid}
        assert delete.content["preconditions"] == {"uid": victim.uid}
        assert "gracePeriodSeconds" not in delete.content
        assert cluster.api.requests.index(patch) < cluster.api.requests.index(delete)


@in_virtual_time
async def test_the_nomination_is_written_with_the_condition():
    async with Harness() as cluster:
        full_node(cluster, low("low", 2, grace=30))
        await cluster.settle()
        cluster.create(pod := high())
        await cluster.settle()

        assert cluster.document(pod)["status"]["nominatedNodeName"] == "a"
        assert cluster.condition(pod) == ("False", "Unschedulable", FULL)
        (patch, *_) = cluster.api.asked("PATCH", "/pods/high/status")
        assert patch.content["status"]["nominatedNodeName"] == "a"
        assert patch.content["status"]["conditions"][0]["message"] == FULL


@in_virtual_time
async def test_nobody_takes_the_place_meanwhile():
    """It is counted on at once, before any request is answered."""
    async with Harness() as cluster:
        full_node(cluster, low("low", 2, grace=5))
        await cluster.settle()
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
        full_node(cluster, low("low", 2, grace=5))
        await cluster.settle()
        cluster.create(pod := high())
        await cluster.settle()
        cluster.create(make_node("b", allocatable="1 cpu"))
        await cluster.settle(10)

        assert cluster.node_of(pod) == "a"


@in_virtual_time
async def test_another_node_is_taken_if_one_becomes_free():
    async with Harness() as cluster:
        full_node(cluster, low("low", 2, grace=3000))
        await cluster.settle()
        cluster.create(pod := high())
        await cluster.settle()
        cluster.create(make_node("b", allocatable="2 cpu"))
        await cluster.settle(10)

        assert cluster.node_of(pod) == "b"
        assert "nominatedNodeName" not in cluster.document(pod)["status"]
        assert cluster.core.queue.nominator.node_of(pod.uid) == ""
        assert cluster.core.evictions.state_of(pod.uid) is None


# Who may not.


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
        full_node(cluster, victim := low("low", 2))
        await cluster.settle()
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
        full_node(cluster, low("db", 2, labels="app=db"))
        full_node(cluster, low("web", 2, node="b", labels="app=web", priority=5), name="b")
        await cluster.settle()
        cluster.create(pod := high())
        await cluster.settle()

        assert deleted(cluster) == ["web"]
        assert cluster.node_of(pod) == "b"


@in_virtual_time
async def test_who_has_preempted_waits_for_the_victims():
    """Whatever wakes the pod meanwhile, nobody else has to go."""
    async with Harness() as cluster:
        full_node(cluster, low("one", 2, grace=30))
        full_node(cluster, low("two", 2, node="b", priority=1), name="b")
        await cluster.settle()
        cluster.create(pod := high())
        await cluster.settle()
        for version in range(5):
            cluster.api.change(
                pod_path(pod), lambda d, v=version: d["metadata"]["labels"].update(v=str(v))
            )
            cluster.create(low(f"more-{version}", 0))
            cluster.api.remove(pod_path(low(f"more-{version}", 0)))
            await cluster.settle(3)

        assert deleted(cluster) == ["one"]
        assert cluster.condition(pod)[2].endswith(
            "preemption: not eligible due to a terminating pod on the nominated node."
        )

        await cluster.settle(20)

        assert cluster.node_of(pod) == "a"


@in_virtual_time
async def test_a_nomination_that_is_not_written_yet_is_known_to_the_next_attempt():
    """Forgotten, it would free the place for others, who would free it for the pod, and so on."""
    async with Harness() as cluster:
        told = {"type": DISRUPTION_TARGET, "status": "True", "reason": PREEMPTION_BY_SCHEDULER}
        going = low("going", 2, grace=30, terminating=True, status={"conditions": [told]})
        full_node(cluster, going)
        await cluster.settle()
        cluster.api.plan("PATCH", "/pods/.*/status", *[Delay(5)] * 2)
        pods = [high("one"), high("other")]
        cluster.create(*pods)
        await cluster.settle(1)
        nominated = cluster.core.queue.nominator.by_node()
        cluster.create(low("more", 0))
        cluster.api.remove(pod_path(low("more", 0)))
        await cluster.settle(3)

        assert not cluster.document(pods[0])["status"].get("nominatedNodeName")
        assert cluster.attempts("unschedulable") > len(pods)
        assert cluster.core.queue.nominator.by_node() == nominated
        assert [each.name for each in nominated["a"]] == ["one"]


# The gate, and waking up.


def slow_deletion(cluster, name, seconds):
    cluster.api.plan("DELETE", f"/pods/{name}$", Delay(seconds))


@in_virtual_time
async def test_the_pod_waits_outside_until_its_victims_are_told():
    """The first victim's end must not make it look for more victims."""
    async with Harness() as cluster:
        full_node(cluster, low("one"), low("two"))
        full_node(cluster, low("else", 2, node="b", priority=1), name="b")
        await cluster.settle()
        # The least important of them is told last.
        slow_deletion(cluster, "two", 3)
        cluster.create(pod := high())
        await cluster.settle(2)

        assert deleted(cluster) == ["one", "two"]
        queued = cluster.core.queue.find(pod.uid)
        assert cluster.place_of(pod) == "gated"
        assert (queued.gated_by, queued.gate_reason) == ("DefaultPreemption", WAITING)
        assert cluster.core.evictions.state_of(pod.uid) is State.LAST

        await cluster.settle(2)

        assert cluster.node_of(pod) == "a"
        assert deleted(cluster) == ["one", "two"]


@in_virtual_time
async def test_no_victim_is_told_before_the_api_server_knows_for_whom():
    """Else a process that takes over after a crash would take yet more victims, elsewhere."""
    async with Harness() as cluster:
        full_node(cluster, low("one"), low("two"))
        await cluster.settle()
        cluster.api.plan("PATCH", "/pods/high/status", Delay(2))
        cluster.create(pod := high())
        await cluster.settle(1.9)
        assert not target_condition(cluster, low("one"))
        assert deleted(cluster) == []
        await cluster.settle(0.3)

        assert deleted(cluster) == ["one", "two"]
        assert cluster.node_of(pod) == "a"


@in_virtual_time
async def test_a_nomination_that_cannot_be_written_stops_nobody():
    async with Harness() as cluster:
        full_node(cluster, low("low", 2))
        await cluster.settle()
        cluster.api.plan("PATCH", "/pods/high/status", *[Lose(executed=False)] * 4)
        cluster.create(pod := high())
        await cluster.settle(2)

        assert cluster.node_of(pod) == "a"


@in_virtual_time
async def test_all_victims_but_one_are_told_at_once():
    async with Harness() as cluster:
        victims = [low(f"low-{i}") for i in range(4)]
        full_node(cluster, *victims, cpu=4)
        await cluster.settle()
        for victim in victims[:3]:
            slow_deletion(cluster, victim.name, 2)
        start = asyncio.get_running_loop().time()
        cluster.create(pod := high(cpu=4))
        await cluster.settle(10)

        asked = {each.path[-5:]: each.at - start for each in cluster.api.asked("DELETE")}
        assert [asked[f"low-{i}"] for i in range(3)] == pytest.approx([0, 0, 0], abs=0.1)
        assert asked["low-3"] == pytest.approx(2, abs=0.1)
        assert cluster.node_of(pod) == "a"


@in_virtual_time
async def test_who_was_first_gets_its_room_first():
    """Of many preemptions the earliest end while the latest have not begun."""
    async with Harness() as cluster:
        names = [f"n{i}" for i in range(60)]
        for name in names:
            full_node(cluster, low(f"x-{name}", node=name), low(f"y-{name}", node=name), name=name)
        await cluster.settle()
        cluster.api.plan("DELETE", "/pods/", *[Delay(1)] * 120)
        pods = [high(f"high-{i}") for i in range(60)]
        for pod in pods:
            cluster.create(pod)
            await cluster.settle(0)
        await cluster.settle(2.5)

        bound = [bool(cluster.node_of(pod)) for pod in pods]
        assert 0 < sum(bound) < 40
        assert sorted(bound, reverse=True) == bound
        await cluster.settle(10)
        assert all(cluster.node_of(pod) for pod in pods)


@in_virtual_time
async def test_the_most_important_gets_its_room_before_those_who_wait_already():
    async with Harness() as cluster:
        for name in (names := [f"n{i}" for i in range(120)]):
            full_node(cluster, low(f"x-{name}", node=name), low(f"y-{name}", node=name), name=name)
        urgent_place = make_node("last", allocatable="2 cpu", labels="for=urgent")
        cluster.create(urgent_place, low("x", node="last"), low("y", node="last"))
        await cluster.settle()
        cluster.api.plan("DELETE", "/pods/", *[Delay(1)] * 242)
        pods = [high(f"high-{name}") for name in names]
        cluster.create(*pods)
        await cluster.settle(1)
        cluster.create(urgent := high("urgent", priority=9999, node_selector="for=urgent"))
        await cluster.settle(4.5)

        assert cluster.node_of(urgent) == "last"
        assert sum(bool(cluster.node_of(pod)) for pod in pods) < 80


@in_virtual_time
async def test_the_end_of_the_last_victim_cuts_the_backoff_short():
    """The pod's backoff is an hour, and others keep the scheduler busy."""
    settings = QueueSettings(initial_backoff_seconds=3600, maximum_backoff_seconds=3600)
    async with Harness(queue=settings) as cluster:
        full_node(cluster, low("low", 2, grace=7))
        await cluster.settle()
        cluster.create(pod := high())
        await cluster.settle(6)
        assert cluster.node_of(pod) == ""
        await cluster.settle(2)

        assert cluster.node_of(pod) == "a"


@in_virtual_time
async def test_the_last_end_may_be_heard_before_the_answer():
    """The watch tells of the deletion while the answer to it is still on its way."""
    async with Harness() as cluster:
        full_node(cluster, low("low", 2))
        await cluster.settle()
        cluster.api.plan("DELETE", "/pods/low$", Lose(executed=True))
        cluster.create(pod := high())
        await cluster.settle(0.05)

        assert cluster.node_of(pod) == "a"


@in_virtual_time
async def test_victims_that_go_already_are_waited_for_and_not_told_again():
    async with Harness() as cluster:
        going = low("going", 2, grace=30)
        full_node(cluster, going)
        await cluster.settle()
        cluster.api.condemn(pod_path(going))
        cluster.create(pod := high())
        await cluster.settle()

        assert deleted(cluster) == []
        assert cluster.document(pod)["status"]["nominatedNodeName"] == "a"
        assert metric(cluster, "scheduler_preemption_victims_count") == 0

        cluster.api.remove(pod_path(going))
        await cluster.settle(0.1)

        assert cluster.node_of(pod) == "a"


# Pods that are not bound yet.


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


# What can go wrong.


@pytest.mark.parametrize(
    ("method", "path"),
    [("PATCH", "/pods/one/status"), ("DELETE", "/pods/one$"), ("DELETE", "/pods/two$")],
)
@in_virtual_time
async def test_what_fails_half_way_is_tried_again(method, path):
    """Nothing is rolled back: the next attempt needs fewer victims."""
    async with Harness() as cluster:
        full_node(cluster, one := low("one"), two := low("two"))
        await cluster.settle()
        cluster.api.plan(method, path, Refuse(Forbidden("no", status=403)))
        cluster.create(pod := high())
        await cluster.settle(0.5)

        name = "scheduler_preemption_goroutines_execution_total"
        assert metric(cluster, name, result="error") == 1
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
        full_node(cluster, low("low", 2))
        await cluster.settle()
        cluster.api.plan("DELETE", "/pods/low$", *[Refuse(Forbidden("no", status=403))] * 1000)
        cluster.create(high())
        await cluster.settle(60)

        assert 3 < len(cluster.api.asked("DELETE")) <= 60


@in_virtual_time
async def test_trouble_of_the_api_server_is_ridden_out():
    async with Harness() as cluster:
        full_node(cluster, low("low", 2))
        await cluster.settle()
        trouble = Refuse(Unreachable("500", status=500))
        cluster.api.plan("PATCH", "/pods/low/status", trouble, Lose(executed=True))
        cluster.api.plan("DELETE", "/pods/low$", trouble, Lose(executed=False))
        cluster.create(pod := high())
        await cluster.settle(5)

        assert cluster.node_of(pod) == "a"
        assert (
            metric(cluster, "scheduler_preemption_goroutines_execution_total", result="error") == 0
        )


@pytest.mark.parametrize(("method", "path"), [("PATCH", "/low/status"), ("DELETE", "/low$")])
@in_virtual_time
async def test_a_victim_that_is_gone_already_is_no_failure(method, path):
    async with Harness() as cluster:
        full_node(cluster, victim := low("low", 2))
        await cluster.settle()
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
        full_node(cluster, victim := low("low", 2))
        await cluster.settle()
        cluster.api.plan("DELETE", "/pods/low$", Delay(1))
        cluster.create(high())
        await cluster.settle(0.5)
        cluster.api.remove(pod_path(victim))
        cluster.create(successor := make_pod("low", uid="other", requests="2 cpu"))
        await cluster.settle(5)

        assert is_there(cluster, successor)


@in_virtual_time
async def test_victims_are_spared_when_the_pod_is_deleted():
    async with Harness() as cluster:
        full_node(cluster, low("one"), two := low("two"))
        await cluster.settle()
        slow_deletion(cluster, "one", 2)
        cluster.create(pod := high())
        await cluster.settle(1)
        cluster.api.remove(pod_path(pod))
        await cluster.settle(5)

        assert is_there(cluster, two)
        assert not target_condition(cluster, two)
        assert cluster.core.evictions.state_of(pod.uid) is None
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
        full_node(cluster, victim := low("low", 2, status=status))
        await cluster.settle()
        cluster.api.plan("PATCH", "/pods/low/status", Delay(2))
        cluster.create(pod := high())
        await cluster.settle(1)
        cluster.api.remove(pod_path(pod))
        await cluster.settle(5)

        assert deleted(cluster) == []
        found = target_condition(cluster, victim)
        assert (found["status"], found["reason"], found["message"]) == after


@in_virtual_time
async def test_victims_are_spared_when_somebody_else_binds_the_pod():
    async with Harness() as cluster:
        full_node(cluster, low("one"), two := low("two"))
        cluster.create(make_node("b", allocatable="1 cpu"))
        await cluster.settle()
        slow_deletion(cluster, "one", 2)
        cluster.create(pod := high())
        await cluster.settle(1)
        cluster.api.change(pod_path(pod), lambda d: d["spec"].update(nodeName="b"))
        await cluster.settle(5)

        assert is_there(cluster, two)


@in_virtual_time
async def test_victims_are_spared_when_the_pod_begins_to_go():
    """A finalizer may keep it for long; it needs no room any more."""
    async with Harness() as cluster:
        full_node(cluster, low("one"), two := low("two"))
        await cluster.settle()
        slow_deletion(cluster, "one", 2)
        cluster.create(pod := high())
        await cluster.settle(1)
        cluster.api.condemn(pod_path(pod))
        await cluster.settle(5)

        assert is_there(cluster, two)
        assert cluster.core.evictions.state_of(pod.uid) is None


@pytest.mark.parametrize("method", ["PATCH", "DELETE"])
@in_virtual_time
async def test_nothing_is_repeated_for_a_pod_that_has_found_a_node_meanwhile(method):
    async with Harness() as cluster:
        full_node(cluster, victim := low("low", 2))
        cluster.create(make_node("b", allocatable="1 cpu"))
        await cluster.settle()
        later = Refuse(Throttled("slow down", retry_after_seconds=2))
        cluster.api.plan(method, "/pods/low(/status)?$", later)
        cluster.create(pod := high())
        await cluster.settle(1)
        cluster.api.change(pod_path(pod), lambda d: d["spec"].update(nodeName="b"))
        await cluster.settle(5)

        asked = cluster.api.asked(method, "/pods/low(/status)?$")
        assert len([each for each in asked if b'"status":"False"' not in each.body]) == 1
        assert is_there(cluster, victim)


@in_virtual_time
async def test_a_victim_that_is_told_again_after_its_end_closes_no_gate():
    """A list may be ahead of a watch: who was missing in it is told once more, and ends then."""
    async with Harness() as cluster:
        full_node(cluster, low("one"), two := low("two"))
        await cluster.settle()
        slow_deletion(cluster, "two", 3)
        cluster.create(pod := high())
        await cluster.settle(0)
        cluster.api.break_watch(Resource.POD)
        await cluster.settle(0.5)
        assert cluster.core.evictions.state_of(pod.uid) is State.LAST
        for fact in (Deleted(Resource.POD, two, seen=False), Added(Resource.POD, two)):
            cluster.core.inbox.put(fact)
        await cluster.settle(0.1)

        assert cluster.core.evictions.state_of(pod.uid) is not State.LAST
        cluster.api.tell_all(Resource.POD)
        await cluster.settle(5)
        assert cluster.node_of(pod) == "a"


@in_virtual_time
async def test_a_pod_that_goes_holds_no_room_for_itself():
    """A finalizer may keep it for long, and nobody schedules it."""
    async with Harness() as cluster:
        full_node(cluster, cpu=1)
        cluster.create(high("going", 1, nominated="a", terminating=True))
        await cluster.settle(5)
        cluster.create(pod := make_pod("other", requests="1 cpu"))
        await cluster.settle(5)

        assert cluster.node_of(pod) == "a"


@in_virtual_time
async def test_another_process_goes_on_where_one_was_killed():
    """One victim is gone, one is not told: what the API server holds is enough to go on with."""
    api = SimulatedApi()
    killed = Harness(api=api)
    await killed.__aenter__()
    full_node(killed, low("one"), low("two"))
    await killed.settle()
    slow_deletion(killed, "one", 1)
    api.plan("PATCH", "/pods/two/status", Delay(1e6))
    killed.create(pod := high())
    await killed.settle(3)
    assert deleted(killed) == ["one"]
    killed.running.cancel()
    api.deliver = lambda _: None

    async with Harness(api=SimulatedApi()) as cluster:
        for document in api.documents.values():
            cluster.api.create(
                json.loads(json.dumps(document)),
                Resource.POD if "containers" in document["spec"] else Resource.NODE,
            )
        await cluster.settle(5)

        assert cluster.node_of(pod) == "a"
        assert deleted(cluster) == ["two"]


@in_virtual_time
async def test_stopping_lets_evictions_end():
    async with Harness() as cluster:
        full_node(cluster, low("one"), low("two"))
        await cluster.settle()
        slow_deletion(cluster, "one", 3)
        cluster.create(high())
        await cluster.settle(1)

    assert deleted(cluster) == ["one", "two"]


# Several at a time.


@in_virtual_time
async def test_a_less_important_nominee_makes_room():
    """Its nomination ends; it finds another node."""
    async with Harness() as cluster:
        full_node(cluster, low("one", 2, grace=60))
        await cluster.settle()
        cluster.create(mid := high("mid", priority=50))
        await cluster.settle()
        assert cluster.document(mid)["status"]["nominatedNodeName"] == "a"
        full_node(cluster, low("two", 2, node="b", priority=60), name="b")
        cluster.create(
            most := high("most", 2, priority=1000, node_selector="kubernetes.io/hostname=a")
        )
        await cluster.settle(80)

        assert cluster.node_of(most) == "a"
        assert cluster.node_of(mid) == ""
        assert "nominatedNodeName" not in cluster.document(mid)["status"]


@in_virtual_time
async def test_two_find_different_victims():
    async with Harness() as cluster:
        full_node(cluster, *(low(f"low-{i}", grace=5) for i in range(4)), cpu=4)
        await cluster.settle()
        cluster.create(first := high("first", priority=100))
        cluster.create(second := high("second", priority=50))
        await cluster.settle(20)

        assert cluster.node_of(first) == "a"
        assert cluster.node_of(second) == "a"
        assert set(deleted(cluster)) == {f"low-{i}" for i in range(4)}


@in_virtual_time
async def test_a_victim_that_two_need_is_told_once():
    """The second needs all four to go, since it has to count on the first."""
    async with Harness() as cluster:
        victims = [low(f"low-{i}", grace=5) for i in range(4)]
        full_node(cluster, *victims, cpu=4)
        await cluster.settle()
        cluster.create(high("first", priority=100), high("second", priority=50))
        await cluster.settle(2)

        assert sorted(deleted(cluster)) == [each.name for each in victims]
        for each in victims:
            told = [reason for reason, _ in cluster.events_of(each)]
            assert told.count("Preempted") == 1


@in_virtual_time
async def test_a_victim_that_one_fails_to_tell_is_told_by_the_other():
    async with Harness() as cluster:
        full_node(cluster, victim := low("low", 4, grace=5), cpu=4)
        await cluster.settle()
        cluster.api.plan("PATCH", "/pods/low/status$", Delay(2))
        cluster.create(first := high("first", 4, priority=50))
        await cluster.settle(0.1)
        cluster.create(second := high("second", 4, priority=100))
        await cluster.settle(0.1)
        cluster.api.remove(pod_path(first))
        await cluster.settle(20)

        assert deleted(cluster) == [victim.name]
        assert cluster.node_of(second) == "a"


@in_virtual_time
async def test_a_nomination_ends_with_its_node():
    async with Harness() as cluster:
        full_node(cluster, victim := low("one", 2, grace=3000))
        await cluster.settle()
        cluster.create(pod := high())
        await cluster.settle()
        cluster.api.remove("/api/v1/nodes/a")
        await cluster.settle(0.1)

        assert cluster.core.queue.nominator.node_of(pod.uid) == ""
        assert "nominatedNodeName" not in cluster.document(pod)["status"]
        assert cluster.core.evictions.state_of(pod.uid) is None

        full_node(cluster, low("two", 2, node="b"), name="b")
        await cluster.settle(20)

        assert cluster.node_of(pod) == "b"
        assert is_there(cluster, victim)


@in_virtual_time
async def test_who_waits_at_the_gate_is_let_in_when_the_node_vanishes():
    """Its nomination was taken away by somebody more important; it is held back all the same."""
    async with Harness() as cluster:
        full_node(cluster, low("one", 2, grace=3000))
        full_node(cluster, spare := low("spare", 1, node="b", priority=2000), name="b", cpu=1)
        await cluster.settle()
        cluster.api.plan("PATCH", "/pods/one/status$", Delay(5))
        cluster.create(mid := high("mid", priority=50))
        await cluster.settle(0.1)
        cluster.create(high("most", 2, priority=1000, node_selector="kubernetes.io/hostname=a"))
        await cluster.settle(0.1)
        cluster.api.remove(pod_path(spare))
        await cluster.settle(0.1)
        assert cluster.core.queue.nominator.node_of(mid.uid) == ""
        assert cluster.core.queue.place_of(mid.uid) is Place.GATED

        cluster.api.remove("/api/v1/nodes/a")
        await cluster.settle(0.1)
        cluster.create(make_node("c", allocatable="2 cpu"))
        await cluster.settle(20)

        assert cluster.node_of(mid) == "c"


@in_virtual_time
async def test_a_storm_of_preemptors_ends_with_the_most_important_in_place():
    async with Harness() as cluster:
        for node in range(4):
            name = f"n{node}"
            victims = (low(f"low-{node}-{i}", node=name, grace=2) for i in range(4))
            full_node(cluster, *victims, name=name, cpu=4)
        await cluster.settle()
        pods = [high(f"p-{i}", 1, priority=10 + i) for i in range(30)]
        cluster.create(*pods)
        await cluster.settle(600)

        placed = {pod.name for pod in pods if is_there(cluster, pod) and cluster.node_of(pod)}
        assert placed == {f"p-{i}" for i in range(14, 30)}
