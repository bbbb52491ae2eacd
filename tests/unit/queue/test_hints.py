"""Which change helps which pod."""

import pytest

from scheduler.framework.cluster_event import (
    ANY,
    ASSIGNED_POD_ADD,
    FORCE_ACTIVATE,
    NODE,
    NODE_ADD,
    NODE_DELETE,
    POD,
    UNSCHEDULABLE_TIMEOUT,
    Action,
    Change,
    ClusterEvent,
    Requeue,
)
from scheduler.queue.hints import Hints, QueueingStrategy, rules_for
from scheduler.queue.observer import SILENT
from scheduler.queue.queued_pod import QueuedPod
from scheduler.testing import make_pod
from tests.unit.queue.queues import FIT, NODE_ADDED, CountingObserver, GateOf, Rejector

POD_EVENT = ClusterEvent(POD, Action.ADD)
TAINT = ClusterEvent(NODE, Action.UPDATE_NODE_TAINT)


def yes(_pod, _change):
    return True


def no(_pod, _change):
    return False


def broken(_pod, _change):
    raise TypeError("not what I expected")


def make_hints(observer=SILENT):
    plugins = (
        Rejector("Yes", Requeue(NODE_ADD, yes)),
        Rejector("Always", Requeue(NODE_ADD)),
        Rejector("No", Requeue(NODE_ADD, no)),
        Rejector("Broken", Requeue(NODE_ADD, broken)),
        Rejector("Pods", Requeue(POD_EVENT)),
        Rejector("Late", Requeue(NODE_ADD, no), Requeue(NODE_ADD, yes)),
        Rejector("Deaf"),
    )
    return Hints({"py-scheduler": rules_for(plugins)}, observer)


def make_rejected(rejected_by, pending=(), scheduler="py-scheduler"):
    queued = QueuedPod(pod := make_pod("a", scheduler=scheduler), 0.0, 0)
    queued.note_failure(pod, frozenset(rejected_by), frozenset(pending), 0.0)
    return queued


@pytest.mark.parametrize(
    ("rejected_by", "pending", "expected"),
    [
        ([], [], QueueingStrategy.AFTER_BACKOFF),
        (["Yes"], [], QueueingStrategy.AFTER_BACKOFF),
        (["Always"], [], QueueingStrategy.AFTER_BACKOFF),
        (["No"], [], QueueingStrategy.SKIP),
        (["No", "Yes"], [], QueueingStrategy.AFTER_BACKOFF),
        (["Late"], [], QueueingStrategy.AFTER_BACKOFF),
        (["Broken"], [], QueueingStrategy.AFTER_BACKOFF),
        (["Broken"], ["Broken"], QueueingStrategy.IMMEDIATELY),
        (["Pods"], [], QueueingStrategy.SKIP),
        (["Deaf"], [], QueueingStrategy.SKIP),
        (["Unknown"], [], QueueingStrategy.SKIP),
        ([], ["Yes"], QueueingStrategy.IMMEDIATELY),
        (["Yes"], ["Always"], QueueingStrategy.IMMEDIATELY),
        (["Yes"], ["No"], QueueingStrategy.AFTER_BACKOFF),
        (["No"], ["No"], QueueingStrategy.SKIP),
    ],
)
def test_the_hints_of_the_rejectors_decide_whether_a_change_helps(rejected_by, pending, expected):
    hints = make_hints()

    assert hints.strategy(make_rejected(rejected_by, pending), NODE_ADDED) is expected


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (Change(UNSCHEDULABLE_TIMEOUT), QueueingStrategy.AFTER_BACKOFF),
        (Change(FORCE_ACTIVATE, None, make_pod("a")), QueueingStrategy.AFTER_BACKOFF),
        (Change(FORCE_ACTIVATE, None, make_pod("b")), QueueingStrategy.SKIP),
    ],
)
def test_a_wildcard_helps_every_pod_unless_it_means_another_one(change, expected):
    assert make_hints().strategy(make_rejected(["No"], ["No"]), change) is expected


def test_a_pod_of_a_profile_that_is_gone_is_tried_again():
    queued = make_rejected(["No"], scheduler="gone")

    assert make_hints().strategy(queued, NODE_ADDED) is QueueingStrategy.AFTER_BACKOFF


@pytest.mark.parametrize(
    ("rejected_by", "pending", "expected", "asked"),
    [
        (["No"], [], QueueingStrategy.SKIP, 3),
        (["Yes"], [], QueueingStrategy.AFTER_BACKOFF, 1),
        (["Yes"], ["Yes"], QueueingStrategy.IMMEDIATELY, 1),
        (["Yes"], ["No"], QueueingStrategy.AFTER_BACKOFF, 6),
    ],
)
def test_a_replay_goes_on_while_something_better_may_come(rejected_by, pending, expected, asked):
    observer = CountingObserver()
    hints = make_hints(observer)

    strategy = hints.strategy_over(make_rejected(rejected_by, pending), [NODE_ADDED] * 3)

    assert strategy is expected
    assert observer.hints.total() == asked


def test_an_unknown_history_counts_as_one_that_may_help():
    queued = make_rejected(["No"])

    assert make_hints().strategy_over(queued, None) is QueueingStrategy.AFTER_BACKOFF
    assert make_hints().strategy_over(queued, []) is QueueingStrategy.SKIP


def test_hints_are_counted_by_plugin_event_and_result():
    observer = CountingObserver()
    make_hints(observer).strategy(make_rejected(["No", "Broken"]), NODE_ADDED)

    assert observer.hints == {
        ("No", "NodeAdd", "QueueSkip"): 1,
        ("Broken", "NodeAdd", "Error"): 1,
    }


@pytest.mark.parametrize(
    ("registered", "sees_taints"),
    [
        ([NODE_ADD], True),
        ([ClusterEvent(NODE, Action.ADD | Action.UPDATE_NODE_LABEL)], True),
        ([ClusterEvent(NODE, Action.ADD | Action.UPDATE_NODE_TAINT)], True),
        ([NODE_DELETE], False),
        ([ClusterEvent(NODE, Action.UPDATE_NODE_LABEL)], False),
        ([POD_EVENT], False),
        ([], False),
    ],
)
def test_plugins_that_see_new_nodes_see_taints(registered, sees_taints):
    plugin = Rejector("Fit", *map(Requeue, registered))

    events = [each.event for each in rules_for([plugin]).requeue["Fit"]]

    assert sum(event.covers(TAINT) for event in events) == sees_taints


def test_a_plugin_that_registers_nothing_sees_every_event():
    plugin = Rejector("Vague")
    del plugin.requeue_on

    (anything,) = rules_for([plugin]).requeue["Vague"]

    assert anything.hint is None
    for event in (NODE_ADD, ASSIGNED_POD_ADD, ClusterEvent("example.com/Thing", Action.DELETE)):
        assert anything.event.covers(event)


def test_plugins_that_cannot_reject_are_left_out():
    class OnlyScores:
        name = "OnlyScores"

        def score(self, pod, nodes):
            return None

    gate = GateOf("gate")
    rules = rules_for([OnlyScores(), gate, FIT])

    assert list(rules.requeue) == ["gate", "Fit"]
    assert rules.gates == (gate,)


def test_registered_plugins_are_found_by_profile_and_by_name():
    fit, other = FIT, Rejector("Other", Requeue(POD_EVENT))
    rules = {"one": rules_for([fit, other]), "two": rules_for([fit])}

    registered = Hints(rules, SILENT).registered_for(NODE_ADD)

    assert registered.rejectors == (("one", "Fit"), ("two", "Fit"))
    assert registered.gates == ("Fit",)
    assert not Hints(rules, SILENT).registered_for(ClusterEvent(ANY, Action.ADD)).rejectors
