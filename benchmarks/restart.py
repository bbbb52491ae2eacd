"""Start-up and relist on a real API server: time to ready, memory, and how long the loop stalls.

The cluster is filled in etcd (`benchmarks.stored_copies`). The scheduler starts; pods come at a
steady rate and are bound. Then the API server is killed and started again under the running
scheduler, which has to list everything anew: an API server that has just started knows no older
version. Pods go on coming meanwhile.

A line of the table is one phase. The longest stall is the bucket of the scheduler's own histogram;
on a machine whose cores are all busy it is mostly time in which the process got no CPU, and
``loop.stalled`` in its log says so.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import itertools
import json
import time
import uuid
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import aiohttp

from benchmarks import stored_copies
from benchmarks.memory import TEMPLATES, node_line, pod_line
from benchmarks.usage import usage_of
from hack.api import ApiError, AsyncApi
from hack.background import Background
from hack.control_plane import ControlPlane
from hack.histograms import buckets, longest
from hack.running_scheduler import RunningScheduler
from hack.waiting import until

if TYPE_CHECKING:
    import threading
    from collections.abc import Iterator

    from benchmarks.stored_copies import Stored
    from benchmarks.usage import Usage

_SECONDS: Final = 900.0
_KINDS_OF_NODES: Final = 6
"""Zones times instance types, as `node_line` deals them out."""
_NAMESPACE: Final = "team-0"
_CONFIG: Final = {
    "leaderElection": {"leaderElect": False},
    "clientConnection": {"qps": 1000, "burst": 2000},
}
_POD: Final = {
    "schedulerName": "py-scheduler",
    "containers": [
        {"name": "main", "image": "example.com/main", "resources": {"requests": {"cpu": "10m"}}}
    ],
}


def node_name(number: int) -> str:
    """Return a node's name; all have the same length."""
    return f"node-{number:06}"


def node_document(number: int) -> dict[str, Any]:
    """Return a node as it is created."""
    document = json.loads(node_line(number))["object"]
    text = json.dumps(document).replace(document["metadata"]["name"], node_name(number))
    return _unstored(json.loads(text))


def pod_document(number: int, nodes: int) -> dict[str, Any]:
    """Return a bound pod as it is created, and with the status that it then gets."""
    document = _unstored(json.loads(pod_line(number, nodes))["object"])
    document["spec"]["nodeName"] = node_name(number % nodes)
    return document


def _unstored(document: dict[str, Any]) -> dict[str, Any]:
    """Leave out what the API server writes."""
    for written in ("uid", "resourceVersion", "creationTimestamp", "managedFields", "generation"):
        document["metadata"].pop(written, None)
    return document


def copied_nodes(original: Stored, number: int, uid: str, nodes: int) -> Iterator[Stored]:
    """Yield the nodes that are like node *number*."""
    for other in range(number + _KINDS_OF_NODES, nodes, _KINDS_OF_NODES):
        yield original.copy(
            {node_name(number).encode(): node_name(other).encode(), uid.encode(): _new_uid()}
        )


def copied_pods(original: Stored, number: int, uid: str, nodes: int, pods: int) -> Iterator[Stored]:
    """Yield the pods of the template *number*."""
    name = original.key.rpartition(b"/")[2]
    assert name.endswith(_suffix(number)), f"{name!r} is not named as `pod_line` names pods"
    for other in range(number + TEMPLATES, pods, TEMPLATES):
        yield original.copy(
            {
                name: name[: -len(_suffix(number))] + _suffix(other),
                node_name(number % nodes).encode(): node_name(other % nodes).encode(),
                uid.encode(): _new_uid(),
            }
        )


def _suffix(number: int) -> bytes:
    return f"-{number:05x}".encode()


def _new_uid() -> bytes:
    return str(uuid.uuid4()).encode()


async def _create(plane: ControlPlane, nodes: int, pods: int) -> list[Iterator[Stored]]:
    """Create one object of each kind, and return what makes the others."""
    copies: list[Iterator[Stored]] = []

    async with AsyncApi(plane.admin_kubeconfig) as api:

        async def namespace(number: int) -> None:
            body = {"metadata": {"name": f"team-{number}"}}
            await api.request("POST", "/api/v1/namespaces", body)

        async def node(number: int) -> None:
            made = await api.request("POST", "/api/v1/nodes", node_document(number))
            stored = stored_copies.read(plane.etcd, f"/registry/minions/{node_name(number)}")
            copies.append(copied_nodes(stored, number, made["metadata"]["uid"], nodes))

        async def pod(number: int) -> None:
            document = pod_document(number, nodes)
            where, name = document["metadata"]["namespace"], document["metadata"]["name"]
            path = f"/api/v1/namespaces/{where}/pods"
            made = await api.request("POST", path, document)
            made["status"] = document["status"]
            await api.request("PUT", f"{path}/{name}/status", made)
            stored = stored_copies.read(plane.etcd, f"/registry/pods/{where}/{name}")
            copies.append(copied_pods(stored, number, made["metadata"]["uid"], nodes, pods))

        await api.gather(namespace, range(100))
        await api.gather(node, range(min(_KINDS_OF_NODES, nodes)))
        await api.gather(pod, range(min(TEMPLATES, pods)))
    return copies


def fill(plane: ControlPlane, nodes: int, pods: int) -> None:
    """Fill the cluster, and start the API server with it."""
    copies = asyncio.run(_create(plane, nodes, pods))
    plane.stop_apiserver(kill=True)
    stored_copies.write(plane.etcd, itertools.chain.from_iterable(copies))
    plane.start_apiserver()


class Arrivals(Background):
    """Creates pods at a steady rate in a thread of its own, until it is left.

    Args:
        name: The first part of their names.
        per_second: The rate.
    """

    def __init__(self, plane: ControlPlane, name: str, per_second: float) -> None:
        super().__init__(lambda ending: asyncio.run(self._run(ending)))
        self.created = 0
        self._plane = plane
        self._name = name
        self._per_second = per_second

    async def _run(self, ending: threading.Event) -> None:
        async with AsyncApi(self._plane.admin_kubeconfig) as api:
            began = time.monotonic()
            for number in itertools.count():
                await asyncio.sleep(max(0.0, began + number / self._per_second - time.monotonic()))
                if ending.is_set():
                    return
                body = {"metadata": {"name": f"{self._name}-{number}"}, "spec": _POD}
                # While the API server is away, nobody can create anything.
                with contextlib.suppress(ApiError, aiohttp.ClientError):
                    await api.request("POST", f"/api/v1/namespaces/{_NAMESPACE}/pods", body)
                    self.created += 1


@dataclass
class Phase:
    """Measures the scheduler from its making to `line`."""

    scheduler: RunningScheduler
    began: float = field(default_factory=time.monotonic)
    usage: Usage = field(init=False)
    exposition: str = ""

    def __post_init__(self) -> None:
        self.usage = usage_of(self.scheduler.process.pid)
        if self.scheduler.is_ready():
            self.exposition = self.scheduler.get("/metrics")[1]

    def line(self, name: str) -> str:
        """Return the phase as a line of the table."""
        seconds = time.monotonic() - self.began
        used = usage_of(self.scheduler.process.pid).since(self.usage)
        now = self.scheduler.get("/metrics")[1]
        stall, lag = (
            longest(buckets(self.exposition, each), buckets(now, each))
            for each in ("py_scheduler_loop_stall_seconds", "py_scheduler_watch_lag_seconds")
        )
        return (
            f"{name:<26}{seconds:8.1f} s {used.cpu_seconds:8.1f} s {used.peak_mb:8.0f} MiB "
            f"{stall:9.3g} s {lag:9.3g} s"
        )


def measure(plane: ControlPlane, per_second: float, restarts: int) -> None:
    """Start the scheduler, restart the API server under it, and print a line for each phase."""
    print(f"{'':<26}{'time':>10} {'CPU':>10} {'peak':>12} {'stall up to':>11} {'lag up to':>11}")
    with RunningScheduler(plane, config=_CONFIG) as scheduler:
        phase = Phase(scheduler)
        scheduler.wait_until_ready(seconds=_SECONDS)
        print(phase.line("ready"), flush=True)
        phase = Phase(scheduler)
        with Arrivals(plane, "before", per_second) as arrivals:
            until(lambda: arrivals.created >= 10 * per_second, "pods come", seconds=_SECONDS)
        _wait_until_bound(scheduler, arrivals.created)
        print(phase.line(f"{arrivals.created} pods bound"), flush=True)
        for number in range(restarts):
            _restart(plane, scheduler, f"restart-{number}", per_second)


def _restart(
    plane: ControlPlane, scheduler: RunningScheduler, name: str, per_second: float
) -> None:
    lists, bound = _pod_lists(scheduler), len(scheduler.lines("pod.bound"))
    phase = Phase(scheduler)
    plane.restart_apiserver(kill=True)
    print(f"the API server is ready after {time.monotonic() - phase.began:.1f} s", flush=True)
    with Arrivals(plane, name, per_second) as arrivals:
        until(lambda: _pod_lists(scheduler) > lists, "the pods are listed", seconds=_SECONDS)
        print(phase.line("listed anew"), flush=True)
    _wait_until_bound(scheduler, bound + arrivals.created)
    print(phase.line(f"{arrivals.created} pods bound"), flush=True)


def _pod_lists(scheduler: RunningScheduler) -> int:
    return len(scheduler.lines("watch.synced", resource="Pod"))


def _wait_until_bound(scheduler: RunningScheduler, count: int) -> None:
    until(
        lambda: len(scheduler.lines("pod.bound")) >= count, f"{count} are bound", seconds=_SECONDS
    )


def main() -> None:
    """Run it once, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--nodes", type=int, default=500)
    parser.add_argument("--pods", type=int, default=5000)
    parser.add_argument("--pods-per-second", type=float, default=20, help="that come and are bound")
    parser.add_argument("--restarts", type=int, default=1, help="of the API server")
    parser.add_argument("--keep-logs-in", type=Path, help="a directory for all logs")
    chosen = parser.parse_args()
    with ControlPlane(
        components=(), start_timeout_seconds=_SECONDS, keep_logs_in=chosen.keep_logs_in
    ) as plane:
        fill(plane, chosen.nodes, chosen.pods)
        measure(plane, chosen.pods_per_second, chosen.restarts)


if __name__ == "__main__":
    main()
