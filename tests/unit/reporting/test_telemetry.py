"""What is told of pods and facts, in kube-scheduler's words."""

from __future__ import annotations

import pytest

from scheduler.errors import Gone, Unreachable
from scheduler.framework.rejection import Reject, Wait
from scheduler.model.fact import Added, Deleted, Resource, Updated
from scheduler.observe.metrics import Metrics
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
def test_a_watch_that_expired_is_told_from_one_that_broke_by_its_error(problem, reason):
    metrics = Metrics()

    Telemetry(metrics).watch_restarted(Resource.POD, problem)

    labels = {"resource": "Pod", "reason": reason}
    assert metrics.registry.get_sample_value("py_scheduler_watch_restarts_total", labels) == 1


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
async def test_a_permit_is_told_as_it_was_given(answer, status):
    async with Harness(Doorman(answer)) as cluster:
        cluster.create(make_node("a"), make_pod())
        await cluster.settle(1)

        assert runs(cluster, "Permit", status) == 1
        assert runs(cluster, "Bind", "Success") == 0


def runs(cluster, point, status):
    return cluster.metric(POINTS, extension_point=point, status=status, profile="py-scheduler")
