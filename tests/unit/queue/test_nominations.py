"""Nominations of pods that wait, and of pods in flight."""

import pytest

from scheduler.framework.cluster_event import POD, Action, Requeue
from scheduler.framework.cluster_event import ClusterEvent as Event
from scheduler.framework.decision import KEEP, SetTo
from scheduler.queue.hints import rules_for
from scheduler.queue.queue_state import QueueState
from scheduler.testing import make_pod
from tests.unit.queue.queues import FIT, NODE_ADDED, GateOf, Rejector, make_queue, park


def test_a_pod_is_nominated_when_it_becomes_ready_and_not_while_gated():
    queue = make_queue(GateOf("quota", Requeue(NODE_ADDED.event)))
    queue.add(make_pod("a", nominated="n1"), 0.0)
    queue.add(gated := make_pod("b", nominated="n1", gates=["quota"]), 0.0)

    assert [pod.name for pod in queue.nominated_pods()["n1"]] == ["a"]
    queue.replace_rules({"py-scheduler": rules_for([])}, 1.0)
    assert queue.nominated_node(gated.uid) == "n1"


def test_our_nomination_survives_an_update_that_makes_the_pod_ready():
    """Upstream nominates again from the status here, which does not name the node yet."""
    queue = make_queue(Rejector("Own", Requeue(Event(POD, Action.UPDATE))))
    park(queue, old := make_pod("a"), "Own")
    queue.nominate(old, SetTo("n1"), 0.0)

    queue.update(old, new := make_pod("a", status={"phase": "Pending"}), 5.0)

    assert queue.state_of(new.uid) is QueueState.ACTIVE
    assert queue.nominated_pods()["n1"] == (new,)


def test_a_nominated_pod_in_flight_is_known_in_full():
    queue = make_queue(FIT)
    queue.add(old := make_pod("a", nominated="n1", requests="1 cpu"), 0.0)
    queue.pop(0.0)
    queue.update(old, new := make_pod("a", nominated="n1", requests="2 cpu"), 0.1)

    assert queue.nominated_pods()["n1"] == (new,)


def test_a_nomination_is_kept_although_no_status_shows_it():
    queue = make_queue(FIT)
    queue.nominate(make_pod("a"), SetTo("n1"), 0.0)

    queue.nominate(newer := make_pod("a", labels="a=b"), KEEP, 0.1)

    assert queue.nominated_pods()["n1"] == (newer,)


@pytest.mark.parametrize(("written", "expected"), [(True, ""), (False, "n1")])
def test_a_nomination_that_others_clear_in_flight_ends_once_it_was_written(written, expected):
    queue = make_queue(FIT)
    park(queue, waits := make_pod("waits"), "Fit")
    queue.add(old := make_pod("a", nominated="n1" if written else ""), 0.0)
    assert queue.pop(0.0).pod is old
    if not written:
        queue.nominate(old, SetTo("n1"), 0.0)

    queue.update(old, make_pod("a", labels="a=b"), 5.0)

    assert queue.nominated_node(old.uid) == expected
    assert queue.state_of(waits.uid) is (QueueState.ACTIVE if written else QueueState.UNSCHEDULABLE)


def test_a_deleted_pod_is_not_nominated():
    queue = make_queue()
    queue.add(pod := make_pod("a", nominated="n1"), 0.0)
    queue.delete(pod, 0.0)

    assert not queue.nominated_pods()
