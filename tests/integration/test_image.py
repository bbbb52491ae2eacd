"""The image, built by the engine at hand, runs as the chart runs it and binds a pod.

``PY_SCHEDULER_IMAGE_ARGS`` holds further flags of ``docker build``, such as another base image or
build secrets; ``PY_SCHEDULER_IMAGE`` names an image that is there already.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
from types import SimpleNamespace
from urllib.parse import urlsplit

import pytest
import yaml

from hack.manifests import DEPLOY
from hack.ports import LOOPBACK, PortClaims
from tests.integration.world import ROOT, Scheduler, World, configuration, profile, until

pytestmark = [pytest.mark.integration, pytest.mark.docker, pytest.mark.timeout(900)]

TAG = "py-scheduler:under-test"
NAME = "image"
MEGABYTES_MAXIMUM = 200
START_SECONDS_MAXIMUM = 2.0


def docker(*arguments: str) -> str:
    environ = {**os.environ, "DOCKER_BUILDKIT": "1"}
    done = subprocess.run(
        ["docker", *arguments], capture_output=True, text=True, check=False, env=environ, cwd=ROOT
    )
    assert done.returncode == 0, f"docker {' '.join(arguments)}: {done.stderr[-3000:]}"
    return done.stdout.strip()


def engine_answers() -> bool:
    command = ["docker", "version", "--format", "{{.Server.Version}}"]
    return (
        shutil.which("docker") is not None
        and subprocess.run(command, capture_output=True, check=False, timeout=30).returncode == 0
    )


@pytest.fixture(scope="module")
def image():
    """The image under test; it is built unless one was named."""
    if not engine_answers():
        pytest.skip("no Docker engine answers: the image is neither built nor run")
    if named := os.environ.get("PY_SCHEDULER_IMAGE"):
        return named
    # Where no registry or package index can be reached, PY_SCHEDULER_IMAGE_ARGS helps.
    docker("build", "-t", TAG, *shlex.split(os.environ.get("PY_SCHEDULER_IMAGE_ARGS", "")), ".")
    return TAG


def inspect(image):
    (found,) = json.loads(docker("image", "inspect", image))
    return found


def test_image_runs_the_scheduler_as_nobody(image):
    config = inspect(image)["Config"]

    assert config["Entrypoint"] == ["py-scheduler"]
    assert config["User"] == "65532:65532"
    assert config["Labels"]["org.opencontainers.image.licenses"] == "Apache-2.0"
    assert docker("run", "--rm", "--network=host", image, "--version").startswith("py-scheduler ")


LEFT_OUT = ("sh", "bash", "ls", "apt-get", "dpkg", "pip", "gcc", "cc", "make", "ldd")
LOOK = """
import importlib.util, json, os, shutil
print(json.dumps({
    "user": os.getuid(),
    "programs": [name for name in %r if shutil.which(name, path="/bin:/usr/bin:/usr/local/bin")],
    "modules": [name for name in ("hatchling", "pip", "pytest") if importlib.util.find_spec(name)],
    "authorities": os.path.getsize(os.environ["SSL_CERT_FILE"]),
    "packages": len(os.listdir("/var/lib/dpkg/status.d")),
}))
"""


def test_nothing_is_in_it_but_what_runs(image):
    """No shell, nothing that builds or installs; what scanners read, and authorities."""
    command = ["run", "--rm", "--network=host", "--entrypoint=python", image, "-c"]
    found = json.loads(docker(*command, LOOK % (LEFT_OUT,)))

    assert (found["user"], found["programs"], found["modules"]) == (65532, [], [])
    assert found["authorities"] > 0
    assert found["packages"] > 0


def test_image_is_small(image):
    """All of it: interpreter, libraries, packages."""
    assert 0 < inspect(image)["Size"] < MEGABYTES_MAXIMUM * 1_000_000


@pytest.fixture
def container(control_plane, image, tmp_path):
    """The scheduler in a container, with the chart's account and the pod's restrictions."""
    for name in ("serviceaccount.yaml", "rbac.yaml"):
        control_plane.kubectl("apply", "-f", str(DEPLOY / name))
    ports = PortClaims()
    port = ports.claim()
    # What a kubelet would mount.
    account = tmp_path / "serviceaccount"
    account.mkdir()
    kubeconfig = control_plane.service_account_kubeconfig("kube-system", "py-scheduler")
    (account / "token").write_text(
        yaml.safe_load(kubeconfig.read_text())["users"][0]["user"]["token"]
    )
    shutil.copy(control_plane.files.authority, account / "ca.crt")
    (account / "namespace").write_text("kube-system")
    document = configuration(profiles=[profile(NAME)], leaderElection={"leaderElect": True})
    (tmp_path / "config.yaml").write_text(yaml.safe_dump(document))
    # Read by a user that has no name here.
    for path in (tmp_path, *tmp_path.rglob("*")):
        path.chmod(0o755)
    identity = docker(
        *("run", "--detach", "--network=host", "--read-only", "--cap-drop=ALL"),
        *("--security-opt=no-new-privileges", "--memory=1g"),
        f"--volume={tmp_path / 'config.yaml'}:/etc/py-scheduler/config.yaml:ro",
        f"--volume={account}:/var/run/secrets/kubernetes.io/serviceaccount:ro",
        f"--env=KUBERNETES_SERVICE_HOST={LOOPBACK}",
        f"--env=KUBERNETES_SERVICE_PORT={urlsplit(control_plane.url).port}",
        *(image, "run", "--config=/etc/py-scheduler/config.yaml"),
        *(f"--bind-address={LOOPBACK}", f"--port={port}", "--insecure-metrics"),
    )
    yield Container(identity, port)
    docker("rm", "--force", identity)
    ports.release()


class Container(Scheduler):
    """A scheduler whose process is the engine's."""

    def __init__(self, identity, port):
        self.identity = identity
        self.port = port
        self.process = SimpleNamespace(log=f"container {identity}")

    @property
    def log(self):
        command = ["docker", "logs", self.identity]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        return done.stdout + done.stderr

    def cpu_seconds(self):
        look = 'print(open("/proc/1/stat").read())'
        said = docker("exec", self.identity, "python", "-c", look)
        fields = said.rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / 100


def test_container_binds_a_pod_and_ends_politely(control_plane, world, container):
    until(container.ready, "the container is ready")
    container.expect_line("lease.acquired")
    mine = World(control_plane, world.namespace, container)
    mine.nodes("a", cpu="1")
    mine.expect_scheduled(mine.pod(scheduler=NAME), on="a")
    assert container.metric("rest_client_requests_total", code="403") == 0
    for name in ("process_cpu_seconds_total", "process_resident_memory_bytes"):
        assert container.metric(name) > 0
    docker("stop", container.identity)
    (found,) = json.loads(docker("inspect", container.identity))
    assert found["State"]["ExitCode"] == 0
    assert "Traceback" not in container.log


def test_container_starts_quickly(container):
    """By its own CPU time: how busy the machine is tells nothing about the image."""
    until(container.ready, "the container is ready")

    assert 0 < container.cpu_seconds() < START_SECONDS_MAXIMUM
