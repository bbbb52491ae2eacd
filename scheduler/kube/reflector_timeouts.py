"""How long to wait for an API server, alone and in company."""

import asyncio
import contextlib
from dataclasses import dataclass
from typing import Final

from scheduler.kube.retry import Backoff

_BACKOFF: Final = Backoff(seconds_initial=0.8, seconds_maximum=30.0, spread=(1.0, 1.5))


@dataclass(frozen=True, slots=True)
class ReflectorTimeouts:
    """How long a reflector waits, in seconds.

    Args:
        backoff: The pauses after failures in a row; client-go's, from 0.8 s to half a minute.
        silence: After this time without a byte a watch is taken for dead. Bookmarks come every
            minute.
        watch_minimum: The server is asked to end a watch after this time at the earliest, so that
            watches spread over its replicas again after one of them was away.
        watch_maximum: And at this time at the latest.
        poll: Between two lists of a resource that cannot be watched, such as ``metrics.k8s.io``.
    """

    backoff: Backoff = _BACKOFF
    silence: float = 90.0
    watch_minimum: float = 300.0
    watch_maximum: float = 600.0
    poll: float = 15.0


class SharedBackoff:
    """Reflectors of one API server, who help each other up after an outage.

    Each waits out its own backoff, which grows to half a minute. Once the server answers one of
    them there is no reason for the others to sleep on, and a picture in which pods are new and
    nodes are old would be a false one.
    """

    def __init__(self) -> None:
        self._risen = asyncio.Event()

    def wake(self) -> None:
        """Tell everybody that the server answers."""
        self._risen.set()
        self._risen = asyncio.Event()

    async def sleep(self, seconds: float) -> None:
        """Wait for *seconds*, or until the server has answered somebody."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._risen.wait(), seconds)
