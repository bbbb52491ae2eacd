"""What the process spends on each pod, decision included, against an API server that does nothing.

The real process, over real TLS, lists nodes and schedules pods that a small stand-in for the API
server streams to it. The stand-in keeps so many pods unbound at any time and answers each binding
and each event at once, with what a real server would send. Only the CPU time of the scheduler's
process counts, between two bindings of a warm process, so neither the start nor the stand-in is in
the figures. ``--tree`` names another checkout, whose scheduler runs in turns with this one.
"""

import argparse
import asyncio
import json
import os
import signal
import ssl
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec
import yaml

from hack.certificates import Authority
from hack.components import configuration
from hack.kubeconfig import certificate_credentials, write_kubeconfig
from hack.nodes import nodes

if TYPE_CHECKING:
    from collections.abc import Callable

_ROOT: Final = Path(__file__).parents[1]
_TICK: Final = os.sysconf("SC_CLK_TCK")
_INITIAL_END: Final = {"k8s.io/initial-events-end": "true"}
_NOW: Final = "2026-01-01T00:00:00Z"
_OK: Final = b"HTTP/1.1 201 Created\r\n"
_HEADERS: Final = (
    b"Audit-Id: 3f1d5a52-6f0f-4a6e-9d53-0d3f1f3f7f10\r\n"
    b"Cache-Control: no-cache, private\r\n"
    b"Content-Type: application/json\r\n"
    b"X-Kubernetes-Pf-Flowschema-Uid: 5e1d6d2c-3b58-4f0a-8f43-24c4a4a0d3c5\r\n"
    b"X-Kubernetes-Pf-Prioritylevel-Uid: 0c5b1e6a-90a6-4a79-a1e8-1c8f7f1c5a11\r\n"
    b"Date: Thu, 01 Jan 2026 00:00:00 GMT\r\n"
)
_BOUND_STATUS: Final = (
    b'{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Success","code":201}\n'
)


class _Cluster:
    """Pods that come as others are bound, and the CPU time of the scheduler meanwhile."""

    def __init__(self, node_count: int, pods: int, outstanding: int, warm: int) -> None:
        self.nodes = [_with_meta(each) for each in nodes(node_count, kwok=False, zones=3)]
        self.pods = pods
        self.outstanding = outstanding
        self.warm = warm
        self.created = self.bound = 0
        self.events = 0
        self.version = 1_000_000
        self.watch: Callable[[bytes], None] = lambda _: None
        self.pid = 0
        self.cpu_from = 0.0
        self.cpu_until = 0.0
        self.finished = asyncio.Event()

    def top_up(self) -> None:
        """Create pods until as many are unbound as should be."""
        lines = []
        while self.created < self.pods and self.created - self.bound < self.outstanding:
            lines.append(self._line(b"ADDED", self.created, ""))
            self.created += 1
        for line in lines:
            self.watch(line)

    def bind(self, name: str, node: str) -> None:
        """Bind a pod and send what the watch says of it."""
        self.bound += 1
        if self.bound == self.warm:
            self.cpu_from = _cpu_seconds(self.pid)
        elif self.bound == self.pods:
            self.cpu_until = _cpu_seconds(self.pid)
            self.finished.set()
        self.watch(self._line(b"MODIFIED", int(name.rpartition("-")[2]), node))
        if self.created - self.bound <= self.outstanding - 32:
            self.top_up()

    def _line(self, kind: bytes, index: int, node: str) -> bytes:
        self.version += 1
        body = msgspec.json.encode(_pod(index, node, self.version))
        return b'{"type":"' + kind + b'","object":' + body + b"}\n"


class _Connection(asyncio.Protocol):
    """One connection of HTTP/1.1: requests with bodies of known length, answers at once."""

    def __init__(self, cluster: _Cluster) -> None:
        self._cluster = cluster
        self._buffer = b""

    def connection_made(self, transport: Any) -> None:
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        while (end := self._buffer.find(b"\r\n\r\n")) >= 0:
            head = self._buffer[:end]
            length = _content_length(head)
            if len(self._buffer) < end + 4 + length:
                return
            body = self._buffer[end + 4 : end + 4 + length]
            self._buffer = self._buffer[end + 4 + length :]
            method, target, _ = head.split(b"\r\n", 1)[0].decode().split(" ")
            self._answer(method, target, body)

    def _answer(self, method: str, target: str, body: bytes) -> None:
        path, _, query = target.partition("?")
        cluster = self._cluster
        if method == "POST" and path.endswith("/binding"):
            self._send(_BOUND_STATUS)
            node = msgspec.json.decode(body)["target"]["name"]
            cluster.bind(path.split("/")[-2], node)
        elif method == "POST" and path.endswith("/events"):
            cluster.events += 1
            self._send(_event_answer(body))
        elif "watch=1" in query:
            self._watch(path, query)
        else:
            self._send(b'{"kind":"Status","apiVersion":"v1","metadata":{}}\n')

    def _send(self, body: bytes) -> None:
        head = b"Content-Length: %d\r\n\r\n" % len(body)
        self._transport.write(_OK + _HEADERS + head + body)

    def _watch(self, path: str, query: str) -> None:
        head = b"HTTP/1.1 200 OK\r\n" + _HEADERS + b"Transfer-Encoding: chunked\r\n\r\n"
        self._transport.write(head)
        if path == "/api/v1/nodes":
            for each in self._cluster.nodes:
                self._line(b'{"type":"ADDED","object":' + msgspec.json.encode(each) + b"}\n")
        meta = {"resourceVersion": "1000000", "annotations": _INITIAL_END}
        bookmark = {"type": "BOOKMARK", "object": {"metadata": meta}}
        self._line(msgspec.json.encode(bookmark) + b"\n")
        if path == "/api/v1/pods" and "Succeeded" in query:
            self._cluster.watch = self._line
            asyncio.get_running_loop().call_later(2.0, self._cluster.top_up)

    def _line(self, line: bytes) -> None:
        # A write for each event, as the API server flushes: a TLS record and a chunk for each.
        self._transport.write(b"%x\r\n%b\r\n" % (len(line), line))


def _content_length(head: bytes) -> int:
    for line in head.lower().split(b"\r\n"):
        if line.startswith(b"content-length:"):
            return int(line.partition(b":")[2])
    return 0


def _event_answer(body: bytes) -> bytes:
    event = msgspec.json.decode(body)
    event["metadata"] |= {
        "uid": "7c9b34f4-6dd1-4b10-a0b3-8f9c0d5a1b2c",
        "resourceVersion": "123456",
        "creationTimestamp": _NOW,
        "managedFields": [
            {
                "manager": "py-scheduler",
                "operation": "Update",
                "apiVersion": "events.k8s.io/v1",
                "time": _NOW,
                "fieldsType": "FieldsV1",
                "fieldsV1": {
                    f"f:{name}": {}
                    for name in ("action", "eventTime", "note", "reason", "regarding", "type")
                },
            }
        ],
    }
    return msgspec.json.encode(
        {"kind": "Event", "apiVersion": "events.k8s.io/v1", **event, "deprecatedSource": {}}
    )


def _with_meta(node: dict[str, Any]) -> dict[str, Any]:
    name = node["metadata"]["name"]
    meta = {**node["metadata"], "uid": f"uid-{name}", "resourceVersion": "1000"}
    return {**node, "metadata": {**meta, "creationTimestamp": _NOW}}


def _pod(index: int, node: str, version: int) -> dict[str, Any]:
    requests = {"cpu": "100m", "memory": "500Mi"}
    container = {
        "name": "pause",
        "image": "registry.k8s.io/pause:3.10.2",
        "ports": [{"containerPort": 80, "protocol": "TCP"}],
        "resources": {"requests": requests, "limits": requests},
        "terminationMessagePath": "/dev/termination-log",
        "terminationMessagePolicy": "File",
        "imagePullPolicy": "IfNotPresent",
    }
    fields: dict[str, Any] = {
        "f:spec": {
            "f:containers": {
                'k:{"name":"pause"}': {
                    ".": {},
                    "f:image": {},
                    "f:imagePullPolicy": {},
                    "f:name": {},
                    "f:ports": {
                        ".": {},
                        'k:{"containerPort":80,"protocol":"TCP"}': {
                            ".": {},
                            "f:containerPort": {},
                            "f:protocol": {},
                        },
                    },
                    "f:resources": {
                        ".": {},
                        "f:limits": {".": {}, "f:cpu": {}, "f:memory": {}},
                        "f:requests": {".": {}, "f:cpu": {}, "f:memory": {}},
                    },
                    "f:terminationMessagePath": {},
                    "f:terminationMessagePolicy": {},
                }
            },
            "f:dnsPolicy": {},
            "f:enableServiceLinks": {},
            "f:restartPolicy": {},
            "f:schedulerName": {},
            "f:securityContext": {},
            "f:terminationGracePeriodSeconds": {},
        }
    }
    status: dict[str, Any] = {"phase": "Pending", "qosClass": "Guaranteed"}
    if node:
        condition = {"type": "PodScheduled", "status": "True", "observedGeneration": 1}
        times = {"lastProbeTime": None, "lastTransitionTime": _NOW}
        status["conditions"] = [{**condition, **times}]
    return {
        "kind": "Pod",
        "apiVersion": "v1",
        "metadata": {
            "name": f"pod-{index:06}",
            "namespace": "benchmark",
            "uid": f"5f3c7c3e-8a5b-4d0e-9c4e-{index:012}",
            "resourceVersion": str(version),
            "generation": 1,
            "creationTimestamp": _NOW,
            "managedFields": [
                {
                    "manager": "python-requests",
                    "operation": "Update",
                    "apiVersion": "v1",
                    "time": _NOW,
                    "fieldsType": "FieldsV1",
                    "fieldsV1": fields,
                }
            ],
        },
        "spec": {
            "containers": [container],
            "restartPolicy": "Always",
            "terminationGracePeriodSeconds": 30,
            "dnsPolicy": "ClusterFirst",
            **({"nodeName": node} if node else {}),
            "securityContext": {},
            "schedulerName": "py-scheduler",
            "enableServiceLinks": True,
        },
        "status": status,
    }


def _cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICK


async def _one_run(
    tree: Path, options: argparse.Namespace
) -> tuple[float, float, dict[str, float]]:
    """Run one scheduler; return milliseconds of CPU for each pod, pods a second, and the parts."""
    spent: dict[str, float] = {}
    cluster = _Cluster(options.nodes, options.pods, options.outstanding, options.warm)
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        authority = Authority()
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(*authority.serving("kube-apiserver").write(directory, "server"))
        loop = asyncio.get_running_loop()
        server = await loop.create_server(lambda: _Connection(cluster), "127.0.0.1", 0, ssl=context)
        url = f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        user = certificate_credentials(authority.client("scheduler"))
        kubeconfig = write_kubeconfig(directory / "kubeconfig", url, authority.pem, user)
        config = directory / "config.yaml"
        fields = {
            "clientConnection": {"qps": -1, "burst": 1},
            "leaderElection": {"leaderElect": False},
        }
        config.write_text(yaml.safe_dump(configuration(fields)))
        shares = directory / "parts.json"
        sampled = [str(_ROOT / "benchmarks/sampled.py"), str(shares)] if options.parts else []
        command = [sys.executable, *sampled, "-m", "scheduler", "run"]
        command += ["--log-level=warning", "--log-format=json", f"--kubeconfig={kubeconfig}"]
        command += ["--bind-address=127.0.0.1", "--port=0", f"--config={config}"]
        process = subprocess.Popen(command, cwd=tree)  # noqa: ASYNC220 - ours
        cluster.pid = process.pid
        try:
            while not cluster.bound >= cluster.warm:
                assert process.poll() is None, "the scheduler has ended"
                await asyncio.sleep(0.01)
            if options.parts:
                process.send_signal(signal.SIGUSR1)
            if options.profile:
                subprocess.Popen(  # noqa: ASYNC220 - ours
                    ["perf", "record", "-q", "-g", "-p", str(process.pid), "-o", options.profile]
                )
            began = time.monotonic()
            await cluster.finished.wait()
            seconds = time.monotonic() - began
            if options.parts:
                shares.unlink(missing_ok=True)
                process.send_signal(signal.SIGUSR1)
                while not shares.exists() or not shares.read_bytes():  # noqa: ASYNC110 - a file
                    await asyncio.sleep(0.05)
                spent = json.loads(shares.read_bytes())
        finally:
            process.terminate()
            await asyncio.to_thread(process.wait)
            server.close()
    counted = options.pods - options.warm
    cpu = (cluster.cpu_until - cluster.cpu_from) * 1000 / counted
    return cpu, counted / seconds, {part: share * cpu for part, share in spent.items()}


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=1000)
    parser.add_argument("--pods", type=int, default=6000)
    parser.add_argument("--warm", type=int, default=2000)
    parser.add_argument("--outstanding", type=int, default=512)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--tree", type=Path, action="append", default=[])
    parser.add_argument("--parts", action="store_true", help="sample where the time goes")
    parser.add_argument("--profile", default="", help="where perf writes its record of the process")
    return parser.parse_args()


def main() -> None:
    """Measure in turns and print one line for each tree."""
    import uvloop

    options = _options()
    trees = [_ROOT, *options.tree]
    found: dict[Path, list[float]] = {tree: [] for tree in trees}
    parts: dict[Path, dict[str, float]] = {}
    for _ in range(options.turns):
        for tree in trees:
            cpu, rate, spent = uvloop.run(_one_run(tree, options))
            if cpu <= min(found[tree], default=cpu):
                parts[tree] = spent
            found[tree].append(cpu)
            print(f"  {tree}: {cpu:.3f} ms CPU a pod, {rate:.0f} pods/s", flush=True)
    for tree, figures in found.items():
        print(f"{tree}: {min(figures):.3f} least, {statistics.median(figures):.3f} median")
        for part, cpu in sorted(parts[tree].items(), key=lambda each: -each[1]):
            print(f"    {cpu * 1000:>6.0f} µs  {part}")


if __name__ == "__main__":
    main()
