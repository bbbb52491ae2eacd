"""A heap from which any pod can be removed."""

from scheduler.queue.pod_heap import PodHeap
from scheduler.queue.queued_pod import QueuedPod
from scheduler.testing import make_pod

PODS = [QueuedPod(make_pod(f"p{number}"), 0.0, number) for number in range(200)]


def heap_of(keys):
    """Return a heap whose keys can be changed from outside, by the pod's name."""
    return PodHeap(lambda pod: keys[pod.name])


def drain(heap):
    while (queued := heap.first()) is not None:
        assert heap.remove(queued.pod.uid)
        yield queued.order


def test_pods_come_out_in_the_order_of_their_keys():
    heap = heap_of({queued.pod.name: -queued.order for queued in PODS})
    for queued in PODS:
        heap.add(queued)

    assert list(drain(heap)) == sorted((queued.order for queued in PODS), reverse=True)


def test_expiry_counts_more_than_the_key_and_arrival_breaks_ties():
    expiries = {PODS[0]: 2.0, PODS[1]: 1.0, PODS[2]: 1.0}
    heap = PodHeap(lambda pod: 0, expiries.__getitem__)
    for queued in expiries:
        heap.add(queued)

    assert list(drain(heap)) == [1, 2, 0]


def test_a_pod_with_another_key_is_there_once():
    heap = heap_of(keys := {"p0": 5, "p1": 3})
    heap.add(PODS[0])
    heap.add(PODS[1])
    keys["p0"] = 1
    heap.add(PODS[0])

    assert len(heap) == 2
    assert sorted(queued.order for queued in heap) == [0, 1]
    assert list(drain(heap)) == [0, 1]


def test_another_sort_key_changes_the_order_of_pods_that_are_there():
    heap = PodHeap(lambda pod: pod.name)
    for queued in PODS[:3]:
        heap.add(queued)
    heap.remove(PODS[1].pod.uid)
    heap.reorder(lambda pod: -int(pod.name[1:]))

    assert list(drain(heap)) == [2, 0]


def test_a_removed_pod_is_not_removed_twice():
    heap = heap_of({"p0": 1})
    heap.add(PODS[0])

    assert heap.remove(PODS[0].pod.uid)
    assert not heap.remove(PODS[0].pod.uid)
    assert heap.first() is None


def test_entries_of_earlier_keys_do_not_pile_up():
    heap = heap_of(keys := {})
    for key in range(10_000):
        keys["p0"] = key
        heap.add(PODS[0])

    assert len(heap._entries) < 100
    assert heap.first() is PODS[0]


def test_entries_of_removed_pods_do_not_pile_up():
    heap = heap_of({queued.pod.name: queued.order for queued in PODS} | {"p0": -1})
    heap.add(PODS[0])
    for _ in range(50):
        for queued in PODS[1:]:
            heap.add(queued)
        for queued in PODS[1:]:
            heap.remove(queued.pod.uid)

    assert len(heap._entries) < 500
    assert [queued.order for queued in heap] == [0]
