"""Writes pod statuses in the background, each pod's in order.

Only the latest condition of a pod is worth a request: a patch that a newer one replaces before it
was sent is dropped. Patches that ``append`` adds are all sent.
"""

import asyncio

from scheduler.kube.pod_status import NotPatched, PatchOutcome, patch_status
from scheduler.kube.requests import Requests
from scheduler.model.pod import Pod
from scheduler.reporting.telemetry import Telemetry


class StatusWriter:
    """Sends status patches; for each pod, one request at a time."""

    def __init__(self, requests: Requests, telemetry: Telemetry) -> None:
        self._requests = requests
        self._telemetry = telemetry
        self._waiting: dict[str, list[tuple[Pod, bytes]]] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}

    def replace(self, pod: Pod, patch: bytes) -> None:
        """Send *patch* in place of all that has not been sent about *pod*."""
        self._waiting.pop(pod.uid, None)
        self.append(pod, patch)

    def append(self, pod: Pod, patch: bytes) -> None:
        """Send *patch* after all that has not been sent about *pod*."""
        self._waiting.setdefault(pod.uid, []).append((pod, patch))
        if pod.uid not in self._tasks:
            self._tasks[pod.uid] = asyncio.create_task(self._send_all(pod.uid))

    async def written(self, uid: str) -> None:
        """Return once every patch of a pod was sent, or given up."""
        while task := self._tasks.get(uid):
            await asyncio.wait((task,))

    async def close(self, timeout_seconds: float) -> None:
        """Give requests under way *timeout_seconds*, then cancel them."""
        tasks = list(self._tasks.values())
        if tasks:
            await asyncio.wait(tasks, timeout=timeout_seconds)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _send_all(self, uid: str) -> None:
        try:
            while patches := self._waiting.get(uid):
                pod, patch = patches.pop(0)
                assert pod.uid == uid, f"a patch for {pod.key} is among those of {uid}"
                outcome: PatchOutcome = await patch_status(self._requests, pod, patch)
                if isinstance(outcome, NotPatched):
                    self._telemetry.status_not_written(pod, outcome.message)
        finally:
            self._waiting.pop(uid, None)
            del self._tasks[uid]
