"""Gates: which pods they keep out, which events reach these pods, and when gates run."""

from scheduler.framework.cluster_event import ASSIGNED_POD_DELETE, Change, Requeue
from scheduler.queue.queue_state import QueueState
from scheduler.testing import make_pod
from tests.unit.queue.queues import (
    BY_FIT,
    FIT,
    NODE_ADDED,
    CountingObserver,
    GateOf,
    make_queue,
    park,
)


def test_a_gated_pod_sees_the_events_of_its_gate():
    observer = CountingObserver()
    gate = GateOf("claims", Requeue(NODE_ADDED.event))
    queue = make_queue(gate, FIT, observer=observer)
    queue.add(pod := make_pod("a", gates=["claims"]), 0.0)

    queue.requeue_on(NODE_ADDED, 0.1)
    queue.requeue_on(Change(ASSIGNED_POD_DELETE, make_pod("other"), None), 0.2)
    queue.activate([pod.uid], 0.3)

    assert queue.state_of(pod.uid) is QueueState.GATED
    assert observer.hints == {("claims", "NodeAdd", "Queue"): 1}
    assert gate.asked == ["a", "a", "a"]


def test_a_gated_pod_does_not_see_the_events_of_its_other_rejectors():
    observer = CountingObserver()
    queue = make_queue(FIT, gate := GateOf("preempting"), observer=observer)
    park(queue, old := make_pod("a"), "Fit", now=0.0)
    queue.update(old, make_pod("a", gates=["preempting"]), 0.1)
    queue.activate([old.uid], 0.2)
    asked = len(gate.asked)

    queue.requeue_on(NODE_ADDED, 5.0)

    assert queue.state_of(old.uid) is QueueState.GATED
    assert len(gate.asked) == asked
    assert not observer.hints


def test_the_gate_that_was_closed_runs_first():
    first, second = GateOf("first"), GateOf("second")
    queue = make_queue(first, second)
    queue.add(pod := make_pod("a", gates=["second"]), 0.0)
    queue.activate([pod.uid], 0.0)

    assert (len(first.asked), len(second.asked)) == (1, 2)
    assert queue.find(pod.uid).gate_reason == "waits for second"


def test_a_gate_that_raises_stays_closed():
    class Broken:
        name = "Broken"

        def pre_enqueue(self, pod):
            raise ZeroDivisionError("oops")

    queue = make_queue(Broken())
    queue.add(pod := make_pod("a"), 0.0)

    assert queue.state_of(pod.uid) is QueueState.GATED
    assert queue.find(pod.uid).gate_reason == "plugin 'Broken' raised ZeroDivisionError('oops')"


def test_neither_time_nor_a_wildcard_reaches_a_gated_pod():
    queue = make_queue(GateOf("quota"))
    queue.add(pod := make_pod("a", gates=["quota"]), 0.0)

    queue.flush(10_000.0)

    assert not queue.find(pod.uid).flushed
    assert queue.next_flush(10_000.0) is None


def test_an_update_of_a_ready_pod_does_not_run_its_gates():
    queue = make_queue(gate := GateOf("quota"))
    queue.add(old := make_pod("a"), 0.0)
    queue.update(old, make_pod("a", gates=["quota"]), 0.0)

    assert queue.state_of(old.uid) is QueueState.ACTIVE
    assert gate.asked == ["a"]


def test_parking_runs_gates_only_for_pods_that_become_ready():
    gate = GateOf("preempting")
    queue = make_queue(FIT, gate)
    park(queue, make_pod("a"), "Fit")
    assert gate.asked == ["a"]

    queue.add(pod := make_pod("b"), 0.0)
    queued = queue.pop(0.0)
    queue.requeue_on(NODE_ADDED, 0.1)
    newer = make_pod("b", gates=["preempting"])
    state = queue.park(queued, newer, rejected_by=BY_FIT, now=0.2)

    assert state is QueueState.GATED
    assert queue.find(pod.uid).rejected_by == {"Fit", "preempting"}


def test_a_pod_that_backs_off_has_passed_its_gates():
    queue = make_queue(FIT, gate := GateOf("quota"))
    park(queue, old := make_pod("a"), "Fit", now=0.0)
    queue.requeue_on(NODE_ADDED, 0.1)
    queue.update(old, make_pod("a", gates=["quota"]), 0.2)
    assert len(gate.asked) == 2

    queue.flush(2.0)

    assert queue.state_of(old.uid) is QueueState.ACTIVE
    assert len(gate.asked) == 2
