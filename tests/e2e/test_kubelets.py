"""What kubelets make of it: containers run, and a pod that is refused takes no room."""

from __future__ import annotations

import pytest

from tests.e2e.cluster import SEAT

pytestmark = [pytest.mark.integration, pytest.mark.only("kind")]


def test_containers_run_where_their_pods_were_bound(team):
    pods = team.pods(6)

    nodes = team.expect_scheduled(*pods)
    assert set(nodes) == set(team.workers)
    for status in team.expect_phase("Running", *pods):
        (container,) = status["containerStatuses"]
        assert "running" in container["state"]


def test_pod_that_a_kubelet_refused_takes_no_room(team):
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
