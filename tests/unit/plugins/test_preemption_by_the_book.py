"""Victims on many nodes at once beside upstream's own way: one node and one pod after the other."""

from dataclasses import dataclass
from random import Random

from hypothesis import event, given, settings
from hypothesis import strategies as st

from scheduler.cycle.scheduling import Attempt, decide
from scheduler.framework.candidates import by_importance
from scheduler.framework.rejection import Proposal
from scheduler.model.selectors import compile_selector
from scheduler.plugins.default_preemption import DefaultPreemption
from scheduler.snapshot.node_table import NodeTable
from scheduler.testing.harness import bare_profile
from tests.unit.plugins.preempting import FILTERS, budget, columns_with, victims_of
from tests.unit.plugins.random_clusters import any_node, any_pod


@dataclass
class PreemptionCluster:
    """A cluster, a pod that fits nowhere, and budgets."""

    nodes: list
    pods: list
    incoming: object
    budgets: list
    nominated: dict

    def columns(self, without=(), plus=()):
        gone = {each.uid for each in without}
        return columns_with(
            self.nodes, [p for p in self.pods if p.uid not in gone] + list(plus), self.budgets
        )


def any_cluster(random):
    names = [f"n{i}" for i in range(random.randint(1, 5))]
    nodes = [any_node(random, name) for name in names]
    pods = [
        any_pod(
            random,
            f"p{i}",
            node=random.choice(names),
            priority=random.choice([-5, 0, 0, 5, 10, 20]),
            status={"startTime": f"2026-01-0{random.randint(1, 3)}T00:00:00Z"}
            if random.random() < 0.7
            else {},
            affinity=any_dislike(random),
        )
        for i in range(random.randint(0, 14))
    ]
    constraints = [
        {
            "maxSkew": random.choice([1, 2]),
            "topologyKey": random.choice(["topology.kubernetes.io/zone", "kubernetes.io/hostname"]),
            "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": {"matchLabels": {"app": "web"}},
        }
    ]
    incoming = any_pod(
        random,
        "incoming",
        priority=10,
        affinity=any_dislike(random),
        topology_spread_constraints=constraints if random.random() < 0.4 else [],
    )
    budgets = [
        budget(
            f"b{i}",
            allowed=random.randint(0, 2),
            labels=random.choice(["app=web", "app=db"]),
            disrupted=random.sample([f"p{i}" for i in range(14)], k=random.choice([0, 0, 2])),
        )
        for i in range(random.randint(0, 2))
    ]
    nominated = {
        random.choice(names): [any_pod(random, f"nom{i}", priority=random.choice([5, 10, 20]))]
        for i in range(random.choice([0, 0, 1, 2]))
    }
    return PreemptionCluster(nodes, pods, incoming, budgets, nominated)


def any_dislike(random):
    if random.random() < 0.8:
        return None
    term = {
        "labelSelector": {"matchLabels": {"app": random.choice(["web", "db"])}},
        "topologyKey": random.choice(["topology.kubernetes.io/zone", "kubernetes.io/hostname"]),
    }
    kind = random.choice(["podAffinity", "podAntiAffinity", "podAntiAffinity"])
    return {kind: {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}


def reference(given, name, skipped):
    """Choose the victims on one node as upstream does: one question after the other."""
    counted = [p for p in given.nominated.get(name, ()) if p.priority >= given.incoming.priority]

    def fits(gone):
        crowded = [each.on(name) for each in counted]
        return all(_feasible(given, gone, plus, name, skipped) for plus in (crowded, ()))

    there = [p for p in given.pods if p.node_name == name]
    lower = [p for p in there if p.priority < given.incoming.priority]
    if not lower or not fits(lower):
        return None
    protected, free = _split(given.budgets, sorted(lower, key=by_importance))
    gone, victims, violations = list(lower), [], 0
    for each in (*protected, *free):
        gone.remove(each)
        if not fits(gone):
            gone.append(each)
            victims.append(each)
            violations += each in protected
    names = [each.name for each in sorted(victims, key=by_importance)]
    return (names, violations) if names else None


def _feasible(given, gone, plus, name, skipped):
    nodes = NodeTable(given.columns(gone, plus))
    row = nodes.row_of(name)
    for plugin in FILTERS:
        if plugin.__name__ not in skipped and any(
            each.nodes[row] for each in plugin().filter(given.incoming, nodes)
        ):
            return False
    return True


def _split(budgets, pods):
    protected, free = [], []
    allowed = [each.status.disruptions_allowed for each in budgets]
    for each in pods:
        overdrawn = False
        for i, limit in enumerate(budgets):
            selector = compile_selector(limit.spec.selector, "")
            if limit.metadata.namespace != each.namespace or not each.labels:
                continue
            if selector.matches(each.labels) and each.name not in limit.status.disrupted_pods:
                allowed[i] -= 1
                overdrawn |= allowed[i] < 0
        (protected if overdrawn else free).append(each)
    return protected, free


@settings(max_examples=150, deadline=None)
@given(given_cluster=st.builds(any_cluster, st.integers(0, 2**32).map(Random)))
def test_many_nodes_at_once_are_judged_like_one_after_the_other(given_cluster):
    seen = []

    class Listens(DefaultPreemption):
        def post_filter(self, pod, nodes, diagnosis, ask):
            found = yield from super().post_filter(pod, nodes, diagnosis, ask)
            seen.append((diagnosis, found))
            return found

    table = NodeTable(given_cluster.columns())
    using = bare_profile(*(plugin() for plugin in FILTERS), Listens())
    decide(Attempt(using, given_cluster.incoming, table, given_cluster.nominated))
    if not seen:
        return
    ((diagnosis, found),) = seen
    skipped = {
        plugin.__name__
        for plugin in FILTERS
        if hasattr(plugin, "pre_filter")
        and type(plugin().pre_filter(given_cluster.incoming, table)).__name__ == "Skip"
    }
    expected = {
        name: victims
        for row, name in enumerate(table.names)
        if diagnosis.preemption_may_help[row]
        and (victims := reference(given_cluster, name, skipped)) is not None
    }

    assert (victims_of(found) if isinstance(found, Proposal) else {}) == expected
    event(f"{len(expected)} candidates")
