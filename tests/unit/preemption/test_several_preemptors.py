"""Several pods that make room for themselves at a time."""

from scheduler.testing import make_node
from scheduler.testing.clock import in_virtual_time
from scheduler.testing.documents import pod_path
from scheduler.testing.harness import Harness
from scheduler.testing.simulated_api import Delay
from tests.unit.preemption.preempting import deleted, full_node, high, is_there, low


async def full_nodes(cluster, *names, labels=""):
    """Create nodes that two pods fill each."""
    for name in names:
        cluster.create(make_node(name, allocatable="2 cpu", labels=labels))
        cluster.create(low(f"x-{name}", node=name), low(f"y-{name}", node=name))
    await cluster.settle()


@in_virtual_time
async def test_the_first_preemptor_gets_its_capacity_first():
    """Of many preemptions the earliest end while the latest have not begun."""
    async with Harness() as cluster:
        await full_nodes(cluster, *(f"n{i}" for i in range(60)))
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
        await full_nodes(cluster, *(names := [f"n{i}" for i in range(120)]))
        await full_nodes(cluster, "last", labels="for=urgent")
        cluster.api.plan("DELETE", "/pods/", *[Delay(1)] * 242)
        pods = [high(f"high-{name}") for name in names]
        cluster.create(*pods)
        await cluster.settle(1)
        cluster.create(urgent := high("urgent", priority=9999, node_selector="for=urgent"))
        await cluster.settle(4.5)

        assert cluster.node_of(urgent) == "last"
        assert sum(bool(cluster.node_of(pod)) for pod in pods) < 80


@in_virtual_time
async def test_a_less_important_nominee_loses_its_nomination():
    """Its nomination ends, and it looks for room anew; here there is none."""
    async with Harness() as cluster:
        await full_node(cluster, low("one", 2, grace=60))
        cluster.create(mid := high("mid", priority=50))
        await cluster.settle()
        assert cluster.document(mid)["status"]["nominatedNodeName"] == "a"
        await full_node(cluster, low("two", 2, node="b", priority=60), name="b")
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
        await full_node(cluster, *(low(f"low-{i}", grace=5) for i in range(4)), cpu=4)
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
        await full_node(cluster, *victims, cpu=4)
        cluster.create(high("first", priority=100), high("second", priority=50))
        await cluster.settle(2)

        assert sorted(deleted(cluster)) == [each.name for each in victims]
        for each in victims:
            told = [reason for reason, _ in cluster.events_of(each)]
            assert told.count("Preempted") == 1


@in_virtual_time
async def test_a_victim_that_one_preemption_fails_to_evict_is_evicted_by_the_other():
    async with Harness() as cluster:
        await full_node(cluster, victim := low("low", 4, grace=5), cpu=4)
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
async def test_a_storm_of_preemptors_ends_with_the_most_important_in_place():
    async with Harness() as cluster:
        for node in range(4):
            name = f"n{node}"
            victims = (low(f"low-{node}-{i}", node=name, grace=2) for i in range(4))
            await full_node(cluster, *victims, name=name, cpu=4)
        pods = [high(f"p-{i}", 1, priority=10 + i) for i in range(30)]
        cluster.create(*pods)
        await cluster.settle(600)

        placed = {pod.name for pod in pods if is_there(cluster, pod) and cluster.node_of(pod)}
        assert placed == {f"p-{i}" for i in range(14, 30)}
