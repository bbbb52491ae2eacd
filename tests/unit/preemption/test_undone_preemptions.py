"""Room that we made is taken by pods of others: it is not made again at once.

The real loop around a simulated API server; the other scheduler is played by the test.
"""

from scheduler.testing import make_node, make_pod
from scheduler.testing.clock import in_virtual_time
from scheduler.testing.documents import pod_path
from scheduler.testing.harness import Harness
from scheduler.testing.simulated_api import SimulatedApi
from tests.unit.preemption.other_schedulers import replica, theirs
from tests.unit.preemption.preempting import is_there, take_over

TAKEN = "node(s) were lately filled by others when room was made there for the same owner"
GRACE = {"terminationGracePeriodSeconds": 5}


def events_of(cluster, pod, reason):
    return [note for told, note in cluster.events_of(pod) if told == reason]


async def full(cluster, *names, cpu=2, grace=5):
    """Fill nodes with one victim each."""
    victims = {}
    for name in names:
        victims[name] = theirs(f"low-{name}", cpu, node=name, terminationGracePeriodSeconds=grace)
        cluster.create(make_node(name, allocatable=f"{cpu} cpu"), victims[name])
    await cluster.settle()
    return victims


async def make_room(cluster, pod, **more):
    """Fill node a with one victim, let *pod* preempt it, and return the victim."""
    victims = await full(cluster, "a", **more)
    cluster.create(pod)
    await cluster.settle()
    return victims["a"]


def preemptor():
    return replica("high-1", 2, owner="high", priority=9)


def undone(cluster):
    """Return how many preemptions were counted as undone."""
    return cluster.metric("py_scheduler_preemptions_undone_total")


def swap(cluster, victim, *successors):
    """Let *victim* leave, and *successors* come before anybody can decide."""
    cluster.api.remove(pod_path(victim))
    cluster.create(*successors)


@in_virtual_time
async def test_capacity_that_others_take_is_not_freed_again_at_once():
    async with Harness() as cluster:
        victim = await make_room(cluster, pod := preemptor())
        swap(cluster, victim, again := theirs("low-again", 2, node="a", **GRACE))
        await cluster.settle(50)

        assert is_there(cluster, again)
        assert undone(cluster) == 1
        assert events_of(cluster, pod, "PreemptionUndone") == [
            "The room made on node a was taken by pods of other schedulers: default/low-again"
        ]
        assert f"1 {TAKEN}." in cluster.condition(pod)[2]
        assert "nominatedNodeName" not in cluster.document(pod)["status"]

        await cluster.settle(30)  # the minute is over, and so is the successor's time

        assert cluster.node_of(pod) == "a"
        assert not is_there(cluster, again)


@in_virtual_time
async def test_another_node_is_tried_after_a_pause():
    async with Harness() as cluster:
        victims = await full(cluster, "a", "b")
        cluster.create(pod := preemptor())
        await cluster.settle()
        first = cluster.document(pod)["status"]["nominatedNodeName"]
        swap(cluster, victims[first], theirs("low-again", 2, node=first))
        await cluster.settle(0.5)
        assert cluster.state_of(pod) == "backoff"

        await cluster.settle(20)

        assert cluster.node_of(pod) == {"a": "b", "b": "a"}[first]
        assert undone(cluster) == 1


@in_virtual_time
async def test_a_process_that_takes_over_learns_anew_what_was_undone():
    """No object tells of it: room is made once more where others take it, and then no more."""
    api = SimulatedApi()
    async with Harness(api=api) as cluster:
        victim = await make_room(cluster, pod := preemptor())
        swap(cluster, victim, again := theirs("low-again", 2, node="a", **GRACE))
        await cluster.settle(5)
        assert is_there(cluster, again)

    async with Harness(api=SimulatedApi()) as cluster:
        take_over(cluster, api)
        await cluster.settle(1)
        assert "deletionTimestamp" in cluster.api.documents[pod_path(again)]["metadata"]
        swap(cluster, again, third := theirs("low-third", 2, node="a", **GRACE))
        await cluster.settle(50)

        assert undone(cluster) == 1
        assert is_there(cluster, third)
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
        cluster.create(preemptor())
        evicted = []
        for _ in range(20):
            await cluster.settle(60)
            evicted.append(len(cluster.api.requests_to("DELETE")))

        # At 0, 1, 3, 8, 13 and 18 minutes.
        assert evicted == [1, *[2] * 2, *[3] * 5, *[4] * 5, *[5] * 5, *[6] * 2]
        assert undone(cluster) == 6


@in_virtual_time
async def test_our_own_pods_that_take_the_room_undo_nothing():
    async with Harness() as cluster:
        victim = await make_room(cluster, pod := make_pod("mid", requests="2 cpu", priority=5))
        cluster.create(top := make_pod("top", requests="2 cpu", priority=9))
        await cluster.settle()
        swap(cluster, victim)
        await cluster.settle(30)

        assert cluster.node_of(top) == "a"
        assert cluster.node_of(pod) == ""
        assert undone(cluster) == 0
        assert len(cluster.core.other_schedulers.ledger) == 0


@in_virtual_time
async def test_a_pod_of_others_that_fits_beside_the_preemptor_undoes_nothing():
    async with Harness() as cluster:
        victim = await make_room(cluster, pod := preemptor(), cpu=4)
        swap(cluster, victim, theirs("small", 1, node="a"))
        await cluster.settle(5)

        assert cluster.node_of(pod) == "a"
        assert undone(cluster) == 0


@in_virtual_time
async def test_a_preemptor_that_is_bound_elsewhere_has_lost_nothing():
    async with Harness() as cluster:
        victim = await make_room(cluster, pod := preemptor(), grace=3000)
        cluster.create(make_node("b", allocatable="2 cpu"))
        await cluster.settle(5)
        assert cluster.node_of(pod) == "b"
        swap(cluster, victim, theirs("low-again", 2, node="a"))
        await cluster.settle(5)

        assert undone(cluster) == 0


@in_virtual_time
async def test_a_node_that_is_cordoned_meanwhile_is_nobodys_undoing():
    async with Harness() as cluster:
        victim = await make_room(cluster, pod := preemptor())
        cluster.api.change("/api/v1/nodes/a", lambda d: d["spec"].update(unschedulable=True))
        swap(cluster, victim, theirs("low-again", 2, node="a"))
        await cluster.settle(30)

        assert cluster.node_of(pod) == ""
        assert undone(cluster) == 0
        assert len(cluster.core.freed) == 0


@in_virtual_time
async def test_a_preemptor_that_is_gone_leaves_nothing_behind():
    async with Harness() as cluster:
        victim = await make_room(cluster, pod := preemptor())
        cluster.api.remove(pod_path(pod))
        swap(cluster, victim, theirs("low-again", 2, node="a"))
        await cluster.settle(5)

        assert undone(cluster) == 0
        assert len(cluster.core.freed) == 0
