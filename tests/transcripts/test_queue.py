"""Conversations with the scheduling queue, in the folder beside this file.

Said: ``add NAME word=value …``, ``update``, ``delete``, ``pop``, ``done``,
``park NAME because A+B``, ``park NAME pending A``, ``park NAME after an error``,
``activate NAME …``, ``tick``, and changes of the cluster: ``node-added NAME``,
``taint-removed NAME``, ``pod-deleted NAME``, ``pod-bound NAME``.

Answered: which pods moved and their new state; for a pod that must wait, when it will be ready.
"""

from pathlib import Path

import pytest

from scheduler.framework.cluster_event import (
    ASSIGNED_POD_ADD,
    ASSIGNED_POD_DELETE,
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
from scheduler.queue.queue_state import QueueState
from scheduler.queue.scheduling_queue import SchedulingQueue
from scheduler.testing import make_node, make_pod
from tests.unit.queue.queues import Rejector

SCRIPTS = sorted((Path(__file__).parent / "queue").glob("*.txt"))


def itself(pod, change):
    """Only a change of the pod itself helps it."""
    return change.new.uid == pod.uid


class SchedulingGates:
    """Keeps pods out while they have gates."""

    name = "SchedulingGates"
    requeue_on = (
        Requeue(
            ClusterEvent(POD, Action.UPDATE_POD_SCHEDULING_GATES_ELIMINATED),
            itself,
        ),
    )

    def pre_enqueue(self, pod):
        return Gate("has gates") if pod.spec.scheduling_gates else None


def roomy(_pod, change):
    """Small nodes help no pod."""
    return not change.new.name.startswith("small")


PLUGINS = (
    SchedulingGates(),
    Rejector("Fit", Requeue(NODE_ADD, roomy), Requeue(ClusterEvent(POD, Action.DELETE))),
    Rejector("Taints", Requeue(ClusterEvent(NODE, Action.ADD | Action.UPDATE_NODE_TAINT))),
    Rejector("Tolerations", Requeue(ClusterEvent(POD, Action.UPDATE_POD_TOLERATION), itself)),
    Rejector("Gang", Requeue(ClusterEvent(POD, Action.ADD))),
)
CHANGES = {
    "node-added": lambda name: Change(NODE_ADD, None, make_node(name)),
    "taint-removed": lambda name: Change(
        ClusterEvent(NODE, Action.UPDATE_NODE_TAINT), make_node(name), make_node(name)
    ),
    "pod-deleted": lambda name: Change(ASSIGNED_POD_DELETE, make_pod(name, node="n"), None),
    "pod-bound": lambda name: Change(ASSIGNED_POD_ADD, None, make_pod(name, node="n")),
}


class Speaker:
    """Says each command to a queue, and answers which pods moved."""

    def __init__(self):
        self.queue = SchedulingQueue(
            {"py-scheduler": rules_for(PLUGINS)}, lambda pod: -pod.priority, QueueSettings()
        )
        self.words = {}
        self.pods = {}
        self.popped = {}
        self.states = {}

    def __call__(self, now, command):
        verb, *rest = command.split()
        if verb in CHANGES:
            self.queue.requeue_on(CHANGES[verb](*rest), now)
            answer = ""
        else:
            answer = getattr(self, verb)(now, *rest) or ""
        self.queue.check_invariants()
        return "; ".join(filter(None, (answer, *self.moves()))) or "nothing"

    def add(self, now, name, *words):
        self.words[name] = dict(word.split("=", 1) for word in words)
        self.pods[name] = self.make(name)
        self.queue.add(self.pods[name], now)

    def update(self, now, name, *words):
        old = self.pods[name]
        self.words[name] |= dict(word.split("=", 1) for word in words)
        self.pods[name] = self.make(name)
        self.queue.update(old, self.pods[name], now)

    def make(self, name):
        words = dict(self.words[name])
        priority = int(words.pop("priority", 0))
        gates = tuple(filter(None, words.pop("gates", "").split("+")))
        return make_pod(name, priority=priority, gates=gates, **words)

    def delete(self, now, name):
        self.queue.delete(self.pods[name], now)

    def pop(self, now):
        queued = self.queue.pop(now)
        if queued is None:
            return "nothing is ready"
        self.popped[queued.pod.name] = queued
        self.states[queued.pod.name] = (QueueState.IN_FLIGHT, "")
        return f"{queued.pod.name}, attempt {queued.attempts}"

    def done(self, _now, name):
        self.queue.done(self.pods[name].uid)

    def park(self, now, name, how, *who):
        pod = self.pods[name]
        plugins = frozenset() if how == "after" else frozenset(who[0].split("+"))
        pending = plugins if how == "pending" else frozenset()
        self.queue.park(self.popped[name], pod, rejected_by=plugins, pending=pending, now=now)

    def activate(self, now, *names):
        self.queue.activate([self.pods[name].uid for name in names], now)

    def tick(self, now):
        self.queue.flush(now)

    def moves(self):
        """Yield what changed since the last command, in the order of arrival."""
        for name, pod in self.pods.items():
            here = self.where(pod.uid)
            if here != self.states.get(name, (None, "")):
                self.states[name] = here
                yield f"{name}: {here[0] or 'gone'}{here[1]}"

    def where(self, uid):
        queued = self.queue.find(uid)
        if queued is None:
            return None, ""
        if queued.state is QueueState.BACKOFF:
            return queued.state, f", ready at {queued.backoff_expiry + 1:.0f}s"
        if queued.state is QueueState.GATED:
            return queued.state, f" by {queued.gated_by}"
        return queued.state, ""


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.stem)
def test_queue_answers_as_written(script, rehearse):
    rehearse(script, Speaker())


def test_there_are_conversations():
    assert SCRIPTS
