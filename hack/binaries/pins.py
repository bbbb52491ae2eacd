"""What is pinned: versions, names, and the error that says how to get them."""

from __future__ import annotations

import os
import platform
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

CHOICE: Final = "PY_SCHEDULER_KUBERNETES"
"""The environment variable that chooses among the pinned versions of Kubernetes."""
KUBERNETES_MODULES: Final = {"v1.36.3": "kubernetes", "v1.33.13": "kubernetes-1.33"}
"""The pinned versions and the Go modules that build them: the first is what tests run on, the last
the oldest that is supported."""
ETCD: Final = "v3.6.8"
KWOK: Final = "v0.8.0"
HELM: Final = "v3.22.0"
KIND: Final = "v0.33.0"
PROMETHEUS: Final = "v3.15.0"
CRICTL: Final = "v1.36.0"

KUBERNETES_BINARIES: Final = (
    "kube-apiserver",
    "kube-controller-manager",
    "kube-scheduler",
    "kubectl",
)
PROMETHEUS_BINARIES: Final = ("prometheus", "promtool")
NODE_BINARIES: Final = ("kubeadm", "kubelet", "kube-proxy")
"""What a node needs besides; only `hack.kind_image` asks for it, and for crictl."""
ALL: Final = ("etcd", *KUBERNETES_BINARIES, "kwok", "helm", "kind", *PROMETHEUS_BINARIES)

_ARCHITECTURES: Final = {"x86_64": "amd64", "amd64": "amd64", "arm64": "arm64", "aarch64": "arm64"}


class MissingBinariesError(RuntimeError):
    """No source could give these binaries; the message lists what was tried and what helps."""

    def __init__(self, names: tuple[str, ...], tried: tuple[str, ...]) -> None:
        attempts = "".join(f"\n  - {attempt}" for attempt in tried)
        super().__init__(
            f"No binaries for {', '.join(names)} (Kubernetes {KUBERNETES}, {host()}).\n"
            f"Tried:{attempts}\n"
            "Any one of these helps:\n"
            "  - point KUBEBUILDER_ASSETS at a directory with them\n"
            "  - run `python -m hack.binaries` once with access to the internet\n"
            "  - install Go (https://go.dev/dl) and run `python -m hack.binaries`: it builds the\n"
            "    pinned modules in a few minutes"
        )
        self.names = names


def chosen_kubernetes(environ: Mapping[str, str]) -> str:
    """Return the pinned version that the environment asks for, such as ``1.33``; else the first."""
    wanted = environ.get(CHOICE, "").removeprefix("v")
    for version in KUBERNETES_MODULES:
        if not wanted or f"{version}.".startswith(f"v{wanted}."):
            return version
    raise ValueError(f"{CHOICE}: {wanted} is not pinned; there are {', '.join(KUBERNETES_MODULES)}")


def host() -> str:
    """Operating system and architecture in Go's words, such as ``linux-amd64``."""
    machine = platform.machine().lower()
    return f"{platform.system().lower()}-{_ARCHITECTURES.get(machine, machine)}"


KUBERNETES: Final = chosen_kubernetes(os.environ)
