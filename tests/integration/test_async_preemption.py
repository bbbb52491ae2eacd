"""Victims are told while the pod waits outside, as in upstream's TestAsyncPreemption."""

from __future__ import annotations

import threading

import pytest

from tests.integration.proxy import Rule
from tests.integration.ranks import (
    condition,
    expect_gone,
    expect_nominated,
    filler,
    nominated,
    pod,
    running,
    stays,
)
from tests.integration.storage import HOST
from tests.integration.world import until

pytestmark = pytest.mark.integration


def hold(proxy, method, path):
    """Keep requests from the API server until the event that is returned is set."""
    return proxy.add(Rule(method, path, hold=threading.Event()))


def attempts(scheduler):
    return sum(
        scheduler.metric("scheduler_schedule_attempts_total", result=result)
        for result in ("scheduled", "unschedulable", "error")
    )


def gated(scheduler):
    return scheduler.metric("scheduler_pending_pods", queue="gated")


def stir(world, *names):
    """Let things happen that wake a pod for which there is no room."""
    for name in names:
        world.delete_pod(name)
        world.settle()


def test_the_pod_is_gated_until_all_victims_are_deleted(world, kubelet, proxy, proxied):
    """What could help happens meanwhile, and one of the victims goes: the pod is not tried."""
    world.nodes("a", cpu="4")
    world.nodes("b", cpu="1")
    small = filler(world, "high", "b")
    victims = [filler(world, "low", "a", cpu="2") for _ in range(2)]
    held = hold(proxy, "DELETE", "/pods/")
    high = pod(world, "high", cpu="4", scheduler="proxied")
    until(lambda: held.met, "the first deletion is under way")
    before = attempts(proxied)

    (first,) = [each for each in victims if condition(world, each, "DisruptionTarget")]
    stir(world, small, first)
    assert (gated(proxied), attempts(proxied)) == (1, before)
    assert nominated(world, high) == "a"
    (last,) = set(victims) - {first}
    assert stays(world, last)

    held.hold.set()
    running(world, high, "a")
    expect_gone(world, *victims)
    assert proxied.metric("scheduler_preemption_victims_count") == 1


def test_the_pod_is_gated_until_the_only_victim_is_deleted(world, kubelet, proxy, proxied):
    world.nodes("a", cpu="4")
    world.nodes("b", cpu="1")
    small = filler(world, "high", "b")
    victim = filler(world, "low", "a", cpu="4")
    held = hold(proxy, "DELETE", f"/pods/{victim}")
    high = pod(world, "high", cpu="4", scheduler="proxied")
    until(lambda: held.met, "the deletion is under way")
    before = attempts(proxied)

    stir(world, small)
    assert (gated(proxied), attempts(proxied)) == (1, before)
    assert stays(world, victim)

    held.hold.set()
    running(world, high, "a")
    expect_gone(world, victim)
    assert proxied.metric("scheduler_preemption_victims_count") == 1


@pytest.mark.parametrize("finalizers", [[], ["example.com/keep"]], ids=["deleted", "terminating"])
def test_a_victim_in_bind_is_evicted(world, kubelet, proxy, proxied, finalizers):
    """Its binding is on the wire, and it is not on the node yet: it is gone once it has to go."""
    world.nodes("a", cpu="2")
    held = hold(proxy, "POST", "/binding")
    low = pod(world, "low", cpu="2", grace=1000, scheduler="proxied")
    world.change_pod(low, {"metadata": {"finalizers": finalizers}})
    until(lambda: held.met, "its binding is under way")
    proxy.add(Rule("POST", "/binding"))
    high = pod(world, "high", cpu="2", scheduler="proxied")

    running(world, high, "a")
    if finalizers:
        assert not stays(world, low)
    else:
        expect_gone(world, low)
    held.hold.set()
    until(lambda: proxy.count("POST", f"/pods/{low}/binding"), "the binding came too late")
    assert proxy.bindings() == {high: 1}
    if finalizers:
        world.change_pod(low, {"metadata": {"finalizers": None}})
    expect_gone(world, low)


def test_the_highest_takes_the_same_victims(world, kubelet):
    """Both need the whole node, and the victims take their time: the more important one wins."""
    world.nodes("a", cpu="4")
    victims = [running(world, pod(world, "low", grace=3), "a") for _ in range(4)]
    high = pod(world, "high", cpu="4")
    expect_nominated(world, high, "a")
    highest = pod(world, "highest", cpu="4")

    running(world, highest, "a")
    expect_gone(world, *victims)
    expect_nominated(world, high, "")
    assert not world.node_of(high)
    for victim in victims:
        assert len(world.events(victim, "Preempted")) == 1


def test_two_share_a_node_and_not_its_victims(world, kubelet):
    world.nodes("a", cpu="4")
    victims = [running(world, pod(world, "low", grace=2), "a") for _ in range(4)]
    high = pod(world, "high", cpu="2")
    mid = pod(world, "mid", cpu="2")

    for name in (high, mid):
        running(world, name, "a")
    expect_gone(world, *victims)


def test_a_pod_that_loses_its_nomination_finds_another_node(world, kubelet):
    world.nodes("a", "b", cpu="2")
    first = filler(world, "low", "a", cpu="2", grace=3)
    second = filler(world, "mid", "b", cpu="2", grace=1)
    mid = pod(world, "high", cpu="2")
    expect_nominated(world, mid, "a")
    highest = pod(world, "highest", cpu="2", nodeSelector={HOST: "a"})

    running(world, highest, "a")
    running(world, mid, "b")
    expect_gone(world, first, second)
