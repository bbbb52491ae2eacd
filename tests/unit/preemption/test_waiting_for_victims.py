"""A pod that has preempted waits for its victims, and for nothing else."""

import asyncio

import pytest

from scheduler.model.fact import Added, Deleted, Resource, Updated
from scheduler.model.pod import DISRUPTION_TARGET, PREEMPTION_BY_SCHEDULER
from scheduler.preemption.preemptions import WAITING, State
from scheduler.queue.queue_settings import QueueSettings
from scheduler.queue.queue_state import QueueState
from scheduler.testing import make_node
from scheduler.testing.clock import in_virtual_time
from scheduler.testing.documents import pod_path
from scheduler.testing.harness import Harness
from scheduler.testing.simulated_api import Delay, Lose
from tests.unit.preemption.preempting import (
    deleted,
    full_node,
    high,
    is_there,
    low,
    slow_deletion,
    state_of,
    target_condition,
)


@in_virtual_time
async def test_who_has_preempted_waits_for_the_victims():
    """Whatever wakes the pod meanwhile, nobody else has to go."""
    async with Harness() as cluster:
        await full_node(cluster, low("one", 2, grace=30))
        await full_node(cluster, low("two", 2, node="b", priority=1), name="b")
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
async def test_the_preemptor_is_gated_until_its_victims_are_evicted():
    """The first victim's end must not make it look for more victims."""
    async with Harness() as cluster:
        await full_node(cluster, low("one"), low("two"))
        await full_node(cluster, low("else", 2, node="b", priority=1), name="b")
        # The least important of them is told last.
        slow_deletion(cluster, "two", 3)
        cluster.create(pod := high())
        await cluster.settle(2)

        assert deleted(cluster) == ["one", "two"]
        queued = cluster.core.queue.find(pod.uid)
        assert cluster.state_of(pod) == "gated"
        assert (queued.gated_by, queued.gate_reason) == ("DefaultPreemption", WAITING)
        assert state_of(cluster, pod) is State.LAST

        await cluster.settle(2)

        assert cluster.node_of(pod) == "a"
        assert deleted(cluster) == ["one", "two"]


@in_virtual_time
async def test_no_victim_is_told_before_the_api_server_knows_for_whom():
    """Else a process that takes over after a crash would take yet more victims, elsewhere."""
    async with Harness() as cluster:
        await full_node(cluster, low("one"), low("two"))
        cluster.api.plan("PATCH", "/pods/high/status", Delay(2))
        cluster.create(pod := high())
        await cluster.settle(1.9)
        assert target_condition(cluster, low("one")) == ("", "", "")
        assert deleted(cluster) == []
        await cluster.settle(0.3)

        assert deleted(cluster) == ["one", "two"]
        assert cluster.node_of(pod) == "a"


@in_virtual_time
async def test_a_nomination_that_cannot_be_written_stops_nobody():
    async with Harness() as cluster:
        await full_node(cluster, low("low", 2))
        cluster.api.plan("PATCH", "/pods/high/status", *[Lose(executed=False)] * 4)
        cluster.create(pod := high())
        await cluster.settle(2)

        assert cluster.node_of(pod) == "a"


@in_virtual_time
async def test_a_nomination_that_is_not_written_yet_is_known_to_the_next_attempt():
    """Forgotten, it would free the place for others, who would free it for the pod, and so on."""
    async with Harness() as cluster:
        told = {"type": DISRUPTION_TARGET, "status": "True", "reason": PREEMPTION_BY_SCHEDULER}
        going = low("going", 2, grace=30, terminating=True, status={"conditions": [told]})
        await full_node(cluster, going)
        cluster.api.plan("PATCH", "/pods/.*/status", *[Delay(5)] * 2)
        pods = [high("one"), high("other")]
        cluster.create(*pods)
        await cluster.settle(1)
        nominated = cluster.core.queue.nominated_pods()
        cluster.create(low("more", 0))
        cluster.api.remove(pod_path(low("more", 0)))
        await cluster.settle(3)

        assert not cluster.document(pods[0])["status"].get("nominatedNodeName")
        assert cluster.attempts("unschedulable") > len(pods)
        assert cluster.core.queue.nominated_pods() == nominated
        assert [each.name for each in nominated["a"]] == ["one"]


@in_virtual_time
async def test_all_victims_but_one_are_evicted_at_once():
    async with Harness() as cluster:
        victims = [low(f"low-{i}") for i in range(4)]
        await full_node(cluster, *victims, cpu=4)
        for victim in victims[:3]:
            slow_deletion(cluster, victim.name, 2)
        start = asyncio.get_running_loop().time()
        cluster.create(pod := high(cpu=4))
        await cluster.settle(10)

        asked = {each.path[-5:]: each.at - start for each in cluster.api.requests_to("DELETE")}
        assert [asked[f"low-{i}"] for i in range(3)] == pytest.approx([0, 0, 0], abs=0.1)
        assert asked["low-3"] == pytest.approx(2, abs=0.1)
        assert cluster.node_of(pod) == "a"


@in_virtual_time
async def test_the_end_of_the_last_victim_cuts_the_backoff_short():
    """The pod's backoff is an hour."""
    settings = QueueSettings(initial_backoff_seconds=3600, maximum_backoff_seconds=3600)
    async with Harness(queue=settings) as cluster:
        await full_node(cluster, low("low", 2, grace=7))
        cluster.create(pod := high())
        await cluster.settle(6)
        assert cluster.node_of(pod) == ""
        await cluster.settle(2)

        assert cluster.node_of(pod) == "a"


@in_virtual_time
async def test_the_last_victim_may_be_gone_before_the_answer():
    """The watch tells of the deletion while the answer to it is still on its way."""
    async with Harness() as cluster:
        await full_node(cluster, low("low", 2))
        cluster.api.plan("DELETE", "/pods/low$", Lose(executed=True))
        cluster.create(pod := high())
        await cluster.settle(0.05)

        assert cluster.node_of(pod) == "a"


async def _evict_unseen(cluster):
    """Let a pod preempt two others whose deletion no watch reports, and return it.

    While its gate is closed, a change tries to requeue it.
    """
    await full_node(cluster, low("one", grace=30), low("two", grace=30))
    await full_node(cluster, small := low("small", node="b"), name="b", cpu=1)
    slow_deletion(cluster, "two", 1)
    cluster.create(pod := high())
    await cluster.settle(0.1)
    cluster.api.break_watch(Resource.POD)
    cluster.core.inbox.put(Deleted(Resource.POD, small))
    await cluster.settle(0.5)
    assert (cluster.state_of(pod), state_of(cluster, pod)) == ("gated", State.LAST)
    await cluster.settle(0.51)
    assert deleted(cluster) == ["one", "two"]
    return pod


@in_virtual_time
async def test_victims_that_the_watch_does_not_report_yet_are_awaited_at_the_gate():
    """The answer to an eviction may come long before the watch reports it."""
    async with Harness() as cluster:
        pod = await _evict_unseen(cluster)

        # Without the wait this is a busy loop: each attempt evicts the same victims again.
        assert (cluster.state_of(pod), state_of(cluster, pod)) == ("gated", State.LEAVING)
        assert cluster.attempts("unschedulable") == 1

        cluster.api.relist(Resource.POD)
        await cluster.settle(60)

        assert cluster.node_of(pod) == "a"
        assert deleted(cluster) == ["one", "two"]


@in_virtual_time
@pytest.mark.parametrize(("reported", "attempts"), [(["one"], 1), (["one", "two"], 2)])
async def test_the_preemptor_is_let_in_once_all_victims_are_known_to_terminate(reported, attempts):
    """What changed while the gate was closed may help it, and it takes none of them for running."""
    async with Harness() as cluster:
        await _evict_unseen(cluster)
        for name in reported:
            old, new = low(name, grace=30), low(name, grace=30, terminating=True)
            cluster.core.inbox.put(Updated(Resource.POD, old, new))
        await cluster.settle(0.01)

        assert cluster.attempts("unschedulable") == attempts
        assert deleted(cluster) == ["one", "two"]


@in_virtual_time
async def test_terminating_victims_are_awaited_and_not_evicted_again():
    async with Harness() as cluster:
        going = low("going", 2, grace=30)
        await full_node(cluster, going)
        cluster.api.begin_deletion(pod_path(going))
        cluster.create(pod := high())
        await cluster.settle()

        assert deleted(cluster) == []
        assert cluster.document(pod)["status"]["nominatedNodeName"] == "a"
        assert cluster.metric("scheduler_preemption_victims_count") == 0

        cluster.api.remove(pod_path(going))
        await cluster.settle(0.1)

        assert cluster.node_of(pod) == "a"


@in_virtual_time
async def test_a_victim_that_is_reported_again_after_its_end_closes_no_gate():
    """A list may be ahead of a watch: who was missing in it is told once more, and ends then."""
    async with Harness() as cluster:
        await full_node(cluster, low("one"), two := low("two"))
        slow_deletion(cluster, "two", 3)
        cluster.create(pod := high())
        await cluster.settle(0)
        cluster.api.break_watch(Resource.POD)
        await cluster.settle(0.5)
        assert state_of(cluster, pod) is State.LAST
        for fact in (Deleted(Resource.POD, two, seen=False), Added(Resource.POD, two)):
            cluster.core.inbox.put(fact)
        await cluster.settle(0.1)

        assert state_of(cluster, pod) is not State.LAST
        cluster.api.relist(Resource.POD)
        await cluster.settle(5)
        assert cluster.node_of(pod) == "a"


@in_virtual_time
async def test_who_waits_at_the_gate_is_let_in_when_the_node_vanishes():
    """Its nomination was taken away by somebody more important; it is held back all the same."""
    async with Harness() as cluster:
        await full_node(cluster, low("one", 2, grace=3000))
        await full_node(cluster, spare := low("spare", 1, node="b", priority=2000), name="b", cpu=1)
        cluster.api.plan("PATCH", "/pods/one/status$", Delay(5))
        cluster.create(mid := high("mid", priority=50))
        await cluster.settle(0.1)
        cluster.create(high("most", 2, priority=1000, node_selector="kubernetes.io/hostname=a"))
        await cluster.settle(0.1)
        cluster.api.remove(pod_path(spare))
        await cluster.settle(0.1)
        assert cluster.core.queue.nominated_node(mid.uid) == ""
        assert cluster.core.queue.state_of(mid.uid) is QueueState.GATED

        cluster.api.remove("/api/v1/nodes/a")
        await cluster.settle(0.1)
        cluster.create(make_node("c", allocatable="2 cpu"))
        await cluster.settle(20)

        assert cluster.node_of(mid) == "c"


@in_virtual_time
async def test_a_nomination_ends_with_its_node():
    async with Harness() as cluster:
        await full_node(cluster, victim := low("one", 2, grace=3000))
        cluster.create(pod := high())
        await cluster.settle()
        cluster.api.remove("/api/v1/nodes/a")
        await cluster.settle(0.1)

        assert cluster.core.queue.nominated_node(pod.uid) == ""
        assert "nominatedNodeName" not in cluster.document(pod)["status"]
        assert state_of(cluster, pod) is None

        await full_node(cluster, low("two", 2, node="b"), name="b")
        await cluster.settle(20)

        assert cluster.node_of(pod) == "b"
        assert is_there(cluster, victim)
