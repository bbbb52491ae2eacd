"""The objects that the memory benchmark makes, and what it measures with them."""

from benchmarks.memory import Cluster, node_line, pod_line


def test_objects_are_read_as_those_of_an_api_server():
    cluster = Cluster()
    cluster.receive(map(node_line, range(10)), nodes=True)
    cluster.receive(pod_line(number, 10) for number in range(100))

    assert cluster.cache.sizes() == {"nodes": 10, "pods": 100, "assumed_pods": 0}
    pod = next(cluster.cache.added())
    assert pod.placed_requests == {"cpu": 600, "memory": 512 << 20}
    assert not pod.malformed
    cluster.cache.check_invariants()


def test_an_event_that_changes_nothing_replaces_no_object():
    cluster = Cluster()
    cluster.receive(map(node_line, range(2)), nodes=True)
    cluster.receive(pod_line(number, 2) for number in range(10))
    before = {pod.uid: pod for pod in cluster.cache.added()}
    cluster.receive(pod_line(number, 2, "MODIFIED", version=1) for number in range(10))

    assert all(before[pod.uid] is pod for pod in cluster.cache.added())
    assert {pod.metadata.resource_version for pod in before.values()} == {
        str(9_000_001 + number) for number in range(10)
    }
