"""A throttle for log lines: a failure that repeats unchanged is logged once a minute."""

import time
from collections.abc import Callable
from typing import Final

_REPEAT_SECONDS: Final = 60.0


class LogThrottle:
    """The last text that was logged about each subject, and when."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._logged: dict[str, tuple[str, float]] = {}

    def is_new(self, subject: str, text: str) -> bool:
        """Tell whether *text* has to be logged: it differs from the last one, or a minute passed.

        Subjects are resources and plugins, not pods, so that their number is bounded.
        """
        now = self._clock()
        last, logged_at = self._logged.get(subject, ("", 0.0))
        if text == last and now < logged_at + _REPEAT_SECONDS:
            return False
        self._logged[subject] = text, now
        return True
