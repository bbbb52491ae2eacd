"""The way to kind, as far as it can be gone without a Docker engine."""

from __future__ import annotations

import shlex

import pytest
import yaml

from hack.binaries import ensure
from hack.kind import Kind, Settings
from hack.manifests import objects, template
from tests.e2e.cluster import VALUES, ZONES
from tests.e2e.on_kind import PROMETHEUS

pytestmark = pytest.mark.integration

# In the place of docker: it remembers what it is asked, has every image, and can run nothing. It
# says so once it was asked for all four nodes, since kind gives up at the first answer.
ENGINE = """#!/bin/sh
echo "$@" >> {log}
case "$1" in
  info) echo '{{"CgroupDriver": "systemd", "CgroupVersion": "2", "SecurityOptions": []}}' ;;
  network) echo kind ;;
  run)
    for _ in $(seq 100); do test "$(grep -c '^run ' {log})" -ge 4 && break; sleep 0.1; done
    echo "nothing can be run" >&2; exit 1 ;;
esac
"""


def test_kind_accepts_its_configuration(tmp_path, monkeypatch):
    """The pinned kind reads the document and asks the engine for the nodes that it describes."""
    log = tmp_path / "log"
    engine = tmp_path / "docker"
    engine.write_text(ENGINE.format(log=log))
    engine.chmod(0o755)
    ensure(["kind"])
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.delenv("DOCKER_HOST", raising=False)

    with (
        pytest.raises(RuntimeError, match="nothing can be run"),
        Kind(Settings(name="told"), ZONES, tmp_path),
    ):
        pass
    asked = [shlex.split(line) for line in log.read_text().splitlines() if line[:4] == "run "]
    assert {line[line.index("--name") + 1] for line in asked} == {
        *("told-control-plane", "told-worker", "told-worker2", "told-worker3")
    }
    assert {line[-1] for line in asked if line[-1].startswith("kindest/")} == {Settings().image}


def test_prometheus_is_accepted_and_may_read_metrics(control_plane):
    """Its objects are, and the chart makes its account a reader of metrics."""
    text = PROMETHEUS.read_text()
    account, *rest = objects(text)
    control_plane.kubectl("apply", "-f", "-", stdin=yaml.safe_dump(account))
    said = control_plane.kubectl(
        "apply", "--dry-run=server", "-f", "-", stdin=yaml.safe_dump_all(rest)
    )

    assert len(said.splitlines()) == len(rest)
    bound = [
        each["subjects"]
        for each in objects(template("--values", VALUES))
        if each["kind"] == "ClusterRoleBinding" and each["roleRef"]["name"].endswith("-metrics")
    ]
    metadata = account["metadata"]
    assert bound == [
        [{"kind": "ServiceAccount", "name": metadata["name"], "namespace": metadata["namespace"]}]
    ]
