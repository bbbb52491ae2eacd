"""The pinned Go modules, built with the local Go toolchain.

``go.mod`` and ``go.sum`` beside this file pin every module with its hash. Kubernetes, kwok, helm,
kind and Prometheus live in modules of their own because they pin different versions of the same
libraries.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from hack.binaries.pins import (
    CRICTL,
    HELM,
    KUBERNETES,
    KUBERNETES_BINARIES,
    KUBERNETES_MODULES,
    KWOK,
    NODE_BINARIES,
    PROMETHEUS,
    PROMETHEUS_BINARIES,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

_HERE: Final = Path(__file__).parent
_MAJOR, _MINOR = KUBERNETES.removeprefix("v").split(".")[:2]
# Releases are stamped by the linker; a build that is not would call itself v0.0.0.
_KUBERNETES_STAMP: Final = {
    "k8s.io/component-base/version.gitVersion": KUBERNETES,
    "k8s.io/component-base/version.gitMajor": _MAJOR,
    "k8s.io/component-base/version.gitMinor": _MINOR,
    "k8s.io/component-base/version.gitTreeState": "clean",
    "k8s.io/client-go/pkg/version.gitVersion": KUBERNETES,
}
# Helm renders for a cluster of this version by default.
_HELM_STAMP: Final = {
    "helm.sh/helm/v3/internal/version.version": HELM,
    "helm.sh/helm/v3/pkg/chartutil.k8sVersionMajor": _MAJOR,
    "helm.sh/helm/v3/pkg/chartutil.k8sVersionMinor": _MINOR,
    "helm.sh/helm/v3/pkg/lint/rules.k8sVersionMajor": _MAJOR,
    "helm.sh/helm/v3/pkg/lint/rules.k8sVersionMinor": _MINOR,
}


class BuildError(RuntimeError):
    """No Go toolchain, or it could not build a module."""


@dataclass(frozen=True)
class Target:
    """What ``go build`` needs to know for one binary; the module may be any directory."""

    module: str | Path
    package: str
    stamp: tuple[tuple[str, str], ...] = ()
    tags: str = ""


_TARGETS: Final = {
    "etcd": Target("kubernetes", "go.etcd.io/etcd/server/v3", ()),
    "kwok": Target(
        "kwok", "sigs.k8s.io/kwok/cmd/kwok", (("sigs.k8s.io/kwok/pkg/consts.Version", KWOK),)
    ),
    "helm": Target("helm", "helm.sh/helm/v3/cmd/helm", tuple(_HELM_STAMP.items())),
    "kind": Target("kind", "sigs.k8s.io/kind", ()),
    "crictl": Target(
        "crictl",
        "sigs.k8s.io/cri-tools/cmd/crictl",
        (("sigs.k8s.io/cri-tools/pkg/version.Version", CRICTL.removeprefix("v")),),
    ),
    **{
        name: Target(
            KUBERNETES_MODULES[KUBERNETES],
            f"k8s.io/kubernetes/cmd/{name}",
            tuple(_KUBERNETES_STAMP.items()),
        )
        for name in (*KUBERNETES_BINARIES, *NODE_BINARIES)
    },
    **{
        name: Target(
            "prometheus",
            f"github.com/prometheus/prometheus/cmd/{name}",
            (("github.com/prometheus/common/version.Version", PROMETHEUS.removeprefix("v")),),
            # Clouds to discover targets in take minutes to build.
            "remove_all_sd,enable_kubernetes_sd",
        )
        for name in PROMETHEUS_BINARIES
    },
}


def build(name: str, directory: Path) -> Path:
    """Build ``name`` into ``directory``; return the executable's path."""
    return build_target(_TARGETS[name], directory / name)


def source(module: str, path: str) -> Path:
    """Return the folder of a Go module that the pinned *module* needs, such as kind's own."""
    command = [_go(), "mod", "download", "-json", path]
    done = subprocess.run(command, cwd=_HERE / module, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise BuildError(f"go mod download {path} failed:\n{done.stdout.strip()[-2000:]}")
    return Path(json.loads(done.stdout)["Dir"])


def build_target(target: Target, output: Path) -> Path:
    """Build a package of a pinned module to ``output``; return that path."""
    done = subprocess.run(
        _command(_go(), target, output),
        cwd=_HERE / target.module,
        env={**os.environ, "CGO_ENABLED": "0"},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise BuildError(f"go build of {output.name} failed:\n{done.stderr.strip()[-2000:]}")
    return output


def _go() -> str:
    go = shutil.which("go")
    if go is None:
        raise BuildError("no Go toolchain found (`go` is not on the PATH)")
    return go


def build_command(go: str, name: str, output: Path) -> Sequence[str]:
    """The command line that builds ``name`` to ``output``."""
    return _command(go, _TARGETS[name], output)


def _command(go: str, target: Target, output: Path) -> Sequence[str]:
    stamps = [f"-X {variable}={value}" for variable, value in target.stamp]
    flags = " ".join(["-s -w", *stamps])
    options = ["-trimpath", "-mod=readonly", "-tags", target.tags, "-ldflags", flags]
    options += ["-o", str(output)]
    return [go, "build", *options, target.package]
