"""The changes that are kept while pods are being decided."""

import pytest

from scheduler.framework.cluster_event import NODE_ADD, Change
from scheduler.queue.in_flight import LOG_MAXIMUM, InFlight
from scheduler.queue.queued_pod import QueuedPod
from scheduler.testing import make_node, make_pod

A, B, C = (QueuedPod(make_pod(name), 0.0, 0) for name in "abc")


def change(number):
    return Change(NODE_ADD, None, make_node(f"n{number}"))


def seen(in_flight, queued):
    changes = in_flight.since_pop(queued.pod.uid)
    return [each.new.name for each in changes]


def test_a_pod_sees_what_changed_after_its_own_pop():
    in_flight = InFlight()
    in_flight.add(A)
    in_flight.record(change(1))
    in_flight.add(B)
    in_flight.record(change(2))

    assert seen(in_flight, A) == ["n1", "n2"]
    assert seen(in_flight, B) == ["n2"]


def test_nothing_is_kept_while_no_pod_is_in_flight():
    in_flight = InFlight()
    in_flight.record(change(1))

    assert in_flight.logged == 0


def test_changes_are_dropped_as_soon_as_no_pod_needs_them():
    in_flight = InFlight()
    for number, queued in enumerate((A, B, C)):
        in_flight.add(queued)
        in_flight.record(change(number))

    kept = [in_flight.logged]
    for queued in (B, A, C):
        in_flight.remove(queued.pod.uid)
        kept.append(in_flight.logged)

    assert kept == [3, 3, 1, 0]


def test_numbers_go_on_after_the_log_was_emptied():
    in_flight = InFlight()
    in_flight.add(A)
    in_flight.record(change(1))
    in_flight.remove(A.pod.uid)
    in_flight.add(B)
    in_flight.record(change(2))

    assert seen(in_flight, B) == ["n2"]
    assert in_flight.count_by_label() == {"NodeAdd": 1}


def test_a_pod_that_is_not_in_flight_has_no_view_of_changes():
    assert InFlight().since_pop(A.pod.uid) is None
    assert not InFlight().remove(A.pod.uid)


def test_popping_a_pod_twice_is_our_mistake():
    in_flight = InFlight()
    in_flight.add(A)

    with pytest.raises(AssertionError, match=r"popped twice: pod default/a"):
        in_flight.add(A)


def test_a_pod_that_is_in_flight_for_long_does_not_make_the_log_grow():
    """A change that it missed may have helped it."""
    in_flight, same = InFlight(), change(1)
    in_flight.add(A)
    for _ in range(LOG_MAXIMUM):
        in_flight.record(same)
    assert len(seen(in_flight, A)) == LOG_MAXIMUM

    in_flight.add(B)
    in_flight.record(change(2))
    in_flight.record(change(3))
    assert in_flight.logged == LOG_MAXIMUM
    assert in_flight.since_pop(A.pod.uid) is None
    assert seen(in_flight, B) == ["n2", "n3"]

    in_flight.remove(A.pod.uid)
    assert in_flight.logged == 2
    assert seen(in_flight, B) == ["n2", "n3"]
