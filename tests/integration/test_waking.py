"""Waiting pods are woken by what helps them, on a real API server."""

from __future__ import annotations

import pytest

from hack.api import MERGE_PATCH
from tests.integration.world import until

pytestmark = pytest.mark.integration

HOST = "kubernetes.io/hostname"
AFFINITY = "0/1 nodes are available: 1 node(s) didn't match Pod's node affinity/selector."
CORDONED = "0/1 nodes are available: 1 node(s) were unschedulable."
TAINTED = "0/1 nodes are available: 1 node(s) had untolerated taint(s)."
NO_ROOM = "0/1 nodes are available: 1 Insufficient cpu."
FULL = [{"key": "full", "effect": "NoSchedule"}]


def test_gated_pod_waits_for_its_last_gate(world):
    """The API server tells why it waits; the scheduler writes nothing, and does not even try."""
    world.nodes("a")
    gates = [{"name": "example.com/one"}, {"name": "example.com/two"}]
    pod = world.pod(schedulingGates=gates)
    (scheduler,) = world.schedulers

    until(lambda: scheduler.metric("scheduler_pending_pods", queue="gated") == 1)
    world.expect_unschedulable(
        pod,
        "Scheduling is blocked due to non-empty scheduling gates",
        reason="SchedulingGated",
    )
    ungate(world, pod, gates[1:])
    world.settle()
    assert not world.node_of(pod)
    assert not world.events(pod)

    ungate(world, pod, [])
    world.expect_scheduled(pod, on="a")
    until(lambda: scheduler.metric("scheduler_pending_pods", queue="gated") == 0)


def ungate(world, pod, gates):
    path = f"{world.pods_path}/{pod}"
    body = {"spec": {"schedulingGates": gates}}
    world.plane.request("PATCH", path, body, content_type=MERGE_PATCH)


def test_new_node_wakes_pods_that_fit(world):
    world.nodes("small", cpu="1")
    big, selective = world.pod(cpu="2"), world.pod(nodeSelector={"disk": "fast"})
    world.expect_unschedulable(big, NO_ROOM)
    world.expect_unschedulable(selective, AFFINITY)

    world.nodes("large", cpu="4")
    world.expect_scheduled(big, on="large")
    world.nodes("fast", labels={"disk": "fast"})
    world.expect_scheduled(selective, on="fast")


def test_cordon_blocks_and_uncordon_wakes(world):
    world.nodes("a")
    world.change_node("a", unschedulable=True)
    pod = world.pod()
    world.expect_unschedulable(pod, CORDONED)

    world.change_node("a", unschedulable=False)
    world.expect_scheduled(pod, on="a")


def test_taint_blocks_and_its_removal_wakes(world):
    world.nodes("a")
    world.change_node("a", taints=FULL)
    pod = world.pod()
    world.expect_unschedulable(pod, TAINTED)

    world.change_node("a", taints=None)
    world.expect_scheduled(pod, on="a")


def test_relabelled_node_blocks_and_wakes(world):
    world.nodes("a", labels={"disk": "fast"})
    world.label_node("a", disk="slow")
    pod = world.pod(nodeSelector={"disk": "fast"})
    world.expect_unschedulable(pod, AFFINITY)

    world.label_node("a", disk="fast")
    world.expect_scheduled(pod, on="a")


def test_grown_node_wakes(world):
    world.nodes("a", cpu="1")
    pod = world.pod(cpu="2")
    world.expect_unschedulable(pod, NO_ROOM)

    world.change_node_status("a", allocatable={"cpu": "2"}, capacity={"cpu": "2"})
    world.expect_scheduled(pod, on="a")


def test_removed_node_takes_no_pod_and_its_successor_does(world):
    """A new node of an old name starts empty of the old one's labels; its pods still count."""
    world.nodes("a", cpu="2", labels={"disk": "fast"})
    world.expect_scheduled(world.pod(cpu="1"), on="a")
    world.delete_node("a")
    pod = world.pod(cpu="1", nodeSelector={HOST: "a"})
    world.expect_unschedulable(pod, "no nodes available to schedule pods")

    world.nodes("a", cpu="2")
    world.expect_scheduled(pod, on="a")
    world.expect_unschedulable(world.pod(cpu="1"), NO_ROOM)
    world.expect_unschedulable(world.pod(nodeSelector={"disk": "fast"}), AFFINITY)


def test_deleted_pod_frees_its_capacity(world):
    world.nodes("a", cpu="2")
    first = world.pod(cpu="2")
    world.expect_scheduled(first)
    second = world.pod(cpu="2")
    world.expect_unschedulable(second, NO_ROOM)

    world.delete_pod(first)
    world.expect_scheduled(second, on="a")


def test_finished_pod_frees_its_capacity(world):
    """A pod that has succeeded holds nothing, though its object stays."""
    world.nodes("a", cpu="2")
    first = world.pod(cpu="2", restartPolicy="Never")
    world.expect_scheduled(first)
    second = world.pod(cpu="2")
    world.expect_unschedulable(second, NO_ROOM)

    world.change_pod(first, {"status": {"phase": "Succeeded"}}, subresource="status")
    world.expect_scheduled(second, on="a")


def test_freed_host_port_wakes(world):
    world.nodes("a")
    first = world.pod(ports=[8080])
    world.expect_scheduled(first)
    second = world.pod(ports=[8080])
    world.expect_unschedulable(
        second,
        "0/1 nodes are available: 1 node(s) didn't have free ports for the requested pod ports.",
    )

    world.delete_pod(first)
    world.expect_scheduled(second, on="a")


def test_resized_pod_frees_capacity_once_its_kubelet_has_shrunk_it(world):
    """Resizing in place counts the larger of what is wanted and what is held.

    The wish alone frees nothing: only the status that the kubelet writes after it has shrunk the
    container does.
    """
    world.nodes("a", cpu="4")
    first = world.pod(cpu="3")
    world.expect_scheduled(first)
    run(world, first, cpu="3")
    second = world.pod(cpu="2")
    world.expect_unschedulable(second, NO_ROOM)

    shrunk = {"containers": [{"name": "main", "resources": {"requests": {"cpu": "1"}}}]}
    world.change_pod(first, {"spec": shrunk}, subresource="resize")
    world.settle()
    world.expect_unschedulable(second, NO_ROOM)

    run(world, first, cpu="1")
    world.expect_scheduled(second, on="a")


def run(world, pod, *, cpu):
    """Write what a kubelet writes about a container that runs with *cpu*."""
    status = {
        "phase": "Running",
        "containerStatuses": [
            {
                "name": "main",
                "image": "example",
                "imageID": "",
                "ready": True,
                "restartCount": 0,
                "state": {"running": {}},
                "allocatedResources": {"cpu": cpu},
                "resources": {"requests": {"cpu": cpu}},
            }
        ],
    }
    world.change_pod(pod, {"status": status}, subresource="status")


def test_pod_that_tolerates_more_is_tried_again(world):
    """A pod's own change is looked at as well: tolerations may be added to a pod that waits."""
    world.nodes("a", taints=FULL)
    pod = world.pod()
    world.expect_unschedulable(pod, TAINTED)

    tolerations = world.read(pod)["spec"]["tolerations"]
    more = {"spec": {"tolerations": [*tolerations, {"key": "full", "operator": "Exists"}]}}
    world.change_pod(pod, more)
    world.expect_scheduled(pod, on="a")


def test_label_that_evens_out_a_spread_wakes(world):
    """A pod elsewhere that stops being counted lets the waiting one in."""
    world.nodes("a", "b")
    world.change_node("b", unschedulable=True)
    constraint = {
        "labels": {"app": "web"},
        "topologySpreadConstraints": [
            {
                "maxSkew": 1,
                "topologyKey": HOST,
                "whenUnsatisfiable": "DoNotSchedule",
                "labelSelector": {"matchLabels": {"app": "web"}},
            }
        ],
    }
    first = world.pod(**constraint)
    world.expect_scheduled(first, on="a")
    second = world.pod(**constraint)
    world.expect_unschedulable(
        second,
        "0/2 nodes are available: 1 node(s) didn't match pod topology spread constraints, "
        "1 node(s) were unschedulable.",
    )

    world.change_pod(first, {"metadata": {"labels": {"app": "other"}}})
    world.expect_scheduled(second, on="a")
