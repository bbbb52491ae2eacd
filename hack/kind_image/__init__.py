"""A node image for kind where no container registry can be reached.

``python -m hack.kind_image`` makes it of Debian's packages, the pinned binaries and the files that
kind's own Go module holds for its images. It is as good as the published one for the scenarios of
``tests/e2e``, and for nothing else: no name server runs in its clusters, no volume is made, and
addresses are IPv4. It takes root, for debootstrap, Go, and an engine with BuildKit.

What needs no decision stands in files beside this one: the Dockerfile, and in ``files/`` what the
nodes get on top of kind's.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import tarfile
import tempfile
from pathlib import Path
from typing import Final

from hack.binaries import KUBERNETES, ensure
from hack.binaries.pins import NODE_BINARIES, PROMETHEUS
from hack.binaries.toolchain import Target, build_target, source
from hack.kind import run

TAG: Final = f"py-scheduler-node:{KUBERNETES}"
PROMETHEUS_IMAGE: Final = f"quay.io/prometheus/prometheus:{PROMETHEUS}"
PACKAGES: Final = (
    *("systemd", "systemd-sysv", "dbus", "containerd", "runc", "containernetworking-plugins"),
    *("conntrack", "ethtool", "iproute2", "iptables", "kmod", "mount", "nftables", "socat"),
    *("bash", "ca-certificates", "jq", "procps", "util-linux"),
)
"""What kind installs into its images too, as far as Debian has it."""
SUITE: Final = "bookworm"

_HERE: Final = Path(__file__).parent
_PROXY: Final = "kube-proxy"
_CONTROL_PLANE: Final = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler")
_ON_NODES: Final = ("crictl", "kubeadm", "kubectl", "kubelet")
_LEFT_OUT: Final = ("./var/cache/apt/*", "./var/lib/apt/lists/*")


def images(kubeadm: str, containerd: str) -> dict[str, str]:
    """Return the images that nodes find in their store: full names, by what they run.

    Args:
        kubeadm: What kubeadm lists. Its name server is left out.
        containerd: The configuration of containerd, which names the sandbox.
    """
    listed = {re.split("[/:]", each)[-2]: each for each in kubeadm.split()}
    (sandbox,) = re.findall(r'^ *sandbox_image = "(.+)"$', containerd, re.MULTILINE)
    named = {name: listed[name] for name in (*_CONTROL_PLANE, _PROXY)}
    return {**named, "pause": sandbox, "prometheus": PROMETHEUS_IMAGE}


def import_layer(archive: Path, program: str, image: str) -> list[str]:
    """The command that makes an image of a tar; it runs *program*."""
    entrypoint = ["--change", f"ENTRYPOINT {json.dumps([program])}"]
    return ["docker", "import", *entrypoint, "--change", "ENV PATH=/bin", str(archive), image]


def build(tag: str = TAG, debian: Path | None = None) -> str:
    """Build the image and return its tag.

    Args:
        tag: How it is to be called.
        debian: A tar of the packages, such as mmdebstrap makes without root; else debootstrap is
            called.

    Raises:
        RuntimeError: A command failed, or is missing; the message is what it said.
    """
    if debian is None and shutil.which("debootstrap") is None:
        raise RuntimeError("debootstrap is not on the PATH; install it, or give a tar by --debian")
    binaries = _binaries()
    with tempfile.TemporaryDirectory() as directory:
        context = Path(directory)
        _lay(context, binaries)
        if debian is None:
            _bootstrap(context / "debian.tar")
        else:
            shutil.copy(debian, context / "debian.tar")
        listed = run(
            [binaries["kubeadm"], "config", "images", "list", "--kubernetes-version", KUBERNETES]
        )
        named = images(listed, (context / "kind/etc/containerd/config.toml").read_text())
        _make(named, binaries, context)
        run(["docker", "save", "--output", context / "images.tar", *named.values()])
        run(["docker", "build", "--tag", tag, context])
    return tag


def _binaries() -> dict[str, Path]:
    names = {*_CONTROL_PLANE, *_ON_NODES, *NODE_BINARIES, "prometheus"}
    # One that is installed may need libraries, which no image here has.
    return ensure(sorted(names), environ={**os.environ, "PATH": ""})


def _lay(context: Path, binaries: dict[str, Path]) -> None:
    """Put together what the Dockerfile reads, but Debian and the images."""
    theirs = source("kind", "sigs.k8s.io/kind") / "images/base/files"
    # Files of a module cannot be written, nor run.
    shutil.copytree(theirs, context / "kind", copy_function=shutil.copyfile)
    for path in (context / "kind").rglob("*"):
        path.chmod(0o755 if path.is_dir() or path.parent.name == "bin" else 0o644)
    (context / "kind/kind/version").write_text(KUBERNETES)
    shutil.copytree(_HERE / "files", context / "files")
    shutil.copy(_HERE / "Dockerfile", context)
    (context / "bin").mkdir()
    for name in (*_ON_NODES, _PROXY):
        shutil.copy(binaries[name], context / "bin" / name)
    (context / "images.tar").touch()


def _bootstrap(target: Path) -> None:
    """Write a minimal Debian with `PACKAGES`."""
    with tempfile.TemporaryDirectory() as root:
        wanted = f"--include={','.join(PACKAGES)}"
        run(["debootstrap", "--variant=minbase", wanted, SUITE, root])
        left_out = [f"--exclude={each}" for each in _LEFT_OUT]
        run(["tar", "--directory", root, *left_out, "--create", "--file", target, "."])


def _make(named: dict[str, str], binaries: dict[str, Path], context: Path) -> None:
    """Make images of static binaries, one each; kube-proxy's has tools beside it."""
    pause = build_target(Target(_HERE, "pause.go"), context / "pause")
    archive = context / "layer.tar"
    for name, image in named.items():
        if name != _PROXY:
            with tarfile.open(archive, "w") as tarball:
                tarball.add({**binaries, "pause": pause}[name], f"bin/{name}")
            run(import_layer(archive, f"/bin/{name}", image))
            archive.unlink()
    run(["docker", "build", "--target", _PROXY, "--tag", named[_PROXY], context])
