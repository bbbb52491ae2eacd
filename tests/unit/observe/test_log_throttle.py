"""A failure that repeats unchanged is logged once a minute."""

from __future__ import annotations

from scheduler.observe.log_throttle import LogThrottle


def test_the_same_text_is_not_new_for_a_minute():
    now = [0.0]
    throttle = LogThrottle(lambda: now[0])

    assert throttle.is_new("Pod", "refused")
    now[0] = 59.9
    assert not throttle.is_new("Pod", "refused")
    now[0] = 60.0
    assert throttle.is_new("Pod", "refused")


def test_other_texts_and_other_subjects_are_new():
    throttle = LogThrottle(lambda: 0.0)

    assert throttle.is_new("Pod", "refused")
    assert throttle.is_new("Pod", "expired")
    assert throttle.is_new("Node", "expired")
    assert not throttle.is_new("Pod", "expired")
