"""Official releases, over https only, checked against their published SHA-256 sums.

The sums come from the same publisher as the files: they catch a broken or truncated transfer and a
stale mirror, and trust in the publisher is TLS's part. Time-outs are short, because an offline
machine should reach the next source within seconds.
"""

from __future__ import annotations

import hashlib
import json
import os
import tarfile
import urllib.error
import urllib.request
import zipfile
from typing import TYPE_CHECKING, BinaryIO, cast

from hack.binaries.pins import (
    CRICTL,
    ETCD,
    HELM,
    KIND,
    KUBERNETES,
    KUBERNETES_BINARIES,
    KWOK,
    NODE_BINARIES,
    PROMETHEUS,
    PROMETHEUS_BINARIES,
    host,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    Open = Callable[[str], BinaryIO]

NO_DOWNLOAD = "PY_SCHEDULER_NO_DOWNLOAD"

_TIMEOUT_SECONDS = 10
_CHUNK_BYTES = 1 << 20
_ETCD_RELEASES = "https://github.com/etcd-io/etcd/releases/download"
_KWOK_RELEASES = "https://github.com/kubernetes-sigs/kwok/releases/download"
_KWOK_RELEASE = "https://api.github.com/repos/kubernetes-sigs/kwok/releases/tags"
_HELM_RELEASES = "https://get.helm.sh"
_KIND_RELEASES = "https://github.com/kubernetes-sigs/kind/releases/download"
_CRICTL_RELEASES = "https://github.com/kubernetes-sigs/cri-tools/releases/download"
_PROMETHEUS_RELEASES = "https://github.com/prometheus/prometheus/releases/download"
_KUBERNETES_RELEASES = "https://dl.k8s.io/release"


class DownloadError(RuntimeError):
    """A release could not be had, or is not what its publisher says it is."""

    def __init__(self, message: str, *, unreachable: bool = False) -> None:
        super().__init__(message)
        self.unreachable = unreachable


def downloads_allowed(environ: Mapping[str, str] | None = None) -> bool:
    """Whether the user lets us download: ``PY_SCHEDULER_NO_DOWNLOAD=1`` says no."""
    return (environ or os.environ).get(NO_DOWNLOAD, "") in {"", "0"}


def download(
    name: str, directory: Path, *, open_url: Open | None = None, system: str | None = None
) -> Path:
    """Fetch the official release of ``name`` into ``directory``; return the executable's path."""
    fetch, system = open_url or _open_https, system or host()
    try:
        if name == "etcd":
            return _etcd(directory, system, fetch)
        if name == "kwok":
            return _kwok(directory, system, fetch)
        if name == "helm":
            return _helm(directory, system, fetch)
        if name == "kind":
            return _kind(directory, system, fetch)
        if name == "crictl":
            return _crictl(directory, system, fetch)
        if name in PROMETHEUS_BINARIES:
            return _prometheus(name, directory, system, fetch)
        assert name in KUBERNETES_BINARIES + NODE_BINARIES, name
        return _kubernetes(name, directory, system, fetch)
    except (OSError, ValueError, LookupError, tarfile.TarError, zipfile.BadZipFile) as error:
        answered = not isinstance(error, OSError) or isinstance(error, urllib.error.HTTPError)
        raise DownloadError(str(error), unreachable=not answered) from error


def _kubernetes(name: str, directory: Path, system: str, open_url: Open) -> Path:
    url = f"{_KUBERNETES_RELEASES}/{KUBERNETES}/bin/{system.replace('-', '/')}/{name}"
    published = _read(f"{url}.sha256", open_url).decode().split()[0]
    return _checked(url, directory / name, published, open_url)


def _etcd(directory: Path, system: str, open_url: Open) -> Path:
    stem = f"etcd-{ETCD}-{system}"
    # Linux releases are tarballs, macOS releases are zip files.
    archive = f"{stem}.tar.gz" if system.startswith("linux") else f"{stem}.zip"
    base = f"{_ETCD_RELEASES}/{ETCD}"
    sums = _read(f"{base}/SHA256SUMS", open_url).decode()
    path = _checked(f"{base}/{archive}", directory / archive, _sum_of(archive, sums), open_url)
    return _unpacked(path, f"{stem}/etcd", directory / "etcd")


def _kwok(directory: Path, system: str, open_url: Open) -> Path:
    asset = f"kwok-{system}"
    release = json.loads(_read(f"{_KWOK_RELEASE}/{KWOK}", open_url))
    digests = {entry["name"]: entry["digest"] for entry in release["assets"]}
    published = str(digests[asset]).removeprefix("sha256:")
    return _checked(f"{_KWOK_RELEASES}/{KWOK}/{asset}", directory / "kwok", published, open_url)


def _helm(directory: Path, system: str, open_url: Open) -> Path:
    archive = f"helm-{HELM}-{system}.tar.gz"
    url = f"{_HELM_RELEASES}/{archive}"
    published = _sum_of(archive, _read(f"{url}.sha256sum", open_url).decode())
    path = _checked(url, directory / archive, published, open_url)
    return _unpacked(path, f"{system}/helm", directory / "helm")


def _kind(directory: Path, system: str, open_url: Open) -> Path:
    asset = f"kind-{system}"
    url = f"{_KIND_RELEASES}/{KIND}/{asset}"
    published = _sum_of(asset, _read(f"{url}.sha256sum", open_url).decode())
    return _checked(url, directory / "kind", published, open_url)


def _crictl(directory: Path, system: str, open_url: Open) -> Path:
    archive = f"crictl-{CRICTL}-{system}.tar.gz"
    url = f"{_CRICTL_RELEASES}/{CRICTL}/{archive}"
    published = _read(f"{url}.sha256", open_url).decode().split()[0]
    path = _checked(url, directory / archive, published, open_url)
    return _unpacked(path, "crictl", directory / "crictl")


def _prometheus(name: str, directory: Path, system: str, open_url: Open) -> Path:
    stem = f"prometheus-{PROMETHEUS.removeprefix('v')}.{system}"
    base, archive = f"{_PROMETHEUS_RELEASES}/{PROMETHEUS}", f"{stem}.tar.gz"
    published = _sum_of(archive, _read(f"{base}/sha256sums.txt", open_url).decode())
    path = _checked(f"{base}/{archive}", directory / archive, published, open_url)
    return _unpacked(path, f"{stem}/{name}", directory / name)


def _sum_of(name: str, sums: str) -> str:
    pairs = (line.split() for line in sums.splitlines())
    return next(pair[0] for pair in pairs if pair[1:] in ([name], [f"*{name}"]))


def _checked(url: str, target: Path, published: str, open_url: Open) -> Path:
    digest = hashlib.sha256()
    with open_url(url) as source, target.open("wb") as sink:
        while chunk := source.read(_CHUNK_BYTES):
            digest.update(chunk)
            sink.write(chunk)
    if digest.hexdigest() != published:
        raise ValueError(f"{url} has SHA-256 {digest.hexdigest()}, published is {published}")
    return target


def _unpacked(archive: Path, member: str, target: Path) -> Path:
    """Take one file out of a release archive; nothing else of it is looked at."""
    if archive.suffix == ".zip":
        with zipfile.ZipFile(archive) as zipped:
            target.write_bytes(zipped.read(member))
        return target
    with tarfile.open(archive) as tarball:
        source = tarball.extractfile(member)
        assert source is not None, member
        target.write_bytes(source.read())
    return target


def _read(url: str, open_url: Open) -> bytes:
    with open_url(url) as source:
        return source.read()


def _open_https(url: str) -> BinaryIO:
    assert url.startswith("https://"), url
    request = urllib.request.Request(url, headers={"User-Agent": "py-scheduler"})
    response = urllib.request.urlopen(request, timeout=_TIMEOUT_SECONDS)
    if not response.url.startswith("https://"):
        raise OSError(f"{url} was redirected to {response.url}")
    return cast("BinaryIO", response)
