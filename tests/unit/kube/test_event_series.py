"""Names and times of event objects."""

import re

from scheduler.kube.event_series import event_name, micro_time


def test_an_impossible_name_is_replaced_by_a_uuid():
    assert event_name("web", 0x1234) == "web.1234"
    assert event_name("a.b-c", 255) == "a.b-c.ff"
    for name in ("Web", "x" * 253, "web_1", "-web", "web:1"):
        assert re.fullmatch(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", event_name(name, 1))


def test_micro_time_is_rfc3339_with_six_digits():
    assert micro_time(1_700_000_000_000_001_999) == "2023-11-14T22:13:20.000001Z"
