"""What one pod asks is not multiplied by itself, nor by rows: counted, for thousands of terms."""

from collections import Counter

import pytest

from scheduler.model import affinity_terms
from scheduler.plugins import InterPodAffinity, PodTopologySpread
from scheduler.snapshot.domains import Domains
from scheduler.snapshot.labels import LabelIndex
from scheduler.snapshot.node_table import NodeTable
from scheduler.testing import make_node, make_pod
from tests.unit.plugins.plugin_calls import columns_of

ZONE = "topology.kubernetes.io/zone"
MANY = 2000
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


def term(number, key=ZONE):
    return {"topologyKey": key, "labelSelector": {"matchLabels": {"app": f"a{number}"}}}


def excluding(number):
    expression = {"key": f"k{number}", "operator": "DoesNotExist"}
    return {"topologyKey": ZONE, "labelSelector": {"matchExpressions": [expression]}}


def constraint(number, action):
    return {**term(number, f"key-{number}"), "maxSkew": 1, "whenUnsatisfiable": action}


def required(side, make):
    return {"affinity": {side: {REQUIRED: [make(number) for number in range(MANY)]}}}


def preferred(side, make):
    terms = [{"weight": 1, "podAffinityTerm": make(number)} for number in range(MANY)]
    return {"affinity": {side: {PREFERRED: terms}}}


PODS = {
    "affinity to labels": required("podAffinity", term),
    "anti-affinity to labels": required("podAntiAffinity", term),
    "anti-affinity to all but some": required("podAntiAffinity", excluding),
    "anti-affinity over many topologies": required(
        "podAntiAffinity", lambda number: term(number, f"key-{number}")
    ),
    "affinity over many topologies": required(
        "podAffinity", lambda number: term(number, f"key-{number}")
    ),
    "preferred affinity to labels": preferred("podAffinity", term),
    "preferred anti-affinity to all but some": preferred("podAntiAffinity", excluding),
    "hard constraints": {
        "topology_spread_constraints": [constraint(n, "DoNotSchedule") for n in range(MANY)]
    },
    "soft constraints": {
        "topology_spread_constraints": [constraint(n, "ScheduleAnyway") for n in range(MANY)]
    },
}


@pytest.fixture
def work(monkeypatch):
    """Count passes over rows, and compilations of terms."""
    count = Counter()

    def counted(where, name, what):
        function = getattr(where, name)

        def counting(*arguments, **more):
            count[what] += 1
            return function(*arguments, **more)

        monkeypatch.setattr(where, name, counting)

    counted(Domains, "counting", "passes")
    counted(LabelIndex, "_build", "passes")
    counted(LabelIndex, "_evaluate", "passes")
    counted(affinity_terms, "compiling", "compilations")
    return count


def decide(pod, columns):
    for plugin in (PodTopologySpread(), InterPodAffinity()):
        plugin.pre_filter(pod, NodeTable(columns))
        list(plugin.filter(pod, NodeTable(columns)))
        plugin.score(pod, NodeTable(columns))


@pytest.mark.parametrize("asks", PODS.values(), ids=PODS)
def test_thousands_of_terms_are_a_few_passes(asks, work):
    nodes = [make_node(f"n{row}", zone=f"z{row % 3}") for row in range(30)]
    there = [
        make_pod(f"p{row}", node=f"n{row}", labels={"app": f"a{row % 5}"}) for row in range(30)
    ]
    columns = columns_of(nodes, there)
    pods = [make_pod(name, labels="app=a1", **asks) for name in ("first", "second")]
    for pod in pods:
        pod.check()

    decide(pods[0], columns)
    assert work["passes"] <= 6
    assert work["compilations"] <= 2 * MANY, "once for each template"
    work.clear()
    decide(pods[1], columns)
    assert work["passes"] <= 1
    assert not work["compilations"]


@pytest.mark.parametrize("asks", PODS.values(), ids=PODS)
def test_thousands_of_terms_of_a_running_pod_cost_others_nothing(asks, work):
    nodes = [make_node(f"n{row}", zone=f"z{row % 3}") for row in range(30)]
    columns = columns_of(nodes, [make_pod("there", node="n0", labels="app=a1", **asks)])
    decide(make_pod("first", labels="app=a1"), columns)
    work.clear()

    for number in range(10):
        decide(make_pod(f"other-{number}", labels=f"app=a1, own={number}"), columns)

    assert work == {}
