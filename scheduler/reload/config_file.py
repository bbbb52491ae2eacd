"""Reads the file that ``--config`` names again and again, and offers what changes in it.

It is read every second instead of watched with inotify: a ConfigMap is mounted as a chain of
symbolic links of which the kubelet replaces one, and network filesystems send no notifications. A
text is offered once it was read twice, so that a half-written document is never used.
"""

import asyncio
import math
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final

from scheduler.config.change import RETRY_SECONDS, Outcome
from scheduler.observe import event_names
from scheduler.observe.logs import get_logger

PERIOD_SECONDS: Final = 1.0

log = get_logger()


class ConfigFile:
    """The file of the configuration, and the text that was offered last.

    Args:
        path: Its path.
        text: Its text at the start.
        offer: Applies a document, and returns the outcome.
        period_seconds: How often it is read.
        clock: Monotonic seconds.
    """

    def __init__(
        self,
        path: Path,
        text: str,
        offer: Callable[[str], Awaitable[Outcome]],
        period_seconds: float = PERIOD_SECONDS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._path = path
        self._offer = offer
        self._period_seconds = period_seconds
        self._clock = clock
        self._considered = text
        self._seen = text
        self._again_at = math.inf
        self._is_missing = False

    async def run(self) -> None:
        """Read and offer until cancelled."""
        while True:
            await asyncio.sleep(self._period_seconds)
            await self.read_once()

    async def read_once(self) -> None:
        """Read once; offer a new text if the last read found the same."""
        try:
            text = await asyncio.to_thread(self._path.read_text, encoding="utf-8")
        except (OSError, UnicodeDecodeError) as problem:
            if not self._is_missing:
                log.warning(
                    event_names.CONFIGURATION_UNREADABLE,
                    path=str(self._path),
                    error=str(problem),
                    remedy="put it back; what was read last stays in force",
                )
            self._is_missing = True
            return
        self._is_missing = False
        settled, self._seen = text == self._seen, text
        if not settled:
            return
        if text != self._considered or self._clock() >= self._again_at:
            self._again_at = math.inf
            outcome = await self._offer(text)
            self._considered = text
            if outcome.result.is_transient:
                self._again_at = self._clock() + RETRY_SECONDS
