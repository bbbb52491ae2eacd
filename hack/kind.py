"""kind: a cluster whose nodes are containers. Its documents and command lines.

Command lines and documents are values, made by pure functions; `Kind` runs them. It needs a Docker
engine and the node image.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Self

import yaml

from hack.binaries import ensure

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    from hack.api import Json

# Built by kind's authors for the pinned release of kind, and listed in its release notes.
NODE_IMAGE: Final = (
    "kindest/node:v1.36.4@sha256:099e049362a1526b2db71494e1947aae99bd16290d7c895f2b7ea312e3cbfaed"
)
NAME: Final = "py-scheduler-e2e"
ZONE: Final = "topology.kubernetes.io/zone"
_WAIT: Final = "3m"


@dataclass(frozen=True)
class Settings:
    """Which cluster.

    Args:
        name: The cluster's name.
        image: The image of its nodes.
        keep: Whether it stays, and is taken up again if it is there already.
    """

    name: str = NAME
    image: str = NODE_IMAGE
    keep: bool = False

    @classmethod
    def chosen(
        cls,
        *,
        name: str | None = None,
        image: str | None = None,
        keep: bool = False,
        environ: Mapping[str, str] | None = None,
    ) -> Settings:
        """Return what flags say, else ``PY_SCHEDULER_KIND_*`` in the environment, else defaults."""
        environ = os.environ if environ is None else environ
        return cls(
            name=name or environ.get("PY_SCHEDULER_KIND_NAME") or NAME,
            image=image or environ.get("PY_SCHEDULER_KIND_IMAGE") or NODE_IMAGE,
            keep=keep or environ.get("PY_SCHEDULER_KIND_KEEP", "") not in {"", "0"},
        )


def engine_missing() -> str:
    """Return why no container can be run here; empty where one can."""
    if shutil.which("docker") is None:
        return "docker is not on the PATH"
    command = ["docker", "version", "--format", "{{.Server.Version}}"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=30)
    return "" if done.returncode == 0 else f"no Docker engine answers: {done.stderr.strip()}"


def configuration(zones: Sequence[str]) -> Json:
    """Return the document: a control plane, and a worker in each of *zones*."""
    workers = [{"role": "worker", "labels": {ZONE: zone}} for zone in zones]
    return {
        "kind": "Cluster",
        "apiVersion": "kind.x-k8s.io/v1alpha4",
        "nodes": [{"role": "control-plane"}, *workers],
    }


def create(kind: str | Path, settings: Settings, config: Path, kubeconfig: Path) -> list[str]:
    """The command that makes the cluster, and returns once it is ready."""
    return [
        *(str(kind), "create", "cluster", "--name", settings.name),
        *("--image", settings.image, "--config", str(config)),
        *("--kubeconfig", str(kubeconfig), "--wait", _WAIT),
    ]


def delete(kind: str | Path, settings: Settings, kubeconfig: Path) -> list[str]:
    """The command that removes the cluster."""
    names = ["--name", settings.name, "--kubeconfig", str(kubeconfig)]
    return [str(kind), "delete", "cluster", *names]


def load(kind: str | Path, settings: Settings, *images: str) -> list[str]:
    """The command that gives images of the local engine to all nodes."""
    return [str(kind), "load", "docker-image", *images, "--name", settings.name]


def pid_in(node: str, container: str) -> list[str]:
    """The command that prints the process of a container, as its node knows it.

    *container* is an id as a pod's status spells it, ``containerd://…``.
    """
    identity = container.partition("://")[2]
    template = ["--output", "go-template", "--template", "{{.info.pid}}"]
    return ["docker", "exec", node, "crictl", "inspect", *template, identity]


def kill_in(node: str, pid: int) -> list[str]:
    """The command that kills a process of a node, as no kubelet would."""
    return ["docker", "exec", node, "kill", "-9", str(pid)]


def build(tag: str, extra: Iterable[str] = ()) -> list[str]:
    """The command that builds our image."""
    return ["docker", "build", "--tag", tag, *extra, "."]


class Kind:
    """A cluster; a context manager.

    Raises:
        RuntimeError: A command failed; the message is what it said.
    """

    def __init__(self, settings: Settings, zones: Sequence[str], directory: Path) -> None:
        self.settings = settings
        self.kubeconfig = directory / "kubeconfig"
        self._config = directory / "kind.yaml"
        self._config.write_text(yaml.safe_dump(configuration(zones)))
        self._binary = ensure(["kind"])["kind"]

    def __enter__(self) -> Self:
        there = run([str(self._binary), "get", "clusters"]).split()
        if self.settings.name in there:
            # Somebody kept it.
            export = ["export", "kubeconfig", "--name", self.settings.name]
            run([str(self._binary), *export, "--kubeconfig", str(self.kubeconfig)])
        else:
            try:
                run(create(self._binary, self.settings, self._config, self.kubeconfig))
            except BaseException:
                # Half a cluster, left there, would be taken up by the next run.
                run(delete(self._binary, self.settings, self.kubeconfig))
                raise
        return self

    def __exit__(self, *_: object) -> None:
        if not self.settings.keep:
            run(delete(self._binary, self.settings, self.kubeconfig))

    def load(self, *images: str) -> None:
        """Give images of the local engine to all nodes."""
        run(load(self._binary, self.settings, *images))


def run(command: Sequence[str | Path], *, cwd: Path | None = None, stdin: str | None = None) -> str:
    """Run a command and return what it printed.

    Raises:
        RuntimeError: It failed; the message is what it said.
    """
    environ = {**os.environ, "DOCKER_BUILDKIT": "1"}
    done = subprocess.run(
        list(map(str, command)),
        capture_output=True,
        text=True,
        check=False,
        cwd=cwd,
        env=environ,
        input=stdin,
    )
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(map(str, command[:4]))} …: {done.stderr.strip()[-3000:]}")
    return done.stdout
