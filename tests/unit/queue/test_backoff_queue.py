"""How long a failed pod waits."""

from math import floor

import pytest

from scheduler.queue.backoff_queue import WINDOW_SECONDS, BackoffQueue
from scheduler.queue.queued_pod import QueuedPod
from scheduler.testing import make_pod
from tests.unit.queue.queues import BY_FIT, by_priority

NONE = frozenset()


def make_failed(name="a", *, failures=1, at=0.0, rejected_by=BY_FIT, priority=0):
    pod = make_pod(name, priority=priority)
    queued = QueuedPod(pod, 0.0, 0)
    for _ in range(failures):
        queued.note_failure(pod, rejected_by, NONE, at)
    return queued


@pytest.mark.parametrize(
    ("initial", "maximum", "expected"),
    [
        (1.0, 10.0, [1, 2, 4, 8, 10, 10]),
        (0.5, 3.0, [0.5, 1, 2, 3, 3, 3]),
        (20.0, 10.0, [10, 10, 10, 10, 10, 10]),
        (3e-9, 1.0, [3e-9, 6e-9, 12e-9, 24e-9, 48e-9, 96e-9]),
    ],
)
def test_each_failure_doubles_the_wait_up_to_a_maximum(initial, maximum, expected):
    queue = BackoffQueue(initial, maximum, by_priority)

    assert [queue.wait_seconds(failures) for failures in range(1, 7)] == expected


def test_any_number_of_failures_can_be_waited_for():
    assert BackoffQueue(1.0, 10.0, by_priority).wait_seconds(10_000) == 10.0


@pytest.mark.parametrize(
    ("failed_at", "failures", "last_waiting", "first_ready"),
    [
        (0.0, 1, 1.999, 2.0),
        (0.9, 1, 1.999, 2.0),
        (1.0, 1, 2.999, 3.0),
        (0.5, 2, 2.999, 3.0),
        (0.5, 5, 10.999, 11.0),
    ],
)
def test_the_wait_ends_with_the_window_after_the_one_of_its_expiry(
    failed_at, failures, last_waiting, first_ready
):
    queue = BackoffQueue(1.0, 10.0, by_priority)
    queue.add(queued := make_failed(failures=failures, at=failed_at))

    assert queue.is_waiting(queued, last_waiting)
    assert not queue.is_waiting(queued, first_ready)
    assert queue.next_completion() == first_ready


@pytest.mark.parametrize("phase", [0.0, 0.25, 0.5, 0.75, 0.999])
def test_a_backoff_is_over_a_window_and_a_second_after_the_stamp_of_its_refusal(phase):
    """Whoever knows the refusal by its condition has to wait as long as this, and no less will do.

    The stamp has lost its fraction, and the seconds of the monotonic clock, by which backoffs end,
    begin *phase* later than those of the time of day.
    """
    queue = BackoffQueue(1.0, 10.0, by_priority)
    waited = set()
    for moment in range(2000):
        refused = 100 + moment / 1000
        queued = make_failed(at=refused - phase)
        stamp = floor(refused)
        assert not queue.is_waiting(queued, stamp + 1 + 1.0 + WINDOW_SECONDS - phase)
        waited.add(queue.is_waiting(queued, stamp + 1 + 1.0 - phase))

    assert waited == ({False} if phase == 0 else {False, True})


def test_a_maximum_of_zero_means_never_to_wait():
    assert not BackoffQueue(1.0, 0.0, by_priority).is_waiting(make_failed(failures=3), now=0.0)


def test_a_pod_that_never_failed_does_not_wait():
    assert not BackoffQueue(1.0, 10.0, by_priority).is_waiting(make_failed(failures=0), now=0.0)


def test_errors_count_by_themselves_and_a_rejection_ends_the_series():
    queue = BackoffQueue(1.0, 10.0, by_priority)
    queued = make_failed(failures=3)
    pod = queued.pod

    queued.note_failure(pod, NONE, NONE, 100.0)
    after_one_error = queue.expiry(queued)
    queued.note_failure(pod, NONE, NONE, 100.0)
    after_two_errors = queue.expiry(queued)
    queued.note_failure(pod, BY_FIT, NONE, 100.0)
    after_a_rejection = queue.expiry(queued)

    assert (after_one_error, after_two_errors, after_a_rejection) == (101.0, 102.0, 108.0)
    assert queued.consecutive_errors == 0


def test_pods_of_one_window_go_by_priority():
    queue = BackoffQueue(1.0, 10.0, by_priority)
    queue.add(make_failed("low", at=0.1, priority=1))
    queue.add(make_failed("high", at=0.9, priority=9))
    queue.add(make_failed("later", at=1.0, priority=99))

    assert queue.first_to_pop_early().pod.name == "high"


def test_rejected_pods_are_released_before_failed_ones_which_are_never_fetched_early():
    queue = BackoffQueue(1.0, 10.0, by_priority)
    queue.add(failed := make_failed("failed", at=0.0, rejected_by=NONE))
    assert queue.first_to_pop_early() is None

    queue.add(rejected := make_failed("rejected", at=1.0))
    assert queue.first_completed(now=3.0) is rejected
    assert queue.remove(rejected.pod.uid)
    assert queue.first_completed(now=3.0) is failed
    assert len(queue) == 1
