"""One run: one scheduler, one workload, a control plane of its own.

In *drain* mode the measured pods exist before the scheduler starts, so that nothing but the
scheduler sets the pace. In *stream* mode thirty writers create them while it runs, as upstream's
benchmark does; on a small machine the writers are often the slower side. In *paced* mode fifty are
created a second: what is measured then is how long a pod waits for an idle scheduler.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import msgspec

from benchmarks.bound_pods import BoundPods
from benchmarks.fast_client import FastClient
from benchmarks.figures import latency, per_second, rates
from benchmarks.load import WRITERS, Load
from benchmarks.null_plan import plan
from benchmarks.objects import namespaces_of
from benchmarks.placement import check
from benchmarks.results import SCHEDULER, Run, machine
from benchmarks.usage import NOTHING, Usage, usage_of
from benchmarks.workload import Churn, Pods
from hack.control_plane import ControlPlane

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from benchmarks.schedulers import Scheduler
    from benchmarks.workload import Mode, Workload

PACED_PER_SECOND: Final = 50.0
PACED_PODS_MAXIMUM: Final = 1500
"""Thirty seconds of them: a p99 over fifteen pods."""
IDLE_SECONDS: Final = 60.0
"""A run ends if no pod was bound for so long. The longest backoff is ten seconds."""
_SETTLED_CPU_SECONDS: Final = 0.05
_SETTLE_TURN_SECONDS: Final = 0.5
_SETTLE_SECONDS_MAXIMUM: Final = 15.0
_PAGE: Final = 2000
_SERVERS: Final = frozenset({"etcd", "kube-apiserver"})

Step = Callable[[str, int], None]


@dataclass(frozen=True, slots=True)
class Measurement:
    """What is measured in one run."""

    workload: Workload
    scheduler: Scheduler
    mode: Mode
    turn: int

    @property
    def pods(self) -> int:
        """How many pods are measured."""
        count = self.workload.measured.count
        assert isinstance(count, int)
        return min(count, PACED_PODS_MAXIMUM) if self.mode == "paced" else count


async def run_once(measurement: Measurement, step: Step) -> Run:
    """Measure one scheduler on a control plane of its own.

    Args:
        step: Is called with what is being done and how often it was done.
    """
    described = machine()
    with ControlPlane(components=(), benchmark=True) as plane:
        async with FastClient(plane.admin_kubeconfig, WRITERS) as client:
            return await _Arena(measurement, plane, client, step).run(described)


class _Arena:
    """One control plane with the objects of one workload on it."""

    def __init__(
        self, measurement: Measurement, plane: ControlPlane, client: FastClient, step: Step
    ) -> None:
        workload = measurement.workload
        self._measurement = measurement
        self._plane = plane
        self._client = client
        self._load = Load(client, workload, measurement.scheduler.scheduler_name, step)
        self._step = step
        self._bound = BoundPods(client, workload.measured.name, measurement.pods, self._seen)
        self._before: dict[str, Usage] = {}

    async def run(self, described: Any) -> Run:
        measurement = self._measurement
        drained = measurement.mode == "drain"
        await self._load.prepare()
        if drained:
            await self._load.create_measured(measurement.pods)
        else:
            await self._start()
            await self._load.probe()
            self._before = self._usage()
        async with _cancelled_at_the_end(self._bound.wait(IDLE_SECONDS)) as waiting:
            began = time.monotonic()
            if drained:
                await self._start()
            async with _cancelled_at_the_end(self._load.keep_going()):
                if not drained:
                    paced = PACED_PER_SECOND if measurement.mode == "paced" else None
                    await self._load.create_measured(measurement.pods, paced)
                await waiting
        await self._settle()
        before, now = self._before, self._usage()
        problems, victims = await self._check()
        stamps = self._bound.stamps
        waits = [stamps[name] - at for name, at in self._load.answered.items() if name in stamps]
        return Run(
            workload=measurement.workload.name,
            scale=measurement.workload.scale,
            mode=measurement.mode,
            scheduler=measurement.scheduler.name,
            turn=measurement.turn,
            sizes=measurement.workload.sizes,
            pods=measurement.pods,
            bound=len(stamps),
            rates=rates(list(stamps.values()), began),
            latency=None if drained else latency(waits),
            first_seconds=round(min(stamps.values(), default=began) - began, 3),
            per_second=per_second(stamps.values(), began),
            usage={name: used.since(before.get(name, NOTHING)) for name, used in now.items()},
            start_cpu_seconds=before[SCHEDULER].cpu_seconds if before else 0.0,
            victims=victims,
            problems=problems,
            machine=described,
        )

    def _seen(self, count: int) -> None:
        # Where the scheduler starts within the measurement, its start and its first lists end here.
        self._before = self._before or self._usage()
        self._step("bound", count)

    async def _start(self) -> None:
        start, answers = self._measurement.scheduler.start, plan(self._measurement.workload)
        await asyncio.to_thread(start, self._plane, answers)

    def _usage(self) -> dict[str, Usage]:
        return {
            process.name if process.name in _SERVERS else SCHEDULER: usage_of(process.pid)
            for process in self._plane.processes
        }

    async def _settle(self) -> None:
        """Wait until the scheduler is idle: events are written after the last binding, too."""
        used = self._usage()[SCHEDULER].cpu_seconds
        for _ in range(round(_SETTLE_SECONDS_MAXIMUM / _SETTLE_TURN_SECONDS)):
            await asyncio.sleep(_SETTLE_TURN_SECONDS)
            before, used = used, self._usage()[SCHEDULER].cpu_seconds
            if used - before < _SETTLED_CPU_SECONDS:
                return

    async def _check(self) -> tuple[list[str], int]:
        """Return what is wrong with the placement, and how many running pods are gone."""
        workload = self._measurement.workload
        pods = await self._list("/api/v1/pods")
        problems = check(
            pods,
            await self._list("/api/v1/nodes"),
            await self._list("/api/v1/namespaces"),
            workload.measured.name,
        )
        preempts = workload.measured.victims or any(each.victims for each in workload.of(Churn))
        return problems, self._gone(pods) if preempts else 0

    def _gone(self, pods: list[dict[str, Any]]) -> int:
        phases = self._measurement.workload.of(Pods)
        running = {namespace for phase in phases for namespace in namespaces_of(phase)}
        left = sum(pod["metadata"]["namespace"] in running for pod in pods)
        return sum(int(phase.count) for phase in phases) - left

    async def _list(self, path: str) -> list[dict[str, Any]]:
        items: list[dict[str, Any]] = []
        after = ""
        while True:
            query = f"?limit={_PAGE}{f'&continue={after}' if after else ''}"
            page = msgspec.json.decode(await self._client.request("GET", path + query))
            items += page["items"]
            after = page["metadata"].get("continue", "")
            if not after:
                return items


@contextlib.asynccontextmanager
async def _cancelled_at_the_end(work: Any) -> AsyncIterator[asyncio.Task[Any]]:
    """Run *work* beside the block; if it fails, the block fails at its end."""
    task = asyncio.ensure_future(work)
    try:
        yield task
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
