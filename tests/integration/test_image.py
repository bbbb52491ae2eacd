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
OWN_MEGABYTES_MAXIMUM = 120
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


def test_nothing_is_left_that_builds(image):
    look = "! command -v gcc cc g++ make && ! python -c 'import hatchling' 2>/dev/null && id -u"

    assert docker("run", "--rm", "--network=host", "--entrypoint=sh", image, "-c", look) == "65532"


def test_what_is_added_to_the_base_is_small(image):
    sizes = docker("history", "--human=false", "--format={{.Size}} {{.CreatedBy}}", image)
    own = [int(line.split()[0]) for line in sizes.splitlines() if "COPY /staging" in line]

    assert 0 < sum(own) < OWN_MEGABYTES_MAXIMUM * 1_000_000, sizes


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
        fields = docker("exec", self.identity, "cat", "/proc/1/stat").rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / 100


def test_container_binds_a_pod_and_ends_politely(control_plane, world, container):
    until(container.ready, "the container is ready")
    container.expect_line("lease.acquired")
    mine = World(control_plane, world.namespace, container)
    mine.nodes("a", cpu="1")
    mine.expect_scheduled(mine.pod(scheduler=NAME), on="a")
    assert container.metric("rest_client_requests_total", code="403") == 0
    docker("stop", container.identity)
    (found,) = json.loads(docker("inspect", container.identity))
    assert found["State"]["ExitCode"] == 0
    assert "Traceback" not in container.log


def test_container_starts_quickly(container):
    """By its own CPU time: how busy the machine is tells nothing about the image."""
    until(container.ready, "the container is ready")

    assert 0 < container.cpu_seconds() < START_SECONDS_MAXIMUM
