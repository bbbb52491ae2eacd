"""How long reflectors wait for an API server, and how the first success ends all waits."""

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
        silence: After this time without a byte a watch counts as dead. Bookmarks come each minute.
        watch_minimum: The server ends a watch after this time at the earliest (timeoutSeconds),
            so that watches spread over its replicas again after one of them was away.
        watch_maximum: And at this time at the latest.
        poll: Between two lists of a resource that cannot be watched, such as ``metrics.k8s.io``.
    """

    backoff: Backoff = _BACKOFF
    silence: float = 90.0
    watch_minimum: float = 300.0
    watch_maximum: float = 600.0
    poll: float = 15.0


class SharedBackoff:
    """The backoff of all reflectors of one API server: the first success ends the wait of all.

    Each waits by its own backoff, which grows to half a minute. Once the server answers one of them
    the others need not wait any longer. If they did, the cache would combine new pods with old
    nodes, and a pod would be judged against a cluster that never existed.
    """

    def __init__(self) -> None:
        self._awake = asyncio.Event()

    def wake(self) -> None:
        """End the wait of every reflector: the server answers."""
        self._awake.set()
        self._awake = asyncio.Event()

    async def sleep(self, seconds: float) -> None:
        """Wait for *seconds*, or until the server has answered a reflector."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._awake.wait(), seconds)
