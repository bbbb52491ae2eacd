"""What is counted of pods, facts and requests, by kube-scheduler's names."""

from __future__ import annotations

import pytest
from prometheus_client import generate_latest

from scheduler.errors import Gone, Unreachable
from scheduler.framework.decision import Bind
from scheduler.framework.rejection import Reject, Wait
from scheduler.model.fact import Added, Deleted, Resource, Updated
from scheduler.observe.metrics import Metrics
from scheduler.queue.queued_pod import QueuedPod
from scheduler.reporting.telemetry import Telemetry
from scheduler.testing import make_node, make_pod
from scheduler.testing.clock import in_virtual_time
from scheduler.testing.harness import Harness
from tests.unit.binding.plugins import Doorman

POD, NODE = make_pod("p"), make_node("a")
TAINTED = make_node("a", taints="key=value:NoSchedule", labels="disk=fast")
POINTS = "scheduler_framework_extension_point_duration_seconds_count"


@pytest.mark.parametrize(
    ("fact", "labels"),
    [
        (Added(Resource.POD, POD), ["UnschedulablePodAdd"]),
        (Deleted(Resource.POD, POD), ["UnschedulablePodDelete"]),
        (Added(Resource.POD, POD.on("a")), ["AssignedPodAdd"]),
        (Updated(Resource.POD, POD, POD.on("a")), ["AssignedPodAdd"]),
        (Updated(Resource.POD, POD.on("a"), POD.on("a")), ["AssignedPodUpdate"]),
        (Updated(Resource.NODE, NODE, TAINTED), ["NodeUpdateNodeLabel", "NodeUpdateNodeTaint"]),
        (Added(Resource.NODE, NODE), ["NodeAdd"]),
    ],
)
def test_facts_have_kube_schedulers_names(fact, labels):
    metrics = Metrics()

    Telemetry(metrics).applied(fact, 0.001)

    name = "scheduler_event_handling_duration_seconds_count"
    samples = [s for family in metrics.registry.collect() for s in family.samples]
    assert sorted(s.labels["event"] for s in samples if s.name == name) == labels


@pytest.mark.parametrize(
    ("problem", "reason"),
    [(Gone("too old"), "expired"), (Unreachable("10.0.0.1:4104 gave no answer"), "broken")],
)
def test_an_expired_watch_is_distinguished_from_a_broken_one_by_its_error(problem, reason):
    metrics = Metrics()

    Telemetry(metrics).watch_restarted(Resource.POD, problem)

    labels = {"resource": "Pod", "reason": reason}
    assert metrics.registry.get_sample_value("py_scheduler_watch_restarts_total", labels) == 1


def bound(attempts, **queued):
    """Return what records the binding of a pod that came at 1 and was bound at 8."""
    pod = QueuedPod(POD, 1.0, 0, attempts, initial_attempt=1.0, **queued)
    return lambda t: t.bound(pod, Bind(POD, "a", 1, 1), started=7.5, now=8.0)


def failed(reason):
    return lambda t: t.failed(QueuedPod(POD, 1.0, 0, 1), reason, "no", "", started=7.5, now=8.0)


@pytest.mark.parametrize(
    ("record", "expected"),
    [
        (
            bound(3, flushed=True),
            {
                'scheduler_schedule_attempts_total{profile="py-scheduler",result="scheduled"}': 1,
                "scheduler_scheduling_attempt_duration_seconds_sum"
                '{profile="py-scheduler",result="scheduled"}': 0.5,
                'scheduler_pod_scheduling_sli_duration_seconds_sum{attempts="3"}': 7,
                "scheduler_pod_scheduling_attempts_sum": 3,
                "scheduler_pod_scheduled_after_flush_total": 1,
            },
        ),
        (
            bound(15),
            {
                'scheduler_pod_scheduling_sli_duration_seconds_sum{attempts="15+"}': 7,
                "scheduler_pod_scheduled_after_flush_total": 0,
            },
        ),
        (
            failed("Unschedulable"),
            {
                "scheduler_schedule_attempts_total"
                '{profile="py-scheduler",result="unschedulable"}': 1,
            },
        ),
        (
            failed("SchedulerError"),
            {
                "scheduler_scheduling_attempt_duration_seconds_sum"
                '{profile="py-scheduler",result="error"}': 0.5
            },
        ),
        (
            lambda t: t.incoming("active", "UnscheduledPodAdd"),
            {'scheduler_queue_incoming_pods_total{event="UnscheduledPodAdd",queue="active"}': 1},
        ),
        (
            lambda t: t.hint("P", "NodeAdd", "Queue", t.began()),
            {
                "scheduler_queueing_hint_execution_duration_seconds_count"
                '{event="NodeAdd",hint="Queue",plugin="P"}': 1
            },
        ),
        (lambda t: t.evicting(POD, "a", 4), {"scheduler_preemption_victims_sum": 4}),
        (
            lambda t: t.evictions_ended(POD, "a", "", 2.0),
            {
                'scheduler_preemption_goroutines_execution_total{result="success"}': 1,
                'scheduler_preemption_goroutines_duration_seconds_sum{result="success"}': 2,
            },
        ),
        (
            lambda t: t.evictions_ended(POD, "a", "forbidden", 2.0),
            {'scheduler_preemption_goroutines_execution_total{result="error"}': 1},
        ),
        (
            lambda t: t.preemption_undone(POD, "a", [POD]),
            {"py_scheduler_preemptions_undone_total": 1},
        ),
        (
            lambda t: t.decision_differed(POD, "bind to a; decided anew: bind to b"),
            {"py_scheduler_decisions_differed_total": 1},
        ),
        (
            lambda t: t.plugin_failed("P", "Filter", "raised"),
            {'py_scheduler_plugin_failures_total{extension_point="Filter",plugin="P"}': 1},
        ),
        (
            lambda t: t.request_done("POST", 201, 0.5),
            {
                'rest_client_requests_total{code="201",host="h:1",method="POST"}': 1,
                'rest_client_request_duration_seconds_sum{host="h:1",verb="POST"}': 0.5,
            },
        ),
        (
            lambda t: t.request_done("GET", 0, 0.5),
            {'rest_client_requests_total{code="<error>",host="h:1",method="GET"}': 1},
        ),
        (
            lambda t: t.request_done("WATCH", 200, 0.5),
            {
                'rest_client_requests_total{code="200",host="h:1",method="GET"}': 1,
                'rest_client_request_duration_seconds_sum{host="h:1",verb="GET"}': None,
            },
        ),
        (
            lambda t: t.request_waited("WATCH", 0.5),
            {'rest_client_rate_limiter_duration_seconds_sum{host="h:1",verb="GET"}': 0.5},
        ),
        (
            lambda t: t.request_sized("POST", 3, 4),
            {
                'rest_client_request_size_bytes_sum{host="h:1",verb="POST"}': 3,
                'rest_client_response_size_bytes_sum{host="h:1",verb="POST"}': 4,
            },
        ),
        (lambda t: t.conflicted(), {"py_scheduler_bind_conflicts_total": 1}),
        (
            lambda t: t.answer_lost(POD, "reset"),
            {'py_scheduler_lost_answers_total{request="binding"}': 1},
        ),
        (
            lambda t: t.kubelet_rejected(make_pod("p", node="a", status={"reason": "OutOfcpu"})),
            {'py_scheduler_kubelet_rejections_total{reason="OutOfcpu"}': 1},
        ),
        (
            lambda t: t.watch_restarted("pods", Unreachable("connection reset")),
            {'py_scheduler_watch_restarts_total{reason="broken",resource="pods"}': 1},
        ),
        (lambda t: t.loop_stalled(0.1, 0.0), {"py_scheduler_loop_stall_seconds_sum": 0.1}),
        (
            lambda t: t.cache_drifted("Pod", "missing", ["a", "b"]),
            {'py_scheduler_cache_drift_total{kind="missing",resource="Pod"}': 2},
        ),
        (
            lambda t: t.dropped("full"),
            {'py_scheduler_events_dropped_total{reason="full"}': 1},
        ),
    ],
)
def test_what_happens_is_counted(record, expected):
    metrics = Metrics()

    record(Telemetry(metrics, server="https://h:1"))

    lines = generate_latest(metrics.registry).decode().splitlines()
    found = dict(line.rsplit(" ", 1) for line in lines if line[:1] != "#")
    assert {name: found.get(name) and float(found[name]) for name in expected} == expected


@in_virtual_time
async def test_a_pod_that_is_bound_has_passed_every_point():
    async with Harness() as cluster:
        cluster.create(make_node("a"), make_pod())
        await cluster.settle()

        for point in ("PreEnqueue", "PreFilter", "Filter", "Reserve", "Permit", "PreBind", "Bind"):
            assert runs(cluster, point, "Success") == 1, point


@in_virtual_time
@pytest.mark.parametrize(
    ("answer", "status"), [(Wait(5), "Wait"), (Reject("no"), "Unschedulable")], ids=["wait", "no"]
)
async def test_a_permit_is_counted_with_its_status(answer, status):
    async with Harness(Doorman(answer)) as cluster:
        cluster.create(make_node("a"), make_pod())
        await cluster.settle(1)

        assert runs(cluster, "Permit", status) == 1
        assert runs(cluster, "Bind", "Success") == 0


def runs(cluster, point, status):
    return cluster.metric(POINTS, extension_point=point, status=status, profile="py-scheduler")
