"""InterPodAffinity beside upstream's own way: maps of counts, one pod after the other."""

from collections import Counter

from hypothesis import given, settings

from scheduler.config.plugin_args import InterPodAffinityArgs
from scheduler.model.affinity import PodAffinity
from scheduler.model.selectors import compile_selector
from scheduler.plugins import InterPodAffinity
from tests.unit.plugins.plugin_calls import answers, scores
from tests.unit.plugins.random_clusters import NAMESPACES, clusters

TEAMS = {each.metadata.name: each.metadata.labels for each in NAMESPACES}
PLUGIN = InterPodAffinity(InterPodAffinityArgs(hard_pod_affinity_weight=3))
NONE = PodAffinity()
WORDS = {
    (): "ok",
    ("node(s) didn't match pod affinity rules",): "alone",
    ("node(s) didn't match pod anti-affinity rules",): "crowded",
    ("node(s) didn't satisfy existing pods anti-affinity rules",): "unwelcome",
}


def sides(pod):
    affinity = pod.spec.affinity
    if affinity is None:
        return NONE, NONE
    return affinity.pod_affinity or NONE, affinity.pod_anti_affinity or NONE


def required(side):
    return side.required_during_scheduling_ignored_during_execution


def preferred(side):
    return [
        (each.weight, each.pod_affinity_term)
        for each in side.preferred_during_scheduling_ignored_during_execution
    ]


def about(term, owner, other, *, incoming):
    """Tell whether *term* of *owner* is about *other*; an incoming owner brings the quirk."""
    where = compile_selector(term.namespace_selector, "")
    if not term.namespaces and term.namespace_selector is None:
        there = owner.namespace == other.namespace
    else:
        there = other.namespace in term.namespaces or where.matches(TEAMS[other.namespace])
        there = there or (incoming and where.matches({}))
    return there and compile_selector(term.label_selector, "").matches(other.labels)


def verdict(pod, nodes, placed, node):
    """Judge one node as upstream's filtering.go does."""
    near, apart = (required(side) for side in sides(pod))
    wanted, unwanted, objecting = Counter(), Counter(), Counter()
    for other in placed:
        labels = nodes[other.node_name]
        if near and all(about(term, pod, other, incoming=True) for term in near):
            wanted.update((t.topology_key, labels.get(t.topology_key)) for t in near)
        for counts, terms, owner, judged in (
            (unwanted, apart, pod, other),
            (objecting, required(sides(other)[1]), other, pod),
        ):
            for term in terms:
                if about(term, owner, judged, incoming=owner is pod):
                    counts[term.topology_key, labels.get(term.topology_key)] += 1
    wanted, unwanted, objecting = (
        {pair for pair in counts if pair[1] is not None} for counts in (wanted, unwanted, objecting)
    )
    here = nodes[node].items()
    first = not wanted and all(about(term, pod, pod, incoming=True) for term in near)
    for term in near:
        if term.topology_key not in nodes[node]:
            return "alone"
        if (term.topology_key, nodes[node][term.topology_key]) not in wanted and not first:
            return "alone"
    if unwanted & here:
        return "crowded"
    return "unwelcome" if objecting & here else "ok"


def raw_scores(pod, nodes, placed):
    """Score all nodes as upstream's scoring.go does; None where nothing is recorded."""
    found = {}

    def record(term, labels, weight):
        if term.topology_key in labels:
            pair = term.topology_key, labels[term.topology_key]
            found[pair] = found.get(pair, 0) + weight

    for other in placed:
        labels = nodes[other.node_name]
        for owner, judged in ((pod, other), (other, pod)):
            for side, sign in zip(sides(owner), (1, -1), strict=True):
                for weight, term in preferred(side):
                    if about(term, owner, judged, incoming=owner is pod):
                        record(term, labels, sign * weight)
        for term in required(sides(other)[0]):
            if about(term, other, pod, incoming=False):
                record(term, labels, 3)
    if not found:
        return None
    return [sum(found.get(pair, 0) for pair in labels.items()) for labels in nodes.values()]


def book(cluster):
    return {node.name: node.metadata.labels for node in cluster.nodes}


@settings(max_examples=300, deadline=None)
@given(cluster=clusters)
def test_nodes_are_judged_by_the_book(cluster):
    expected = {
        node: verdict(cluster.incoming, book(cluster), cluster.pods, node) for node in book(cluster)
    }

    found = answers(PLUGIN, cluster.incoming, cluster.table())

    assert {node: WORDS[reasons] for node, (_, reasons) in found.items()} == expected


@settings(max_examples=300, deadline=None)
@given(cluster=clusters)
def test_nodes_are_scored_by_the_book(cluster):
    expected = raw_scores(cluster.incoming, book(cluster), cluster.pods)

    raw = PLUGIN.score(cluster.incoming, cluster.table())

    assert (None if raw is None else raw.tolist()) == expected
    if expected is not None:
        low, high = min(expected), max(expected)
        assert scores(PLUGIN, cluster.incoming, cluster.table()) == [
            int(100.0 * ((each - low) / (high - low))) if high > low else 0 for each in expected
        ]
