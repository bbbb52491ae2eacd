"""Pods that change, vanish or come back, while they wait and while they are being bound."""

from __future__ import annotations

import threading

import pytest

from tests.integration.proxy import Rule
from tests.integration.world import until

pytestmark = pytest.mark.integration

CORDONED = "0/1 nodes are available: 1 node(s) were unschedulable."
NO_ROOM = "0/1 nodes are available: 1 Insufficient cpu."


def test_pod_deleted_while_pending_is_forgotten(world):
    world.nodes("a", cpu="2", unschedulable=True)
    pod = world.pod(cpu="2")
    world.expect_unschedulable(pod, CORDONED)
    (scheduler,) = world.schedulers

    world.delete_pod(pod)
    until(lambda: scheduler.metric("scheduler_pending_pods") == 0)
    world.change_node("a", unschedulable=False)
    # Nothing was kept for it.
    world.expect_scheduled(world.pod(cpu="2"), on="a")


def test_pod_updated_while_pending_is_judged_as_it_is(world):
    """A selector of a gated pod may still change; what counts is the last one."""
    world.nodes("a", "b")
    pod = world.pod(schedulingGates=[{"name": "example.com/wait"}])

    world.change_pod(
        pod,
        {
            "spec": {"nodeSelector": {"kubernetes.io/hostname": "b"}},
            "metadata": {"labels": {"app": "web"}},
        },
    )
    world.plane.request(
        "PATCH",
        f"{world.pods_path}/{pod}",
        {"spec": {"schedulingGates": []}},
        content_type="application/merge-patch+json",
    )
    world.expect_scheduled(pod, on="b")


def test_pod_of_the_same_name_is_another_pod(world):
    """What was said about a pod does not stick to its successor, nor does its node."""
    world.nodes("a", cpu="2")
    world.pod("web", cpu="4")
    world.expect_unschedulable("web", NO_ROOM)

    world.delete_pod("web")
    world.pod("web", cpu="2")
    world.expect_scheduled("web", on="a")

    first = world.read("web")["metadata"]["uid"]
    world.delete_pod("web")
    world.pod("web", cpu="2")
    world.expect_scheduled("web", on="a")
    assert world.read("web")["metadata"]["uid"] != first


def test_pods_that_come_and_go_leave_nothing_behind(world):
    world.nodes("a", cpu="2")
    for _ in range(30):
        world.pod("web", cpu="2")
        world.delete_pod("web")

    world.expect_scheduled(world.pod(cpu="2"), on="a")
    (scheduler,) = world.schedulers
    until(lambda: scheduler.metric("scheduler_pending_pods") == 0)
    until(lambda: scheduler.metric("scheduler_cache_size", type="pods") == 1)
    until(lambda: scheduler.metric("scheduler_cache_size", type="assumed_pods") == 0)


def held_binding(proxy, world, **spec):
    """Create a pod whose binding stands before the API server's door."""
    door = threading.Event()
    rule = proxy.add(Rule("POST", "/binding", hold=door, times=1))
    pod = world.pod(scheduler="proxied", **spec)
    until(lambda: rule.met == 1, "a binding is on its way")
    return pod, door


def test_pod_deleted_while_being_bound_frees_its_capacity(proxy, proxied, world):
    world.nodes("a", cpu="2")
    pod, door = held_binding(proxy, world, cpu="2")
    second = world.pod(cpu="2", scheduler="proxied")
    world.expect_unschedulable(second, NO_ROOM)

    world.delete_pod(pod)
    world.expect_scheduled(second, on="a")
    door.set()
    until(lambda: proxy.count("POST", "/binding", 404) == 1)
    world.settle()
    assert proxied.metric("scheduler_cache_size", type="assumed_pods") == 0


def test_successor_of_a_pod_that_was_being_bound_is_decided_anew(proxy, proxied, world):
    """The binding carries the UID: it must not bind a pod that nobody has judged."""
    world.nodes("a", "b", cpu="2")
    pod, door = held_binding(proxy, world, cpu="2", nodeSelector={"kubernetes.io/hostname": "a"})

    world.delete_pod(pod)
    world.pod(pod, cpu="2", scheduler="proxied", nodeSelector={"kubernetes.io/hostname": "b"})
    world.expect_scheduled(pod, on="b")
    door.set()
    until(lambda: proxy.count("POST", "/binding", 409) == 1)
    assert world.node_of(pod) == "b"
    proxy.expect_one_binding_each(pod)


def test_pod_updated_while_being_bound_is_bound_once(proxy, proxied, world):
    world.nodes("a", cpu="2")
    pod, door = held_binding(proxy, world, cpu="2")

    world.change_pod(pod, {"metadata": {"labels": {"changed": "yes"}}})
    world.settle()
    door.set()
    world.expect_scheduled(pod, on="a")
    proxy.expect_one_binding_each(pod)
    until(lambda: proxied.metric("scheduler_cache_size", type="assumed_pods") == 0)


def test_pod_that_another_scheduler_binds_meanwhile_stays_there(proxy, proxied, world):
    """The room that was meant for it is free again; where it really is, it counts."""
    world.nodes("a", "b", cpu="2")
    pod, door = held_binding(proxy, world, cpu="2")
    world.bind(pod, "a")
    door.set()

    world.expect_scheduled(pod, on="a")
    until(lambda: proxied.metric("scheduler_cache_size", type="assumed_pods") == 0)
    world.expect_scheduled(world.pod(cpu="2", scheduler="proxied"), on="b")
    world.expect_unschedulable(
        world.pod(cpu="2", scheduler="proxied"), "0/2 nodes are available: 2 Insufficient cpu."
    )
