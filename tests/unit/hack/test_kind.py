"""What kind is told: documents and command lines, before any container runs."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from hack import kind
from hack.kind import NAME, NODE_IMAGE, Settings, configuration

CHOSEN = Settings(name="mine", image="node:1", keep=True)


def test_workers_bear_their_zones():
    nodes = configuration(["west", "east"])["nodes"]

    assert [each["role"] for each in nodes] == ["control-plane", "worker", "worker"]
    assert [each["labels"]["topology.kubernetes.io/zone"] for each in nodes[1:]] == ["west", "east"]


def test_node_image_is_pinned_by_digest():
    assert re.fullmatch(r"kindest/node:v1\.\d+\.\d+@sha256:[0-9a-f]{64}", NODE_IMAGE)


def test_flags_go_before_the_environment_and_that_before_defaults():
    environ = {"PY_SCHEDULER_KIND_NAME": "theirs", "PY_SCHEDULER_KIND_KEEP": "1"}

    assert Settings.chosen(environ={}) == Settings(NAME, NODE_IMAGE, keep=False)
    assert Settings.chosen(environ=environ) == Settings("theirs", NODE_IMAGE, keep=True)
    said = Settings.chosen(name="mine", image="node:1", keep=True, environ=environ)
    assert said == CHOSEN
    assert not Settings.chosen(environ={"PY_SCHEDULER_KIND_KEEP": "0"}).keep


def test_cluster_is_made_and_removed_under_its_name():
    made = kind.create("kind", CHOSEN, Path("c.yaml"), Path("kube"))
    removed = kind.delete("kind", CHOSEN, Path("kube"))

    assert made[:5] == ["kind", "create", "cluster", "--name", "mine"]
    assert made[5:9] == ["--image", "node:1", "--config", "c.yaml"]
    assert " ".join(removed) == "kind delete cluster --name mine --kubeconfig kube"
    loaded = kind.load("kind", CHOSEN, "py-scheduler:e2e")
    assert " ".join(loaded) == "kind load docker-image py-scheduler:e2e --name mine"


def test_process_of_a_container_is_found_and_killed_on_its_node():
    found = kind.pid_in("worker", "containerd://abc")

    assert found[:4] == ["docker", "exec", "worker", "crictl"]
    assert found[-1] == "abc"
    assert " ".join(kind.kill_in("worker", 42)) == "docker exec worker kill -9 42"


def test_without_docker_it_is_said_what_is_missing(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))

    assert kind.engine_missing() == "docker is not on the PATH"


def test_a_failed_commands_output_is_in_the_error():
    with pytest.raises(RuntimeError, match="no such thing"):
        kind.run(["sh", "-c", "echo no such thing >&2; exit 1"])
