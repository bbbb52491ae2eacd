"""Pods that ask too much do not enter the queue, and are told why."""

import pytest

from scheduler.loop.control_loop import LoopSettings
from scheduler.model.pod_size import entries_of, excess
from scheduler.testing import make_node, make_pod
from scheduler.testing.clock import in_virtual_time
from scheduler.testing.documents import pod_path
from scheduler.testing.harness import Harness

TEN = LoopSettings(pod_entries_maximum=10)


def terms(number, **more):
    term = {"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": "web"}}, **more}
    return [term] * number


def apart(number, **more):
    required = {"requiredDuringSchedulingIgnoredDuringExecution": terms(number, **more)}
    return {"affinity": {"podAntiAffinity": required}}


def tolerations(number):
    return {"tolerations": [{"key": f"k{index}"} for index in range(number)]}


@in_virtual_time
async def test_a_pod_that_asks_too_much_is_parked_and_told_why():
    async with Harness(loop=TEN) as cluster:
        cluster.create(make_node("a"), pod := make_pod("much", **apart(20)), make_pod("plain"))
        await cluster.settle()

        status, reason, message = cluster.condition(pod)
        assert (status, reason) == ("False", "SchedulerError")
        assert message == (
            "the pod asks too much: spec.affinity.podAntiAffinity: 20 entries of 21 in the pod's "
            "spec; at most 10 are allowed"
        )
        assert cluster.state_of(pod) == ""
        assert cluster.node_of(make_pod("plain")) == "a"


@in_virtual_time
async def test_a_pod_that_asks_less_is_taken_up_and_one_that_asks_more_is_not():
    async with Harness(loop=TEN) as cluster:
        cluster.create(pod := make_pod("pod", **tolerations(20)))
        await cluster.settle()
        assert cluster.state_of(pod) == ""

        cluster.api.replace(make_pod("pod", **tolerations(2)))
        await cluster.settle()
        assert cluster.state_of(pod) == "backoff", "there is no node yet"
        cluster.api.replace(make_pod("pod", **tolerations(30)))
        await cluster.settle()
        assert cluster.state_of(pod) == ""

        cluster.create(make_node("a"))
        cluster.api.change(pod_path(pod), lambda each: each["spec"].update(tolerations=[]))
        await cluster.settle()
        assert cluster.node_of(pod) == "a"


@in_virtual_time
async def test_what_bound_pods_ask_closes_no_node():
    async with Harness(loop=TEN) as cluster:
        cluster.create(make_node("a"), make_pod("bound", node="a", **apart(20)))
        cluster.create(pod := make_pod("plain"))
        await cluster.settle()

        assert cluster.node_of(pod) == "a"


EXPRESSION = {"key": "disk", "operator": "In", "values": [f"v{index}" for index in range(33)]}
PREFERRED = {"weight": 1, "preference": {"matchExpressions": [EXPRESSION]}}
WIDE = {"matchLabels": {"a": "b", "c": "d"}, "matchExpressions": [EXPRESSION]}


@pytest.mark.parametrize(
    ("spec", "field", "entries"),
    [
        ({"labels": "a=b, c=d"}, "metadata.labels", 2),
        ({"node_selector": "a=b, c=d"}, "spec.nodeSelector", 2),
        (tolerations(3), "spec.tolerations", 3),
        ({"gates": ["a", "b"]}, "spec.schedulingGates", 2),
        ({"requests": "1 cpu, 2 example.com/gpu"}, "spec.containers", 1 + 2 * 16),
        ({"host_ports": [80, 81]}, "spec.containers", 3),
        (apart(3), "spec.affinity.podAntiAffinity", 3),
        (apart(1, labelSelector=WIDE), "spec.affinity.podAntiAffinity", 1 + 3 + 2 - 1),
        (apart(1, namespaces=["x"] * 40), "spec.affinity.podAntiAffinity", 1 + 2),
        (
            {
                "affinity": {
                    "nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [PREFERRED]}
                }
            },
            "spec.affinity.nodeAffinity",
            1 + 1 + 2,
        ),
        (
            {"topology_spread_constraints": [{"topologyKey": "zone", "matchLabelKeys": ["a"]}]},
            "spec.topologySpreadConstraints",
            2,
        ),
        ({"volumes": [{"name": "a"}, {"name": "b", "emptyDir": {}}]}, "spec.volumes", 0),
        (
            {"volumes": [{"name": "a", "persistentVolumeClaim": {"claimName": "c"}}]},
            "spec.volumes",
            1,
        ),
    ],
)
def test_entries_are_counted_by_field(spec, field, entries):
    assert entries_of(make_pod(**spec).template)[field] == entries


def test_any_pod_may_ask_anything_without_a_limit():
    pod = make_pod(**tolerations(20000))

    assert excess(pod, 5000).startswith("spec.tolerations: 20000 entries of 20001")
    assert excess(pod, 0) == ""
