"""What others do on our nodes, on a real API server: kubelets refuse pods, others nominate."""

from __future__ import annotations

import datetime as dt
import json
import subprocess
import sys

import pytest

from tests.integration.world import OURS, ROOT

pytestmark = pytest.mark.integration

REFUSED = "node(s) lately refused a pod of the same owner (OutOfcpu)"


def owned(world, name, owner):
    """Create a pod of *owner*, whatever that is: pods of nobody would be collected."""
    reference = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "name": owner["metadata"]["name"],
        "uid": owner["metadata"]["uid"],
        "controller": True,
    }
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}
    made = {
        "metadata": {"name": name, "ownerReferences": [reference]},
        "spec": {"schedulerName": OURS, "containers": [container]},
    }
    world.plane.request("POST", world.pods_path, made)
    return name


def refuse(world, pod):
    """Fail a pod as its kubelet does."""
    now = dt.datetime.now(dt.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    status = {"phase": "Failed", "reason": "OutOfcpu", "startTime": now}
    world.change_pod(pod, {"status": status}, subresource="status")


def explain(world, pod):
    command = [sys.executable, "-m", "scheduler", "explain", pod, "-o", "json"]
    command += ["-n", world.namespace, "--kubeconfig", str(world.plane.admin_kubeconfig)]
    run = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT)
    return json.loads(run.stdout)


def test_the_successor_of_a_rejected_pod_avoids_the_node_and_explain_says_so(world):
    path = f"/api/v1/namespaces/{world.namespace}/configmaps"
    owner = world.plane.request("POST", path, {"metadata": {"name": "owner"}})
    world.nodes("a", cpu="8")
    first = owned(world, "web-1", owner)
    world.expect_scheduled(first, on="a")
    refuse(world, first)
    world.settle()
    second = owned(world, "web-2", owner)
    other = world.pod("other")

    world.expect_scheduled(other, on="a")
    world.expect_unschedulable(second, f"0/1 nodes are available: 1 {REFUSED}.")
    said = explain(world, second)
    (objection,) = said["rejected"]["a"]
    assert objection == {"plugin": "NodeTrust", "reason": REFUSED, "resolvable": False}
    assert "pods of the same owner go to a not before" in said["notes"][0]


def test_capacity_is_kept_for_another_schedulers_nominee_until_it_is_cleared(world):
    world.nodes("a", cpu="2")
    theirs = world.pod("theirs", cpu="2", scheduler="nobody")
    world.change_pod(theirs, {"status": {"nominatedNodeName": "a"}}, subresource="status")
    world.settle()
    ours = world.pod("ours", cpu="1")
    world.expect_unschedulable(ours, "0/1 nodes are available: 1 Insufficient cpu.")

    world.change_pod(theirs, {"status": {"nominatedNodeName": None}}, subresource="status")

    world.expect_scheduled(ours, on="a")
