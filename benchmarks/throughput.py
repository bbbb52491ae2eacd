"""Pods bound per second: py-scheduler and kube-scheduler, in turns, on the same control plane.

There are two modes. *drain*: the pods exist before the scheduler starts, so that nothing
but the scheduler sets the pace. *stream*: thirty writers create pods while the scheduler runs, as
upstream's benchmark does; on a small machine the writers are often the slower side.

Pods that a workload calls *running* are on their nodes before anything else happens. If there is no
capacity beside them they become victims, and the number of victims is printed.
"""

import argparse
import asyncio
import itertools
import os
import re
import statistics
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import msgspec
import yaml

from hack.api import AsyncApi
from hack.control_plane import ControlPlane
from hack.nodes import create_nodes, nodes
from hack.processes import Process

OURS: Final = "py-scheduler"
THEIRS: Final = "kube-scheduler"
NAMESPACE: Final = "benchmark"
RUNNING: Final = "benchmark-running"
"""Where those are that run already, apart from those that are counted."""
WRITERS: Final = 30
WORKLOADS: Final = Path(__file__).parent / "workloads"
_TICK: Final = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class Figures:
    """What one run of one scheduler came to.

    Args:
        rate: Pods bound per second over the middle nine tenths.
        overall: Pods bound per second from the first binding seen to the last.
        from_start: Pods bound per second from the start of the process (drain), or from the first
            request that creates one (stream), to the last binding seen. Where room has to be made
            this alone counts: one scheduler binds as room is made, another once all is made.
        cpu_seconds: CPU that the scheduler's process used while it bound them.
        peak_mb: The most memory that the process held.
        ready_seconds: From the start of the process to the first binding seen (drain), or to its
            readiness (stream).
        victims: How many pods that ran before are gone.
    """

    rate: float
    overall: float
    from_start: float
    cpu_seconds: float
    peak_mb: float
    ready_seconds: float
    victims: int = 0


class _Meta(msgspec.Struct):
    name: str = ""
    resource_version: str = msgspec.field(default="", name="resourceVersion")


class _Pod(msgspec.Struct):
    metadata: _Meta


class _Event(msgspec.Struct):
    type: str
    object: _Pod


def main() -> None:
    """Run the turns and print a table."""
    options = _options()
    workload = yaml.safe_load((WORKLOADS / f"{options.workload}.yaml").read_text())
    workload["pods"]["count"] = options.pods or workload["pods"]["count"]
    workload["nodes"]["count"] = options.nodes or workload["nodes"]["count"]
    found: dict[str, list[Figures]] = {OURS: [], THEIRS: []}
    print(
        f"{workload['name']}, {options.mode}: {workload['pods']['count']} pods on "
        f"{workload['nodes']['count']} nodes, client limits off, {options.turns} turns each"
    )
    for _, name in itertools.product(range(options.turns), options.schedulers):
        figures = asyncio.run(_one_run(name, workload, options.mode))
        found[name].append(figures)
        print(_row(name, figures), flush=True)
    _print_ratio(found, workload["pods"]["count"])


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--workload", default="scheduling-basic")
    parser.add_argument("--mode", choices=("drain", "stream"), default="drain")
    parser.add_argument("--turns", type=int, default=2)
    parser.add_argument("--pods", type=int, default=0, help="instead of the workload's number")
    parser.add_argument("--nodes", type=int, default=0, help="instead of the workload's number")
    parser.add_argument("--schedulers", nargs="+", choices=(OURS, THEIRS), default=(OURS, THEIRS))
    return parser.parse_args()


async def _one_run(name: str, workload: dict[str, Any], mode: str) -> Figures:
    """Measure one scheduler on a control plane of its own."""
    with ControlPlane(components=(), benchmark=True) as plane:
        shape = dict(workload["nodes"])
        described = nodes(shape.pop("count"), kwok=False, **shape)
        await create_nodes(plane.admin_kubeconfig, described)
        async with AsyncApi(plane.admin_kubeconfig, connections=WRITERS) as api:
            for namespace in (NAMESPACE, RUNNING):
                await api.request("POST", "/api/v1/namespaces", {"metadata": {"name": namespace}})
            there = await _run_already(api, workload.get("running"), described)
            measure = _drain if mode == "drain" else _stream
            figures = await measure(plane, api, name, workload["pods"])
            left = await api.request("GET", f"/api/v1/namespaces/{RUNNING}/pods")
            return replace(figures, victims=there - len(left["items"]))


async def _run_already(
    api: AsyncApi, running: dict[str, Any] | None, described: Sequence[dict[str, Any]]
) -> int:
    """Put pods on every node, as many on each as *running* says; return how many they are."""
    if not running:
        return 0
    bodies = [
        {
            "metadata": {"name": f"{name}-{index}", "labels": running.get("labels", {})},
            "spec": {**running["spec"], "nodeName": name},
        }
        for name in (node["metadata"]["name"] for node in described)
        for index in range(running["per_node"])
    ]

    async def create(body: dict[str, Any]) -> None:
        await api.request("POST", f"/api/v1/namespaces/{RUNNING}/pods", body)

    await api.gather(create, bodies)
    return len(bodies)


async def _drain(plane: ControlPlane, api: AsyncApi, name: str, pods: dict[str, Any]) -> Figures:
    await _create(api, name, pods)
    watch = asyncio.create_task(_watch_bound(api, pods["count"]))
    await asyncio.sleep(1)
    started = time.monotonic()
    process = await asyncio.to_thread(_start, plane, name)
    stamps = await watch
    return _sum_up(stamps, process, started, stamps[0] - started, 0.0)


async def _stream(plane: ControlPlane, api: AsyncApi, name: str, pods: dict[str, Any]) -> Figures:
    started = time.monotonic()
    process = await asyncio.to_thread(_start, plane, name)
    ready = time.monotonic() - started
    await asyncio.sleep(5)  # both have synced long before; their start is not what is measured
    used = _cpu_seconds(process.pid)
    watch = asyncio.create_task(_watch_bound(api, pods["count"]))
    await asyncio.sleep(0.5)
    began = time.monotonic()
    await _create(api, name, pods)
    return _sum_up(await watch, process, began, ready, used)


async def _create(api: AsyncApi, name: str, pods: dict[str, Any]) -> None:
    path = f"/api/v1/namespaces/{NAMESPACE}/pods"

    async def create(body: dict[str, Any]) -> None:
        await api.request("POST", path, body)

    await api.gather(create, _described(name, pods))


def _described(name: str, pods: dict[str, Any]) -> Iterator[dict[str, Any]]:
    scheduler = OURS if name == OURS else "default-scheduler"
    for index in range(pods["count"]):
        yield {
            "metadata": {"name": f"pod-{index:06}", "labels": pods.get("labels", {})},
            "spec": {"schedulerName": scheduler, **pods["spec"]},
        }


def _start(plane: ControlPlane, name: str) -> Process:
    if name == THEIRS:
        return plane.start_kube_scheduler()
    config = {
        "clientConnection": {"qps": -1, "burst": 1},
        "leaderElection": {"leaderElect": False},
    }
    # The reference logs at verbosity 2, which tells no single pod; neither do we.
    return plane.start_py_scheduler("--log-level", "warning", config=config)


async def _watch_bound(api: AsyncApi, count: int) -> list[float]:
    """Return when each of *count* bindings was seen, in order.

    The server may end a watch, and does so where it cannot be read fast enough; the next one begins
    with all that is bound.
    """
    stamps: dict[str, float] = {}
    decode = msgspec.json.Decoder(_Event).decode
    query = {"fieldSelector": "spec.nodeName!="}
    while len(stamps) < count:
        async for line in api.watch_lines(f"/api/v1/namespaces/{NAMESPACE}/pods", query):
            stamps.setdefault(decode(line).object.metadata.name, time.monotonic())
            if len(stamps) >= count:
                break
    return sorted(stamps.values())


def _sum_up(
    stamps: list[float], process: Process, began: float, ready: float, used: float
) -> Figures:
    count = len(stamps)
    low, high = int(count * 0.05), int(count * 0.95) - 1
    return Figures(
        rate=(high - low) / (stamps[high] - stamps[low]),
        overall=(count - 1) / (stamps[-1] - stamps[0]),
        from_start=count / (stamps[-1] - began),
        cpu_seconds=_cpu_seconds(process.pid) - used,
        peak_mb=_peak_mb(process.pid),
        ready_seconds=ready,
    )


def _cpu_seconds(pid: int) -> float:
    """Return user and system time of a process; 0 where /proc does not tell."""
    stat = Path(f"/proc/{pid}/stat")
    if not stat.exists():
        return 0.0
    fields = stat.read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICK


def _peak_mb(pid: int) -> float:
    status = Path(f"/proc/{pid}/status")
    found = re.search(r"VmHWM:\s+(\d+) kB", status.read_text()) if status.exists() else None
    return int(found[1]) / 1024 if found else 0.0


def _row(name: str, figures: Figures) -> str:
    return (
        f"  {name:<15} {figures.rate:>7.0f} pods/s (middle 90 %)  {figures.overall:>7.0f} overall  "
        f"{figures.from_start:>7.1f} from start  "
        f"{figures.cpu_seconds:>6.1f} s CPU  {figures.peak_mb:>6.0f} MB peak  "
        f"first after {figures.ready_seconds:.1f} s"
        f"{f'  {figures.victims} victims' if figures.victims else ''}"
    )


def _print_ratio(found: dict[str, list[Figures]], pods: int) -> None:
    if not (found[OURS] and found[THEIRS]):
        return
    rate, whole, cpu = (
        {name: statistics.median(map(figure, runs)) for name, runs in found.items()}
        for figure in (
            lambda each: each.rate,
            lambda each: each.from_start,
            lambda each: each.cpu_seconds * 1000 / pods,
        )
    )
    for what, pace in (("middle 90 %", rate), ("from start", whole)):
        print(
            f"median, {what}: {pace[OURS]:.1f} against {pace[THEIRS]:.1f} pods/s, "
            f"{pace[OURS] / pace[THEIRS]:.2f} times as many"
        )
    print(f"median: {cpu[OURS]:.2f} against {cpu[THEIRS]:.2f} ms CPU a pod")


if __name__ == "__main__":
    main()
