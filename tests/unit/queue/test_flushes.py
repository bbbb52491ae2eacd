"""Moves of waiting pods that only time causes."""

from scheduler.queue.queue_state import QueueState
from scheduler.testing import make_pod
from tests.unit.queue.queues import BY_FIT, FIT, NODE_ADDED, GateOf, make_queue, park


def test_the_next_flush_is_known_in_advance():
    queue = make_queue(FIT)
    assert queue.next_flush(0.0) is None

    queue.flush(0.0)
    park(queue, make_pod("a"), "Fit", now=0.5)
    assert queue.next_flush(0.5) == 30.0

    queue.requeue_on(NODE_ADDED, 0.6)
    assert queue.next_flush(0.6) == 2.0

    queue.flush(2.0)
    assert queue.counts()["active"] == 1
    assert queue.next_flush(2.0) is None


def test_a_pod_that_waited_too_long_is_marked_until_its_next_failure():
    queue = make_queue(FIT)
    park(queue, pod := make_pod("a"), "Fit", now=0.0)
    queue.flush(300.0)
    assert queue.state_of(pod.uid) is QueueState.UNSCHEDULABLE

    queue.flush(330.0)
    queued = queue.pop(330.0)
    assert queued.flushed

    queue.park(queued, pod, rejected_by=BY_FIT, now=331.0)
    assert not queued.flushed


def test_a_pod_that_a_flush_finds_gated_is_not_marked():
    queue = make_queue(FIT, GateOf("quota"))
    park(queue, old := make_pod("a"), "Fit", now=0.0)
    queue.update(old, make_pod("a", gates=["quota"]), 1.0)

    queue.flush(400.0)

    assert queue.state_of(old.uid) is QueueState.GATED
    assert not queue.find(old.uid).flushed


def test_a_flush_counts_as_an_event_for_pods_in_flight():
    queue = make_queue(FIT)
    park(queue, make_pod("old"), "Fit", now=0.0)
    queue.add(pod := make_pod("a"), 1.0)
    queued = queue.pop(1.0)
    queue.flush(301.0)

    assert queue.park(queued, pod, rejected_by=BY_FIT, now=301.0) is QueueState.BACKOFF
