"""Writes pod statuses in the background, each pod's in order.

Only the latest word about a pod is worth a request: what is overtaken before it was sent is
dropped. A word about something else is said as well.
"""

import asyncio

from scheduler.kube.pod_status import NotPatched, PatchOutcome, patch_status
from scheduler.kube.requests import Requests
from scheduler.model.pod import Pod
from scheduler.reporting.telemetry import Telemetry


class StatusWriter:
    """At most one request a pod is on its way."""

    def __init__(self, requests: Requests, telemetry: Telemetry) -> None:
        self._requests = requests
        self._telemetry = telemetry
        self._waiting: dict[str, list[tuple[Pod, bytes]]] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}

    def write(self, pod: Pod, patch: bytes) -> None:
        """Send *patch* once what was sent before about *pod* is done."""
        self._waiting.pop(pod.uid, None)
        self.also_write(pod, patch)

    def also_write(self, pod: Pod, patch: bytes) -> None:
        """Send *patch* after all that is waiting to be sent about *pod*."""
        self._waiting.setdefault(pod.uid, []).append((pod, patch))
        if pod.uid not in self._tasks:
            self._tasks[pod.uid] = asyncio.create_task(self._work(pod.uid))

    async def written(self, uid: str) -> None:
        """Return once everything about a pod was sent, or given up."""
        while task := self._tasks.get(uid):
            await asyncio.wait((task,))

    async def close(self, timeout_seconds: float) -> None:
        """Give what is under way *timeout_seconds*, then give it up."""
        tasks = list(self._tasks.values())
        if tasks:
            await asyncio.wait(tasks, timeout=timeout_seconds)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _work(self, uid: str) -> None:
        try:
            while words := self._waiting.get(uid):
                pod, patch = words.pop(0)
                outcome: PatchOutcome = await patch_status(self._requests, pod, patch)
                if isinstance(outcome, NotPatched):
                    self._telemetry.status_not_written(pod, outcome.message)
        finally:
            self._waiting.pop(uid, None)
            del self._tasks[uid]
