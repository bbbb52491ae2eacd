"""Metrics: upstream's names, types, labels and buckets, and what a scrape shows of them."""

import math
import re
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry, Histogram, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from scheduler.observe import families
from scheduler.observe.cycle_observer import CycleObserver
from scheduler.observe.metrics import Metrics

if TYPE_CHECKING:
    from scheduler.framework.observer import Observer

UPSTREAM = {
    "scheduler_schedule_attempts_total": ("counter", "result profile", None),
    "scheduler_scheduling_attempt_duration_seconds": (
        "histogram",
        "result profile",
        (0.001, 16.384, 15),
    ),
    "scheduler_scheduling_algorithm_duration_seconds": ("histogram", "", (0.001, 16.384, 15)),
    "scheduler_event_handling_duration_seconds": ("histogram", "event", (0.0001, 0.2048, 12)),
    "scheduler_preemption_victims": ("histogram", "", (1, 64, 7)),
    "scheduler_preemption_attempts_total": ("counter", "", None),
    "scheduler_preemption_goroutines_duration_seconds": (
        "histogram",
        "result",
        (0.01, 5242.88, 20),
    ),
    "scheduler_preemption_goroutines_execution_total": ("counter", "result", None),
    "scheduler_pending_pods": ("gauge", "queue", None),
    "scheduler_inflight_events": ("gauge", "event", None),
    "scheduler_goroutines": ("gauge", "operation", None),
    "scheduler_pod_scheduling_sli_duration_seconds": ("histogram", "attempts", (0.01, 5242.88, 20)),
    "scheduler_pod_scheduling_attempts": ("histogram", "", (1, 16, 5)),
    "scheduler_pod_scheduled_after_flush_total": ("counter", "", None),
    "scheduler_framework_extension_point_duration_seconds": (
        "histogram",
        "extension_point status profile",
        (0.0001, 0.2048, 12),
    ),
    "scheduler_plugin_execution_duration_seconds": (
        "histogram",
        "plugin extension_point status",
        (0.00001, 0.00001 * 1.5**19, 20),
    ),
    "scheduler_queueing_hint_execution_duration_seconds": (
        "histogram",
        "plugin event hint",
        (0.00001, 0.00001 * 1.5**19, 20),
    ),
    "scheduler_queue_incoming_pods_total": ("counter", "queue event", None),
    "scheduler_permit_wait_duration_seconds": ("histogram", "result", (0.001, 16.384, 15)),
    "scheduler_cache_size": ("gauge", "type", None),
    "scheduler_unschedulable_pods": ("gauge", "plugin profile", None),
    "scheduler_plugin_evaluation_total": ("counter", "plugin extension_point profile", None),
    "leader_election_master_status": ("gauge", "name", None),
    "rest_client_requests_total": ("counter", "code method host", None),
    "rest_client_request_duration_seconds": ("histogram", "verb host", (0.005, 60, 12)),
    "rest_client_rate_limiter_duration_seconds": ("histogram", "verb host", (0.005, 60, 12)),
    "rest_client_request_size_bytes": ("histogram", "verb host", (64, 16777216, 11)),
    "rest_client_response_size_bytes": ("histogram", "verb host", (64, 16777216, 11)),
}
"""Written by hand from upstream: name, type, labels, (first bucket, last bucket, how many)."""


def exposition(metrics: Metrics) -> dict[str, float]:
    """Return what a scrape shows: values by name and labels, as in ``x{a="b"}``."""
    lines = generate_latest(metrics.registry).decode().splitlines()
    return {
        name: float(value)
        for name, _, value in (line.rpartition(" ") for line in lines if line[:1] != "#")
    }


def shown(metrics: Metrics, begin: str) -> dict[str, float]:
    return {n: v for n, v in exposition(metrics).items() if n.startswith(begin) and v}


@pytest.mark.parametrize("name", UPSTREAM)
def test_upstreams_families_are_upstreams(name):
    (family,) = [family for family in families.FAMILIES if family.name == name]
    kind, labels, buckets = UPSTREAM[name]

    assert (family.kind, " ".join(family.labels)) == (kind, labels)
    if buckets is None:
        assert family.buckets == ()
    else:
        first, last, count = buckets
        assert len(family.buckets) == count
        assert math.isclose(family.buckets[0], first)
        assert math.isclose(family.buckets[-1], last)


def test_families_that_upstream_lacks_have_our_prefix():
    ours = {family.name for family in families.FAMILIES} - UPSTREAM.keys() - {"go_goroutines"}

    assert len(families.FAMILIES) == len({family.name for family in families.FAMILIES})
    assert all(name.startswith("py_scheduler_") for name in ours)


def test_a_scrape_shows_every_family_and_the_process():
    text = generate_latest(Metrics().registry).decode()
    found = {f.name: f.type for f in text_string_to_metric_families(text)}

    for family in families.FAMILIES:
        assert found[family.name.removesuffix("_total")] == family.kind
    assert {"python_gc_objects_collected", "python_info"} <= found.keys()
    assert "_created" not in text


def test_every_family_is_counted_somewhere():
    package = Path(families.__file__).parents[1]
    code = "".join(p.read_text() for p in package.rglob("*.py"))
    named = {name for name, value in vars(families).items() if isinstance(value, families.Family)}

    assert named - set(re.findall(r"families\.(\w+)", code)) == set()


def test_instances_share_nothing():
    one, other = Metrics(), Metrics()

    one.count(families.PREEMPTION_ATTEMPTS)

    assert shown(one, "scheduler_preemption_attempts") == {"scheduler_preemption_attempts_total": 1}
    assert not shown(other, "scheduler_preemption_attempts")


def test_a_scrape_shows_what_was_counted_and_observed():
    metrics = Metrics()
    metrics.count(families.INCOMING_PODS, "active", "UnscheduledPodAdd")
    metrics.count(families.CACHE_DRIFT, "Pod", "missing", amount=2)
    metrics.observe(families.REQUEST_DURATION, 0.5, "POST", "host")
    metrics.counts(families.PLUGIN_EVALUATIONS)["P", "Filter", "p"] += 5000

    found = exposition(metrics)

    duration = "rest_client_request_duration_seconds"
    labels = 'host="host",verb="POST"'
    expected = {
        'scheduler_queue_incoming_pods_total{event="UnscheduledPodAdd",queue="active"}': 1,
        'py_scheduler_cache_drift_total{kind="missing",resource="Pod"}': 2,
        f'{duration}_bucket{{host="host",le="0.25",verb="POST"}}': 0,
        f'{duration}_bucket{{host="host",le="0.5",verb="POST"}}': 1,
        f'{duration}_bucket{{host="host",le="+Inf",verb="POST"}}': 1,
        f"{duration}_sum{{{labels}}}": 0.5,
        f"{duration}_count{{{labels}}}": 1,
        'scheduler_plugin_evaluation_total{extension_point="Filter",plugin="P",profile="p"}': 5000,
    }
    assert {name: found.get(name) for name in expected} == expected


@pytest.mark.parametrize(
    "misuse",
    [
        lambda m: m.count(families.INCOMING_PODS, "active"),
        lambda m: m.observe(families.LOOP_STALL, 1.0, "label too many"),
        lambda m: m.count(families.BIND_CONFLICTS, amount=-1),
        lambda m: m.counts(families.REQUESTS),
        lambda m: m.read(families.BIND_CONFLICTS, dict),
    ],
)
def test_misuse_is_asserted(misuse):
    with pytest.raises(AssertionError):
        misuse(Metrics())


def test_requests_of_several_threads_are_all_counted():
    """The lease is renewed by a thread of its own."""
    metrics, each = Metrics(), 2000

    def count():
        for _ in range(each):
            metrics.count(families.REQUESTS, "200", "GET", "host")
            metrics.observe(families.REQUEST_DURATION, 0.1, "GET", "host")

    threads = [Thread(target=count) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    found = exposition(metrics)
    assert found['rest_client_requests_total{code="200",host="host",method="GET"}'] == 4 * each
    assert found['rest_client_request_duration_seconds_count{host="host",verb="GET"}'] == 4 * each


@given(st.lists(st.sampled_from([0, 0.001, 0.0011, 0.5, 16.384, 20]) | st.floats(0, 100)))
def test_amounts_fall_into_the_buckets_of_a_plain_histogram(amounts):
    """An amount that is a bucket's bound belongs to it."""
    metrics, plain = Metrics(), CollectorRegistry()
    family = families.ALGORITHM_DURATION
    reference = Histogram(family.name, family.help, buckets=family.buckets, registry=plain)

    for amount in amounts:
        metrics.observe(family, amount)
        reference.observe(amount)

    shown = generate_latest(metrics.registry).decode().splitlines()
    for line in generate_latest(plain).decode().splitlines():
        if "_sum" not in line:
            assert line in shown
    total = float(next(each for each in shown if "algorithm" in each and "_sum" in each).split()[1])
    assert math.isclose(total, sum(amounts))


def test_gauges_are_read_at_each_scrape():
    metrics, sizes = Metrics(), {"active": 1, "gated": 0}
    metrics.read(families.PENDING_PODS, lambda: sizes)
    metrics.read(families.UNSCHEDULABLE_PODS, lambda: {("NodePorts", "p"): 2})

    sizes["active"] = 5

    found = exposition(metrics)
    assert found['scheduler_pending_pods{queue="active"}'] == 5
    assert found['scheduler_pending_pods{queue="gated"}'] == 0
    assert found['scheduler_unschedulable_pods{plugin="NodePorts",profile="p"}'] == 2


@pytest.mark.parametrize("family", [each for each in families.FAMILIES if each.known])
def test_known_series_exist_before_their_first_event(family):
    """Prometheus sees no increase in a series that begins with its first event."""
    names = [
        "".join(
            f'{label}="{value}",'
            for label, value in sorted(zip(family.labels, labels, strict=True))
        )[:-1]
        for labels in family.known
    ]
    found = exposition(Metrics())

    assert {found.get(f"{family.name}{{{each}}}") for each in names} == {0}


def test_a_registry_of_its_own_is_used():
    assert isinstance(Metrics().registry, CollectorRegistry)


def test_an_observer_times_extension_points_always_and_plugins_when_drawn():
    metrics, draws = Metrics(), iter([0.5, 0.05])
    observer: Observer = CycleObserver(metrics, "p", draw=lambda: next(draws))

    for _ in range(2):
        observer.begin_cycle()
        with observer.extension_point("Filter"), observer.plugin("Filter", "NodePorts"):
            pass

    found = exposition(metrics)
    point = 'extension_point="Filter",profile="p",status="Success"'
    plugin = 'extension_point="Filter",plugin="NodePorts",status="Success"'
    name = "scheduler_framework_extension_point_duration_seconds_count"
    assert found[f"{name}{{{point}}}"] == 2
    assert found[f"scheduler_plugin_execution_duration_seconds_count{{{plugin}}}"] == 1


@pytest.mark.parametrize(("said", "status"), [("", "Success"), ("Unschedulable",) * 2])
def test_a_search_that_is_left_early_has_the_status_that_it_set(said, status):
    """A PostFilter search ends as soon as one plugin has found a node."""
    metrics = Metrics()
    observer = CycleObserver(metrics, "p", draw=lambda: 1)

    def search():
        with observer.extension_point("PostFilter") as ends:
            if said:
                ends(said)
            yield

    answers = search()
    next(answers)
    answers.close()

    labels = f'extension_point="PostFilter",profile="p",status="{status}"'
    name = "scheduler_framework_extension_point_duration_seconds_count"
    assert exposition(metrics)[f"{name}{{{labels}}}"] == 1


def test_what_raises_is_timed_as_an_error():
    metrics = Metrics()
    observer = CycleObserver(metrics, "p", draw=lambda: 0)

    def fail() -> None:
        with observer.extension_point("Score"):
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()

    labels = 'extension_point="Score",profile="p",status="Error"'
    name = "scheduler_framework_extension_point_duration_seconds_count"
    assert exposition(metrics)[f"{name}{{{labels}}}"] == 1
