"""What an operator sees of a running scheduler: events, health, metrics, its pace."""

from __future__ import annotations

import json
import os
import signal
import ssl
import time

import pytest

from hack.api import request_text
from hack.kubeconfig import Access
from hack.ports import LOOPBACK
from tests.integration.proxy import Rule
from tests.integration.world import configuration, profile, scheduler_process, until

pytestmark = pytest.mark.integration

NO_ROOM = "0/1 nodes are available: 1 Insufficient cpu."


def test_describe_shows_why_and_where(world, kubectl):
    world.nodes("a", cpu="1")
    pod = world.pod("web", cpu="2")
    world.expect_unschedulable(pod, NO_ROOM)

    def said():
        return kubectl("describe", "pod", "web", "-n", world.namespace).split("Events:")[1]

    refusal = until(lambda: said() if "FailedScheduling" in said() else "")
    assert "Warning  FailedScheduling" in refusal
    assert f"py-scheduler  {NO_ROOM}" in refusal

    world.change_node_status("a", allocatable={"cpu": "4"}, capacity={"cpu": "4"})
    world.expect_scheduled(pod, on="a")
    success = until(lambda: said() if "Scheduled " in said() else "")
    assert f"Successfully assigned {world.namespace}/web to a" in success


def test_repeated_refusal_is_one_event_with_a_count(world, kubectl):
    """Each small pod that goes wakes the big one, which still does not fit."""
    world.nodes("a", cpu="4")
    small = world.pods(3, cpu="1")
    world.expect_all_scheduled(small)
    big = world.pod(cpu="4")
    world.expect_unschedulable(big, NO_ROOM)
    (scheduler,) = world.schedulers
    key = f"{world.namespace}/{big}"

    for count, pod in enumerate(small[:2], start=2):
        world.delete_pod(pod)
        until(lambda count=count: len(scheduler.lines("pod.parked", pod=key)) == count)
    (event,) = until(lambda: [each for each in world.events(big) if each.get("series")], "a series")
    assert event["series"]["count"] == 2
    assert event["reason"] == "FailedScheduling"
    assert event["note"].startswith(NO_ROOM)
    assert len(world.events(big)) == 1
    assert "(x2 over" in kubectl("describe", "pod", big, "-n", world.namespace)


def test_health_is_served_over_http(scheduler):
    assert scheduler.get("/healthz") == (200, "ok")
    assert scheduler.get("/livez") == (200, "ok")
    assert scheduler.get("/readyz") == (200, "ok")
    status, text = scheduler.get("/readyz?verbose")
    assert status == 200
    assert "[+]sched-handler-sync ok" in text
    assert scheduler.get("/elsewhere")[0] == 404


def test_scheduler_that_has_seen_nothing_yet_is_alive_and_not_ready(proxy, control_plane):

    closed = proxy.add(Rule("GET", "/nodes", lose="request"))
    with scheduler_process(
        control_plane, kubeconfig=proxy.kubeconfig, config=configuration(), ready=False
    ) as scheduler:
        scheduler.expect_line("watch.restarted", resource="Node")
        scheduler.expect_line("watch.synced", resource="Pod")
        assert scheduler.get("/livez")[0] == 200
        status, text = scheduler.get("/readyz")
        assert status == 500
        assert "[-]sched-handler-sync failed" in text
        proxy.remove(closed)
        scheduler.wait_until_ready()


def test_metrics_follow_the_pods(world):
    """Names and labels are upstream's, so that existing dashboards work."""
    world.nodes("a", cpu="4")
    (scheduler,) = world.schedulers
    attempts = "scheduler_schedule_attempts_total"
    mine = {"profile": "py-scheduler"}

    def counts():
        return {
            result: scheduler.metric(attempts, result=result, **mine)
            for result in ("scheduled", "unschedulable")
        }

    before = counts()
    observed = scheduler.metric("scheduler_pod_scheduling_sli_duration_seconds_count")
    world.expect_all_scheduled(world.pods(3, cpu="1"))
    waiting = world.pods(2, cpu="3")
    for pod in waiting:
        world.expect_unschedulable(pod, NO_ROOM)
    until(lambda: counts()["scheduled"] == before["scheduled"] + 3)
    assert counts()["unschedulable"] == before["unschedulable"] + 2
    assert scheduler.metric("scheduler_pending_pods", queue="unschedulable") == 2
    assert scheduler.metric("scheduler_pending_pods", queue="active") == 0
    unschedulable = scheduler.metric("scheduler_unschedulable_pods", plugin="NodeResourcesFit")
    assert unschedulable == 2
    sli = "scheduler_pod_scheduling_sli_duration_seconds"
    assert scheduler.metric(f"{sli}_count") == observed + 3
    for latency in (
        "scheduler_scheduling_attempt_duration_seconds",
        "scheduler_scheduling_algorithm_duration_seconds",
    ):
        count = scheduler.metric(f"{latency}_count")
        assert count > 0
        # Seconds, not milliseconds: nothing here took anywhere near a second.
        assert 0 < scheduler.metric(f"{latency}_sum") / count < 1
    assert scheduler.metric("rest_client_requests_total", code="201", method="POST") >= 3


def test_metrics_are_served_to_users_that_rbac_allows(control_plane, namespace):
    """HTTPS, a made certificate, and the API server's word for who may ask."""
    plane = control_plane
    for name in ("allowed", "refused"):
        plane.kubectl("create", "serviceaccount", name, "-n", namespace)
    role = f"scrape-{namespace}"
    plane.kubectl("create", "clusterrole", role, "--verb=get", "--non-resource-url=/metrics")
    account = f"--serviceaccount={namespace}:allowed"
    plane.kubectl("create", "clusterrolebinding", role, f"--clusterrole={role}", account)
    tokens = {
        name: plane.kubectl("create", "token", name, "-n", namespace).strip()
        for name in ("allowed", "refused")
    }

    with scheduler_process(
        plane, config=configuration(profiles=[profile("https")]), ready=False, secure=True
    ) as scheduler:
        scheduler.expect_line("endpoint.opened", scheme="https")

        def ask(path, token=""):
            given = {"Authorization": f"Bearer {token}"} if token else {}
            access = Access(
                f"https://{LOOPBACK}:{scheduler.port}", ssl._create_unverified_context(), given
            )
            return request_text(access, "GET", path)

        assert ask("/livez") == (200, "ok")
        status, text = ask("/metrics", tokens["allowed"])
        assert (status, "scheduler_pending_pods" in text) == (200, True)
        assert ask("/configz", tokens["allowed"])[0] == 403
        assert ask("/metrics", tokens["refused"])[0] == 403
        assert ask("/metrics", "nonsense")[0] == 401
        assert ask("/metrics")[0] == 403


def test_effective_configuration_is_shown(scheduler):
    status, text = scheduler.get("/configz")
    assert status == 200
    shown = json.loads(text)["componentconfig"]
    names = [each["schedulerName"] for each in shown["profiles"]]
    assert names[:3] == ["py-scheduler", "least", "most"]
    assert shown["podMaxBackoffSeconds"] == 1


def test_rate_limit_is_kept(control_plane, world):
    """With 5 requests a second and a burst of 5, 25 bindings cannot take less than 4 seconds."""
    world.nodes("a", cpu="30")
    config = configuration(profiles=[profile("slow")], clientConnection={"qps": 5, "burst": 5})
    with scheduler_process(control_plane, config=config) as scheduler:
        began = time.monotonic()
        pods = world.pods(25, cpu="1", scheduler="slow")
        # All are decided long before they are all bound: waiting costs no decisions.
        until(lambda: scheduler.metric("scheduler_pending_pods") == 0)
        seen = len([pod for pod in world.all_pods() if pod["spec"].get("nodeName")])
        elapsed = time.monotonic() - began
        assert seen <= 5 + 5 * elapsed
        world.expect_all_scheduled(pods)
        assert time.monotonic() - began >= (25 - 5) / 5


def test_cache_is_compared_on_a_signal(control_plane, world):
    world.nodes("a", cpu="4")
    world.expect_all_scheduled(world.pods(3, cpu="1"))
    with scheduler_process(
        control_plane, config=configuration(profiles=[profile("compared")])
    ) as scheduler:
        os.kill(scheduler.process.pid, signal.SIGUSR2)
        until(lambda: scheduler.metric("py_scheduler_cache_comparisons_total", result="equal"))
        assert not scheduler.lines("cache.drifted")


def test_a_comparison_lists_metadata_alone_page_by_page(control_plane, world):
    """Each of 120 pods has a spec of 20 KB; a page has a hundred pods."""
    large = [{"name": "main", "image": "i", "env": [{"name": "LARGE", "value": "x" * 20_000}]}]
    world.pods(120, schedulingGates=[{"name": "example.com/never"}], containers=large)
    config = configuration(profiles=[profile("compared")])
    with scheduler_process(control_plane, config=config) as scheduler:

        def received(part):
            return scheduler.metric(f"rest_client_response_size_bytes_{part}", verb="GET")

        requests, size = received("count"), received("sum")
        os.kill(scheduler.process.pid, signal.SIGUSR2)
        until(lambda: scheduler.metric("py_scheduler_cache_comparisons_total", result="equal"))
        assert received("count") - requests >= 3
        assert received("sum") - size < 120 * 20_000 / 2
