"""Telling news from repetitions: what goes on failing alike is worth a line a minute."""

import time
from collections.abc import Callable
from typing import Final

_REPEAT_SECONDS: Final = 60.0


class LogThrottle:
    """What was told of each subject last, and when."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._told: dict[str, tuple[str, float]] = {}

    def is_new(self, subject: str, text: str) -> bool:
        """Tell whether *text* was not told of *subject* last, within a minute."""
        now = self._clock()
        last, told_at = self._told.get(subject, ("", 0.0))
        if text == last and now < told_at + _REPEAT_SECONDS:
            return False
        self._told[subject] = text, now
        return True
