"""A real Prometheus scrapes a live run: ours beside kube-scheduler's, asked the same questions.

The run has a bit of everything that dashboards and alerts ask for: pods that are bound, that wait
and that make room, a kubelet that refuses, a rival, a lost answer, watches that break.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import ssl
import threading
from dataclasses import dataclass
from fnmatch import fnmatch
from math import inf
from pathlib import Path
from typing import Any

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from hack.api import request_text
from hack.binaries import MissingBinariesError, ensure
from hack.control_plane import ControlPlane
from hack.kubeconfig import Access
from hack.ports import LOOPBACK
from hack.prometheus import Prometheus, Target, scraping_token
from scheduler.observe.families import FAMILIES
from tests.integration.proxy import Proxy, Rule
from tests.integration.world import Scheduler, World, configuration, scheduler_process, until

pytestmark = pytest.mark.integration

ROOT = Path(__file__).parents[2]
CHART = ROOT / "charts/py-scheduler/files"
MIXIN = yaml.safe_load(Path(__file__).with_name("mixin.yaml").read_text())
DASHBOARD = [
    (f"{panel['title']}: {target['legendFormat']}", target["expr"])
    for panel in json.loads((CHART / "dashboard.json").read_text())["panels"]
    for target in panel["targets"]
]
OURS, THEIRS, PLAIN = "py-scheduler", "kube-scheduler", "standby"
UNTOLD = {"rate of volumes", "latency of volumes", "requests 3xx"}
"""The metric is gone from kube-scheduler too; API servers do not redirect."""

LEASE = {"leaderElect": True, "resourceNamespace": "kube-system"}


@dataclass
class Live:
    plane: ControlPlane
    prometheus: Prometheus
    leader: Scheduler
    theirs: Any
    token: str

    def ask(self, expression: str, job: str = OURS) -> list[dict[str, Any]]:
        return self.prometheus.query(expression.replace("SELECTOR", f'job="{job}"'))


@pytest.fixture(scope="module")
def live():
    try:
        ensure(["prometheus"])
    except MissingBinariesError as error:
        pytest.fail(str(error), pytrace=False)
    with contextlib.ExitStack() as stack:
        plane = stack.enter_context(ControlPlane())
        proxy = stack.enter_context(Proxy(plane))
        config = configuration(leaderElection=LEASE)
        leader = stack.enter_context(
            scheduler_process(
                plane, kubeconfig=proxy.kubeconfig, config=config, ready=False, secure=True
            )
        )
        leader.expect_line("lease.acquired")
        standby = stack.enter_context(scheduler_process(plane, config=config))
        theirs = plane.start_kube_scheduler({"leaderElection": {"leaderElect": True}})
        plane.create_namespace("monitoring")
        token = scraping_token(plane, "monitoring")
        targets = [
            Target(OURS, leader.port, token),
            Target(THEIRS, theirs.port, token),
            Target(PLAIN, standby.port),
        ]
        prometheus = stack.enter_context(Prometheus(plane, targets, rules=[CHART / "alerts.yaml"]))
        everybody = Live(plane, prometheus, leader, theirs, token)
        until(lambda: len(prometheus.query("up == 1")) == 3, "three targets are up")
        world = live_through(plane, proxy, leader, standby)
        with going_on(world, leader):
            yield everybody


def live_through(plane: ControlPlane, proxy: Proxy, leader: Scheduler, standby: Scheduler) -> World:
    plane.create_namespace("world")
    world = World(plane, "world", standby)
    world.nodes("a", "b", "c", cpu="20", zone="z", pods=1000)
    plane.kubectl("create", "priorityclass", "high", "--value=1000")
    for scheduler, name in ((OURS, "a"), ("default-scheduler", "b")):
        # A node for each: one would make room at the other's cost.
        there = {"scheduler": scheduler, "nodeSelector": {"kubernetes.io/hostname": name}}
        world.expect_all_scheduled(world.pods(6, cpu="1", **there))
        world.pod(cpu="30", **there)
        world.pod(schedulingGates=[{"name": "example.com/gate"}], **there)
        world.pod(cpu="16", priorityClassName="high", **there)
    refused = world.pod()
    world.expect_scheduled(refused)
    status = {"phase": "Failed", "reason": "OutOfcpu"}
    world.change_pod(refused, {"status": status}, subresource="status")
    proxy.add(Rule("POST", "/binding", lose="answer", times=1))
    world.expect_scheduled(world.pod())
    trouble = {"kind": "Status", "code": 500, "reason": "InternalError", "message": "trouble"}
    proxy.add(Rule("POST", "/events", answer=(500, trouble), times=1))
    conflict = {"kind": "Status", "code": 409, "reason": "Conflict", "message": "a rival"}
    proxy.add(Rule("POST", "/binding", answer=(409, conflict), times=1))
    world.expect_scheduled(world.pod())
    proxy.cut_watches()
    leader.expect_line("watch.restarted")
    return world


@contextlib.contextmanager
def going_on(world: World, leader: Scheduler):
    """Keep both schedulers busy meanwhile: a rate is seen in what changes between two scrapes."""
    ending = threading.Event()

    def go_on():
        while not ending.wait(0.1):
            for scheduler in (OURS, "default-scheduler"):
                world.pod(cpu="0", scheduler=scheduler)
            os.kill(leader.process.pid, signal.SIGUSR2)

    thread = threading.Thread(target=go_on)
    thread.start()
    try:
        yield
    finally:
        ending.set()
        thread.join()


def test_metrics_are_scraped_over_https_with_a_token(live):
    (found,) = live.ask("scheduler_cache_size{SELECTOR, type='nodes'}")
    assert found["value"][1] == "3"
    assert live.ask("leader_election_master_status{SELECTOR} == 1")


def test_metrics_are_scraped_in_plain_http_where_that_is_allowed(live):
    assert live.ask("leader_election_master_status{SELECTOR} == 0", PLAIN)
    until(lambda: live.ask("scheduler_cache_size{SELECTOR, type='nodes'} == 3", PLAIN))


@pytest.mark.parametrize("panel", MIXIN["panels"])
def test_the_mixins_panels_show_us_what_they_show_of_kube_scheduler(live, panel):
    """With nothing but the selector changed."""
    query = MIXIN["panels"][panel]
    if panel in UNTOLD:
        assert not live.ask(query, THEIRS)
    else:
        until(lambda: live.ask(query), panel)


@pytest.mark.parametrize("quantile", ["0.99", "0.9", "0.5"])
@pytest.mark.parametrize("rule", MIXIN["rules"])
def test_the_mixins_rules_record_us(live, rule, quantile):
    until(lambda: live.ask(MIXIN["rules"][rule].replace("QUANTILE", quantile)), rule)


def test_the_mixins_alerts_watch_us(live):
    for alert in MIXIN["alerts"].values():
        assert live.ask(alert) == []
    assert live.ask(MIXIN["alerts"]["down"], "nobody")


@pytest.mark.parametrize(("panel", "query"), DASHBOARD, ids=[panel for panel, _ in DASHBOARD])
def test_every_query_of_the_dashboard_shows_something(live, panel, query):
    chosen = query.replace("$__rate_interval", "1m").replace("$job", OURS)
    until(lambda: live.ask(chosen), panel)


def test_alerts_that_should_fire_do(live):
    """Two of the chart's rules that need no quarter of an hour, evaluated by Prometheus itself."""

    def firing():
        found = {each["labels"]["alertname"] for each in live.prometheus.alerts()}
        return "PySchedulerKubeletRejections" in found and found

    assert until(firing) & {"PySchedulerDown", "PySchedulerTwoLeaders"} == set()


# Beside kube-scheduler's own.


def families(text):
    found = {}
    for family in text_string_to_metric_families(text):
        labels = {label for sample in family.samples for label in sample.labels} - {"le"}
        bounds = {sample.labels["le"] for sample in family.samples if "le" in sample.labels}
        name = f"{family.name}_total" if family.type == "counter" else family.name
        found[name] = family.type, labels, {round(float(bound), 9) for bound in bounds}
    return found


def declared():
    """Return the shape of every family of ours, whether it has a series yet or not."""
    return {
        family.name: (
            family.kind,
            set(family.labels),
            {round(bound, 9) for bound in family.buckets} | ({inf} if family.buckets else set()),
        )
        for family in FAMILIES
    }


def left_out():
    _, _, page = (ROOT / "docs/semantics.md").read_text().partition("\n## Metrics\n")
    rows = re.findall(r"^\| (`.+?) \|", page.partition("\n## ")[0], re.MULTILINE)
    return [name for row in rows for name in re.findall(r"`([\w*]+)`", row)]


def test_every_metric_of_kube_scheduler_is_ours_too_or_documented_as_left_out(live):
    access = Access(
        f"https://{LOOPBACK}:{live.leader.port}",
        ssl._create_unverified_context(),
        {"Authorization": f"Bearer {live.token}"},
    )
    status, text = request_text(access, "GET", "/metrics")
    assert status == 200
    ours, theirs = families(text), families(live.plane.scrape(live.theirs))
    assert declared().keys() <= ours.keys()
    # A scrape shows labels and buckets of series alone, and some families have none yet: nothing of
    # their kind has happened, or they are sampled and no sample was drawn.
    ours |= {name: shape for name, shape in declared().items() if not any(ours[name][1:])}
    unexplained = {}
    for name, (kind, labels, bounds) in theirs.items():
        if not name.startswith(("scheduler_", "rest_client_", "process_", "leader_election_")):
            continue
        if name not in ours and any(fnmatch(name, pattern) for pattern in left_out()):
            continue
        if ours.get(name) != (kind, labels, bounds):
            unexplained[name] = (kind, labels, bounds), ours.get(name)
    assert unexplained == {}
