"""What the queue reports for metrics."""

from collections import Counter

import pytest

from scheduler.testing import make_pod
from tests.unit.queue.queues import FIT, NODE_ADDED, CountingObserver, GateOf, make_queue, park


def test_incoming_pods_are_counted_by_state_and_event():
    observer = CountingObserver()
    queue = make_queue(FIT, GateOf("quota"), observer=observer)
    park(queue, a := make_pod("a"), "Fit", now=0.0)
    queue.requeue_on(NODE_ADDED, 0.5)
    queue.flush(2.0)
    queue.activate([a.uid], 2.0)
    park(queue, make_pod("b", priority=1), now=2.0)
    queue.add(make_pod("c", gates=["quota"]), 2.0)

    assert observer.incoming_pods == {
        ("active", "UnschedulablePodAdd"): 2,
        ("unschedulable", "ScheduleAttemptFailure"): 1,
        ("backoff", "NodeAdd"): 1,
        ("active", "BackoffComplete"): 1,
        ("backoff", "ScheduleAttemptFailure"): 1,
        ("unschedulable", "UnschedulablePodAdd"): 1,
    }


def test_a_pod_fetched_early_is_counted_as_such():
    observer = CountingObserver()
    queue = make_queue(FIT, observer=observer)
    park(queue, make_pod("a"), "Fit", now=0.0)
    queue.requeue_on(NODE_ADDED, 0.5)

    assert queue.pop(0.6).attempts == 2
    assert observer.incoming_pods["active", "PopFromBackoffQ"] == 1


@pytest.mark.parametrize("leave", ["pop", "delete", "delete from backoff", "delete from active"])
def test_a_pod_counts_once_for_each_rejector_as_long_as_it_waits(leave):
    observer = CountingObserver()
    gate = GateOf("quota")
    queue = make_queue(FIT, gate, observer=observer)
    park(queue, old := make_pod("a"), "Fit", now=0.0)
    queue.update(old, pod := make_pod("a", gates=["quota"]), 0.1)
    queue.activate([pod.uid], 0.2)
    queue.activate([pod.uid], 0.2)
    assert observer.unschedulable == Counter(Fit=1, quota=1)

    queue.update(pod, pod := make_pod("a"), 0.3)
    if leave == "pop":
        queue.activate([pod.uid], 0.4)
        queue.pop(0.4)
    elif leave == "delete from backoff":
        queue.requeue_on(NODE_ADDED, 0.4)
    elif leave == "delete from active":
        queue.activate([pod.uid], 0.4)
    if leave != "pop":
        queue.delete(pod, 0.5)

    assert observer.unschedulable == Counter(Fit=0, quota=0)
