"""Processes end, are killed, and come in pairs: every pod is bound once, by whoever may."""

from __future__ import annotations

import signal
import threading

import pytest

from tests.integration.proxy import Rule
from tests.integration.world import (
    SHORT_LEASE,
    Placements,
    configuration,
    profile,
    scheduler_process,
    until,
)

pytestmark = pytest.mark.integration


def document(name, *, qps=40, **more):
    connection = {"qps": qps, "burst": 5}
    return configuration(profiles=[profile(name)], clientConnection=connection, **more)


def bound_by(scheduler):
    return {line["pod"].rpartition("/")[2] for line in scheduler.lines("pod.bound")}


def bound_on_the_server(world):
    return {pod["metadata"]["name"] for pod in world.all_pods() if pod["spec"].get("nodeName")}


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_second_run_takes_up_what_the_first_left(control_plane, world, number):
    """A polite end under load: exit code 0, no binding in doubt, nothing forgotten."""
    world.nodes("a", "b", cpu="30")
    with Placements(control_plane, world.namespace):
        with scheduler_process(control_plane, config=document("relay")) as first:
            pods = world.pods(60, cpu="1", scheduler="relay")
            until(lambda: len(bound_by(first)) >= 5, "the load has begun")
            first.process.signal(number)
            late = world.pods(2, cpu="0", scheduler="relay")
            assert first.process.wait(30) == 0
        assert first.expect_line("scheduler.stopped")
        assert not first.lines("lease.lost")
        # What was posted has been heard of, and told.
        assert bound_by(first) == bound_on_the_server(world)
        assert 0 < len(bound_by(first)) <= 62

        with scheduler_process(control_plane, config=document("relay")) as second:
            world.expect_all_scheduled([*pods, *late])
            until(lambda: len(bound_by(first) | bound_by(second)) == 62)
            assert not bound_by(first) & bound_by(second)
        for pod in pods:
            until(lambda pod=pod: len(world.events(pod, "Scheduled")) == 1)


def test_binding_on_its_way_is_awaited_at_the_end(proxy, proxied, world):
    """SIGTERM while the API server is slow: the answer comes, is told to the pod, then comes 0."""
    world.nodes("a")
    door = threading.Event()
    rule = proxy.add(Rule("POST", "/binding", hold=door))
    pod = world.pod(scheduler="proxied")
    until(lambda: rule.met == 1, "the binding is on its way")

    proxied.process.signal(signal.SIGTERM)
    until(lambda: proxied.get("/readyz")[0] == 500, "no traffic is wanted any more")
    late = world.pod(scheduler="proxied")
    world.settle()
    assert proxied.process.running
    door.set()
    assert proxied.process.wait(30) == 0
    world.expect_scheduled(pod, on="a")
    assert world.events(pod, "Scheduled")
    assert not world.node_of(late)


def test_killed_run_leaves_nothing_to_repair(control_plane, world):
    """kill -9: the next run reads from the cluster what there is, and goes on."""
    world.nodes("a", "b", cpu="20")
    with Placements(control_plane, world.namespace):
        pods = world.pods(40, cpu="1", scheduler="relay")
        with scheduler_process(control_plane, config=document("relay", qps=5)) as first:
            until(lambda: len(bound_by(first)) >= 5, "the load has begun")
            first.process.kill()
        assert len(bound_on_the_server(world)) < 40
        with scheduler_process(control_plane, config=document("relay")):
            world.expect_all_scheduled(pods)


def test_replicas_take_over_from_each_other(control_plane, world):
    """Of two replicas one binds; when it is killed under load, the other takes over.

    The standby keeps reading meanwhile, so it knows the cluster when its turn comes.
    """
    world.nodes("a", "b", cpu="40")
    election = {**SHORT_LEASE, "resourceName": f"{world.namespace}-pair"}
    # So slow that pods are left for the standby, however long it takes to create them.
    config = document("pair", qps=8, leaderElection=election)
    name = election["resourceName"]
    with (
        Placements(control_plane, world.namespace),
        scheduler_process(control_plane, config=config) as leader,
    ):
        leader.expect_line("lease.acquired")
        with scheduler_process(control_plane, config=config) as standby:
            pods = world.pods(10, cpu="1", scheduler="pair")
            world.expect_all_scheduled(pods)
            assert leader.metric("leader_election_master_status", name=name) == 1
            assert standby.metric("leader_election_master_status", name=name) == 0
            until(lambda: len(bound_by(leader)) == 10)
            assert not bound_by(standby)
            until(lambda: standby.metric("scheduler_cache_size", type="pods") == 10)

            more = world.pods(60, cpu="1", scheduler="pair")
            until(lambda: len(bound_by(leader)) >= 15, "the load has begun")
            leader.process.kill()
            world.expect_all_scheduled(more)
            standby.expect_line("lease.acquired")
            until(lambda: bound_by(standby))
            assert not bound_by(leader) & bound_by(standby)
            assert standby.metric("leader_election_master_status", name=name) == 1


def test_standby_lists_nothing_before_it_leads_if_configured_so(control_plane, world):
    """Then it is not ready either, as upstream; what it missed it reads when it leads."""
    world.nodes("a")
    election = {**SHORT_LEASE, "resourceName": f"{world.namespace}-late"}
    config = document("late", leaderElection=election, delayCacheUntilActive=True)
    with scheduler_process(control_plane, config=config) as leader:
        leader.expect_line("lease.acquired")
        with scheduler_process(control_plane, config=config, ready=False) as standby:
            standby.expect_line("lease.awaited")
            world.expect_scheduled(world.pod(scheduler="late"), on="a")
            assert not standby.is_ready()
            assert not standby.lines("watch.synced")
            # Or an alert would tell of watches that nobody has begun.
            assert "py_scheduler_watch_silence_seconds{" not in standby.get("/metrics")[1]

            assert leader.stop() == 0
            world.expect_scheduled(world.pod(scheduler="late"), on="a")
            standby.wait_until_ready()
            assert standby.metric("scheduler_cache_size", type="pods") == 2


def test_leader_that_stops_politely_hands_over_at_once(control_plane, world):
    """A released lease is free: with a lease of an hour nobody could wait for its end."""
    world.nodes("a")
    election = {
        **SHORT_LEASE,
        "leaseDuration": "1h",
        "renewDeadline": "30m",
        "resourceName": f"{world.namespace}-release",
    }
    config = document("release", leaderElection=election)
    with scheduler_process(control_plane, config=config) as leader:
        leader.expect_line("lease.acquired")
        with scheduler_process(control_plane, config=config) as standby:
            standby.expect_line("lease.awaited")
            assert leader.stop() == 0
            world.expect_scheduled(world.pod(scheduler="release"), on="a")
            standby.expect_line("lease.acquired")
    assert leader.lines("lease.released")


def test_least_privileges_suffice_to_lead(control_plane, scheduler, world):
    """The service account of `deploy` may hold the lease of its name, and no other."""
    world.nodes("a")
    kubeconfig = control_plane.service_account_kubeconfig("kube-system", "py-scheduler")
    config = document("lead", leaderElection=SHORT_LEASE)
    with scheduler_process(control_plane, kubeconfig=kubeconfig, config=config) as leader:
        leader.expect_line("lease.acquired")
        world.expect_scheduled(world.pod(scheduler="lead"), on="a")
    assert leader.lines("lease.released")

    def may(*what):
        account = "system:serviceaccount:kube-system:py-scheduler"
        try:
            control_plane.kubectl("auth", "can-i", *what, f"--as={account}", "-n", "kube-system")
        except RuntimeError:
            return False
        return True

    assert may("update", "leases/py-scheduler")
    assert not may("update", "leases/kube-scheduler")
    assert may("delete", "pods"), "to make room"
    assert not may("delete", "nodes")
    assert not may("update", "pods")
    assert not may("get", "secrets")
    assert not may("patch", "nodes")


def test_leader_that_loses_its_lease_ends_at_once(control_plane, world):
    """Somebody else holds the lease: no request may follow, so the process is gone, with a code."""
    world.nodes("a")
    name = f"{world.namespace}-lost"
    config = document("lost", leaderElection={**SHORT_LEASE, "resourceName": name})
    with scheduler_process(control_plane, config=config) as leader:
        leader.expect_line("lease.acquired")
        path = f"/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/{name}"
        control_plane.request(
            "PATCH",
            path,
            {"spec": {"holderIdentity": "somebody", "leaseDurationSeconds": 3600}},
            content_type="application/merge-patch+json",
        )
        assert leader.process.wait(30) == 1
        assert leader.lines("lease.lost")
    pod = world.pod(scheduler="lost")
    world.settle()
    assert not world.node_of(pod)
