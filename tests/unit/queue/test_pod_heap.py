"""A heap from which any pod can be taken."""

from scheduler.queue.pod_heap import PodHeap
from scheduler.queue.queued_pod import QueuedPod
from scheduler.testing import make_pod

PODS = [QueuedPod(make_pod(f"p{number}"), 0.0, number) for number in range(200)]


def drain(heap):
    while head := heap.first():
        assert heap.discard(head[1].pod.uid)
        yield head[0]


def test_pods_come_out_in_the_order_of_their_keys():
    heap = PodHeap()
    for queued in PODS:
        heap.put(queued, -queued.order)

    assert list(drain(heap)) == sorted(-queued.order for queued in PODS)


def test_a_pod_with_another_key_is_there_once():
    heap = PodHeap()
    heap.put(PODS[0], 5)
    heap.put(PODS[1], 3)
    heap.put(PODS[0], 1)

    assert len(heap) == 2
    assert [queued.order for queued in heap] in ([0, 1], [1, 0])
    assert list(drain(heap)) == [1, 3]


def test_a_pod_that_left_is_not_taken_out_twice():
    heap = PodHeap()
    heap.put(PODS[0], 1)

    assert heap.discard(PODS[0].pod.uid)
    assert not heap.discard(PODS[0].pod.uid)
    assert heap.first() is None


def test_entries_of_earlier_keys_do_not_pile_up():
    heap = PodHeap()
    for key in range(10_000):
        heap.put(PODS[0], key)

    assert len(heap._entries) < 100
    assert heap.first() == (9_999, PODS[0])


def test_entries_of_pods_that_left_do_not_pile_up():
    heap = PodHeap()
    heap.put(PODS[0], -1)
    for _ in range(50):
        for queued in PODS[1:]:
            heap.put(queued, queued.order)
        for queued in PODS[1:]:
            heap.discard(queued.pod.uid)

    assert len(heap._entries) < 500
    assert [queued.order for queued in heap] == [0]
