"""From a decision to a bound pod: the real loop around a simulated API server."""

from scheduler.testing import make_node, make_pod
from scheduler.testing.clock import in_virtual_time
from scheduler.testing.harness import Harness


@in_virtual_time
async def test_a_pod_is_bound_and_told_so():
    async with Harness() as cluster:
        cluster.create(make_node("a"), pod := make_pod(requests="1 cpu"))
        await cluster.settle()

        assert cluster.node_of(pod) == "a"
        assert cluster.events_of(pod) == [("Scheduled", "Successfully assigned default/pod to a")]
        assert cluster.attempts("scheduled") == 1
        assert not cluster.core.cache.is_assumed(pod.uid)
