"""The provider that is as real as it gets on one machine: kind, with the image and the chart.

The image is built and loaded, the chart is installed by Helm, kubelets run what it describes, and a
Prometheus inside the cluster scrapes it.
"""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import ssl
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import quote

import yaml

from hack.api import MERGE_PATCH, ApiError, request, request_text
from hack.binaries import ensure
from hack.kind import Kind, Settings, build, kill_in, pid_in, run
from hack.kubeconfig import Access, read_kubeconfig
from hack.manifests import CHART, ROOT, helm
from hack.ports import LOOPBACK
from tests.e2e.cluster import (
    NAMESPACE,
    READER,
    RELEASE,
    SEAT,
    SEATS,
    VALUES,
    ZONES,
    ask,
    until,
    workers,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from hack.api import Json
    from tests.e2e.cluster import Replica

REPOSITORY = "py-scheduler"
TAG = "e2e"
PROMETHEUS = Path(__file__).with_name("prometheus.yaml")
_SELECTOR = "labelSelector=" + quote(f"app.kubernetes.io/instance={RELEASE}")
_PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"
_RUNNING_SECONDS = 180.0


@dataclass(frozen=True)
class PodReplica:
    """One pod of the Deployment, as it was when it was looked at."""

    name: str
    node: str
    container: str
    cluster: KindCluster

    def get(self, path: str, token: str = "") -> tuple[int, str]:
        """Ask its endpoint through a forwarded port."""
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        with self.cluster.forwarded(self.name) as port:
            context = ssl._create_unverified_context()
            access = Access(f"https://{LOOPBACK}:{port}", context, headers)
            return request_text(access, "GET", path)


class KindCluster:
    """A `Cluster` of containers; a context manager."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._stack = contextlib.ExitStack()

    def __enter__(self) -> Self:
        with contextlib.ExitStack() as stack:
            self._directory = Path(stack.enter_context(tempfile.TemporaryDirectory()))
            extra = shlex.split(os.environ.get("PY_SCHEDULER_IMAGE_ARGS", ""))
            run(build(f"{REPOSITORY}:{TAG}", extra), cwd=ROOT)
            self._kind = stack.enter_context(Kind(self._settings, ZONES, self._directory))
            self._kind.load(f"{REPOSITORY}:{TAG}")
            self.access = read_kubeconfig(self._kind.kubeconfig)
            self._clear()
            self._kubectl("apply", "-f", PROMETHEUS)
            self._make_seats()
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def _clear(self) -> None:
        """Take away what an earlier run left in a cluster that was kept."""
        with contextlib.suppress(RuntimeError):
            self._helm("uninstall", RELEASE, "--wait")
        self._kubectl("delete", "--ignore-not-found", "-f", PROMETHEUS)

    def _make_seats(self) -> None:
        """Advertise seats: a kubelet keeps capacity that it does not know."""

        def seated(name: str) -> bool:
            node = ask(self, "GET", f"/api/v1/nodes/{name}")
            return bool(node["status"]["allocatable"].get(SEAT) == str(SEATS))

        for name in workers(self):
            body = {"status": {"capacity": {SEAT: str(SEATS)}}}
            path = f"/api/v1/nodes/{name}/status"
            request(self.access, "PATCH", path, body, content_type=MERGE_PATCH)
            until(lambda name=name: seated(name), f"{name} has seats")

    # The release.

    def install(self) -> None:
        """Install the chart as it is, with the image that was loaded."""
        self._helm("install", RELEASE, CHART, *self._values(), "--wait", "--timeout=3m")

    def upgrade(self, values: Json, *, then: Callable[[], object] = lambda: None) -> None:
        """Upgrade, and wait until all pods are new ones."""
        self._helm("upgrade", RELEASE, CHART, *self._values(values))
        then()
        status = ["rollout", "status", f"deployment/{RELEASE}", "--namespace", NAMESPACE]
        self._kubectl(*status, "--timeout=3m")
        # By then the last of the old ones may still be going.
        until(
            lambda: not any(_is_going(pod) for pod in self._read_pods()),
            "the old pods are gone",
            seconds=_RUNNING_SECONDS,
        )

    def refuse(self, values: Json) -> str:
        """Upgrade without waiting; the first new pod has to end with 2. Then roll back."""
        before = {each.name for each in self._pods()}
        self._helm("upgrade", RELEASE, CHART, *self._values(values))
        try:
            said: str = until(
                lambda: self._refusal(before), "a new pod ends", seconds=_RUNNING_SECONDS
            )
        finally:
            self._helm("rollback", RELEASE, "--wait", "--timeout=3m")
        return said

    def uninstall(self) -> None:
        """Uninstall, and wait for the last pod to go."""
        self._kubectl("delete", "-f", PROMETHEUS)
        self._helm("uninstall", RELEASE, "--wait")
        until(lambda: not self._pods(), "no pod runs", seconds=_RUNNING_SECONDS)

    def check(self) -> str:
        """Run ``helm test``, which shows the log of its pod beside what it prints."""
        command = [ensure(["helm"])["helm"], "test", RELEASE, "--timeout=2m"]
        command += ["--namespace", NAMESPACE, "--kubeconfig", self._kind.kubeconfig]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode in {0, 1}, done.stderr
        return done.stderr

    def _refusal(self, before: set[str]) -> str:
        for pod in self._read_pods():
            name = pod["metadata"]["name"]
            for status in pod["status"].get("containerStatuses", ()):
                states = (status.get("state", {}), status.get("lastState", {}))
                ended = [each["terminated"] for each in states if "terminated" in each]
                if name not in before and ended:
                    assert ended[0]["exitCode"] == 2, ended[0]
                    return self._kubectl("logs", name, "--namespace", NAMESPACE)
        return ""

    def _values(self, more: Json | None = None) -> list[str | Path]:
        image = {"repository": REPOSITORY, "tag": TAG, "pullPolicy": "Never"}
        path = self._directory / "values.yaml"
        path.write_text(yaml.safe_dump({"image": image, **(more or {})}))
        return ["--values", VALUES, "--values", path]

    # The replicas.

    def replicas(self) -> list[PodReplica]:
        """Return the pods that are ready, and not on their way out."""
        return [
            self._replica(pod) for pod in self._read_pods() if _is_ready(pod) and not _is_going(pod)
        ]

    def kill(self, replica: Replica) -> None:
        """Kill the container's process on its node; the kubelet starts it again."""
        (found,) = [each for each in self._pods() if each.name == replica.name]
        pid = int(run(pid_in(found.node, found.container)))
        run(kill_in(found.node, pid))

    def logs(self) -> dict[str, str]:
        """Return the last lines of every replica's log, by its name."""
        found = {}
        for each in self._pods():
            with contextlib.suppress(RuntimeError):
                tail = ["logs", each.name, "--namespace", NAMESPACE, "--tail=40"]
                found[each.name] = self._kubectl(*tail)
        return found

    def scraped(self) -> list[dict[str, Any]]:
        """Return what Prometheus says of the scheduler's targets."""
        query = quote('up{job="py-scheduler"}')
        path = f"{_PODS}/{READER}:9090/proxy/api/v1/query?query={query}"
        with contextlib.suppress(ApiError):
            found: list[dict[str, Any]] = ask(self, "GET", path)["data"]["result"]
            return found
        return []

    @contextlib.contextmanager
    def forwarded(self, pod: str) -> Iterator[int]:
        """Forward a free local port to a pod's endpoint, until the block is left."""
        command = [ensure(["kubectl"])["kubectl"], "--kubeconfig", self._kind.kubeconfig]
        command += ["port-forward", "--namespace", NAMESPACE, f"pod/{pod}", ":10259"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            try:
                assert process.stdout is not None
                port = re.search(r":(\d+) ->", process.stdout.readline())
                if port is None:
                    raise OSError(f"{pod} cannot be reached")
                yield int(port[1])
            finally:
                process.terminate()

    def _pods(self) -> list[PodReplica]:
        return [self._replica(pod) for pod in self._read_pods()]

    def _replica(self, pod: Json) -> PodReplica:
        return PodReplica(
            name=pod["metadata"]["name"],
            node=pod["spec"].get("nodeName", ""),
            container=_container_of(pod),
            cluster=self,
        )

    def _read_pods(self) -> list[Json]:
        items: list[Json] = ask(self, "GET", f"{_PODS}?{_SELECTOR}")["items"]
        return items

    def _helm(self, *arguments: str | Path) -> str:
        return helm(*arguments, "--namespace", NAMESPACE, "--kubeconfig", self._kind.kubeconfig)

    def _kubectl(self, *arguments: str | Path) -> str:
        binary = ensure(["kubectl"])["kubectl"]
        return run([binary, "--kubeconfig", self._kind.kubeconfig, *arguments])


def _container_of(pod: Json) -> str:
    found = pod["status"].get("containerStatuses", ())
    return next((each.get("containerID", "") for each in found), "")


def _is_going(pod: Json) -> bool:
    return "deletionTimestamp" in pod["metadata"]


def _is_ready(pod: Json) -> bool:
    return any(
        each["type"] == "Ready" and each["status"] == "True"
        for each in pod["status"].get("conditions", ())
    )
