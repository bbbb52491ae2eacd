"""The provider that is always there: the local control plane, and kwok for nodes.

The chart is installed by Helm for real. Nobody runs the pods of its Deployment here; in their place
processes run, with the Deployment's own arguments, the ConfigMap's document, and a token of the
chart's service account. What that account may do is enforced by the API server, and its audit log
tells what was used.
"""

from __future__ import annotations

import contextlib
import itertools
import ssl
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Self

import yaml

from hack.api import request_text
from hack.audit import AuditLog
from hack.control_plane import CONTROLLER_MANAGER, KWOK, ControlPlane
from hack.kubeconfig import Access, read_kubeconfig
from hack.manifests import CHART, ROOT, helm
from hack.nodes import add_nodes, node
from hack.ports import LOOPBACK, PortClaims
from tests.e2e.cluster import (
    CONTROL_PLANE,
    NAMESPACE,
    READER,
    RELEASE,
    SEAT,
    SEATS,
    VALUES,
    ZONES,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from hack.api import Json
    from hack.processes import Process
    from tests.e2e.cluster import Replica

ACCOUNT = f"system:serviceaccount:{NAMESPACE}:{RELEASE}"


class LocalReplica:
    """A process in the place of a pod."""

    def __init__(self, name: str, process: Process, port: int) -> None:
        self.name = name
        self.process = process
        self._port = port

    def get(self, path: str, token: str = "") -> tuple[int, str]:
        """Ask its endpoint; the certificate was made at its start, so nobody can verify it."""
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        context = ssl._create_unverified_context()
        access = Access(f"https://{LOOPBACK}:{self._port}", context, headers)
        return request_text(access, "GET", path)

    def ready(self) -> bool:
        """Tell whether it has seen the whole cluster."""
        with contextlib.suppress(OSError):
            return self.get("/readyz")[0] == 200
        return False


class LocalCluster:
    """A `Cluster` of processes; a context manager."""

    def __init__(self) -> None:
        self._stack = contextlib.ExitStack()
        self._numbers = itertools.count(1)
        self._replicas: list[LocalReplica] = []

    def __enter__(self) -> Self:
        with contextlib.ExitStack() as stack:
            self._directory = Path(stack.enter_context(tempfile.TemporaryDirectory()))
            self._ports = PortClaims()
            stack.callback(self._ports.release)
            rule = {"level": "Metadata", "users": [ACCOUNT]}
            self._audit = AuditLog(self._directory, rule)
            self.plane = stack.enter_context(
                ControlPlane(
                    components=(CONTROLLER_MANAGER, KWOK), apiserver_flags=self._audit.flags
                )
            )
            self.access = read_kubeconfig(self.plane.admin_kubeconfig)
            self._add_nodes()
            self.plane.kubectl("create", "serviceaccount", READER, "--namespace", NAMESPACE)
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def _add_nodes(self) -> None:
        taint = {"key": CONTROL_PLANE, "effect": "NoSchedule"}
        described = [node("control-plane", labels={CONTROL_PLANE: ""}, taints=[taint])]
        described += (
            node(f"worker-{number}", zone=zone, capacity={SEAT: str(SEATS)})
            for number, zone in enumerate(ZONES, start=1)
        )
        add_nodes(self.plane.admin_kubeconfig, described)
        names = [f"node/{each['metadata']['name']}" for each in described]
        self.plane.kubectl("wait", "--for=condition=Ready", *names)

    # The release.

    def install(self) -> None:
        """Install the chart, and run what its Deployment describes."""
        self._helm("install", RELEASE, CHART, "--values", VALUES)
        self._kubeconfig = self.plane.service_account_kubeconfig(NAMESPACE, RELEASE)
        self._replicas = [self._start() for _ in range(self._deployment()["spec"]["replicas"])]
        for each in self._replicas:
            self._await_ready(each)

    def upgrade(self, values: Json, *, then: Callable[[], object] = lambda: None) -> None:
        """Replace the replicas one by one, as a Deployment does."""
        self._upgrade(values)
        then()
        for old in self._replicas.copy():
            new = self._start()
            self._await_ready(new)
            self._replicas.append(new)
            self._replicas.remove(old)
            old.process.stop(grace_seconds=30)

    def refuse(self, values: Json) -> str:
        """Run one replica with a bad configuration beside the old ones; it has to end with 2."""
        self._upgrade(values)
        process = self._start().process
        code = process.wait(30)
        assert code == 2, f"exit code {code}: {process.tail()}"
        self._helm("rollback", RELEASE)
        return process.log.read_text()

    def uninstall(self) -> None:
        """Uninstall the release while the replicas run, then end them, as a kubelet does."""
        self._helm("uninstall", RELEASE)
        for each in self._replicas:
            each.process.stop(grace_seconds=30)
        self._replicas.clear()

    def _upgrade(self, values: Json) -> None:
        path = self._directory / "upgrade.yaml"
        path.write_text(yaml.safe_dump(values))
        self._helm("upgrade", RELEASE, CHART, "--values", VALUES, "--values", path)

    def _helm(self, *arguments: str | Path) -> None:
        helm(*arguments, "--namespace", NAMESPACE, "--kubeconfig", self.plane.admin_kubeconfig)

    def _deployment(self) -> Json:
        path = f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments/{RELEASE}"
        return self.plane.request("GET", path)

    # The replicas.

    def replicas(self) -> list[LocalReplica]:
        """Return those that were started and not ended."""
        return self._replicas

    def kill(self, replica: Replica) -> None:
        """Kill a process; another one is started at once."""
        (found,) = [each for each in self._replicas if each.name == replica.name]
        found.process.kill()
        self._replicas[self._replicas.index(found)] = self._start()

    def check(self) -> str:
        """Run what the chart's test pod runs, as the scheduler."""
        command = [*self._command("check"), f"--config={self._config()}"]
        done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
        assert done.returncode in {0, 1}, done.stderr
        return done.stdout

    def _start(self) -> LocalReplica:
        (container,) = self._deployment()["spec"]["template"]["spec"]["containers"]
        run, *arguments = container["args"]
        port = self._ports.claim()
        name = f"py-scheduler-{next(self._numbers)}"
        # What is told last counts.
        ours = [f"--config={self._config()}", f"--bind-address={LOOPBACK}", f"--port={port}"]
        command = [*self._command(run), *arguments, *ours, "--log-format=json"]
        return LocalReplica(name, self.plane.spawn(name, command, cwd=ROOT), port)

    def _command(self, name: str) -> list[str]:
        return [sys.executable, "-m", "scheduler", name, f"--kubeconfig={self._kubeconfig}"]

    def _config(self) -> Path:
        """Return the mounted document, in a file of its own."""
        found = self.plane.request("GET", f"/api/v1/namespaces/{NAMESPACE}/configmaps/{RELEASE}")
        path = self._directory / f"config-{next(self._numbers)}.yaml"
        path.write_text(found["data"]["config.yaml"])
        return path

    @staticmethod
    def _await_ready(replica: LocalReplica) -> None:
        replica.process.wait_until(replica.ready, "ready", timeout_seconds=60)

    def logs(self) -> dict[str, str]:
        """Return the last lines of every replica's log, by its name."""
        return {each.name: each.process.tail(40) for each in self._replicas}

    # What it did.

    def used(self) -> set[tuple[str, str, str]]:
        """Return each (group, resource, verb) that the API server let the scheduler use."""
        return set(filter(None, map(_used, self._audit.entries())))


def _used(event: Json) -> tuple[str, str, str] | None:
    if event["responseStatus"].get("code", 0) >= 400 or "objectRef" not in event:
        return None
    about = event["objectRef"]
    resource = "/".join(filter(None, [about["resource"], about.get("subresource")]))
    return about.get("apiGroup", ""), resource, event["verb"]
