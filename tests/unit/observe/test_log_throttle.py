"""What goes on failing alike is told once a minute."""

from __future__ import annotations

from scheduler.observe.log_throttle import LogThrottle


def test_repetition_is_no_news_for_a_minute():
    now = [0.0]
    news = LogThrottle(lambda: now[0])

    assert news.is_new("Pod", "refused")
    now[0] = 59.9
    assert not news.is_new("Pod", "refused")
    now[0] = 60.0
    assert news.is_new("Pod", "refused")


def test_other_causes_and_other_subjects_are_news():
    news = LogThrottle(lambda: 0.0)

    assert news.is_new("Pod", "refused")
    assert news.is_new("Pod", "expired")
    assert news.is_new("Node", "expired")
    assert not news.is_new("Pod", "expired")
