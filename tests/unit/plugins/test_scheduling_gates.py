"""Pods wait for their gates."""

import pytest

from scheduler.framework.cluster_event import POD, UNSCHEDULABLE_POD, Action
from scheduler.framework.rejection import Gate
from scheduler.plugins import SchedulingGates
from scheduler.testing import make_pod
from tests.unit.plugins.plugin_calls import wakes

GONE = Action.UPDATE_POD_SCHEDULING_GATES_ELIMINATED


@pytest.mark.parametrize(
    ("gates", "answer"),
    [
        pytest.param([], None, id="none lets the pod in"),
        pytest.param(["foo"], Gate("waiting for scheduling gates: [foo]"), id="one"),
        pytest.param(
            ["foo", "bar"], Gate("waiting for scheduling gates: [foo bar]"), id="in their order"
        ),
    ],
)
def test_gates_keep_a_pod_outside(gates, answer):
    assert SchedulingGates().pre_enqueue(make_pod(gates=gates)) == answer


@pytest.mark.parametrize("resource", [POD, UNSCHEDULABLE_POD])
def test_a_pod_wakes_when_its_own_gates_are_gone(resource):
    gated, free = make_pod("a", gates=["foo"]), make_pod("a")

    assert wakes(SchedulingGates(), gated, resource, GONE, gated, free)


def test_a_pod_sleeps_on_when_the_gates_of_another_are_gone():
    other = make_pod("b")

    assert not wakes(SchedulingGates(), make_pod("a", gates=["foo"]), POD, GONE, other, other)
