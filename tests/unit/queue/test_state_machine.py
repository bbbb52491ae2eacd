"""The queue under any sequence of calls: no pod is lost, doubled or popped out of order."""

from collections import Counter

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    consumes,
    initialize,
    invariant,
    multiple,
    precondition,
    rule,
)

from scheduler.framework.cluster_event import (
    ASSIGNED_POD_ADD,
    ASSIGNED_POD_DELETE,
    NODE,
    NODE_ADD,
    POD,
    UNSCHEDULABLE_POD_ADD,
    Action,
    Change,
    ClusterEvent,
    Requeue,
)
from scheduler.framework.decision import CLEAR, SetTo
from scheduler.framework.rejection import Gate
from scheduler.queue.hints import rules_for
from scheduler.queue.queue_settings import QueueSettings
from scheduler.queue.queue_state import QueueState
from scheduler.queue.scheduling_queue import SchedulingQueue
from scheduler.testing import make_node, make_pod
from tests.unit.queue.queues import FIT, CountingObserver, Rejector

PLUGINS = ("Fit", "Taints", "Gang", "Deaf")
CHANGES = (
    Change(NODE_ADD, None, make_node("n1")),
    Change(ClusterEvent(NODE, Action.UPDATE_NODE_TAINT), make_node("n1"), make_node("n1")),
    Change(ASSIGNED_POD_ADD, None, make_pod("other", node="n1")),
    Change(ASSIGNED_POD_DELETE, make_pod("other", node="n1"), None),
    Change(UNSCHEDULABLE_POD_ADD, None, make_pod("other")),
)


def concerns(pod, change):
    """A taint that is removed from a node helps every pod; other changes help the pod itself."""
    return change.new.name in {pod.name, "n1"}


class SchedulingGates:
    """Keeps pods out while they have gates of its name; *name* differs after a reload."""

    requeue_on = (
        Requeue(ClusterEvent(POD, Action.UPDATE_POD_SCHEDULING_GATES_ELIMINATED)),
        Requeue(NODE_ADD),
    )

    def __init__(self, name):
        self.name = name

    def pre_enqueue(self, pod):
        closed = any(gate.name == self.name for gate in pod.spec.scheduling_gates)
        return Gate("closed") if closed else None


def make_rules(*gates):
    return {
        "py-scheduler": rules_for(
            [
                *map(SchedulingGates, gates),
                FIT,
                Rejector(
                    "Taints",
                    Requeue(ClusterEvent(NODE, Action.UPDATE_NODE_TAINT), concerns),
                    Requeue(ClusterEvent(POD, Action.UPDATE_POD_TOLERATION), concerns),
                ),
                Rejector("Gang", Requeue(ClusterEvent(POD, Action.ADD))),
                Rejector("Deaf"),
            ]
        )
    }


class StrictObserver(CountingObserver):
    """Counts what happens, and accepts neither unknown states nor hints that raise."""

    def incoming(self, queue, event):
        assert queue in {"active", "backoff", "unschedulable"}
        super().incoming(queue, event)

    def unschedulable_delta(self, plugin, profile, delta):
        super().unschedulable_delta(plugin, profile, delta)
        assert self.unschedulable[plugin] >= 0

    def hint(self, plugin, event, result, began):
        super().hint(plugin, event, result, began)
        assert result != "Error"


class QueueConversation(RuleBasedStateMachine):
    """Makes any call that a loop may make; *alive* and *flying* are what must be true then."""

    pods = Bundle("pods")
    flights = Bundle("flights")

    @initialize()
    def begin(self):
        self.now = 0.0
        self.names = 0
        self.observer = StrictObserver()
        self.gates = ("one",)
        self.queue = SchedulingQueue(
            make_rules(*self.gates), lambda pod: -pod.priority, QueueSettings(), self.observer
        )
        self.alive = {}
        self.flying = {}

    # Facts about pods.

    @rule(
        target=pods,
        priority=st.integers(0, 2),
        gates=st.sets(st.sampled_from(["one", "two"])),
        nominated=st.sampled_from(["", "", "n1"]),
    )
    def add(self, priority, gates, nominated):
        self.names += 1
        pod = make_pod(
            f"p{self.names}", priority=priority, gates=sorted(gates), nominated=nominated
        )
        self.queue.add(pod, self.now)
        self.alive[pod.uid] = pod
        return pod.uid

    @rule(
        uid=pods,
        words=st.fixed_dictionaries(
            {},
            optional={
                "priority": st.integers(0, 2),
                "labels": st.sampled_from(["a=b", "a=c"]),
                "tolerations": st.sampled_from(["x", "x, y"]),
                "gates": st.just([]),
                "nominated": st.sampled_from(["", "n1", "n2"]),
            },
        ),
    )
    def update(self, uid, words):
        if uid not in self.alive:
            return
        old = self.alive[uid]
        kept = {
            "priority": old.priority,
            "labels": old.labels,
            "tolerations": ", ".join(each.key for each in old.spec.tolerations),
            "gates": [gate.name for gate in old.spec.scheduling_gates],
            "nominated": old.nominated_node,
        }
        self.alive[uid] = make_pod(old.name, **(kept | words))
        self.queue.update(old, self.alive[uid], self.now)

    @rule(uid=consumes(pods))
    def delete(self, uid):
        pod = self.alive.pop(uid, None)
        if pod:
            self.queue.delete(pod, self.now)

    # Deciding.

    @rule(target=flights)
    def pop(self):
        before = {queued.pod.uid: queued.state for queued in self.queue}
        expected = self.expected_next()
        queued = self.queue.pop(self.now)
        if queued is None:
            assert expected is None
            return multiple()
        assert queued is expected
        assert before[queued.pod.uid] in {QueueState.ACTIVE, QueueState.BACKOFF}
        self.flying[queued.pod.uid] = queued
        return queued.pod.uid

    def expected_next(self):
        active = [q for q in self.queue if q.state is QueueState.ACTIVE]
        backoff = [q for q in self.queue if q.state is QueueState.BACKOFF and q.rejected_by]
        if active:
            return min(active, key=lambda q: (-q.pod.priority, q.timestamp, q.order))
        return min(
            backoff,
            key=lambda q: (q.backoff_expiry, -q.pod.priority, q.timestamp, q.order),
            default=None,
        )

    @rule(
        uid=consumes(flights),
        rejected_by=st.sets(st.sampled_from(PLUGINS)),
        pending=st.booleans(),
        done_first=st.booleans(),
        nomination=st.sampled_from([None, CLEAR, SetTo("n1")]),
    )
    def park(self, uid, rejected_by, pending, done_first, nomination):
        queued = self.flying.pop(uid)
        if done_first or uid not in self.alive:
            self.queue.done(uid)
        if uid not in self.alive:
            return
        pod = self.alive[uid]
        self.queue.park(
            queued,
            pod,
            rejected_by=frozenset(rejected_by),
            pending=frozenset(rejected_by & {"Gang"} if pending else ()),
            now=self.now,
        )
        if nomination:
            self.queue.nominate(pod, nomination, self.now)

    @rule(uid=consumes(flights))
    def bind(self, uid):
        del self.flying[uid]
        self.queue.done(uid)
        if pod := self.alive.pop(uid, None):
            self.queue.delete(pod, self.now)

    # What may help a pod.

    @rule(change=st.sampled_from(CHANGES), picky=st.booleans())
    def note(self, change, picky):
        self.queue.requeue_on(
            change, self.now, only=(lambda pod: pod.priority < 2) if picky else None
        )

    @rule(uids=st.lists(pods, max_size=3))
    def activate(self, uids):
        self.queue.activate(uids, self.now)
        for uid in uids:
            assert self.queue.state_of(uid) not in {QueueState.BACKOFF, QueueState.UNSCHEDULABLE}

    @rule(seconds=st.sampled_from([0.25, 1.0, 5.0, 60.0, 400.0]), flush=st.booleans())
    def wait(self, seconds, flush):
        self.now += seconds
        if flush:
            self.flush()

    @precondition(lambda self: self.queue.next_flush(self.now) is not None)
    @rule()
    def wait_for_the_next_flush(self):
        self.now = max(self.now, self.queue.next_flush(self.now))
        self.flush()

    def flush(self):
        self.queue.flush(self.now)
        assert (self.queue.next_flush(self.now) or self.now + 1) > self.now

    @rule(gates=st.sampled_from([("one",), ("two",), ("one", "two"), ()]))
    def reload(self, gates):
        self.gates = gates
        self.queue.replace_rules(make_rules(*gates), self.now)

    # What must be true after every step.

    @invariant()
    def every_pod_has_one_state(self):
        self.queue.check_invariants()

    @invariant()
    def nothing_is_lost(self):
        waiting = {queued.pod.uid for queued in self.queue}
        assert waiting == set(self.alive) - set(self.flying)
        assert all(self.queue.state_of(uid) is QueueState.IN_FLIGHT for uid in self.flying)
        assert sum(self.queue.counts().values()) == len(self.queue) == len(waiting)

    @invariant()
    def the_newest_version_waits(self):
        for queued in self.queue:
            assert queued.pod is self.alive[queued.pod.uid]

    @invariant()
    def only_closed_gates_keep_pods_out(self):
        for queued in self.queue:
            if queued.state is QueueState.GATED:
                assert queued.gated_by in self.gates
                assert queued.gated_by in queued.rejected_by

    @invariant()
    def changes_are_kept_for_pods_in_flight_alone(self):
        counts = self.queue.in_flight_counts()
        assert counts.pop("PodPopped") == len(self.flying)
        assert self.flying or not counts

    @invariant()
    def nominated_pods_are_alive_and_new(self):
        for pods in self.queue.nominated_pods().values():
            for pod in pods:
                assert pod is self.alive[pod.uid]

    @invariant()
    def the_gauge_counts_the_pods_that_wait(self):
        expected = Counter(plugin for queued in self.queue for plugin in queued.rejected_by)
        assert +self.observer.unschedulable == expected

    def teardown(self):
        """Every pod that no gate keeps out is popped at last, however little happens."""
        for uid in self.flying:
            self.queue.done(uid)
        self.now += 1000.0
        self.queue.flush(self.now)
        popped = set()
        while queued := self.queue.pop(self.now):
            popped.add(queued.pod.uid)
        left = list(self.queue)
        assert all(queued.state is QueueState.GATED for queued in left)
        assert len(popped) + len(left) + len(set(self.flying) & set(self.alive)) == len(self.alive)


TestQueueConversation = QueueConversation.TestCase
TestQueueConversation.settings = settings(
    max_examples=100, stateful_step_count=50, deadline=None, derandomize=True
)
