"""Changes of the cluster and of a pod: which pods they requeue."""

from scheduler.framework.cluster_event import ASSIGNED_POD_DELETE, POD, Action, Change, Requeue
from scheduler.framework.cluster_event import ClusterEvent as Event
from scheduler.queue.in_flight import LOG_MAXIMUM
from scheduler.queue.queue_state import QueueState
from scheduler.testing import make_pod
from tests.unit.queue.queues import (
    FIT,
    NODE_ADDED,
    TAINT_CHANGED,
    CountingObserver,
    Rejector,
    make_queue,
    park,
    pop_all,
)

TOLERATIONS = Event(POD, Action.UPDATE_POD_TOLERATION)


def test_a_change_reaches_only_pods_that_are_picked():
    queue = make_queue(FIT)
    for name, priority in (("high", 9), ("low", 1)):
        park(queue, make_pod(name, priority=priority), "Fit")

    change = Change(ASSIGNED_POD_DELETE, make_pod("victim"), None)
    queue.requeue_on(change, 5.0, only=lambda pod: pod.priority <= 5)

    assert pop_all(queue) == ["low"]


def test_a_change_that_no_plugin_registered_is_not_even_kept_for_pods_in_flight():
    queue = make_queue(Rejector("Pods", Requeue(Event(POD, Action.ADD))))
    queue.add(make_pod("a"), 0.0)
    queue.pop(0.0)

    queue.requeue_on(NODE_ADDED, 0.0)

    assert queue.in_flight_counts() == {"PodPopped": 1}


def test_hints_run_only_if_their_plugin_rejected_the_pod():
    observer = CountingObserver()
    never = Rejector("Never", Requeue(NODE_ADDED.event, lambda _pod, _change: False))
    queue = make_queue(FIT, never, observer=observer)
    park(queue, make_pod("a"), "Never")

    queue.requeue_on(NODE_ADDED, 5.0)

    assert observer.hints == {("Never", "NodeAdd", "QueueSkip"): 1}
    assert queue.counts()["unschedulable"] == 1


def test_a_pending_pod_is_ready_at_once():
    queue = make_queue(FIT)
    park(queue, pod := make_pod("a"), pending=["Fit"])

    queue.requeue_on(NODE_ADDED, 0.1)

    assert queue.state_of(pod.uid) is QueueState.ACTIVE


def test_a_pod_that_was_in_flight_for_too_long_backs_off_whatever_happened():
    """A permit plugin may keep it waiting for a quarter of an hour: not all changes are kept."""
    queue = make_queue(FIT)
    queue.add(pod := make_pod("held"), 0.0)
    queued = queue.pop(0.0)
    for _ in range(LOG_MAXIMUM + 1):
        queue.requeue_on(TAINT_CHANGED, 1.0)

    assert queue.park(queued, pod, rejected_by=frozenset({"Permit"}), now=2.0) is QueueState.BACKOFF


def test_an_update_stops_at_the_first_change_that_helps():
    observer = CountingObserver()
    plugin = Rejector("Own", Requeue(Event(POD, Action.UPDATE)))
    queue = make_queue(plugin, observer=observer)
    park(queue, old := make_pod("a"), "Own")

    queue.update(old, make_pod("a", labels="a=b", tolerations="key"), 5.0)

    assert observer.hints == {("Own", "UnschedulablePodUpdatePodLabel", "Queue"): 1}
    assert observer.incoming_pods["active", "UnschedulablePodUpdatePodLabel"] == 1


def test_an_update_that_helps_still_waits_for_the_backoff():
    queue = make_queue(Rejector("Taints", Requeue(TOLERATIONS)))
    park(queue, old := make_pod("a"), "Taints")

    queue.update(old, make_pod("a", tolerations="key"), 0.5)

    assert queue.state_of(old.uid) is QueueState.BACKOFF
