"""Who goes first."""

from scheduler.plugins import PrioritySort
from scheduler.testing import make_pod


def test_a_pod_of_higher_priority_goes_first():
    low, high = make_pod(priority=-5), make_pod(priority=10)

    assert PrioritySort().sort_key(high) < PrioritySort().sort_key(low)


def test_no_priority_is_priority_zero():
    assert PrioritySort().sort_key(make_pod()) == PrioritySort().sort_key(make_pod(priority=0))
