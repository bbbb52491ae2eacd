"""Metrics: upstream's names, types, labels and buckets, and what each method records."""

import math
import re
from pathlib import Path
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


def test_what_is_not_upstreams_has_a_prefix_of_its_own():
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


def test_every_family_is_written_somewhere():
    package = Path(families.__file__).parents[1]
    metrics = package / "observe" / "metrics.py"
    elsewhere = "".join(p.read_text() for p in package.rglob("*.py") if p != metrics)
    methods = re.split(r"\n    def ", metrics.read_text())
    written = set(re.findall(r"read\(\s*families\.(\w+)", elsewhere + metrics.read_text()))
    for attribute, family in re.findall(r"self\.(_\w+) = .*families\.(\w+)\)", metrics.read_text()):
        writers = [
            method.partition("(")[0]
            for method in methods
            if f"self.{attribute}" in method and not method.startswith("_make_families")
        ]
        if any(f".{writer}(" in elsewhere for writer in writers):
            written.add(family)
    named = {name for name, value in vars(families).items() if isinstance(value, families.Family)}

    assert named - written == set()


def test_instances_share_nothing():
    one, other = Metrics(), Metrics()

    one.preemption_tried()

    assert shown(one, "scheduler_preemption_attempts") == {"scheduler_preemption_attempts_total": 1}
    assert not shown(other, "scheduler_preemption_attempts")


@pytest.mark.parametrize(
    ("record", "expected"),
    [
        (
            lambda m: m.attempt_ended("scheduled", "p", 0.5),
            {
                'scheduler_schedule_attempts_total{profile="p",result="scheduled"}': 1,
                "scheduler_scheduling_attempt_duration_seconds_sum"
                '{profile="p",result="scheduled"}': 0.5,
            },
        ),
        (
            lambda m: m.decision_ended(0.25),
            {"scheduler_scheduling_algorithm_duration_seconds_sum": 0.25},
        ),
        (
            lambda m: m.pod_bound(3, 7.0, after_flush=True),
            {
                'scheduler_pod_scheduling_sli_duration_seconds_sum{attempts="3"}': 7,
                "scheduler_pod_scheduling_attempts_sum": 3,
                "scheduler_pod_scheduled_after_flush_total": 1,
            },
        ),
        (
            lambda m: m.pod_bound(15, 7.0),
            {'scheduler_pod_scheduling_sli_duration_seconds_sum{attempts="15+"}': 7},
        ),
        (
            lambda m: m.pod_queued("active", "UnscheduledPodAdd"),
            {'scheduler_queue_incoming_pods_total{event="UnscheduledPodAdd",queue="active"}': 1},
        ),
        (
            lambda m: m.event_handled("NodeAdd", 0.5),
            {'scheduler_event_handling_duration_seconds_sum{event="NodeAdd"}': 0.5},
        ),
        (
            lambda m: m.hint_given("P", "NodeAdd", "Queue", 0.5),
            {
                "scheduler_queueing_hint_execution_duration_seconds_sum"
                '{event="NodeAdd",hint="Queue",plugin="P"}': 0.5
            },
        ),
        (
            lambda m: m.permit_waited("Success", 2.0),
            {'scheduler_permit_wait_duration_seconds_sum{result="Success"}': 2},
        ),
        (lambda m: m.victims_chosen(4), {"scheduler_preemption_victims_sum": 4}),
        (
            lambda m: m.preemption_ended("success", 2.0),
            {
                'scheduler_preemption_goroutines_execution_total{result="success"}': 1,
                'scheduler_preemption_goroutines_duration_seconds_sum{result="success"}': 2,
            },
        ),
        (
            lambda m: m.plugin_asked("P", "Filter", "p", times=5000),
            {
                "scheduler_plugin_evaluation_total"
                '{extension_point="Filter",plugin="P",profile="p"}': 5000
            },
        ),
        (
            lambda m: m.plugin_failed("P", "Filter"),
            {'py_scheduler_plugin_failures_total{extension_point="Filter",plugin="P"}': 1},
        ),
        (
            lambda m: m.request_ended("POST", "h", "201", 0.5),
            {
                'rest_client_requests_total{code="201",host="h",method="POST"}': 1,
                'rest_client_request_duration_seconds_sum{host="h",verb="POST"}': 0.5,
            },
        ),
        (lambda m: m.bind_conflicted(), {"py_scheduler_bind_conflicts_total": 1}),
        (
            lambda m: m.answer_lost("binding"),
            {'py_scheduler_lost_answers_total{request="binding"}': 1},
        ),
        (
            lambda m: m.kubelet_rejected("OutOfcpu"),
            {'py_scheduler_kubelet_rejections_total{reason="OutOfcpu"}': 1},
        ),
        (lambda m: m.preemption_undone(), {"py_scheduler_preemptions_undone_total": 1}),
        (
            lambda m: m.watch_restarted("pods", "Gone"),
            {'py_scheduler_watch_restarts_total{reason="Gone",resource="pods"}': 1},
        ),
        (lambda m: m.loop_stalled(0.1), {"py_scheduler_loop_stall_seconds_sum": 0.1}),
        (
            lambda m: m.cache_drifted("Pod", "missing", 2),
            {'py_scheduler_cache_drift_total{kind="missing",resource="Pod"}': 2},
        ),
        (
            lambda m: m.cache_compared("equal"),
            {'py_scheduler_cache_comparisons_total{result="equal"}': 1},
        ),
        (
            lambda m: m.event_dropped("full"),
            {'py_scheduler_events_dropped_total{reason="full"}': 1},
        ),
    ],
)
def test_what_happens_is_recorded(record, expected):
    metrics = Metrics()

    record(metrics)

    found = exposition(metrics)
    assert {name: found.get(name) for name in expected} == expected


@given(st.lists(st.sampled_from([0, 0.001, 0.0011, 0.5, 16.384, 20]) | st.floats(0, 100)))
def test_amounts_fall_into_the_buckets_of_a_plain_histogram(amounts):
    """An amount that is a bucket's bound belongs to it."""
    metrics, plain = Metrics(), CollectorRegistry()
    family = families.ALGORITHM_DURATION
    reference = Histogram(family.name, family.help, buckets=family.buckets, registry=plain)

    for amount in amounts:
        metrics.decision_ended(amount)
        reference.observe(amount)

    shown = generate_latest(metrics.registry).decode().splitlines()
    for line in generate_latest(plain).decode().splitlines():
        if "_sum" not in line:
            assert line in shown
    total = float(next(each for each in shown if "algorithm" in each and "_sum" in each).split()[1])
    assert math.isclose(total, sum(amounts))


def test_gauges_are_read_when_somebody_looks():
    metrics, sizes = Metrics(), {"active": 1, "gated": 0}
    metrics.read(families.PENDING_PODS, lambda: sizes)
    metrics.read(families.UNSCHEDULABLE_PODS, lambda: {("NodePorts", "p"): 2})

    sizes["active"] = 5

    found = exposition(metrics)
    assert found['scheduler_pending_pods{queue="active"}'] == 5
    assert found['scheduler_pending_pods{queue="gated"}'] == 0
    assert found['scheduler_unschedulable_pods{plugin="NodePorts",profile="p"}'] == 2


def test_children_are_looked_up_once():
    metrics = Metrics()
    for _ in range(3):
        metrics.plugin_failed("P", "Filter")

    assert list(metrics._failures) == [("P", "Filter")]


@pytest.mark.parametrize("family", [each for each in families.FAMILIES if each.known])
def test_what_can_be_counted_is_there_before_it_happens(family):
    """Prometheus sees no increase in a series that is born with its first event."""
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
def test_a_run_ends_as_it_says_even_if_nobody_hears_it_to_the_end(said, status):
    """A search for room is left as soon as somebody has found some."""
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
