"""`py-scheduler explain` on a live cluster: what it says is what happens."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
import yaml

from hack.api import ApiError
from tests.integration.world import ROOT

pytestmark = pytest.mark.integration

NOBODY = "nobody-at-all"


def explain(*args, stdin=None, code=0):
    command = [sys.executable, "-m", "scheduler", "explain", *map(str, args)]
    run = subprocess.run(
        command, input=stdin, capture_output=True, text=True, check=False, cwd=ROOT
    )
    assert run.returncode == code, run.stdout + run.stderr
    return run.stderr if code else run.stdout


def live(world, *args, **settings):
    kubeconfig = world.plane.admin_kubeconfig
    flags = ("--kubeconfig", kubeconfig, "-n", world.namespace)
    return explain(*args, *flags, **settings)


def new_pod(**spec):
    containers = [{"name": "c", "image": "i", "resources": {"limits": {"cpu": "1"}}}]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"generateName": "new-"},
        "spec": {"schedulerName": "py-scheduler", "containers": containers, **spec},
    }


@pytest.fixture
def manifest(tmp_path):
    """Write a pod into a file, and return the path."""

    def write(**spec):
        path = tmp_path / "pod.yaml"
        path.write_text(yaml.safe_dump(new_pod(**spec)))
        return path

    return write


def test_what_is_explained_is_what_happens(world):
    """The pod is asked about while nobody looks after it; then its twin is scheduled."""
    world.nodes("roomy", cpu="8")
    world.nodes("narrow", cpu="2")
    world.nodes("tainted", cpu="8", taints=[{"key": "k", "effect": "NoSchedule"}])
    waiting = world.pod(cpu="1", scheduler=NOBODY)

    said = json.loads(live(world, waiting, "--profile", "py-scheduler", "-o", "json"))

    assert (said["decision"], said["node"]) == ("Bind", "roomy")
    assert said["feasible"] == ["narrow", "roomy"]
    assert said["totals"]["roomy"] > said["totals"]["narrow"]
    assert said["rejected"]["tainted"][0]["plugin"] == "TaintToleration"
    assert not said["missing"]
    assert world.expect_scheduled(world.pod(cpu="1")) == said["node"]


def test_a_parked_pods_condition_is_the_message_explained(world):
    world.nodes("small", cpu="1")
    pod = world.pod(cpu="3")
    world.expect_unschedulable(pod, "0/1 nodes are available: 1 Insufficient cpu.")

    said = json.loads(live(world, pod, "-o", "json"))

    assert said["decision"] == "Park"
    conditions = {each["type"]: each for each in world.read(pod)["status"]["conditions"]}
    assert conditions["PodScheduled"]["message"] == said["message"]


@pytest.fixture
def urgent(control_plane):
    """A priority class that may evict pods of none."""
    path, name = "/apis/scheduling.k8s.io/v1/priorityclasses", "explain-urgent"
    control_plane.request("POST", path, {"metadata": {"name": name}, "value": 1000})
    yield name
    control_plane.request("DELETE", f"{path}/{name}")


def test_the_evictions_that_are_explained_are_those_that_happen(world, urgent):
    """One victim is behind a budget; the pod is asked about first, then its twin is scheduled."""
    world.nodes("guarded", "open", cpu="2")
    world.create(
        "policy/v1/poddisruptionbudgets",
        {
            "metadata": {"name": "guard"},
            "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "db"}}},
        },
    )
    victims = {
        name: world.pod(cpu="2", nodeName=name, labels={"app": app})
        for name, app in (("guarded", "db"), ("open", "web"))
    }
    waiting = world.pod(cpu="2", scheduler=NOBODY, priorityClassName=urgent)

    said = json.loads(live(world, waiting, "--profile", "py-scheduler", "-o", "json"))

    keys = {name: f"{world.namespace}/{victim}" for name, victim in victims.items()}
    assert said["decision"] == "Preempt"
    assert said["preemption"] == {
        "node": "open",
        "victims": [keys["open"]],
        "candidates": [
            {"node": "guarded", "victims": [keys["guarded"]], "pdb_violations": 1},
            {"node": "open", "victims": [keys["open"]], "pdb_violations": 0},
        ],
        "message": "",
    }
    world.expect_scheduled(world.pod(cpu="2", priorityClassName=urgent), on="open")
    left = {each["metadata"]["name"] for each in world.all_pods()}
    assert victims["guarded"] in left
    assert victims["open"] not in left


def test_a_dump_and_the_cluster_say_the_same(world):
    world.nodes("a", cpu="4", zone="one")
    world.nodes("b", cpu="8", zone="two")
    waiting = world.pod(cpu="3", scheduler=NOBODY)
    kinds = "nodes,pods,namespaces,services,rc,rs,sts"
    dumped = world.plane.kubectl("get", kinds, "-A", "-o", "json")

    flags = (waiting, "-o", "json")
    from_dump = json.loads(explain("-s", "-", "-n", world.namespace, *flags, stdin=dumped))
    from_cluster = json.loads(live(world, *flags))

    for each in (from_dump, from_cluster):
        del each["missing"]  # a List without services does not say whether they were asked for
    assert from_dump == from_cluster


def test_a_new_pod_is_completed_by_the_api_server_and_not_created(world, manifest):
    world.nodes("a")
    limits = {
        "type": "Container",
        "defaultRequest": {"memory": "1Gi"},
        "default": {"memory": "1Gi"},
    }
    world.plane.request(
        "POST",
        f"/api/v1/namespaces/{world.namespace}/limitranges",
        {"metadata": {"name": "usual"}, "spec": {"limits": [limits]}},
    )

    path = manifest(priorityClassName="system-cluster-critical")
    said = json.loads(live(world, "-f", path, "-o", "json"))

    assert said["pod"]["priority"] == 2_000_000_000
    assert said["pod"]["name"].startswith("new-")
    assert said["node"] == "a"
    assert "spec.priority: 2000000000" in said["completed"]
    assert "completed by the API server, by a dry run" in said["notes"]
    assert not world.all_pods()


def test_what_the_api_server_refuses_is_said_in_one_line(world, manifest):
    world.nodes("a")
    said = live(world, "-f", manifest(priorityClassName="nowhere"), code=2)
    assert said.startswith("error: the API server would reject the pod: ")
    assert len(said.splitlines()) == 1

    path = manifest()
    taken = world.pod()
    path.write_text(yaml.safe_dump({**new_pod(), "metadata": {"name": taken}}))
    assert "exists already; ask about it by its name" in live(world, "-f", path, code=2)


def test_a_pod_that_is_not_there_is_said_in_one_line(world):
    said = live(world, "nowhere", code=2)

    assert said.startswith(f"error: there is no pod {world.namespace}/nowhere in the cluster")


def test_missing_permissions_are_named(world):
    stranger = world.plane.kubeconfig_for("stranger", ["strangers"])

    said = explain("web", "--kubeconfig", stranger, code=1)

    assert 'User "stranger" cannot list resource' in said
    with pytest.raises(ApiError):
        world.read("web")
