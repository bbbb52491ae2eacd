"""Durations as Go writes them."""

import pytest

from scheduler.config import duration


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("15s", 15),
        ("1m30s", 90),
        ("1h", 3600),
        ("250ms", 0.25),
        ("1.5h", 5400),
        (".5s", 0.5),
        ("5.s", 5),
        ("100us", 0.0001),
        ("100µs", 0.0001),
        ("1ns", 1e-9),
        ("-1m", -60),
        ("+2s", 2),
        ("0", 0),
    ],
)
def test_durations_are_read_as_go_reads_them(text, seconds):
    assert duration.parse(text) == seconds


@pytest.mark.parametrize("text", ["", "15", "s", "1d", "1 s", "1s ", "1m-1s", "1e3s", "٣s"])
def test_anything_else_is_refused(text):
    with pytest.raises(ValueError, match="no duration such as"):
        duration.parse(text)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.0, "0s"),
        (15.0, "15s"),
        (90.0, "1m30s"),
        (600.0, "10m0s"),
        (3600.0, "1h0m0s"),
        (0.25, "250ms"),
        (1.5, "1.5s"),
        (-2.0, "-2s"),
    ],
)
def test_durations_are_written_as_go_writes_them(seconds, text):
    assert duration.format_seconds(seconds) == text
    assert duration.parse(text) == seconds
