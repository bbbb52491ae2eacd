"""Queues whose plugins do what a test wants, and an observer that counts."""

from collections import Counter

from scheduler.framework.cluster_event import (
    NODE,
    NODE_ADD,
    POD,
    Action,
    Change,
    ClusterEvent,
    Requeue,
)
from scheduler.framework.rejection import Gate
from scheduler.queue.hints import rules_for
from scheduler.queue.queue_settings import QueueSettings
from scheduler.queue.scheduling_queue import SchedulingQueue
from scheduler.testing import make_node

TAINT = ClusterEvent(NODE, Action.UPDATE_NODE_TAINT)


class Rejector:
    """Rejects pods; *requeue_on* is what could help."""

    def __init__(self, name, *requeue_on):
        self.name = name
        self.requeue_on = requeue_on

    def filter(self, pod, nodes):
        return ()


class GateOf:
    """Keeps out the pods that have a scheduling gate of the plugin's name."""

    def __init__(self, name, *requeue_on):
        self.name = name
        self.requeue_on = requeue_on
        self.asked = []

    def pre_enqueue(self, pod):
        self.asked.append(pod.name)
        closed = any(gate.name == self.name for gate in pod.spec.scheduling_gates)
        return Gate(f"waits for {self.name}") if closed else None


class CountingObserver:
    """Counts what happens."""

    def __init__(self):
        self.incoming_pods = Counter()
        self.unschedulable = Counter()
        self.hints = Counter()

    def incoming(self, queue, event):
        self.incoming_pods[queue, event] += 1

    def unschedulable_delta(self, plugin, profile, delta):
        self.unschedulable[plugin] += delta

    def began(self):
        return 0.0

    def pre_enqueue(self, profile, began):
        pass

    def hint(self, plugin, event, result, began):
        self.hints[plugin, event, result] += 1


FIT = Rejector("Fit", Requeue(NODE_ADD), Requeue(ClusterEvent(POD, Action.DELETE)))
BY_FIT = frozenset({"Fit"})
NODE_ADDED = Change(NODE_ADD, None, make_node())
TAINT_CHANGED = Change(TAINT, make_node(), make_node())


def by_priority(pod):
    return -pod.priority


def make_queue(*plugins, observer=None, **settings):
    return SchedulingQueue(
        {"py-scheduler": rules_for(plugins)},
        by_priority,
        QueueSettings(**settings),
        observer or CountingObserver(),
    )


def park(queue, pod, *plugins, pending=(), now=0.0):
    """Add, pop and park *pod*, nothing happening meanwhile."""
    queue.add(pod, now)
    queued = queue.pop(now)
    assert queued.pod.uid == pod.uid
    queue.park(queued, pod, rejected_by=frozenset(plugins), pending=frozenset(pending), now=now)
    return queued


def pop_all(queue, now=0.0):
    """Pop until nothing is ready; return the names."""
    names = []
    while queued := queue.pop(now):
        names.append(queued.pod.name)
        queue.done(queued.pod.uid)
    return names
