"""Rates, percentiles and medians, by examples that can be checked by hand."""

import pytest

from benchmarks.figures import latency, nearest_rank, per_second, rates, spread


def test_an_even_stream_has_one_rate():
    stamps = [100 + number / 10 for number in range(1, 101)]
    found = rates(stamps, 100.0)

    assert found.middle == pytest.approx(10.0)
    assert found.end_to_end == pytest.approx(10.0)
    assert found.upstream == pytest.approx(10.0)


def test_the_middle_leaves_beginning_and_end_out():
    """Five slow bindings at either end do not count; the time before the first one does not."""
    stamps = [0, 1, 2, 3, 4, *(5 + number / 100 for number in range(90)), 10, 11, 12, 13, 14]

    assert rates(stamps, -50.0).middle == pytest.approx(100, rel=0.02)
    assert rates(stamps, -50.0).end_to_end == pytest.approx(100 / 64, abs=0.05)


def test_upstreams_samples_spread_over_seconds_without_bindings():
    """4 is the baseline; 6 after one empty second is two samples of 3; the last second is lost."""
    stamps = [0.1] * 4 + [2.5] * 6 + [3.5] * 9 + [4.2]

    assert rates(stamps, 0.0).upstream == pytest.approx((3 + 3 + 9) / 3)


@pytest.mark.parametrize("stamps", [[], [1.0], [1.0, 1.0]])
def test_too_few_bindings_make_no_rate(stamps):
    assert rates(stamps, 1.0).middle == 0


def test_bindings_by_second():
    assert per_second([0.2, 0.9, 2.5], 0.0) == [2, 0, 1]
    assert per_second([], 0.0) == []
    assert per_second([9.9], 10.0) == [1], "a clock that was read later is no reason to fail"


def test_percentiles_are_values_that_occurred():
    found = latency([number / 1000 for number in range(1, 101)])

    assert (found.p50, found.p90, found.p99, found.highest) == (50, 90, 99, 100)
    assert latency([]) is None


def test_the_nearest_rank_of_one_value_is_that_value():
    assert nearest_rank([7.0], 0.01) == nearest_rank([7.0], 1.0) == 7.0


def test_median_and_range():
    found = spread([3.0, 1.0, 2.0])

    assert (found.median, found.lowest, found.highest) == (2.0, 1.0, 3.0)
