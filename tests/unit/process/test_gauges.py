"""A scrape reads gauges of the loop as they are at that moment."""

from scheduler.kube.watch_observer import SilentWatches
from scheduler.process.gauges import read_gauges
from scheduler.process.watches import Watches
from scheduler.testing import make_node, make_pod
from scheduler.testing.clock import in_virtual_time
from scheduler.testing.harness import Harness


def read(cluster, name):
    """Return a gauge's values, by its labels' values."""
    return {
        tuple(sample.labels.values()): sample.value
        for family in cluster.metrics.registry.collect()
        for sample in family.samples
        if sample.name == name
    }


@in_virtual_time
async def test_gauges_follow_the_loop():
    leading = True
    async with Harness() as cluster:
        watches = Watches(cluster.api, cluster.core.inbox.put, SilentWatches(), ())
        read_gauges(
            cluster.metrics, cluster.core, watches, lease="scheduler", leads=lambda: leading
        )
        pods = [make_pod(name, requests="2 cpu") for name in ("one", "two")]
        cluster.create(make_node("small", allocatable="1 cpu, 8Gi"), *pods)
        await cluster.settle()

        waiting = read(cluster, "scheduler_pending_pods")
        assert waiting == {("active",): 0, ("backoff",): 0, ("gated",): 0, ("unschedulable",): 2}
        assert read(cluster, "leader_election_master_status") == {("scheduler",): 1}

        (age,) = read(cluster, "py_scheduler_pending_pod_age_seconds").values()
        await cluster.settle(2)
        (later,) = read(cluster, "py_scheduler_pending_pod_age_seconds").values()
        assert 0 < age < later < age + 3

        leading = False
        cluster.create(make_node("large", allocatable="8 cpu, 8Gi"))
        await cluster.settle(3)

        assert sum(read(cluster, "scheduler_pending_pods").values()) == 0
        assert read(cluster, "leader_election_master_status") == {("scheduler",): 0}
        assert read(cluster, "scheduler_cache_size")[("nodes",)] == 2
