"""Buckets that Prometheus would read."""

from hack.histograms import buckets, longest


def test_the_longest_is_the_highest_bucket_that_has_counted_in_between():
    text = (
        'stall_bucket{{le="0.5"}} {}\nstall_bucket{{le="1.0"}} {}\nstall_bucket{{le="+Inf"}} {}\n'
    )
    before, after = (buckets(text.format(*counts), "stall") for counts in ((2, 3, 3), (4, 6, 6)))

    assert longest(before, after) == 1.0
    assert longest({}, after) == 1.0
    assert longest(after, after) == 0.0
    assert longest(after, buckets(text.format(4, 6, 7), "stall")) == float("inf")


def test_a_histogram_that_is_not_exposed_has_no_buckets():
    assert buckets("other 1\n", "stall") == {}
