"""What kubelets and other schedulers do on our nodes, and what we do about it.

The real loop around a simulated API server; the other side is played by the test.
"""

import copy
import datetime as dt

import pytest

from scheduler.model.fact import Resource
from scheduler.queue.scheduling_queue import QueueSettings
from scheduler.testing import make_node, make_pod
from scheduler.testing.clock import in_virtual_time
from scheduler.testing.documents import pod_path
from scheduler.testing.harness import Harness, default_profile
from scheduler.testing.simulated_api import NOW, SimulatedApi

REFUSED = "node(s) lately refused a pod of the same owner (OutOfcpu)"
TAKEN = "node(s) were lately filled by others when room was made there for the same owner"


def replica(name, cpu=1, owner="web", **more):
    reference = {"kind": "ReplicaSet", "name": owner, "uid": f"{owner}-uid", "controller": True}
    metadata = {"ownerReferences": [reference]}
    return make_pod(name, requests=f"{cpu} cpu", metadata=metadata, **more)


def theirs(name, cpu=2, **more):
    return make_pod(name, requests=f"{cpu} cpu", scheduler="default-scheduler", **more)


def metric(cluster, name, **labels):
    return cluster.metrics.registry.get_sample_value(name, labels) or 0


def refuse(cluster, pod, reason="OutOfcpu", **status):
    """Let the kubelet of its node fail *pod*."""
    cluster.api.change(
        pod_path(pod), lambda d: d["status"].update(phase="Failed", reason=reason, **status)
    )


def admit(cluster, pod):
    """Let the kubelet of its node take *pod*."""
    cluster.api.change(
        pod_path(pod), lambda d: d["status"].update(startTime="2026-01-01T00:00:00Z")
    )


def events_of(cluster, pod, reason):
    return [note for told, note in cluster.events_of(pod) if told == reason]


# Kubelets.


@in_virtual_time
async def test_the_successor_of_a_refused_pod_goes_elsewhere():
    async with Harness() as cluster:
        cluster.create(make_node("a", allocatable="8 cpu"))
        cluster.create(first := replica("web-1"))
        await cluster.settle()
        cluster.create(make_node("b", allocatable="2 cpu", taints="t:PreferNoSchedule"))
        refuse(cluster, first)
        await cluster.settle()
        cluster.create(second := replica("web-2"), other := replica("db-1", owner="db"))
        await cluster.settle()

        assert cluster.node_of(second) == "b"
        assert cluster.node_of(other) == "a"
        assert metric(cluster, "py_scheduler_kubelet_rejections_total", reason="OutOfcpu") == 1


@in_virtual_time
async def test_a_standby_learns_from_a_refusal_and_leaves_counting_it_to_the_leader():
    async with Harness(may_act=lambda: False) as cluster:
        cluster.create(make_node("a"), bound := replica("web-1", node="a"))
        await cluster.settle()

        refuse(cluster, bound)
        await cluster.settle()

        assert metric(cluster, "py_scheduler_kubelet_rejections_total", reason="OutOfcpu") == 0
        assert len(cluster.core.neighbours.ledger) == 1


@in_virtual_time
async def test_without_another_node_it_waits_for_a_minute_and_is_woken():
    async with Harness() as cluster:
        cluster.create(make_node("a", allocatable="8 cpu"), first := replica("web-1"))
        await cluster.settle()
        refuse(cluster, first)
        await cluster.settle()
        cluster.create(second := replica("web-2"))
        await cluster.settle(59)

        assert cluster.node_of(second) == ""
        assert cluster.condition(second)[2].startswith(f"0/1 nodes are available: 1 {REFUSED}.")
        assert cluster.place_of(second) == "unschedulable"

        await cluster.settle(2)

        assert cluster.node_of(second) == "a"


@in_virtual_time
async def test_a_second_refusal_keeps_away_for_two_minutes():
    async with Harness() as cluster:
        cluster.create(make_node("a", allocatable="8 cpu"), first := replica("web-1"))
        await cluster.settle()
        refuse(cluster, first)
        cluster.create(second := replica("web-2"))
        await cluster.settle(62)
        refuse(cluster, second)
        cluster.create(third := replica("web-3"))
        await cluster.settle(118)
        assert cluster.node_of(third) == ""

        await cluster.settle(4)

        assert cluster.node_of(third) == "a"


@in_virtual_time
async def test_after_the_ban_one_goes_first_and_the_others_follow_when_it_was_let_in():
    async with Harness() as cluster:
        cluster.create(make_node("a", allocatable="8 cpu"), first := replica("web-1"))
        await cluster.settle()
        refuse(cluster, first)
        await cluster.settle()
        others = [replica(f"web-{i}") for i in range(2, 6)]
        cluster.create(*others)
        await cluster.settle(70)

        (scout,) = (pod for pod in others if cluster.node_of(pod))
        admit(cluster, scout)
        await cluster.settle(15)

        assert len([pod for pod in others if cluster.node_of(pod)]) == 2


@in_virtual_time
async def test_what_was_on_its_way_is_the_same_conflict():
    async with Harness() as cluster:
        cluster.create(make_node("a", allocatable="8 cpu"))
        pods = [replica(f"web-{i}") for i in range(4)]
        cluster.create(*pods)
        await cluster.settle()
        for pod in pods:
            refuse(cluster, pod)
        cluster.create(successor := replica("web-9"))
        await cluster.settle(62)

        assert cluster.node_of(successor) == "a"


@in_virtual_time
async def test_a_refusal_is_counted_once():
    """Whatever happens to the failed pod later on."""
    async with Harness() as cluster:
        cluster.create(make_node("a"), pod := replica("web-1"))
        await cluster.settle()
        refuse(cluster, pod)
        await cluster.settle()
        cluster.api.change(pod_path(pod), lambda d: d["metadata"]["labels"].update(v="2"))
        await cluster.settle()

        assert metric(cluster, "py_scheduler_kubelet_rejections_total", reason="OutOfcpu") == 1


@in_virtual_time
async def test_what_other_schedulers_pods_are_refused_is_not_ours():
    async with Harness() as cluster:
        cluster.create(make_node("a"), pod := theirs("x", node="a"))
        await cluster.settle()
        refuse(cluster, pod)
        await cluster.settle()

        assert len(cluster.core.neighbours.ledger) == 0
        assert metric(cluster, "py_scheduler_kubelet_rejections_total", reason="OutOfcpu") == 0


@pytest.mark.parametrize(("minutes", "expected"), [(0.5, ""), (3, "a"), (30, "a")])
@in_virtual_time
async def test_a_restart_does_not_forget(minutes, expected):
    """The failed pods that are listed say when they were refused."""
    at = dt.datetime.fromisoformat(NOW) - dt.timedelta(minutes=minutes)
    stamp = at.strftime("%Y-%m-%dT%H:%M:%SZ")
    async with Harness(listed=False) as cluster:
        cluster.create(make_node("a", allocatable="8 cpu"))
        cluster.create(replica("web-1", node="a", status={"startTime": stamp}))
        refuse(cluster, replica("web-1"), startTime=stamp)
        cluster.create(second := replica("web-2"))
        for resource in (Resource.FAILED_POD, Resource.NODE, Resource.POD):
            cluster.api.tell_all(resource)
        await cluster.settle(3)

        assert cluster.node_of(second) == expected
        assert metric(cluster, "py_scheduler_kubelet_rejections_total", reason="OutOfcpu") == 0


@in_virtual_time
async def test_a_node_that_comes_back_is_another_node():
    async with Harness() as cluster:
        cluster.create(make_node("a", allocatable="8 cpu"), first := replica("web-1"))
        await cluster.settle()
        refuse(cluster, first)
        cluster.create(second := replica("web-2"))
        await cluster.settle(3)
        cluster.api.remove("/api/v1/nodes/a")
        cluster.create(make_node("a", uid="another", allocatable="8 cpu"))
        await cluster.settle(3)

        assert cluster.node_of(second) == "a"


@in_virtual_time
async def test_without_the_plugin_it_goes_straight_back():
    profile = default_profile()
    kept = {
        point: tuple(p for p in getattr(profile, point) if p.name != "NodeTrust")
        for point in ("filter", "pre_filter")
    }
    bare = type(profile)(**{f: getattr(profile, f) for f in profile.__slots__} | kept)
    async with Harness(profiles=[bare]) as cluster:
        cluster.create(make_node("a", allocatable="8 cpu"), first := replica("web-1"))
        await cluster.settle()
        refuse(cluster, first)
        cluster.create(second := replica("web-2"))
        await cluster.settle()

        assert cluster.node_of(second) == "a"


# Nominations by others.


@in_virtual_time
async def test_room_is_kept_for_their_nominee_and_given_up_after_a_while():
    async with Harness() as cluster:
        cluster.create(make_node("a", allocatable="2 cpu"))
        cluster.create(theirs("x", nominated="a", priority=10))
        await cluster.settle()
        cluster.create(pod := make_pod(requests="1 cpu"))
        await cluster.settle(598)
        assert cluster.node_of(pod) == ""

        await cluster.settle(10)

        assert cluster.node_of(pod) == "a"


@in_virtual_time
async def test_a_more_important_pod_need_not_mind_their_nominee():
    async with Harness() as cluster:
        cluster.create(make_node("a", allocatable="2 cpu"))
        cluster.create(theirs("x", nominated="a", priority=10))
        await cluster.settle()
        cluster.create(pod := make_pod(requests="1 cpu", priority=11))
        await cluster.settle()

        assert cluster.node_of(pod) == "a"


@pytest.mark.parametrize("how", ["cleared", "gone", "bound elsewhere"])
@in_virtual_time
async def test_the_end_of_their_nomination_wakes_who_waited(how):
    async with Harness() as cluster:
        cluster.create(make_node("a", allocatable="2 cpu"))
        cluster.create(make_node("b", allocatable="1 cpu", unschedulable=True))
        cluster.create(x := theirs("x", nominated="a", priority=10))
        await cluster.settle()
        cluster.create(pod := make_pod(requests="1 cpu"))
        await cluster.settle(5)
        assert cluster.node_of(pod) == ""

        if how == "cleared":
            cluster.api.change(pod_path(x), lambda d: d["status"].pop("nominatedNodeName"))
        elif how == "gone":
            cluster.api.remove(pod_path(x))
        else:
            cluster.api.change(pod_path(x), lambda d: d["spec"].update(nodeName="b"))
        await cluster.settle(2)

        assert cluster.node_of(pod) == "a"


@in_virtual_time
async def test_told_never_to_keep_room_it_keeps_none():
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
        assert cluster.api.asked("PATCH", "/pods/x/") == []


# Preemptions that others undo.

GRACE = {"terminationGracePeriodSeconds": 5}


async def full(cluster, *names, cpu=2, grace=5):
    """Fill nodes with one victim each."""
    victims = {}
    for name in names:
        victims[name] = theirs(f"low-{name}", cpu, node=name, terminationGracePeriodSeconds=grace)
        cluster.create(make_node(name, allocatable=f"{cpu} cpu"), victims[name])
    await cluster.settle()
    return victims


def swap(cluster, victim, *successors):
    """Let *victim* leave, and *successors* come before anybody can decide."""
    cluster.api.remove(pod_path(victim))
    cluster.create(*successors)


@in_virtual_time
async def test_room_that_others_take_is_not_made_again_at_once():
    async with Harness() as cluster:
        victims = await full(cluster, "a")
        cluster.create(pod := replica("high-1", 2, owner="high", priority=9))
        await cluster.settle()
        swap(cluster, victims["a"], again := theirs("low-again", 2, node="a", **GRACE))
        await cluster.settle(50)

        assert pod_path(again) in cluster.api.documents
        assert metric(cluster, "py_scheduler_preemptions_undone_total") == 1
        assert events_of(cluster, pod, "PreemptionUndone") == [
            "The room made on node a was taken by pods of other schedulers: default/low-again"
        ]
        assert f"1 {TAKEN}." in cluster.condition(pod)[2]
        assert "nominatedNodeName" not in cluster.document(pod)["status"]

        await cluster.settle(30)  # the minute is over, and so is the successor's time

        assert cluster.node_of(pod) == "a"
        assert pod_path(again) not in cluster.api.documents


@in_virtual_time
async def test_another_node_is_tried_after_a_pause():
    async with Harness() as cluster:
        victims = await full(cluster, "a", "b")
        cluster.create(pod := replica("high-1", 2, owner="high", priority=9))
        await cluster.settle()
        first = cluster.document(pod)["status"]["nominatedNodeName"]
        swap(cluster, victims[first], theirs("low-again", 2, node=first))
        await cluster.settle(0.5)
        assert cluster.place_of(pod) == "backoff"

        await cluster.settle(20)

        assert cluster.node_of(pod) == {"a": "b", "b": "a"}[first]
        assert metric(cluster, "py_scheduler_preemptions_undone_total") == 1


@in_virtual_time
async def test_a_process_that_takes_over_learns_anew_what_was_undone():
    """No object tells of it: room is made once more where others take it, and then no more."""
    api = SimulatedApi()
    async with Harness(api=api) as cluster:
        victims = await full(cluster, "a")
        cluster.create(pod := replica("high-1", 2, owner="high", priority=9))
        await cluster.settle()
        swap(cluster, victims["a"], again := theirs("low-again", 2, node="a", **GRACE))
        await cluster.settle(5)
        assert pod_path(again) in api.documents

    async with Harness(api=SimulatedApi()) as cluster:
        for document in api.documents.values():
            resource = Resource.POD if "containers" in document["spec"] else Resource.NODE
            cluster.api.create(copy.deepcopy(document), resource)
        await cluster.settle(1)
        assert "deletionTimestamp" in cluster.api.documents[pod_path(again)]["metadata"]
        swap(cluster, again, third := theirs("low-third", 2, node="a", **GRACE))
        await cluster.settle(50)

        assert metric(cluster, "py_scheduler_preemptions_undone_total") == 1
        assert pod_path(third) in cluster.api.documents
        assert cluster.node_of(pod) == ""


class Rival(SimulatedApi):
    """Another scheduler that is always quicker: a pod that leaves has a successor at once."""

    made = 0

    def remove(self, path):
        super().remove(path)
        if "/pods/low" in path:
            self.made += 1
            name = f"low-{self.made}"
            self.create(theirs(name, node="a", terminationGracePeriodSeconds=0))


@in_virtual_time
async def test_who_always_comes_back_is_evicted_ever_more_rarely():
    async with Harness(api=Rival()) as cluster:
        await full(cluster, "a", grace=0)
        cluster.create(replica("high-1", 2, owner="high", priority=9))
        evicted = []
        for _ in range(20):
            await cluster.settle(60)
            evicted.append(len(cluster.api.asked("DELETE")))

        # At 0, 1, 3, 8, 13 and 18 minutes.
        assert evicted == [1, *[2] * 2, *[3] * 5, *[4] * 5, *[5] * 5, *[6] * 2]
        assert metric(cluster, "py_scheduler_preemptions_undone_total") == 6


@in_virtual_time
async def test_our_own_pods_that_take_the_room_undo_nothing():
    async with Harness() as cluster:
        victims = await full(cluster, "a")
        cluster.create(pod := make_pod("mid", requests="2 cpu", priority=5))
        await cluster.settle()
        cluster.create(top := make_pod("top", requests="2 cpu", priority=9))
        await cluster.settle()
        swap(cluster, victims["a"])
        await cluster.settle(30)

        assert cluster.node_of(top) == "a"
        assert cluster.node_of(pod) == ""
        assert metric(cluster, "py_scheduler_preemptions_undone_total") == 0
        assert len(cluster.core.neighbours.ledger) == 0


@in_virtual_time
async def test_who_comes_where_there_is_room_for_all_undoes_nothing():
    async with Harness() as cluster:
        victims = await full(cluster, "a", cpu=4)
        cluster.create(pod := make_pod("high", requests="2 cpu", priority=9))
        await cluster.settle()
        swap(cluster, victims["a"], theirs("small", 1, node="a"))
        await cluster.settle(5)

        assert cluster.node_of(pod) == "a"
        assert metric(cluster, "py_scheduler_preemptions_undone_total") == 0


@in_virtual_time
async def test_a_pod_that_found_room_elsewhere_has_lost_nothing():
    async with Harness() as cluster:
        victims = await full(cluster, "a", grace=3000)
        cluster.create(pod := make_pod("high", requests="2 cpu", priority=9))
        await cluster.settle()
        cluster.create(make_node("b", allocatable="2 cpu"))
        await cluster.settle(5)
        assert cluster.node_of(pod) == "b"
        swap(cluster, victims["a"], theirs("low-again", 2, node="a"))
        await cluster.settle(5)

        assert metric(cluster, "py_scheduler_preemptions_undone_total") == 0


@in_virtual_time
async def test_a_node_that_is_cordoned_meanwhile_is_nobodys_undoing():
    async with Harness() as cluster:
        victims = await full(cluster, "a")
        cluster.create(pod := make_pod("high", requests="2 cpu", priority=9))
        await cluster.settle()
        cluster.api.change("/api/v1/nodes/a", lambda d: d["spec"].update(unschedulable=True))
        swap(cluster, victims["a"], theirs("low-again", 2, node="a"))
        await cluster.settle(30)

        assert cluster.node_of(pod) == ""
        assert metric(cluster, "py_scheduler_preemptions_undone_total") == 0
        assert len(cluster.core.loop._rooms) == 0


@in_virtual_time
async def test_a_preemptor_that_is_gone_leaves_nothing_behind():
    async with Harness() as cluster:
        victims = await full(cluster, "a")
        cluster.create(pod := make_pod("high", requests="2 cpu", priority=9))
        await cluster.settle()
        cluster.api.remove(pod_path(pod))
        swap(cluster, victims["a"], theirs("low-again", 2, node="a"))
        await cluster.settle(5)

        assert metric(cluster, "py_scheduler_preemptions_undone_total") == 0
        assert len(cluster.core.loop._rooms) == 0
