"""Where binaries come from: the order of the sources, atomic names, checked downloads."""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
import urllib.error
import zipfile
from email.message import Message
from pathlib import Path

import pytest

from hack import binaries
from hack.binaries import ALL, MissingBinariesError, ensure
from hack.binaries.cache import default_cache
from hack.binaries.pins import (
    CHOICE,
    CRICTL,
    ETCD,
    HELM,
    KIND,
    KUBERNETES,
    KUBERNETES_MODULES,
    PROMETHEUS,
    chosen_kubernetes,
    host,
)
from hack.binaries.releases import DownloadError, download
from hack.binaries.toolchain import BuildError, build_command, source


@pytest.fixture
def environ(tmp_path):
    return {"XDG_CACHE_HOME": str(tmp_path / "cache"), "HOME": str(tmp_path)}


def _executable(path, content="found"):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content)
    path.chmod(0o755)
    return path


def _gives(content):
    def source(name, directory):
        path = directory / name
        path.write_text(f"{content} {name}")
        return path

    return source


def _fails(error):
    def source(name, directory):
        # What is left behind must not be taken for a binary.
        (directory / name).write_text("half of it")
        raise error

    return source


def _never(name, directory):
    raise AssertionError(f"asked for {name}")


def test_assets_come_before_the_cache_and_the_cache_before_the_network(tmp_path, environ):
    assets = _executable(tmp_path / "assets" / "etcd").parent
    cached = default_cache(environ).directory
    _executable(cached / "etcd")
    _executable(cached / "kwok")
    environ["KUBEBUILDER_ASSETS"] = str(assets)
    found = ensure(["etcd", "kwok", "kubectl"], environ=environ, fetch=_gives("got"), make=_never)
    assert found == {
        "etcd": assets / "etcd",
        "kwok": cached / "kwok",
        "kubectl": cached / "kubectl",
    }
    assert found["kubectl"].read_text() == "got kubectl"
    assert ensure(["kubectl"], environ=environ, fetch=_never, make=_never)


def test_an_installed_prometheus_is_taken_and_no_other_installed_binary(tmp_path, environ):
    installed = _executable(tmp_path / "bin" / "promtool")
    _executable(tmp_path / "bin" / "kubectl")
    environ["PATH"] = str(tmp_path / "bin")

    found = ensure(["promtool", "kubectl"], environ=environ, fetch=_gives("got"), make=_never)

    assert found["promtool"] == installed
    assert found["kubectl"].parent == default_cache(environ).directory


def test_a_file_that_cannot_be_executed_does_not_count(environ):
    stale = _executable(default_cache(environ).directory / "etcd")
    stale.chmod(0o644)
    found = ensure(["etcd"], environ=environ, fetch=_gives("new"), make=_never)
    assert found["etcd"].read_text() == "new etcd"


def test_what_cannot_be_downloaded_is_built(environ):
    offline = _fails(DownloadError("offline"))
    found = ensure(["etcd"], environ=environ, fetch=offline, make=_gives("built"))
    assert found["etcd"].read_text() == "built etcd"


def test_offline_is_found_out_once(environ):
    asked = []

    def offline(name, _):
        asked.append(name)
        raise DownloadError("timed out", unreachable=True)

    found = ensure(["etcd", "kwok", "kubectl"], environ=environ, fetch=offline, make=_gives("made"))
    assert len(found) == 3
    assert asked == ["etcd"]


def test_downloads_can_be_switched_off(environ):
    environ["PY_SCHEDULER_NO_DOWNLOAD"] = "1"
    found = ensure(["etcd"], environ=environ, fetch=_never, make=_gives("built"))
    assert found["etcd"].read_text() == "built etcd"


def test_one_message_says_what_was_tried_and_what_helps(environ):
    with pytest.raises(MissingBinariesError) as raised:
        ensure(
            ["etcd", "kwok"],
            environ=environ,
            fetch=_fails(DownloadError("no route")),
            make=_fails(BuildError("no Go toolchain found")),
        )
    message = str(raised.value)
    for part in (
        "No binaries for etcd, kwok",
        "no route",
        "no Go toolchain found",
        "KUBEBUILDER_ASSETS",
        "python -m hack.binaries",
    ):
        assert part in message
    assert raised.value.names == ("etcd", "kwok")
    assert not default_cache(environ).find(ALL), "nothing half-done was left behind"


def _publishing(files):
    def open_url(url):
        if url not in files:
            raise urllib.error.HTTPError(url, 404, "Not Found", Message(), None)
        return io.BytesIO(files[url])

    return open_url


def _sum(content):
    return hashlib.sha256(content).hexdigest()


KUBECTL_URL = f"https://dl.k8s.io/release/{KUBERNETES}/bin/{host().replace('-', '/')}/kubectl"


def test_a_download_is_checked(tmp_path):
    files = {KUBECTL_URL: b"binary", f"{KUBECTL_URL}.sha256": _sum(b"binary").encode()}
    path = download("kubectl", tmp_path, open_url=_publishing(files))
    assert path.read_bytes() == b"binary"


def test_a_download_that_is_not_what_was_published_is_refused(tmp_path):
    files = {KUBECTL_URL: b"tampered", f"{KUBECTL_URL}.sha256": _sum(b"binary").encode()}
    with pytest.raises(DownloadError, match=r"published is"):
        download("kubectl", tmp_path, open_url=_publishing(files))


@pytest.mark.parametrize("system", ["linux-amd64", "darwin-arm64"])
def test_etcd_is_taken_out_of_its_archive(tmp_path, system):
    stem = f"etcd-{ETCD}-{system}"
    name, archive = _archive(stem, system)
    base = f"https://github.com/etcd-io/etcd/releases/download/{ETCD}"
    sums = f"{_sum(b'x')}  other.tar.gz\n{_sum(archive)}  {name}\n".encode()
    files = {f"{base}/{name}": archive, f"{base}/SHA256SUMS": sums}
    path = download("etcd", tmp_path, open_url=_publishing(files), system=system)
    assert path == tmp_path / "etcd"
    assert path.read_bytes() == b"etcd itself"


def _archive(stem, system):
    content = b"etcd itself"
    if system.startswith("darwin"):
        buffer = io.BytesIO()
        with zipfile.ZipFile(buffer, "w") as zipped:
            zipped.writestr(f"{stem}/etcd", content)
        return f"{stem}.zip", buffer.getvalue()
    return f"{stem}.tar.gz", _tarball(f"{stem}/etcd", content)


def _tarball(name, content):
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as tarball:
        member = tarfile.TarInfo(name)
        member.size = len(content)
        tarball.addfile(member, io.BytesIO(content))
    return buffer.getvalue()


def test_kwok_is_checked_against_the_digest_of_its_release(tmp_path):
    asset = f"kwok-{host()}"
    release = {"assets": [{"name": asset, "digest": f"sha256:{_sum(b'kwok')}"}]}
    files = {
        "https://api.github.com/repos/kubernetes-sigs/kwok/releases/tags/v0.8.0": json.dumps(
            release
        ).encode(),
        f"https://github.com/kubernetes-sigs/kwok/releases/download/v0.8.0/{asset}": b"kwok",
    }
    assert download("kwok", tmp_path, open_url=_publishing(files)).read_bytes() == b"kwok"


def test_helm_is_taken_out_of_its_archive(tmp_path):
    archive = _tarball("linux-arm64/helm", b"helm itself")
    name = f"helm-{HELM}-linux-arm64.tar.gz"
    files = {
        f"https://get.helm.sh/{name}": archive,
        f"https://get.helm.sh/{name}.sha256sum": f"{_sum(archive)}  {name}\n".encode(),
    }
    path = download("helm", tmp_path, open_url=_publishing(files), system="linux-arm64")
    assert path == tmp_path / "helm"
    assert path.read_bytes() == b"helm itself"


def test_kind_is_checked(tmp_path):
    name = f"kind-{host()}"
    url = f"https://github.com/kubernetes-sigs/kind/releases/download/{KIND}/{name}"
    files = {url: b"kind", f"{url}.sha256sum": f"{_sum(b'kind')}  {name}\n".encode()}
    assert download("kind", tmp_path, open_url=_publishing(files)).read_bytes() == b"kind"


def test_crictl_is_taken_out_of_its_archive(tmp_path):
    archive = _tarball("crictl", b"crictl itself")
    base = f"https://github.com/kubernetes-sigs/cri-tools/releases/download/{CRICTL}"
    url = f"{base}/crictl-{CRICTL}-linux-arm64.tar.gz"
    files = {url: archive, f"{url}.sha256": _sum(archive).encode()}
    path = download("crictl", tmp_path, open_url=_publishing(files), system="linux-arm64")
    assert path.read_bytes() == b"crictl itself"


@pytest.mark.parametrize("version", KUBERNETES_MODULES)
def test_pinned_kubernetes_can_be_chosen_by_its_minor(version):
    minor = version.rpartition(".")[0]
    assert {chosen_kubernetes({CHOICE: each}) for each in (version, version[1:], minor[1:])} == {
        version
    }
    module = Path(binaries.__file__).parent / KUBERNETES_MODULES[version] / "go.mod"
    assert f"k8s.io/kubernetes {version} // indirect" in module.read_text()


def test_other_kubernetes_than_the_pinned_ones_is_refused():
    assert chosen_kubernetes({}) == next(iter(KUBERNETES_MODULES))
    with pytest.raises(
        ValueError, match=r"PY_SCHEDULER_KUBERNETES: 1\.3 is not pinned; there are v1"
    ):
        chosen_kubernetes({CHOICE: "1.3"})


@pytest.mark.parametrize("name", ["prometheus", "promtool"])
def test_prometheus_is_taken_out_of_its_archive(tmp_path, name):
    stem = f"prometheus-{PROMETHEUS.removeprefix('v')}.linux-arm64"
    content = f"{name} itself".encode()
    archive = _tarball(f"{stem}/{name}", content)
    base = f"https://github.com/prometheus/prometheus/releases/download/{PROMETHEUS}"
    files = {
        f"{base}/{stem}.tar.gz": archive,
        f"{base}/sha256sums.txt": f"{_sum(archive)}  {stem}.tar.gz\n".encode(),
    }
    path = download(name, tmp_path, open_url=_publishing(files), system="linux-arm64")
    assert path == tmp_path / name
    assert path.read_bytes() == content


def test_a_release_without_the_platform_is_a_download_error(tmp_path):
    with pytest.raises(DownloadError, match=r"404") as raised:
        download("kube-apiserver", tmp_path, open_url=_publishing({}))
    assert not raised.value.unreachable


def test_builds_are_stamped_with_the_pinned_version(tmp_path):
    command = build_command("go", "kube-apiserver", tmp_path / "kube-apiserver")
    assert f"-X k8s.io/component-base/version.gitVersion={KUBERNETES}" in " ".join(command)
    assert command[-1] == "k8s.io/kubernetes/cmd/kube-apiserver"
    assert "-mod=readonly" in command


def test_sources_of_a_module_need_go(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))

    with pytest.raises(BuildError, match="no Go toolchain found"):
        source("kind", "sigs.k8s.io/kind")
