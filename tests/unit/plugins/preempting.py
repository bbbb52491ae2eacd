"""Clusters of upstream's sizes and priorities, and the decisions of preemption.

As in ``plugins/defaultpreemption/default_preemption_test.go``.
"""

from scheduler.config.plugin_args import DefaultPreemptionArgs
from scheduler.cycle.scheduling import Attempt, decide
from scheduler.framework.rejection import Proposal
from scheduler.model.fact import Resource
from scheduler.model.objects import PodDisruptionBudget
from scheduler.plugins import (
    InterPodAffinity,
    NodeAffinity,
    NodePorts,
    NodeResourcesFit,
    PodTopologySpread,
)
from scheduler.plugins.default_preemption import DefaultPreemption
from scheduler.snapshot.columns import ClusterColumns
from scheduler.snapshot.node_table import NodeTable
from scheduler.testing import make_node, make_object, make_pod
from scheduler.testing.harness import bare_profile
from tests.unit.plugins.plugin_calls import columns_of

NEGATIVE, LOW, MID, HIGH, VERY_HIGH = -100, 0, 100, 1000, 10000
SIZES = {"small": 100, "medium": 200, "large": 300, "very large": 500}
VICTIM = {"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}
FILTERS = (NodeAffinity, NodePorts, NodeResourcesFit, PodTopologySpread, InterPodAffinity)
NO_VICTIMS = "No preemption victims found for incoming pod"
FOO = {"labels": "app=foo"}


def requests(name):
    return {"cpu": f"{SIZES[name]}m", "memory": str(SIZES[name])} if name else {}


def pod(name, of="", priority=LOW, node="", *, start=None, labels="", **more):
    """A pod of one of upstream's sizes; *start* is a day of January."""
    status = more.pop("status", {})
    if start is not None:
        status = {**status, "startTime": f"2026-01-{start:02}T00:00:00Z"}
    return make_pod(
        name,
        requests=requests(of),
        priority=priority,
        node=node,
        labels=labels,
        status=status,
        **more,
    )


def node(name, of="very large", **more):
    return make_node(name, allocatable={**requests(of), "pods": "32"}, **more)


def budget(name="pdb", *, allowed, labels="app=foo", disrupted=()):
    key, _, value = labels.partition("=")
    return make_object(
        PodDisruptionBudget,
        name,
        spec={"selector": {"matchLabels": {key: value}}},
        status={"disruptionsAllowed": allowed, "disruptedPods": dict.fromkeys(disrupted)},
    )


class Counts:
    """A filter that rejects nothing and counts the rows of what-if tables."""

    name = "Counts"
    node_local = True

    def __init__(self):
        self.rows = 0

    def filter(self, pod, nodes):
        self.rows += len(nodes) if nodes.is_what_if else 0
        return ()


def profile(*filters, args=DefaultPreemptionArgs()):  # noqa: B008 - frozen
    chosen = filters or tuple(plugin() for plugin in FILTERS)
    return bare_profile(*chosen, DefaultPreemption(args))


def columns_with(nodes, pods=(), budgets=()):
    columns = columns_of(nodes, pods)
    for each in budgets:
        columns.objects.put(Resource.POD_DISRUPTION_BUDGET, each)
    return columns


def preempt(incoming, nodes, pods=(), budgets=(), *, nominated=None, using=None, **options):
    columns = nodes if isinstance(nodes, ClusterColumns) else columns_with(nodes, pods, budgets)
    chosen = using or profile(**options)
    return decide(Attempt(chosen, incoming, NodeTable(columns), nominated or {}))


def proposal(incoming, nodes, pods=(), budgets=(), *filters, **options):
    """Return the plugin's proposal, or its refusal."""
    results = []

    class Records(DefaultPreemption):
        def post_filter(self, *arguments):
            found = yield from super().post_filter(*arguments)
            results.append(found)
            return found

    chosen = filters or tuple(plugin() for plugin in FILTERS)
    args = DefaultPreemptionArgs(**options)
    preempt(incoming, nodes, pods, budgets, using=bare_profile(*chosen, Records(args)))
    return results[0]


def victims_of(found):
    """Return names of victims and the number of violations, by node."""
    assert isinstance(found, Proposal), found
    return {
        each.node: ([victim.name for victim in each.victims], each.pdb_violations)
        for each in found.candidates
    }
