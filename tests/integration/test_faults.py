"""What breaks between us and the API server: nothing is lost, and nothing happens twice.

Every test ends in the same picture: each pod bound by exactly one accepted binding, no assumption
left over, and no node fuller than it may be.
"""

from __future__ import annotations

import threading

import pytest

from hack.control_plane import ControlPlane
from tests.integration.proxy import Proxy, Rule
from tests.integration.world import (
    Placements,
    World,
    configuration,
    profile,
    scheduler_process,
    until,
)

pytestmark = pytest.mark.integration

CORDONED = "0/1 nodes are available: 1 node(s) were unschedulable."
NO_ROOM = "0/1 nodes are available: 1 Insufficient cpu."


@pytest.fixture
def plane():
    """A control plane that may be broken."""
    with ControlPlane(components=()) as plane:
        yield plane


def expect_rest(scheduler):
    """Check that the scheduler has nothing left to do, and nothing half done."""
    until(lambda: scheduler.metric("scheduler_pending_pods") == 0, "no pod waits")
    until(lambda: scheduler.metric("scheduler_cache_size", type="assumed_pods") == 0, "no guesses")


# The API server


def test_every_pod_is_bound_once_though_the_apiserver_is_killed(plane):
    """kill -9 while pods are being bound, and a while of silence after it.

    At that moment ten pods are bound, five bindings were carried out but their answers are lost,
    and the others have not arrived. The scheduler reads pods back rather than guess, and no watch
    ever shows a pod on two nodes.
    """
    killed = threading.Event()
    with (
        Proxy(plane) as proxy,
        scheduler_process(plane, kubeconfig=proxy.kubeconfig, config=configuration()) as scheduler,
    ):
        world = World(plane, "default", scheduler)
        world.nodes("a", "b", "c", cpu="20")
        held = proxy.add(Rule("POST", "/binding", hold=killed))
        lost = proxy.add(Rule("POST", "/binding", times=5, lose="answer"))
        passed = proxy.add(Rule("POST", "/binding", times=10))
        with Placements(plane, "default") as placements:
            pods = world.pods(60, cpu="1")
            until(lambda: passed.met == 10 and lost.met == 5 and held.met >= 5, "binds in flight")
            until(lambda: len(scheduler.lines("pod.bound")) >= 10, "the first ones are bound")
            plane.stop_apiserver(kill=True)
            assert len(scheduler.lines("pod.bound")) <= 15
            killed.set()
            scheduler.expect_line("watch.restarted", resource="Pod")
            plane.start_apiserver()
            # The capacity is exactly enough: a lost or doubled assumption would leave a pod behind.
            world.expect_all_scheduled(pods)
        assert len(placements.seen) == 60
        expect_rest(scheduler)
        bound = [line["pod"] for line in scheduler.lines("pod.bound")]
        assert len(bound) == len(set(bound))
        until(lambda: scheduler.metric("scheduler_cache_size", type="pods") == 60)


def test_changes_during_an_apiserver_outage_are_seen(plane):
    """A restarted API server has no history: it answers 410, and everything is listed again.

    Meanwhile a node came, another went, two pods were deleted, and one came.
    """
    with (
        Proxy(plane) as proxy,
        scheduler_process(plane, kubeconfig=proxy.kubeconfig, config=configuration()) as scheduler,
    ):
        world = World(plane, "default", scheduler)
        world.nodes("old", cpu="2")
        gone = world.pod(cpu="2")
        world.expect_scheduled(gone)
        waiting, dropped = world.pod(nodeSelector={"disk": "fast"}), world.pod(cpu="2")
        world.expect_unschedulable(
            waiting,
            "0/1 nodes are available: 1 node(s) didn't match Pod's node affinity/selector.",
        )
        world.expect_unschedulable(dropped, NO_ROOM)

        closed = proxy.add(Rule("GET", "watch=1", lose="request"))
        proxy.cut_watches()
        until(lambda: closed.met >= 3)
        world.delete_pod(gone)
        world.delete_pod(dropped)
        plane.request("DELETE", "/api/v1/nodes/old")
        blind = World(plane, "default")
        blind.nodes("new", cpu="2", labels={"disk": "fast"})
        late = blind.pod(cpu="3")
        plane.restart_apiserver(kill=True)
        proxy.remove(closed)

        world.expect_scheduled(waiting, on="new")
        world.expect_unschedulable(late, NO_ROOM)
        assert "410: too old resource version" in scheduler.log
        until(lambda: scheduler.metric("scheduler_cache_size", type="nodes") == 1)
        until(lambda: scheduler.metric("scheduler_cache_size", type="pods") == 1)
        assert scheduler.metric("py_scheduler_watch_restarts_total", reason="expired") >= 1


# Watches


def test_cut_watches_lose_nothing(proxy, proxied, world):
    """Every watch breaks again and again while pods come."""
    world.nodes("a", "b", cpu="20")
    pods = []
    for _ in range(5):
        pods += world.pods(8, cpu="1", scheduler="proxied")
        assert proxy.cut_watches() >= 2
    world.expect_all_scheduled(pods)

    proxy.expect_one_binding_each(*pods)
    expect_rest(proxied)
    surplus = world.pod(cpu="1", scheduler="proxied")
    world.expect_unschedulable(surplus, "0/2 nodes are available: 2 Insufficient cpu.")


def test_expired_watch_is_answered_by_a_new_list(proxy, proxied, world):
    """410 in the first line of a watch: what changed meanwhile is told as a difference."""
    world.nodes("a", cpu="2")
    first = world.pod(cpu="2", scheduler="proxied")
    world.expect_scheduled(first)
    second = world.pod(cpu="2", scheduler="proxied")
    world.expect_unschedulable(second, NO_ROOM)

    gone = {
        "kind": "Status",
        "code": 410,
        "reason": "Expired",
        "message": "too old resource version",
    }
    for path in ("/pods", "/nodes"):
        proxy.add(Rule("GET", f"{path}.*resourceVersion=\\d.*watch=1", times=2, answer=(410, gone)))
    proxy.cut_watches()
    world.delete_pod(first)
    world.expect_scheduled(second, on="a")
    assert proxied.metric("py_scheduler_watch_restarts_total", reason="expired") >= 1
    proxy.expect_one_binding_each(first, second)


def test_stale_watch_does_not_unbind_anybody(proxy, proxied, world):
    """While the pods' watch is away, assumptions stand in for what it would have told."""
    world.nodes("a", cpu="4")
    closed = proxy.add(Rule("GET", "/pods.*watch=1", lose="request"))
    first = world.pods(2, cpu="2", scheduler="proxied")
    world.expect_all_scheduled(first)
    proxy.cut_watches()
    third = world.pod(cpu="1", scheduler="proxied")
    until(lambda: closed.met >= 2)
    assert not world.node_of(third)

    proxy.remove(closed)
    world.expect_unschedulable(third, NO_ROOM)
    proxy.expect_one_binding_each(*first)


# Bindings


@pytest.mark.parametrize("lose", ["answer", "request"])
def test_binding_without_an_answer_is_read_back(proxy, proxied, world, lose):
    """Cut after the API server has bound the pod, and before it has even heard of it."""
    world.nodes("a", "b", cpu="2")
    rule = proxy.add(Rule("POST", "/binding", lose=lose, times=2))
    pods = world.pods(4, cpu="1", scheduler="proxied")
    world.expect_all_scheduled(pods)

    assert rule.met == 2
    proxy.expect_one_binding_each(*pods)
    until(lambda: proxied.metric("py_scheduler_lost_answers_total") == 2)
    told = {line["pod"].rpartition("/")[2] for line in proxied.lines("binding.answer_lost")}
    assert told <= set(pods)
    assert told
    # Told once as scheduled, never as failed.
    for pod in pods:
        until(lambda pod=pod: world.events(pod, "Scheduled"))
        assert not world.events(pod, "FailedScheduling")
    expect_rest(proxied)


def test_lost_binding_keeps_its_capacity_until_its_outcome_is_known(proxy, proxied, world):
    """Neither success nor failure: the pod cannot be read back either, for a while."""
    world.nodes("a", cpu="2")
    door, reading_room = threading.Event(), threading.Event()
    posting = proxy.add(Rule("POST", "/binding", hold=door, lose="answer", times=1))
    reading = proxy.add(Rule("GET", r"/pods/[\w-]+$", hold=reading_room))
    first = world.pod(cpu="2", scheduler="proxied")
    until(lambda: posting.met == 1, "the binding is on its way")
    # No watch must tell what became of it.
    closed = proxy.add(Rule("GET", "/pods.*watch=1", lose="request"))
    proxy.cut_watches()
    until(lambda: closed.met >= 1)
    door.set()
    until(lambda: reading.met >= 1, "the pod is being read back")
    assert world.node_of(first) == "a"
    assert proxied.metric("scheduler_cache_size", type="assumed_pods") == 1

    second = world.pod(cpu="1", scheduler="proxied")
    proxy.remove(closed)
    world.expect_unschedulable(second, NO_ROOM)
    reading_room.set()
    proxied.expect_line("pod.bound", pod=f"{world.namespace}/{first}")
    proxy.expect_one_binding_each(first)
    expect_rest_but_one(proxied)


def expect_rest_but_one(scheduler):
    until(lambda: scheduler.metric("scheduler_cache_size", type="assumed_pods") == 0)
    assert scheduler.metric("scheduler_pending_pods") == 1


def test_server_that_asks_for_patience_gets_it(proxy, proxied, world):
    """429 is no failed attempt: the pod stays where it is assumed, and is bound a second later."""
    world.nodes("a", cpu="2")
    busy = {"kind": "Status", "code": 429, "reason": "TooManyRequests", "message": "later"}
    rule = proxy.add(Rule("POST", "/binding", times=2, answer=(429, busy)))
    pod = world.pod(cpu="2", scheduler="proxied")
    world.expect_scheduled(pod, on="a")

    assert rule.met == 2
    assert not world.events(pod, "FailedScheduling")
    assert proxied.expect_line("pod.bound")["attempt"] == 1


def test_refused_binding_is_reported_and_tried_again(proxy, proxied, world):
    world.nodes("a", cpu="2")
    no = {"kind": "Status", "code": 403, "reason": "Forbidden", "message": "not today"}
    door = proxy.add(Rule("POST", "/binding", answer=(403, no)))
    pod = world.pod(cpu="2", scheduler="proxied")
    (event,) = until(lambda: world.events(pod, "FailedScheduling"))
    assert "not today" in event["note"]
    assert event["note"].startswith('running Bind plugin "DefaultBinder": ')
    line = proxied.expect_line("pod.retried")
    assert "not today" in line["error"]

    proxy.remove(door)
    world.expect_scheduled(pod, on="a")
    proxy.expect_one_binding_each(pod)


def test_node_filled_by_another_scheduler_meanwhile_is_avoided(proxy, world):
    """A binding that has waited for the rate limit is checked once more before it is posted.

    A dozen bindings go first; while the last one waits in line, another scheduler takes its room.
    """
    world.nodes("a", "b", cpu="4")
    document = configuration(profiles=[profile("slow")], clientConnection={"qps": 5, "burst": 10})
    with scheduler_process(world.plane, kubeconfig=proxy.kubeconfig, config=document) as slow:
        on_b = {"kubernetes.io/hostname": "b"}
        before = world.pods(20, cpu="10m", scheduler="slow", nodeSelector=on_b)
        pod = world.pod(cpu="2", scheduler="slow", nodeSelector={"kubernetes.io/hostname": "a"})
        rival = world.pod(cpu="4", scheduler="nobody")
        until(lambda: slow.metric("scheduler_pending_pods") == 0, "all are decided")
        world.bind(rival, "a")

        world.expect_all_scheduled(before)
        line = slow.expect_line("pod.retried", pod=f"{world.namespace}/{pod}")
        assert line["error"] == "node a was filled meanwhile: Insufficient cpu"
        assert proxy.bindings()[pod] == 0
        world.delete_pod(rival)
        world.expect_scheduled(pod, on="a")
