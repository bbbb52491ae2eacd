"""The queue through its door: what happens to a pod in each place."""

from collections import Counter

import pytest

from scheduler.framework.cluster_event import ASSIGNED_POD_DELETE, POD, Action, Change, Requeue
from scheduler.framework.cluster_event import ClusterEvent as Event
from scheduler.framework.decision import KEEP, SetTo
from scheduler.queue.hints import rules_for
from scheduler.queue.in_flight import LOG_MAXIMUM
from scheduler.queue.place import Place
from scheduler.queue.scheduling_queue import PODS_AT_ONCE
from scheduler.testing import make_pod

FIT = frozenset({"Fit"})
TOLERATIONS = Event(POD, Action.UPDATE_POD_TOLERATION)


def pop_all(queue, now=0.0):
    """Pop until nothing is ready; return the names."""
    names = []
    while queued := queue.pop(now):
        names.append(queued.pod.name)
        queue.done(queued.pod.uid)
    return names


# Which pod goes next.


def test_pods_go_by_priority_and_then_by_waiting_time(kit):
    queue = kit.make_queue()
    for now, (name, priority) in enumerate([("a", 1), ("b", 9), ("c", 1), ("d", 5), ("e", 9)]):
        queue.add(make_pod(name, priority=priority), now)

    assert pop_all(queue) == ["b", "e", "d", "a", "c"]


def test_pods_that_come_at_once_go_in_the_order_of_coming(kit):
    queue = kit.make_queue()
    names = [f"p{number}" for number in range(20)]
    for name in names:
        queue.add(make_pod(name), 0.0)

    assert pop_all(queue) == names


def test_a_failed_pod_goes_behind_its_equals(kit):
    queue = kit.make_queue(kit.fit)
    queue.add(failed := make_pod("failed"), 0.0)
    queue.add(make_pod("newer"), 0.0)

    queue.park(queue.pop(0.0), failed, rejected_by=FIT, now=1.0)
    queue.note(kit.node_added, 5.0)

    assert pop_all(queue) == ["newer", "failed"]


def test_pods_that_fail_at_once_go_in_the_order_of_failing(kit):
    queue = kit.make_queue(kit.fit)
    for name in ("a", "b"):
        queue.add(make_pod(name), 0.0)
    a, b = queue.pop(0.0), queue.pop(0.0)
    for queued in (b, a):
        queue.park(queued, queued.pod, rejected_by=FIT, now=1.0)

    queue.note(kit.node_added, 5.0)

    assert pop_all(queue) == ["b", "a"]


def test_a_changed_priority_counts_at_once(kit):
    queue = kit.make_queue()
    queue.add(make_pod("a", priority=5), 0.0)
    queue.add(old := make_pod("b", priority=1), 0.0)

    queue.update(old, make_pod("b", priority=9), 0.0)

    assert pop_all(queue) == ["b", "a"]


def test_attempts_and_the_first_chance_survive_failures(kit):
    queue = kit.make_queue(kit.fit)
    kit.park(queue, pod := make_pod("a"), "Fit", now=3.0)
    queue.note(kit.node_added, 10.0)
    queued = queue.pop(10.0)

    assert (queued.attempts, queued.initial_attempt, queued.timestamp) == (2, 3.0, 3.0)
    assert queued.rejected_by == FIT
    assert queue.place_of(pod.uid) is Place.IN_FLIGHT


def test_time_spent_gated_is_no_waiting(kit):
    queue = kit.make_queue(kit.GateOf("quota", Requeue(Event(POD, Action.UPDATE))))
    queue.add(old := make_pod("a", gates=["quota"]), 0.0)
    queue.update(old, make_pod("a"), 50.0)

    assert queue.find(old.uid).initial_attempt == 50.0


# Coming back from an attempt.


def test_a_pod_that_met_an_error_backs_off_and_events_leave_it_there(kit):
    queue = kit.make_queue(kit.fit)
    kit.park(queue, pod := make_pod("a"))

    queue.note(kit.node_added, 0.5)

    assert queue.place_of(pod.uid) is Place.BACKOFF
    assert queue.pop(0.6) is None


def test_the_newest_version_is_parked(kit):
    queue = kit.make_queue(kit.fit)
    queue.add(old := make_pod("a"), 0.0)
    queued = queue.pop(0.0)
    queue.update(old, new := make_pod("a", labels="app=web"), 0.1)
    assert queued.pod is old

    place = queue.park(queued, new, rejected_by=FIT, now=0.2)

    assert place is Place.UNSCHEDULABLE
    assert queue.find(new.uid).pod is new


def test_a_pod_that_came_back_by_another_way_stays_where_it_is(kit):
    queue = kit.make_queue(kit.fit)
    queue.add(pod := make_pod("a"), 0.0)
    queued = queue.pop(0.0)
    queue.done(pod.uid)
    queue.add(pod, 1.0)

    assert queue.park(queued, pod, rejected_by=FIT, now=2.0) is Place.ACTIVE
    assert len(queue) == 1
    queue.check_invariants()


def test_a_pod_told_twice_is_there_once(kit):
    queue = kit.make_queue(kit.fit)
    pod = make_pod("a")
    queue.add(pod, 0.0)
    queue.add(pod, 0.0)
    queue.pop(0.0)
    queue.add(pod, 0.0)

    assert queue.counts() == {"active": 0, "backoff": 0, "unschedulable": 0, "gated": 0}
    assert queue.place_of(pod.uid) is Place.IN_FLIGHT


def test_parking_asks_gates_only_of_pods_that_become_ready(kit):
    gate = kit.GateOf("preempting")
    queue = kit.make_queue(kit.fit, gate)
    kit.park(queue, make_pod("a"), "Fit")
    assert gate.asked == ["a"]

    queue.add(pod := make_pod("b"), 0.0)
    queued = queue.pop(0.0)
    queue.note(kit.node_added, 0.1)
    newer = make_pod("b", gates=["preempting"])
    place = queue.park(queued, newer, rejected_by=FIT, now=0.2)

    assert place is Place.GATED
    assert queue.find(pod.uid).rejected_by == {"Fit", "preempting"}


def test_what_backs_off_has_passed_its_gates(kit):
    queue = kit.make_queue(kit.fit, gate := kit.GateOf("quota"))
    kit.park(queue, old := make_pod("a"), "Fit", now=0.0)
    queue.note(kit.node_added, 0.1)
    queue.update(old, make_pod("a", gates=["quota"]), 0.2)
    assert len(gate.asked) == 2

    queue.flush(2.0)

    assert queue.place_of(old.uid) is Place.ACTIVE
    assert len(gate.asked) == 2


# Changes.


def test_a_change_reaches_only_pods_that_are_picked(kit):
    queue = kit.make_queue(kit.fit)
    for name, priority in (("high", 9), ("low", 1)):
        kit.park(queue, make_pod(name, priority=priority), "Fit")

    change = Change(ASSIGNED_POD_DELETE, make_pod("victim"), None)
    queue.note(change, 5.0, only=lambda pod: pod.priority <= 5)

    assert pop_all(queue) == ["low"]


def test_a_change_that_no_plugin_hears_is_not_even_kept_for_pods_in_flight(kit):
    queue = kit.make_queue(kit.Rejector("Pods", Requeue(Event(POD, Action.ADD))))
    queue.add(make_pod("a"), 0.0)
    queue.pop(0.0)

    queue.note(kit.node_added, 0.0)

    assert queue.in_flight_counts() == {"PodPopped": 1}


def test_hints_are_asked_only_where_their_plugin_said_no(kit):
    observer = kit.Observer()
    never = kit.Rejector("Never", Requeue(kit.node_added.event, lambda _pod, _change: False))
    queue = kit.make_queue(kit.fit, never, observer=observer)
    kit.park(queue, make_pod("a"), "Never")

    queue.note(kit.node_added, 5.0)

    assert observer.hints == {("Never", "NodeAdd", "QueueSkip"): 1}
    assert queue.counts()["unschedulable"] == 1


def test_a_pending_pod_is_ready_at_once(kit):
    queue = kit.make_queue(kit.fit)
    kit.park(queue, pod := make_pod("a"), pending=["Fit"])

    queue.note(kit.node_added, 0.1)

    assert queue.place_of(pod.uid) is Place.ACTIVE


# Gates.


def test_a_gated_pod_hears_what_its_gate_hears(kit):
    observer = kit.Observer()
    gate = kit.GateOf("claims", Requeue(kit.node_added.event))
    queue = kit.make_queue(gate, kit.fit, observer=observer)
    queue.add(pod := make_pod("a", gates=["claims"]), 0.0)

    queue.note(kit.node_added, 0.1)
    queue.note(Change(ASSIGNED_POD_DELETE, make_pod("other"), None), 0.2)
    queue.activate([pod.uid], 0.3)

    assert queue.place_of(pod.uid) is Place.GATED
    assert observer.hints == {("claims", "NodeAdd", "Queue"): 1}
    assert gate.asked == ["a", "a", "a"]


def test_a_gated_pod_does_not_hear_what_helps_against_its_other_rejectors(kit):
    observer = kit.Observer()
    queue = kit.make_queue(kit.fit, gate := kit.GateOf("preempting"), observer=observer)
    kit.park(queue, old := make_pod("a"), "Fit", now=0.0)
    queue.update(old, make_pod("a", gates=["preempting"]), 0.1)
    queue.activate([old.uid], 0.2)
    asked = len(gate.asked)

    queue.note(kit.node_added, 5.0)

    assert queue.place_of(old.uid) is Place.GATED
    assert len(gate.asked) == asked
    assert not observer.hints


def test_the_gate_that_was_closed_is_asked_first(kit):
    first, second = kit.GateOf("first"), kit.GateOf("second")
    queue = kit.make_queue(first, second)
    queue.add(pod := make_pod("a", gates=["second"]), 0.0)
    queue.activate([pod.uid], 0.0)

    assert (len(first.asked), len(second.asked)) == (1, 2)
    assert queue.find(pod.uid).gate_reason == "waits for second"


def test_a_gate_that_raises_stays_closed(kit):
    class Broken:
        name = "Broken"

        def pre_enqueue(self, pod):
            raise ZeroDivisionError("oops")

    queue = kit.make_queue(Broken())
    queue.add(pod := make_pod("a"), 0.0)

    assert queue.place_of(pod.uid) is Place.GATED
    assert queue.find(pod.uid).gate_reason == "plugin 'Broken' raised ZeroDivisionError('oops')"


def test_neither_time_nor_a_wildcard_reaches_a_gated_pod(kit):
    queue = kit.make_queue(kit.GateOf("quota"))
    queue.add(pod := make_pod("a", gates=["quota"]), 0.0)

    queue.flush(10_000.0)

    assert not queue.find(pod.uid).flushed
    assert queue.next_flush(10_000.0) is None


# Updates.


def test_an_update_stops_at_the_first_change_that_helps(kit):
    observer = kit.Observer()
    plugin = kit.Rejector("Own", Requeue(Event(POD, Action.UPDATE)))
    queue = kit.make_queue(plugin, observer=observer)
    kit.park(queue, old := make_pod("a"), "Own")

    queue.update(old, make_pod("a", labels="a=b", tolerations="key"), 5.0)

    assert observer.hints == {("Own", "UnschedulablePodUpdatePodLabel", "Queue"): 1}
    assert observer.incoming_pods["active", "UnschedulablePodUpdatePodLabel"] == 1


def test_an_update_that_helps_still_waits_for_the_backoff(kit):
    queue = kit.make_queue(kit.Rejector("Taints", Requeue(TOLERATIONS)))
    kit.park(queue, old := make_pod("a"), "Taints")

    queue.update(old, make_pod("a", tolerations="key"), 0.5)

    assert queue.place_of(old.uid) is Place.BACKOFF


def test_an_update_of_a_ready_pod_does_not_ask_its_gates(kit):
    queue = kit.make_queue(gate := kit.GateOf("quota"))
    queue.add(old := make_pod("a"), 0.0)
    queue.update(old, make_pod("a", gates=["quota"]), 0.0)

    assert queue.place_of(old.uid) is Place.ACTIVE
    assert gate.asked == ["a"]


def test_another_pod_of_the_same_name_is_another_pod(kit):
    queue = kit.make_queue(kit.fit)
    kit.park(queue, old := make_pod("a", uid="1"), "Fit")

    queue.update(old, make_pod("a", uid="2"), 0.0)

    assert queue.find("1") is None
    assert queue.find("2").attempts == 0


# Nominations.


def test_a_pod_is_nominated_when_it_becomes_ready_and_not_while_gated(kit):
    queue = kit.make_queue(kit.GateOf("quota", Requeue(kit.node_added.event)))
    queue.add(make_pod("a", nominated="n1"), 0.0)
    queue.add(gated := make_pod("b", nominated="n1", gates=["quota"]), 0.0)

    assert [pod.name for pod in queue.nominator.for_node("n1")] == ["a"]
    queue.replace_rules({"py-scheduler": rules_for([])}, 1.0)
    assert queue.nominator.node_of(gated.uid) == "n1"


def test_our_nomination_survives_an_update_that_makes_the_pod_ready(kit):
    """Upstream nominates again from the status here, which does not name the node yet."""
    queue = kit.make_queue(kit.Rejector("Own", Requeue(Event(POD, Action.UPDATE))))
    kit.park(queue, old := make_pod("a"), "Own")
    queue.nominator.add(old, SetTo("n1"))

    queue.update(old, new := make_pod("a", status={"phase": "Pending"}), 5.0)

    assert queue.place_of(new.uid) is Place.ACTIVE
    assert queue.nominator.for_node("n1") == (new,)


def test_a_nominated_pod_in_flight_is_known_in_full(kit):
    queue = kit.make_queue(kit.fit)
    queue.add(old := make_pod("a", nominated="n1", requests="1 cpu"), 0.0)
    queue.pop(0.0)
    queue.update(old, new := make_pod("a", nominated="n1", requests="2 cpu"), 0.1)

    assert queue.nominator.for_node("n1") == (new,)


def test_a_nomination_is_kept_although_no_status_tells_of_it(kit):
    queue = kit.make_queue(kit.fit)
    queue.nominate(make_pod("a"), SetTo("n1"), 0.0)

    queue.nominate(newer := make_pod("a", labels="a=b"), KEEP, 0.1)

    assert queue.nominator.for_node("n1") == (newer,)


@pytest.mark.parametrize(("written", "expected"), [(True, ""), (False, "n1")])
def test_a_nomination_that_others_clear_in_flight_ends_once_it_was_written(kit, written, expected):
    queue = kit.make_queue(kit.fit)
    kit.park(queue, waits := make_pod("waits"), "Fit")
    queue.add(old := make_pod("a", nominated="n1" if written else ""), 0.0)
    assert queue.pop(0.0).pod is old
    if not written:
        queue.nominate(old, SetTo("n1"), 0.0)

    queue.update(old, make_pod("a", labels="a=b"), 5.0)

    assert queue.nominator.node_of(old.uid) == expected
    assert queue.place_of(waits.uid) is (Place.ACTIVE if written else Place.UNSCHEDULABLE)


def test_a_deleted_pod_is_not_nominated(kit):
    queue = kit.make_queue()
    queue.add(pod := make_pod("a", nominated="n1"), 0.0)
    queue.delete(pod, 0.0)

    assert not queue.nominator.by_node()


# Time.


def test_the_next_flush_is_told_in_time(kit):
    queue = kit.make_queue(kit.fit)
    assert queue.next_flush(0.0) is None

    queue.flush(0.0)
    kit.park(queue, make_pod("a"), "Fit", now=0.5)
    assert queue.next_flush(0.5) == 30.0

    queue.note(kit.node_added, 0.6)
    assert queue.next_flush(0.6) == 2.0

    queue.flush(2.0)
    assert queue.counts()["active"] == 1
    assert queue.next_flush(2.0) is None


def test_a_pod_that_waited_too_long_is_marked_until_its_next_failure(kit):
    queue = kit.make_queue(kit.fit)
    kit.park(queue, pod := make_pod("a"), "Fit", now=0.0)
    queue.flush(300.0)
    assert queue.place_of(pod.uid) is Place.UNSCHEDULABLE

    queue.flush(330.0)
    queued = queue.pop(330.0)
    assert queued.flushed

    queue.park(queued, pod, rejected_by=FIT, now=331.0)
    assert not queued.flushed


def test_a_pod_that_a_flush_finds_gated_is_not_marked(kit):
    queue = kit.make_queue(kit.fit, kit.GateOf("quota"))
    kit.park(queue, old := make_pod("a"), "Fit", now=0.0)
    queue.update(old, make_pod("a", gates=["quota"]), 1.0)

    queue.flush(400.0)

    assert queue.place_of(old.uid) is Place.GATED
    assert not queue.find(old.uid).flushed


def test_a_flush_counts_as_an_event_for_pods_in_flight(kit):
    queue = kit.make_queue(kit.fit)
    kit.park(queue, make_pod("old"), "Fit", now=0.0)
    queue.add(pod := make_pod("a"), 1.0)
    queued = queue.pop(1.0)
    queue.flush(301.0)

    assert queue.park(queued, pod, rejected_by=FIT, now=301.0) is Place.BACKOFF


# Live reload.


def test_replaced_rules_open_and_close_gates_and_lose_nobody(kit):
    old_gate, new_gate = kit.GateOf("old"), kit.GateOf("new")
    queue = kit.make_queue(kit.fit, old_gate)
    kit.park(queue, make_pod("parked"), "Fit", now=0.0)
    kit.park(queue, make_pod("failed"), now=0.0)
    queue.add(make_pod("gated", gates=["old"]), 0.0)
    queue.add(make_pod("open", priority=-1), 0.0)
    queue.add(make_pod("closed", gates=["new"]), 0.0)

    queue.replace_rules({"py-scheduler": rules_for([new_gate])}, 0.5)

    places = {queued.pod.name: queued.place for queued in queue}
    assert places == {
        "parked": Place.BACKOFF,
        "failed": Place.BACKOFF,
        "gated": Place.ACTIVE,
        "open": Place.ACTIVE,
        "closed": Place.GATED,
    }
    queue.check_invariants()


def test_a_new_order_counts_for_whoever_waits(kit):
    queue = kit.make_queue()
    for name, priority in (("a", 9), ("b", 5), ("c", 1)):
        queue.add(make_pod(name, priority=priority), 0.0)

    queue.replace_rules({"py-scheduler": rules_for([])}, 1.0, sort_key=lambda pod: pod.priority)

    assert pop_all(queue) == ["c", "b", "a"]


# Metrics.


def test_incoming_pods_are_counted_by_place_and_event(kit):
    observer = kit.Observer()
    queue = kit.make_queue(kit.fit, kit.GateOf("quota"), observer=observer)
    kit.park(queue, a := make_pod("a"), "Fit", now=0.0)
    queue.note(kit.node_added, 0.5)
    queue.flush(2.0)
    queue.activate([a.uid], 2.0)
    kit.park(queue, make_pod("b", priority=1), now=2.0)
    queue.add(make_pod("c", gates=["quota"]), 2.0)

    assert observer.incoming_pods == {
        ("active", "UnschedulablePodAdd"): 2,
        ("unschedulable", "ScheduleAttemptFailure"): 1,
        ("backoff", "NodeAdd"): 1,
        ("active", "BackoffComplete"): 1,
        ("backoff", "ScheduleAttemptFailure"): 1,
        ("unschedulable", "UnschedulablePodAdd"): 1,
    }


def test_a_pod_fetched_early_is_counted_as_such(kit):
    observer = kit.Observer()
    queue = kit.make_queue(kit.fit, observer=observer)
    kit.park(queue, make_pod("a"), "Fit", now=0.0)
    queue.note(kit.node_added, 0.5)

    assert queue.pop(0.6).attempts == 2
    assert observer.incoming_pods["active", "PopFromBackoffQ"] == 1


@pytest.mark.parametrize("leave", ["pop", "delete", "delete from backoff", "delete from active"])
def test_whoever_waits_because_of_a_plugin_is_counted_once_and_only_so_long(kit, leave):
    observer = kit.Observer()
    gate = kit.GateOf("quota")
    queue = kit.make_queue(kit.fit, gate, observer=observer)
    kit.park(queue, old := make_pod("a"), "Fit", now=0.0)
    queue.update(old, pod := make_pod("a", gates=["quota"]), 0.1)
    queue.activate([pod.uid], 0.2)
    queue.activate([pod.uid], 0.2)
    assert observer.unschedulable == Counter(Fit=1, quota=1)

    queue.update(pod, pod := make_pod("a"), 0.3)
    if leave == "pop":
        queue.activate([pod.uid], 0.4)
        queue.pop(0.4)
    elif leave == "delete from backoff":
        queue.note(kit.node_added, 0.4)
    elif leave == "delete from active":
        queue.activate([pod.uid], 0.4)
    if leave != "pop":
        queue.delete(pod, 0.5)

    assert observer.unschedulable == Counter(Fit=0, quota=0)


def test_a_failed_assertion_tells_the_pods_story(kit):
    queue = kit.make_queue(kit.fit)
    queued = kit.park(queue, make_pod("a"), "Fit", now=0.0)
    queued.place = Place.ACTIVE

    with pytest.raises(AssertionError) as caught:
        queue.check_invariants()

    assert "parked ScheduleAttemptFailure -> unschedulable" in str(caught.value)


# Many at once: no call takes long, and nobody can tell.


def crowd(kit, count=2 * PODS_AT_ONCE + 10, **settings):
    """Return a queue in which *count* pods have been turned away, and the pods."""
    queue = kit.make_queue(kit.fit, **settings)
    pods = [make_pod(f"p{number}") for number in range(count)]
    for pod in pods:
        kit.park(queue, pod, "Fit")
    return queue, pods


def test_a_change_is_shown_to_thousands_in_parts(kit):
    queue, pods = crowd(kit)
    queue.note(kit.node_added, 10.0)

    assert queue.counts()["active"] == PODS_AT_ONCE
    assert queue.catch_up()
    assert not queue.catch_up()
    assert queue.counts()["active"] == len(pods)
    queue.check_invariants()


def test_all_have_been_shown_a_change_before_a_pod_is_popped(kit):
    """The most important pod may be the last that is asked."""
    queue, _ = crowd(kit)
    kit.park(queue, make_pod("late and important", priority=9), "Fit")
    queue.note(kit.node_added, 10.0)

    assert queue.pop(10.0).pod.name == "late and important"


def test_what_happens_to_a_pod_before_it_is_shown_a_change_stands(kit):
    queue, pods = crowd(kit)
    *_, deleted, activated, updated = pods
    queue.note(kit.node_added, 10.0)
    queue.delete(deleted, 10.0)
    queue.activate([activated.uid], 10.0)
    queue.update(updated, newer := make_pod(updated.name, labels="a=b"), 10.0)
    queue.add(make_pod("new"), 10.0)

    names = pop_all(queue, 10.0)
    assert sorted(names) == sorted([*(pod.name for pod in pods if pod is not deleted), "new"])
    assert queue.place_of(newer.uid) is None


def test_a_pod_in_flight_is_told_of_a_change_that_others_have_yet_to_be_shown(kit):
    queue, _ = crowd(kit)
    queue.add(pod := make_pod("in flight", priority=9), 0.0)
    queued = queue.pop(0.0)
    queue.note(kit.node_added, 10.0)

    assert queue.park(queued, pod, rejected_by=FIT, now=10.0) is Place.BACKOFF


def test_a_flush_of_thousands_goes_on_until_nothing_is_due(kit):
    queue, pods = crowd(kit, unschedulable_seconds=300.0)
    calls = 0
    while (due := queue.next_flush(1000.0)) is not None and due <= 1000.0:
        queue.flush(1000.0)
        calls += 1

    assert calls >= 3
    assert queue.counts()["active"] == len(pods)
    assert queue.next_flush(1000.0) is None


def test_backoffs_of_thousands_end_in_parts(kit):
    queue, pods = crowd(kit)
    queue.note(kit.node_added, 0.5)
    while queue.catch_up():
        pass
    assert queue.counts()["backoff"] == len(pods)

    queue.flush(50.0)
    assert queue.counts()["active"] == PODS_AT_ONCE
    while (due := queue.next_flush(50.0)) is not None and due <= 50.0:
        queue.flush(50.0)
    assert queue.counts()["active"] == len(pods)


def test_a_pod_that_was_held_for_too_long_backs_off_whatever_happened(kit):
    """A permit plugin may hold it for a quarter of an hour: not all that changed is remembered."""
    queue = kit.make_queue(kit.fit)
    queue.add(pod := make_pod("held"), 0.0)
    queued = queue.pop(0.0)
    for _ in range(LOG_MAXIMUM + 1):
        queue.note(kit.taint_changed, 1.0)

    assert queue.park(queued, pod, rejected_by=frozenset({"Permit"}), now=2.0) is Place.BACKOFF
