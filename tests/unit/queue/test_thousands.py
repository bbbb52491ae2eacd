"""Many pods at once: no call takes long, and the result is the same."""

from scheduler.queue.queue_state import QueueState
from scheduler.queue.scheduling_queue import PODS_AT_ONCE
from scheduler.testing import make_pod
from tests.unit.queue.queues import BY_FIT, FIT, NODE_ADDED, make_queue, park, pop_all


def crowd(count=2 * PODS_AT_ONCE + 10, **settings):
    """Return a queue in which *count* pods have been rejected, and the pods."""
    queue = make_queue(FIT, **settings)
    pods = [make_pod(f"p{number}") for number in range(count)]
    for pod in pods:
        park(queue, pod, "Fit")
    return queue, pods


def test_a_change_requeues_thousands_in_parts():
    queue, pods = crowd()
    queue.requeue_on(NODE_ADDED, 10.0)

    assert queue.counts()["active"] == PODS_AT_ONCE
    assert queue.catch_up()
    assert not queue.catch_up()
    assert queue.counts()["active"] == len(pods)
    queue.check_invariants()


def test_a_change_is_applied_to_all_before_a_pod_is_popped():
    """The most important pod may be the last that the change reaches."""
    queue, _ = crowd()
    park(queue, make_pod("late and important", priority=9), "Fit")
    queue.requeue_on(NODE_ADDED, 10.0)

    assert queue.pop(10.0).pod.name == "late and important"


def test_a_move_before_a_pending_change_is_applied_stands():
    queue, pods = crowd()
    *_, deleted, activated, updated = pods
    queue.requeue_on(NODE_ADDED, 10.0)
    queue.delete(deleted, 10.0)
    queue.activate([activated.uid], 10.0)
    queue.update(updated, newer := make_pod(updated.name, labels="a=b"), 10.0)
    queue.add(make_pod("new"), 10.0)

    names = pop_all(queue, 10.0)
    assert sorted(names) == sorted([*(pod.name for pod in pods if pod is not deleted), "new"])
    assert queue.state_of(newer.uid) is None


def test_a_pod_in_flight_sees_a_change_that_is_still_pending_for_others():
    queue, _ = crowd()
    queue.add(pod := make_pod("in flight", priority=9), 0.0)
    queued = queue.pop(0.0)
    queue.requeue_on(NODE_ADDED, 10.0)

    assert queue.park(queued, pod, rejected_by=BY_FIT, now=10.0) is QueueState.BACKOFF


def test_a_flush_of_thousands_goes_on_until_nothing_is_due():
    queue, pods = crowd(unschedulable_seconds=300.0)
    calls = 0
    while (due := queue.next_flush(1000.0)) is not None and due <= 1000.0:
        queue.flush(1000.0)
        calls += 1

    assert calls >= 3
    assert queue.counts()["active"] == len(pods)
    assert queue.next_flush(1000.0) is None


def test_backoffs_of_thousands_end_in_parts():
    queue, pods = crowd()
    queue.requeue_on(NODE_ADDED, 0.5)
    while queue.catch_up():
        pass
    assert queue.counts()["backoff"] == len(pods)

    queue.flush(50.0)
    assert queue.counts()["active"] == PODS_AT_ONCE
    while (due := queue.next_flush(50.0)) is not None and due <= 50.0:
        queue.flush(50.0)
    assert queue.counts()["active"] == len(pods)
