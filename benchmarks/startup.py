"""Start-up, relist and comparison at size: what they cost, and how long they block the loop.

A scripted API server in the same process delivers nodes and pods as bytes, as fast as they are
read. Behind it everything is real: the reflectors, the inbox, the control loop with cache and
queue, and the cache comparer. Lines come as a socket delivers them: half a megabyte at once,
without a pause.

A bystander task runs once in each round of the event loop. What the round cost it in CPU time is
what health checks, leases and bindings would have waited. CPU time rather than time, so that other
processes on the machine do not count; making the bytes does not count either.
"""

import argparse
import asyncio
import json
import resource
import statistics
import sys
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from scheduler.kube.watched import FAILED_PODS, NODES, PODS, Watched
from scheduler.model.fact import Resource
from scheduler.observe.logs import configure
from scheduler.process.cache_comparer import CacheComparer
from scheduler.process.heap import freeze_heap, freeze_while_listing
from scheduler.process.watches import Watches
from scheduler.reporting.telemetry import Telemetry
from scheduler.testing.harness import Harness

TEMPLATES: Final = 2000
ZONES: Final = 10
_BUFFER_BYTES: Final = 512 * 1024
_WATCHED: Final = (PODS, FAILED_PODS, NODES)
_MANAGED: Final = {
    "manager": "kube-controller-manager",
    "operation": "Update",
    "apiVersion": "v1",
    "time": "2026-01-01T00:00:00Z",
    "fieldsType": "FieldsV1",
    "fieldsV1": {
        "f:metadata": {"f:generateName": {}, "f:labels": {".": {}, "f:app": {}}},
        "f:spec": {f"f:field{index}": {".": {}, "f:name": {}} for index in range(25)},
    },
}


def _metadata(name: str, uid: str, version: int, **more: Any) -> dict[str, Any]:
    return {
        "name": name,
        "uid": uid,
        "resourceVersion": str(version),
        "creationTimestamp": "2026-01-01T00:00:00Z",
        "managedFields": [_MANAGED],
        **more,
    }


def _container(name: str, cpu: str, memory: str) -> dict[str, Any]:
    return {
        "name": name,
        "image": f"registry.example.com/{name}:v1.2.3",
        "resources": {
            "requests": {"cpu": cpu, "memory": memory},
            "limits": {"memory": memory},
        },
        "ports": [{"containerPort": 8080, "protocol": "TCP"}],
        "env": [{"name": f"VARIABLE_{index}", "value": "a value"} for index in range(8)],
        "livenessProbe": {"httpGet": {"path": "/healthz", "port": 8080}, "periodSeconds": 10},
    }


class Cluster:
    """The objects of a cluster, made as bytes whenever they are listed.

    Args:
        nodes: How many nodes there are.
        pods: How many pods run on them.
    """

    def __init__(self, nodes: int, pods: int) -> None:
        self.counts: Mapping[Watched[Any], int] = {NODES: nodes, PODS: pods, FAILED_PODS: 0}
        self.changed = 0
        """How many pods have another version than at the start, the first ones."""
        self.making_seconds = 0.0
        """CPU time that was spent on bytes."""
        self._expiring: list[asyncio.Event] = []

    def expire(self) -> None:
        """End every watch with 410."""
        for each in self._expiring:
            each.set()
        self._expiring.clear()

    async def watch(
        self,
        path: str,
        params: Mapping[str, str],
        *,
        silence_seconds: float,  # noqa: ARG002
    ) -> AsyncGenerator[bytes]:
        """Stream the list, and then nothing until the watches are expired."""
        watched = _by_path(path, params)
        expired = asyncio.Event()
        self._expiring.append(expired)
        assert "sendInitialEvents" in params, "every watch begins with a list here"
        waiting = 0
        for content in self._timed(self._objects(watched)):
            line = b'{"type":"ADDED","object":' + content + b"}"
            yield line
            waiting += len(line)
            if waiting > _BUFFER_BYTES:
                waiting = 0
                await asyncio.sleep(0)  # the socket is read
        annotations = {"k8s.io/initial-events-end": "true"}
        end = {"resourceVersion": "9000000", "annotations": annotations}
        yield json.dumps({"type": "BOOKMARK", "object": {"metadata": end}}).encode()
        await expired.wait()
        yield b'{"type":"ERROR","object":{"code":410,"message":"too old resource version"}}'

    async def get(self, path: str, params: Mapping[str, str] | None = None) -> bytes:
        """Return a page of metadata."""
        params = params or {}
        await asyncio.sleep(0)
        began = time.thread_time()
        watched = _by_path(path, params)
        begin = int(params.get("continue", "0"))
        end = begin + int(params["limit"])
        items = [
            msgspec.Raw(content) for content in self._objects(watched, begin, end, metadata=True)
        ]
        more = str(end) if end < self.counts[watched] else ""
        page = msgspec.json.encode({"metadata": {"continue": more}, "items": items})
        self.making_seconds += time.thread_time() - began
        return page

    def _objects(
        self,
        watched: Watched[Any],
        begin: int = 0,
        end: int | None = None,
        *,
        metadata: bool = False,
    ) -> Iterator[bytes]:
        make = _nodes if watched is NODES else _pods
        count = self.counts[watched]
        return make(begin, min(end or count, count), self.counts[NODES], self.changed, metadata)

    def _timed(self, source: Iterator[bytes]) -> Iterator[bytes]:
        while True:
            began = time.thread_time()
            content = next(source, None)
            self.making_seconds += time.thread_time() - began
            if content is None:
                return
            yield content


def _by_path(path: str, params: Mapping[str, str]) -> Watched[Any]:
    return next(
        each
        for each in _WATCHED
        if each.path == path and each.field_selector == params.get("fieldSelector", "")
    )


def _nodes(
    begin: int, end: int, _nodes: int, _changed: int, _metadata_only: bool
) -> Iterator[bytes]:
    images = [
        {"names": [f"registry.example.com/image-{index}:v1"], "sizeBytes": 100_000_000 + index}
        for index in range(30)
    ]
    for index in range(begin, end):
        name = f"node-{index:05}"
        labels = {
            "kubernetes.io/hostname": name,
            "topology.kubernetes.io/zone": f"zone-{index % ZONES}",
            "kubernetes.io/arch": "amd64",
        }
        resources = {"cpu": "64", "memory": "256Gi", "pods": "250", "ephemeral-storage": "1Ti"}
        document = {
            "metadata": _metadata(name, f"uid-{name}", 1 + index, labels=labels),
            "spec": {"podCIDR": "10.0.0.0/24", "providerID": f"example://{name}"},
            "status": {
                "capacity": resources,
                "allocatable": resources,
                "images": images,
                "conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady"}],
            },
        }
        yield json.dumps(document).encode()


def _pods(begin: int, end: int, nodes: int, changed: int, metadata_only: bool) -> Iterator[bytes]:
    """Make pods of `TEMPLATES` templates: all of one template are alike but for name and node."""
    templates: dict[int, bytes] = {}
    for index in range(begin, end):
        kind = index % TEMPLATES
        if kind not in templates:
            templates[kind] = json.dumps(_template(kind, metadata_only)).encode()
        version = 10_000_000 + index if index < changed else 100_000 + index
        content = templates[kind].replace(b"INDEX", b"%06d" % index)
        content = content.replace(b"VERSION", b"%d" % version)
        yield content.replace(b"NODE", b"node-%05d" % (index % max(nodes, 1)))


def _template(kind: int, metadata_only: bool) -> dict[str, Any]:
    metadata = _metadata(
        f"app-{kind}-INDEX",
        "c0ffee00-0000-0000-0000-000000INDEX",
        0,
        namespace=f"namespace-{kind % 100}",
        labels={"app": f"app-{kind}", "pod-template-hash": f"{kind:08x}", "tier": "backend"},
        ownerReferences=[
            {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": f"app-{kind}", "uid": f"{kind}"}
            | {"controller": True}
        ],
    )
    metadata["resourceVersion"] = "VERSION"
    if metadata_only:
        return {"metadata": metadata}
    return {
        "metadata": metadata,
        "spec": {
            "nodeName": "NODE",
            "schedulerName": "default-scheduler",
            "containers": [
                _container("main", "100m", "200Mi"),
                _container("sidecar", "10m", "20Mi"),
            ],
            "tolerations": [
                {"key": f"node.kubernetes.io/{key}", "operator": "Exists", "effect": "NoExecute"}
                for key in ("not-ready", "unreachable")
            ],
            "volumes": [{"name": "token", "projected": {"sources": []}}],
        },
        "status": {
            "phase": "Running",
            "startTime": "2026-01-01T00:00:00Z",
            "conditions": [{"type": "PodScheduled", "status": "True"}],
        },
    }


@dataclass
class Phase:
    """What one phase cost.

    Args:
        seconds: CPU time, without making the bytes.
        rounds: The cost of each round of the event loop.
        facts: The most facts that waited in the inbox.
        peak: The peak memory of the process so far, in bytes.
    """

    seconds: float
    rounds: list[float] = field(repr=False)
    facts: int
    peak: int

    def line(self, name: str) -> str:
        """Return the phase as a line of the table."""
        busy = sorted(each for each in self.rounds if each > 0) or [0.0]
        last = busy[min(len(busy) - 1, int(len(busy) * 0.99))]
        return (
            f"{name:<34}{self.seconds:9.2f} s {len(busy):8} {statistics.median(busy) * 1e3:8.2f} "
            f"{last * 1e3:8.2f} {busy[-1] * 1e3:8.2f} ms {self.facts:8} {self.peak / 1e6:8.0f} MB"
        )


async def measured(
    cluster: Cluster, waiting: Callable[[], int], work: Callable[[], Awaitable[object]]
) -> Phase:
    """Do *work*, and measure each round of the event loop meanwhile."""
    rounds: list[float] = []
    most = 0
    doing = asyncio.ensure_future(work())
    began = last = time.thread_time() - cluster.making_seconds
    while not doing.done():
        await asyncio.sleep(0)
        now = time.thread_time() - cluster.making_seconds
        rounds.append(now - last)
        last = now
        most = max(most, waiting())
    await doing
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return Phase(last - began, rounds, most, peak)


async def _until(holds: Callable[[], bool]) -> None:
    while not holds():  # noqa: ASYNC110 - nothing tells it
        await asyncio.sleep(0)


async def run(nodes: int, pods: int, changed: int) -> None:
    """Go through all phases, and print a line of the table for each."""
    cluster = Cluster(nodes, pods)
    resources = (Resource.POD, Resource.FAILED_POD, Resource.NODE)
    async with Harness(watching=resources, listed=False) as harness:
        core = harness.core
        telemetry = Telemetry(harness.metrics)
        watches = Watches(cluster, core.inbox.put, telemetry, _WATCHED)
        watching = asyncio.create_task(watches.run())
        freezing = asyncio.create_task(freeze_while_listing(lambda: core.loop.synced))
        print(
            f"{nodes} nodes, {pods} pods of {TEMPLATES} templates\n"
            f"{'':<34}{'CPU':>11} {'rounds':>8} {'median':>8} {'p99':>8} {'longest':>8}    "
            f"{'inbox':>8} {'peak':>11}"
        )

        def waiting() -> int:
            return len(core.inbox)

        def lists() -> int:
            return sum(each.lists for each in watches.reflectors.values())

        async def start() -> None:
            await _until(lambda: core.loop.synced and not waiting())
            await freezing

        async def relist() -> None:
            before = lists()
            cluster.expire()
            await _until(lambda: lists() == before + len(_WATCHED) and not waiting())

        compared: tuple[str, ...] = (Resource.NODE, Resource.POD)
        reflectors = {each: watches.reflectors[each] for each in compared}
        comparer = CacheComparer(cluster, cluster, reflectors, core.cache, core.inbox, telemetry)
        print((await measured(cluster, waiting, start)).line("start"), flush=True)
        assert core.cache.sizes()["pods"] == pods
        print((await measured(cluster, waiting, relist)).line("relist, all equal"), flush=True)
        cluster.changed = changed
        phase = await measured(cluster, waiting, relist)
        print(phase.line(f"relist, {changed} other versions"), flush=True)

        async def compare() -> None:
            assert not await comparer.compare(), "a store that nobody changes has drifted"

        print((await measured(cluster, waiting, compare)).line("comparison"), flush=True)
        watching.cancel()


def main() -> None:
    """Run it once, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=500)
    parser.add_argument("--pods", type=int, default=5000)
    parser.add_argument("--changed", type=int, default=0, help="pods with another version")
    chosen = parser.parse_args()
    configure("error", "console", sys.stderr)
    freeze_heap()  # as the process does
    asyncio.run(run(chosen.nodes, chosen.pods, chosen.changed or chosen.pods // 10))


if __name__ == "__main__":
    main()
