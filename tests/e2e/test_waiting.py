"""Why pods wait, what ends it, and who goes first."""

from __future__ import annotations

import pytest

from tests.e2e.cluster import until

pytestmark = pytest.mark.integration

FULL = (
    "0/4 nodes are available: 1 node(s) had untolerated taint(s), 3 Insufficient example.com/seat."
)


def test_pod_waits_for_capacity_and_shows_why(team):
    first, *_ = team.fill()
    pod = team.pod(seats=4)
    team.expect_pending(pod, FULL)

    team.delete(first)
    team.expect_scheduled(pod)


def test_repeated_refusal_is_one_event_with_a_count(team):
    """Each small pod that goes wakes the big one, which still does not fit."""
    *_, last = team.workers
    team.fill(*list(team.workers)[:2])
    small = [team.pod(on=last) for _ in range(4)]
    team.expect_scheduled(*small)
    big = team.pod(seats=4)
    team.expect_pending(big, FULL)

    until(lambda: team.events(big, "FailedScheduling"), "it is told")
    team.delete(small[0])

    def counted():
        return [each for each in team.events(big, "FailedScheduling") if each.get("series")]

    until(counted, "it is counted")
    assert len(team.events(big, "FailedScheduling")) == 1


def test_gated_pod_waits_for_its_gate(team):
    pod = team.pod(schedulingGates=[{"name": "example.com/quota"}])
    team.expect_pending(pod, "SchedulingGated")

    team.ungate(pod)
    team.expect_scheduled(pod)


def test_more_important_pods_go_first(team):
    """One place becomes free, and three wait for it, the least important for the longest."""
    node = next(iter(team.workers))
    (filling,) = team.fill(node, priority="high")
    waiting = {
        priority: team.pod(seats=4, on=node, priority=priority)
        for priority in ("low", "middle", "high")
    }
    for pod in waiting.values():
        team.expect_pending(pod, "1 Insufficient example.com/seat")
    team.expect_backoff_over(*waiting.values())

    team.delete(filling)
    team.expect_scheduled(waiting["high"], on=node)
    for priority in ("low", "middle"):
        team.expect_pending(waiting[priority], "1 Insufficient example.com/seat")


def test_less_important_pods_are_evicted_for_more_important_ones(team):
    """Whom a budget protects stays, where somebody else can go."""
    protected, expendable, full = team.workers
    team.fill(full, priority="high")
    kept = team.pod("kept-1", seats=4, on=protected, priority="low")
    spare = team.pod("spare-1", seats=4, on=expendable, priority="low")
    team.expect_scheduled(kept, spare)
    team.budget("kept", at_least=1)

    urgent = team.pod("urgent-1", seats=3, priority="middle")
    team.expect_preempted(spare, by=urgent)
    team.expect_scheduled(urgent, on=expendable)
    team.expect_scheduled(kept, on=protected)


def test_no_pod_is_evicted_for_one_that_never_preempts(team):
    team.fill(priority="low")

    polite = team.pod(priority="polite")
    team.expect_pending(polite, "not eligible due to preemptionPolicy=Never")
