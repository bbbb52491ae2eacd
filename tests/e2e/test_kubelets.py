"""What kubelets make of it: containers run, and a pod that is refused takes no room."""

from __future__ import annotations

import pytest

from tests.e2e.cluster import NAMESPACE, SEAT, SEATS, ask, leader, until
from tests.e2e.team import IMAGE

pytestmark = [pytest.mark.integration, pytest.mark.only("kind")]


def test_containers_run_where_their_pods_were_bound(team):
    pods = [team.pod(on=node) for node in team.workers]

    assert team.expect_scheduled(*pods) == list(team.workers)
    for status in team.expect_phase("Running", *pods):
        (container,) = status["containerStatuses"]
        assert "running" in container["state"]


def test_pod_that_a_kubelet_rejected_takes_no_capacity(team):
    """Somebody bound it past everybody to a node without a seat."""
    node = next(iter(team.workers))
    (filling,) = team.fill(node)
    (status,) = team.expect_phase("Failed", team.pod("refused-1", nodeName=node))
    assert status["reason"] == f"OutOf{SEAT}"

    pod = team.pod(seats=4, on=node)
    team.expect_pending(pod, "1 Insufficient example.com/seat")
    team.delete(filling)
    team.expect_scheduled(pod, on=node)
    team.expect_phase("Running", pod)


def test_capacity_is_free_once_its_victims_have_ended(team):
    """Until then a victim that takes its time keeps the seats, and they are meant for the pod."""
    node = next(iter(team.workers))
    seats = {SEAT: str(SEATS)}
    slow = {
        "name": "main",
        "image": IMAGE,
        "resources": {"requests": seats, "limits": seats},
        "lifecycle": {"preStop": {"sleep": {"seconds": 3}}},
    }
    (victim,) = team.fill(node, priority="low", terminationGracePeriodSeconds=30, containers=[slow])
    team.expect_phase("Running", victim)
    pod = team.pod(seats=SEATS, on=node, priority="high")

    until(lambda: team.nominated_node_of(pod) == node, "it is told its node")
    team.expect_preempted(victim, by=pod)
    team.expect_scheduled(pod, on=node)
    team.expect_phase("Running", pod)


def test_evicted_leader_hands_over(cluster, team):
    """As when its node is drained: it gives the lease back and goes, and pods are placed on."""
    before = leader(cluster)
    path = f"/api/v1/namespaces/{NAMESPACE}/pods/{before.name}"
    metadata = {"name": before.name, "namespace": NAMESPACE}
    body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": metadata}
    ask(cluster, "POST", f"{path}/eviction", body)

    team.expect_scheduled(*team.pods(6))
    assert leader(cluster).name != before.name
    until(lambda: len(cluster.replicas()) == 2, "two run again")
