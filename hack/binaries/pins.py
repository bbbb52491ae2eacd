"""What is pinned: versions, names, and the error that says how to get them."""

from __future__ import annotations

import platform
from typing import Final

KUBERNETES: Final = "v1.36.3"
ETCD: Final = "v3.6.8"
KWOK: Final = "v0.8.0"
HELM: Final = "v3.22.0"

KUBERNETES_BINARIES: Final = (
    "kube-apiserver",
    "kube-controller-manager",
    "kube-scheduler",
    "kubectl",
)
ALL: Final = ("etcd", *KUBERNETES_BINARIES, "kwok", "helm")

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


def host() -> str:
    """Operating system and architecture in Go's words, such as ``linux-amd64``."""
    machine = platform.machine().lower()
    return f"{platform.system().lower()}-{_ARCHITECTURES.get(machine, machine)}"
