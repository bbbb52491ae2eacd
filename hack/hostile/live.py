"""Hostile objects on a real control plane, py-scheduler and kube-scheduler beside each other.

Both schedule in turns: first as many plain pods for the one as for the other without hostile
objects, then beside them. Bound pods and other objects are there once for both; pending pods are
there for each. An object that the API server refuses for its size is made smaller until it is
accepted.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import re
import statistics
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from hack.api import ApiError, AsyncApi, NotFoundError
from hack.control_plane import ControlPlane
from hack.histograms import buckets, longest
from hack.hostile.churn import churned_pod
from hack.hostile.inside import path_of
from hack.hostile.judge import SLOWDOWN_MAXIMUM
from hack.hostile.kind import NAMESPACE, Where
from hack.hostile.measure import json_bytes, plain_pod
from hack.nodes import create_nodes, nodes
from hack.running_scheduler import RunningScheduler

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from hack.histograms import Buckets
    from hack.hostile.kind import Json, Kind
    from hack.hostile.measure import Settings
    from hack.processes import Process

OURS: Final = "py-scheduler"
THEIRS: Final = "default-scheduler"
_DECISIONS: Final = "scheduler_scheduling_algorithm_duration_seconds"
_STALLS: Final = "py_scheduler_loop_stall_seconds"
_SETTLED_SECONDS: Final = 120.0
_POLL_SECONDS: Final = 0.2
_REFUSED_FOR_SIZE: Final = (400, 413, 422, 500)
_SMALLEST_BYTES: Final = 1000
_REST_SECONDS: Final = 2.0
_NAMESPACE_PATH: Final = re.compile("/api/v1/namespaces/[^/]+")
_AT_ONCE: Final = 20
_CHURN_SECONDS: Final = 0.5
_SHOWN_PODS: Final = 2000
_GROWTH_MAXIMUM: Final = 0.03


@dataclass(slots=True)
class Side:
    """What one scheduler was measured to do; times in seconds, memory in bytes.

    Args:
        plain: A decision about a plain pod without hostile objects.
        beside: All decisions for each plain pod beside them, those about others included.
        own: A decision about them.
        bound: How many of the pending ones are bound.
        parked: How many are parked with a condition.
        condition: What such a condition says.
        memory: Before, beside and after them.
        stall: The bucket of the longest step of the loop meanwhile; 0 for kube-scheduler.
    """

    plain: float = 0.0
    beside: float = 0.0
    own: float = 0.0
    bound: int = 0
    parked: int = 0
    condition: str = ""
    memory: list[int] = field(default_factory=list)
    stall: float = 0.0

    @property
    def slowdown(self) -> float:
        """How many times as long a plain pod takes beside hostile objects."""
        return self.beside / self.plain if self.plain else 0.0


class Scheduler:
    """One of the two, as its metrics and /proc show it."""

    def __init__(self, name: str, process: Process, scrape: Callable[[], str]) -> None:
        self.name = name
        self._process = process
        self._scrape = scrape

    def decisions(self) -> tuple[float, float]:
        """Return how long all decisions took so far, in seconds, and how many there were."""
        text = self._scrape()
        return _sample(text, f"{_DECISIONS}_sum"), _sample(text, f"{_DECISIONS}_count")

    def stalls(self) -> Buckets:
        """Return how many steps of the loop there were up to each bound in seconds."""
        return buckets(self._scrape(), _STALLS)

    def memory(self) -> int:
        """Return its resident bytes."""
        status = Path(f"/proc/{self._process.pid}/status").read_text()
        found = re.search(r"VmRSS:\s+(\d+) kB", status)
        return int(found[1]) * 1024 if found else 0


def _sample(text: str, name: str) -> float:
    found = re.search(rf"^{name} (\S+)$", text, re.MULTILINE)
    return float(found[1]) if found else 0.0


class Live:
    """The control plane, both schedulers, and the objects that come and go."""

    def __init__(self, api: AsyncApi, schedulers: Sequence[Scheduler], settings: Settings) -> None:
        self._api = api
        self._schedulers = schedulers
        self._settings = settings
        self._numbers = itertools.count()

    async def prepare(self) -> None:
        """Create the namespace of hostile objects."""
        await self._api.request("POST", "/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})

    async def cost(self, kind: Kind) -> tuple[int, dict[str, Side]]:
        """Measure *kind*; return the bytes of its objects, and what both schedulers did."""
        sides = {each.name: Side() for each in self._schedulers}
        paths: list[str] = []
        for scheduler in self._schedulers:
            sides[scheduler.name].plain = await self._probe(scheduler)
            sides[scheduler.name].memory.append(scheduler.memory())
        stalls = self._schedulers[0].stalls()
        try:
            if kind.where is Where.PENDING:
                size = 0
                for scheduler in self._schedulers:
                    size = await self._decide(kind, scheduler, sides[scheduler.name], paths)
            else:
                size = await self._create(kind, "", paths)
            for scheduler in self._schedulers:
                sides[scheduler.name].beside = await self._probe(scheduler)
                sides[scheduler.name].memory.append(scheduler.memory())
        finally:
            await self._api.gather(self._remove, paths)
        await asyncio.sleep(_REST_SECONDS)
        for scheduler in self._schedulers:
            sides[scheduler.name].memory.append(scheduler.memory())
        sides[OURS].stall = longest(stalls, self._schedulers[0].stalls())
        return size, sides

    async def _decide(self, kind: Kind, scheduler: Scheduler, side: Side, paths: list[str]) -> int:
        """Let *scheduler* decide about pods of *kind*; return their bytes."""
        before, mine = scheduler.decisions(), list[str]()
        try:
            size = await self._create(kind, scheduler.name, mine)
        finally:
            paths += mine
        await self._settle(mine, side)
        spent, count = _difference(scheduler.decisions(), before)
        side.own = spent / count if count else 0.0
        return size

    async def churn(self, minutes: float) -> list[tuple[int, int]]:
        """Let pods come and go; return how many had come, and our resident bytes, over time."""
        ours, course, number = self._schedulers[0], [], 0
        end = time.monotonic() + minutes * 60
        while time.monotonic() < end:
            made = [churned_pod(number + each) for each in range(_AT_ONCE)]
            spaces = dict.fromkeys(pod["metadata"]["namespace"] for pod in made)
            paths = [f"/api/v1/namespaces/{name}" for name in spaces]
            for name in spaces:
                body = {"metadata": {"name": name, "labels": {f"team-{name}": name}}}
                await self._api.request("POST", "/api/v1/namespaces", body)
            pods = [path_of(each) for each in made]
            await self._api.gather(self._post, made)
            await asyncio.sleep(_CHURN_SECONDS)
            await self._api.gather(self._remove, pods)
            await self._api.gather(self._remove, paths)
            number += _AT_ONCE
            course.append((number, ours.memory()))
            if not number % _SHOWN_PODS:
                print(f"churn: {number} pods, {ours.memory() / 1e6:.1f} MB", flush=True)
        return course

    async def _probe(self, scheduler: Scheduler) -> float:
        """Schedule plain pods one after the other; return the decision seconds of each."""
        before, paths = scheduler.decisions(), list[str]()
        for _ in range(self._settings.probes):
            pod = plain_pod(next(self._numbers))
            pod["spec"]["schedulerName"] = scheduler.name
            await self._post(pod)
            paths.append(path_of(pod))
            await self._until(lambda: self._is_bound(paths[-1]))
        spent, _ = _difference(scheduler.decisions(), before)
        await self._api.gather(self._remove, paths)
        return spent / len(paths)

    async def _create(self, kind: Kind, scheduler: str, paths: list[str]) -> int:
        """Create objects as large as they may be, add their paths, and return their bytes."""
        size, first = self._settings.size, next(self._numbers) * self._settings.objects
        while True:
            made = list(kind.objects(self._settings.objects, size, first))
            for number, document in enumerate(made):
                self._place(document, kind.where, scheduler, number)
            try:
                # All are about as large: if the first is accepted, the others are.
                await self._post(made[0])
            except ApiError as refused:
                if refused.status not in _REFUSED_FOR_SIZE or size < _SMALLEST_BYTES:
                    raise
                size = size * 2 // 3
                continue
            paths += map(path_of, made)
            await self._api.gather(self._post, made[1:])
            return sum(map(json_bytes, made))

    def _place(self, document: Json, where: Where, scheduler: str, number: int) -> None:
        if where is Where.BOUND:
            document["spec"]["nodeName"] = self._settings.node_of(number)
        elif scheduler:
            document["spec"]["schedulerName"] = scheduler

    async def _settle(self, paths: Iterable[str], side: Side) -> None:
        """Wait until each pod is bound or parked, as long as it may take."""
        deadline = time.monotonic() + _SETTLED_SECONDS
        for path in paths:
            while time.monotonic() < deadline:
                pod = await self._api.request("GET", path)
                conditions = pod["status"].get("conditions", [])
                parked = [each for each in conditions if each["status"] == "False"]
                if pod["spec"].get("nodeName"):
                    side.bound += 1
                    break
                if parked:
                    side.parked += 1
                    side.condition = parked[0].get("message", "")
                    break
                await asyncio.sleep(_POLL_SECONDS)

    async def _post(self, document: Json) -> None:
        await self._api.request("POST", path_of(document).rpartition("/")[0], document)

    async def _remove(self, path: str) -> None:
        with contextlib.suppress(NotFoundError):
            await self._api.request("DELETE", path, {"gracePeriodSeconds": 0})
            if _NAMESPACE_PATH.fullmatch(path):
                # No controller manager ends namespaces here.
                left = await self._api.request("GET", path)
                left["spec"]["finalizers"] = []
                await self._api.request("PUT", f"{path}/finalize", left)

    async def _is_bound(self, path: str) -> bool:
        return bool((await self._api.request("GET", path))["spec"].get("nodeName"))

    @staticmethod
    async def _until(holds: Callable[[], Any]) -> None:
        deadline = time.monotonic() + _SETTLED_SECONDS
        while not await holds():
            if time.monotonic() > deadline:
                raise TimeoutError("a plain pod was not bound")
            await asyncio.sleep(0.005)


def _difference(after: tuple[float, float], before: tuple[float, float]) -> tuple[float, float]:
    return after[0] - before[0], after[1] - before[1]


# The whole part.


def live(
    kinds: Sequence[Kind], settings: Settings, minutes: float, problems: list[str]
) -> list[Json]:
    """Measure *kinds* on a control plane, and let pods come and go for *minutes*."""
    with ControlPlane(components=(), benchmark=True) as plane:
        described = nodes(settings.nodes, zones=settings.zones, cpu="64", pods=1100, kwok=False)
        asyncio.run(create_nodes(plane.admin_kubeconfig, described))
        theirs = plane.start_kube_scheduler()
        config = {
            "clientConnection": {"qps": -1, "burst": 1},
            "leaderElection": {"leaderElect": False},
        }
        # The reference logs at verbosity 2, which tells no single pod.
        with RunningScheduler(plane, "--log-level", "warning", config=config) as ours:
            ours.wait_until_ready()
            schedulers = (
                Scheduler(OURS, ours.process, lambda: ours.get("/metrics")[1]),
                Scheduler(THEIRS, theirs, lambda: plane.scrape(theirs)),
            )
            return asyncio.run(_measure_all(plane, schedulers, kinds, settings, minutes, problems))


async def _measure_all(
    plane: ControlPlane,
    schedulers: Sequence[Scheduler],
    kinds: Sequence[Kind],
    settings: Settings,
    minutes: float,
    problems: list[str],
) -> list[Json]:
    results: list[Json] = []
    async with AsyncApi(plane.admin_kubeconfig) as api:
        measuring = Live(api, schedulers, settings)
        await measuring.prepare()
        print(
            f"live: {settings.nodes} nodes, {settings.objects} objects of up to "
            f"{settings.size // 1000} KB; milliseconds for each plain pod, MB of memory\n{_HEADER}"
        )
        for kind in kinds:
            try:
                size, sides = await measuring.cost(kind)
            except (ApiError, RuntimeError, TimeoutError) as problem:
                problems.append(f"live: {kind.name}: {str(problem)[:200]}")
                print(f"{kind.name:62} {str(problem)[:200]}", flush=True)
                continue
            found = [f"live: {kind.name}: {each}" for each in side_problems(kind, settings, sides)]
            problems += found
            for name, side in sides.items():
                print(_row(kind.name, size, name, side) + ("  !" if found else ""), flush=True)
            results.append(
                {"kind": kind.name, "bytes": size, "problems": found}
                | {name: asdict(side) for name, side in sides.items()}
            )
        if minutes:
            course = await measuring.churn(minutes)
            results.append({"kind": "churn", "minutes": minutes, OURS: course})
            if flat := course_problem(course):
                problems.append(f"live: churn: {flat}")
    return results


_HEADER: Final = (
    f"{'':62}{'':16}{'KB':>7}{'plain':>8}{'beside':>8}{'times':>7}{'own':>9}{'bound':>6}"
    f"{'parked':>7}{'before':>8}{'beside':>7}{'after':>7}{'stall':>7}"
)


def _row(kind: str, size: int, name: str, side: Side) -> str:
    before, beside, after = (f"{each / 1e6:.0f}" for each in side.memory)
    return (
        f"{kind:62}{name:16}{size / 1e3:7.0f}{side.plain * 1e3:8.2f}{side.beside * 1e3:8.2f}"
        f"{side.slowdown:7.1f}{side.own * 1e3:9.1f}{side.bound:6}{side.parked:7}"
        f"{before:>8}{beside:>7}{after:>7}{side.stall * 1e3:7.0f}"
    )


def side_problems(kind: Kind, settings: Settings, sides: dict[str, Side]) -> Iterator[str]:
    """Yield what hostile objects cost py-scheduler beyond the limits.

    Memory and steps are judged in the part *inside*, where they can be told from all else.
    """
    ours, theirs = sides[OURS], sides[THEIRS]
    if ours.slowdown > max(SLOWDOWN_MAXIMUM, theirs.slowdown):
        yield (
            f"another pod's decision takes {ours.slowdown:.1f} times as long, "
            f"with kube-scheduler {theirs.slowdown:.1f} times"
        )
    asked = settings.objects if kind.where is Where.PENDING and kind.crowd == 1 else 0
    if "gates" not in kind.name and ours.bound + ours.parked < asked:
        yield f"{asked - ours.bound - ours.parked} of them are neither bound nor parked"


def course_problem(course: Sequence[tuple[int, int]]) -> str:
    """Return what is wrong with the memory over time; empty where it is flat.

    The first third fills caches and the allocator's pools.
    """
    sizes = [size for _, size in course]
    third = len(sizes) // 3
    if not third:
        return "too short to judge"
    second, last = (statistics.median(sizes[third * n : third * (n + 1)]) for n in (1, 2))
    if last <= second * (1 + _GROWTH_MAXIMUM):
        return ""
    return f"memory grows from {second / 1e6:.1f} MB to {last / 1e6:.1f} MB"
