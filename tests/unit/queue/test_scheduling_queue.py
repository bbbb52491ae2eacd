"""The queue through its door: which pod goes next, and its state when it comes back."""

import pytest

from scheduler.framework.cluster_event import POD, Action, Requeue
from scheduler.framework.cluster_event import ClusterEvent as Event
from scheduler.queue.hints import rules_for
from scheduler.queue.queue_state import QueueState
from scheduler.testing import make_pod
from tests.unit.queue.queues import BY_FIT, FIT, NODE_ADDED, GateOf, make_queue, park, pop_all


def test_pods_go_by_priority_and_then_by_waiting_time():
    queue = make_queue()
    for now, (name, priority) in enumerate([("a", 1), ("b", 9), ("c", 1), ("d", 5), ("e", 9)]):
        queue.add(make_pod(name, priority=priority), now)

    assert pop_all(queue) == ["b", "e", "d", "a", "c"]


def test_pods_that_arrive_at_once_go_in_the_order_of_arrival():
    queue = make_queue()
    names = [f"p{number}" for number in range(20)]
    for name in names:
        queue.add(make_pod(name), 0.0)

    assert pop_all(queue) == names


def test_a_failed_pod_goes_behind_its_equals():
    queue = make_queue(FIT)
    queue.add(failed := make_pod("failed"), 0.0)
    queue.add(make_pod("newer"), 0.0)

    queue.park(queue.pop(0.0), failed, rejected_by=BY_FIT, now=1.0)
    queue.requeue_on(NODE_ADDED, 5.0)

    assert pop_all(queue) == ["newer", "failed"]


def test_pods_that_fail_at_once_go_in_the_order_of_failing():
    queue = make_queue(FIT)
    for name in ("a", "b"):
        queue.add(make_pod(name), 0.0)
    a, b = queue.pop(0.0), queue.pop(0.0)
    for queued in (b, a):
        queue.park(queued, queued.pod, rejected_by=BY_FIT, now=1.0)

    queue.requeue_on(NODE_ADDED, 5.0)

    assert pop_all(queue) == ["b", "a"]


def test_a_changed_priority_counts_at_once():
    queue = make_queue()
    queue.add(make_pod("a", priority=5), 0.0)
    queue.add(old := make_pod("b", priority=1), 0.0)

    queue.update(old, make_pod("b", priority=9), 0.0)

    assert pop_all(queue) == ["b", "a"]


def test_attempts_and_the_first_chance_survive_failures():
    queue = make_queue(FIT)
    park(queue, pod := make_pod("a"), "Fit", now=3.0)
    queue.requeue_on(NODE_ADDED, 10.0)
    queued = queue.pop(10.0)

    assert (queued.attempts, queued.initial_attempt, queued.timestamp) == (2, 3.0, 3.0)
    assert queued.rejected_by == BY_FIT
    assert queue.state_of(pod.uid) is QueueState.IN_FLIGHT


def test_time_spent_gated_is_no_waiting():
    queue = make_queue(GateOf("quota", Requeue(Event(POD, Action.UPDATE))))
    queue.add(old := make_pod("a", gates=["quota"]), 0.0)
    queue.update(old, make_pod("a"), 50.0)

    assert queue.find(old.uid).initial_attempt == 50.0


def test_a_pod_that_met_an_error_backs_off_and_events_leave_it_there():
    queue = make_queue(FIT)
    park(queue, pod := make_pod("a"))

    queue.requeue_on(NODE_ADDED, 0.5)

    assert queue.state_of(pod.uid) is QueueState.BACKOFF
    assert queue.pop(0.6) is None


def test_the_newest_version_is_parked():
    queue = make_queue(FIT)
    queue.add(old := make_pod("a"), 0.0)
    queued = queue.pop(0.0)
    queue.update(old, new := make_pod("a", labels="app=web"), 0.1)
    assert queued.pod is old

    state = queue.park(queued, new, rejected_by=BY_FIT, now=0.2)

    assert state is QueueState.UNSCHEDULABLE
    assert queue.find(new.uid).pod is new


def test_a_pod_that_was_added_again_keeps_its_state():
    queue = make_queue(FIT)
    queue.add(pod := make_pod("a"), 0.0)
    queued = queue.pop(0.0)
    queue.done(pod.uid)
    queue.add(pod, 1.0)

    assert queue.park(queued, pod, rejected_by=BY_FIT, now=2.0) is QueueState.ACTIVE
    assert len(queue) == 1
    queue.check_invariants()


def test_a_pod_that_is_added_twice_is_there_once():
    queue = make_queue(FIT)
    pod = make_pod("a")
    queue.add(pod, 0.0)
    queue.add(pod, 0.0)
    queue.pop(0.0)
    queue.add(pod, 0.0)

    assert queue.counts() == {"active": 0, "backoff": 0, "unschedulable": 0, "gated": 0}
    assert queue.state_of(pod.uid) is QueueState.IN_FLIGHT


def test_another_pod_of_the_same_name_is_another_pod():
    queue = make_queue(FIT)
    park(queue, old := make_pod("a", uid="1"), "Fit")

    queue.update(old, make_pod("a", uid="2"), 0.0)

    assert queue.find("1") is None
    assert queue.find("2").attempts == 0


def test_replaced_rules_open_and_close_gates_and_lose_no_pod():
    old_gate, new_gate = GateOf("old"), GateOf("new")
    queue = make_queue(FIT, old_gate)
    park(queue, make_pod("parked"), "Fit", now=0.0)
    park(queue, make_pod("failed"), now=0.0)
    queue.add(make_pod("gated", gates=["old"]), 0.0)
    queue.add(make_pod("open", priority=-1), 0.0)
    queue.add(make_pod("closed", gates=["new"]), 0.0)

    queue.replace_rules({"py-scheduler": rules_for([new_gate])}, 0.5)

    states = {queued.pod.name: queued.state for queued in queue}
    assert states == {
        "parked": QueueState.BACKOFF,
        "failed": QueueState.BACKOFF,
        "gated": QueueState.ACTIVE,
        "open": QueueState.ACTIVE,
        "closed": QueueState.GATED,
    }
    queue.check_invariants()


def test_a_new_order_counts_for_pods_that_wait():
    queue = make_queue()
    for name, priority in (("a", 9), ("b", 5), ("c", 1)):
        queue.add(make_pod(name, priority=priority), 0.0)

    queue.replace_rules({"py-scheduler": rules_for([])}, 1.0, sort_key=lambda pod: pod.priority)

    assert pop_all(queue) == ["c", "b", "a"]


def test_a_failed_assertion_shows_the_pods_history():
    queue = make_queue(FIT)
    queued = park(queue, make_pod("a"), "Fit", now=0.0)
    queued.state = QueueState.ACTIVE

    with pytest.raises(AssertionError) as caught:
        queue.check_invariants()

    assert "parked ScheduleAttemptFailure -> unschedulable" in str(caught.value)
