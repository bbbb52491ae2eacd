"""Monotonic time and the time of day, passed to constructors so that tests can replace both."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime


@dataclass(frozen=True, slots=True)
class Clock:
    """Monotonic time for decisions, and the time of day for stamps.

    Args:
        now: Monotonic seconds.
        time_of_day: Seconds since 1970. It may jump, so nothing is measured with it; it only dates
            what is written, and stamps that others wrote.
    """

    now: Callable[[], float] = time.monotonic
    time_of_day: Callable[[], float] = time.time

    def stamp(self) -> str:
        """Return the time of day as RFC 3339, for stamps that are written."""
        return datetime.fromtimestamp(self.time_of_day(), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
