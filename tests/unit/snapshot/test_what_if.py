"""A row of a what-if table shows the cluster in which its own node alone changed."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.model.affinity_terms import TermKind
from scheduler.model.host_ports import HostPort
from scheduler.model.pod_set import PodSet, WeightedPods
from scheduler.model.selectors import EVERYTHING, from_map
from scheduler.snapshot.columns import ClusterColumns
from scheduler.snapshot.domains import DomainPresence
from scheduler.snapshot.node_table import NodeTable
from scheduler.testing import make_node, make_pod

WEB = PodSet(frozenset({"default"}), from_map({"app": "web"}))
SETS = (WEB, PodSet(None, EVERYTHING, terminating=True), PodSet(None, from_map({"app": "db"})))
PORTS = [HostPort(ip="0.0.0.0", protocol="TCP", port=80)]
TERM = {"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": "web"}}}
AFFINITIES = (
    None,
    {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [TERM]}},
    {
        "podAffinity": {
            "preferredDuringSchedulingIgnoredDuringExecution": [
                {"weight": 5, "podAffinityTerm": TERM}
            ]
        }
    },
)
INCOMING = make_pod("incoming", labels="app=web")

PODS = st.builds(
    dict,
    labels=st.sampled_from(["app=web", "app=db", ""]),
    requests=st.sampled_from(["", "1 cpu", "500m cpu, 1Gi", "1 example.com/gpu"]),
    host_ports=st.sampled_from([(), (80,), ("127.0.0.1:80",)]),
    terminating=st.booleans(),
    namespace=st.sampled_from(["default", "other"]),
    affinity=st.sampled_from(AFFINITIES),
)


@st.composite
def changed_clusters(draw):
    """Nodes in zones with pods; which pods are added to and removed from each."""
    zones = draw(st.lists(st.sampled_from(["z1", "z2", "z3", ""]), min_size=1, max_size=5))
    nodes = [
        make_node(f"n{row}", labels=f"zone={zone}" if zone else "")
        for row, zone in enumerate(zones)
    ]
    there = [
        [make_pod(f"p{row}-{i}", node=f"n{row}", **words) for i, words in enumerate(found)]
        for row, found in enumerate(
            draw(st.lists(st.lists(PODS, max_size=3), min_size=len(nodes), max_size=len(nodes)))
        )
    ]
    adding, removing = {}, {}
    for row in range(len(nodes)):
        if draw(st.booleans()):
            more = draw(st.lists(PODS, max_size=2))
            adding[row] = [make_pod(f"a{row}-{i}", **words) for i, words in enumerate(more)]
        if there[row] and draw(st.booleans()):
            removing[row] = draw(st.lists(st.sampled_from(there[row]), unique_by=id))
    included = np.array(draw(st.lists(st.booleans(), min_size=len(nodes), max_size=len(nodes))))
    return nodes, there, adding, removing, included


def build(nodes, there):
    columns = ClusterColumns()
    for node in nodes:
        columns.add_node(node)
    for row, pods in enumerate(there):
        for pod in pods:
            columns.add_pod(row, pod)
    return columns


def answers(view, row, included):
    """Read every column, and return its value for *row*."""
    columns = {
        "pod_count": view.pod_count,
        "ports": view.port_conflicts(PORTS),
        "unschedulable": view.unschedulable,
        "hashes": view.name_hashes,
        "taints": view.by_taints(len),
        "domains": view.domains("zone"),
    }
    for resource in ("cpu", "memory", "example.com/gpu", "pods"):
        columns[f"allocatable {resource}"] = view.allocatable(resource)
        columns[f"requested {resource}"] = view.requested(resource)
    for resource in ("cpu", "memory"):
        columns[f"nonzero {resource}"] = view.nonzero_requested(resource)
    for index, pods in enumerate(SETS):
        columns[f"count {index}"] = view.count(pods)
        domains = view.count_domains("zone", pods, included)
        columns |= {f"here {index}": domains.here, f"least {index}": domains.least}
        columns |= {f"total {index}": domains.total}
        columns[f"sum {index}"] = view.sum_domains("zone", pods, included=included)
        columns[f"domain {index}"] = domains.domain
        for most, needed in ((0, 1), (1, 3)):
            columns[f"skew {index} {needed}"] = view.exceeding_skew(
                "zone", pods, included, most=most, needed=needed
            )
        columns[f"registered {index}"] = np.full(len(view), domains.registered)
    for kind in TermKind:
        zeros, nowhere = np.zeros(len(view), np.int64), np.zeros(len(view), np.bool_)
        sets = WeightedPods(tuple((pods, 3) for pods in SETS))
        columns |= {
            f"terms {kind}": view.sum_terms(INCOMING, kind).get("zone", zeros),
            f"weights {kind}": view.sum_terms(INCOMING, kind, weighted=True).get("zone", zeros),
            "sets": view.sum_domains("zone", sets),
        }
        none = DomainPresence(nowhere, nowhere)
        for name, found in (
            (f"any terms {kind}", view.any_terms(INCOMING, kind).get("zone", none)),
            ("any sets", view.any_in_domain("zone", sets)),
        ):
            columns |= {f"{name} here": found.here, f"{name} anywhere": found.anywhere}
    return {question: column[row].item() for question, column in columns.items()} | {
        "pods": sorted(pod.name for pod in view.pods_on(row))
    }


@settings(max_examples=60, deadline=None)
@given(changed_clusters())
def test_each_row_is_the_cluster_in_which_only_its_node_changed(cluster):
    """The table, all at once, against changing one node after the other for real."""
    nodes, there, adding, removing, included = cluster
    view = NodeTable(build(nodes, there)).each(adding=adding, removing=removing)

    for row in range(len(nodes)):
        really = [list(pods) for pods in there]
        gone = {pod.uid for pod in removing.get(row, ())}
        really[row] = [pod for pod in really[row] if pod.uid not in gone]
        really[row] += adding.get(row, [])
        expected = answers(NodeTable(build(nodes, really)), row, included)

        assert answers(view, row, included) == expected
        [alone] = [view.select(np.array([row]))]
        assert answers(alone, 0, included) == expected


@settings(max_examples=40, deadline=None)
@given(changed_clusters())
def test_undone_changes_leave_no_trace(cluster):
    nodes, there, adding, removing, included = cluster
    truth = NodeTable(build(nodes, there))
    changed = truth.each(adding=adding, removing=removing)

    restored = changed.each(adding=removing, removing=adding)

    for row in range(len(nodes)):
        assert answers(restored, row, included) == answers(truth, row, included)


def test_changes_follow_their_rows():
    nodes = [make_node(f"n{row}") for row in range(4)]
    view = NodeTable(build(nodes, [[], [], [], []])).each(adding={2: [make_pod("x")]})

    turned = view.select(np.array([3, 2, 0]))

    assert turned.names == ["n3", "n2", "n0"]
    assert turned.pod_count.tolist() == [0, 1, 0]
    assert turned.row_of("n2") == 1
    assert turned.row_of("n1") is None
    assert turned.each(adding={1: [make_pod("y")]}).pod_count.tolist() == [0, 2, 0]
    assert turned.cluster.pod_count.tolist() == [0, 0, 0, 0]
    assert turned.named(["n0", "n3", "nowhere"]).tolist() == [True, False, True]


def test_more_steps_than_the_recursion_limit_are_possible():
    """A dry run takes a step for each pod that it reprieves, and a node may have thousands."""
    pods = [make_pod(f"p{i}") for i in range(1500)]
    view = NodeTable(build([make_node("n")], [pods])).each(removing={0: pods})

    for pod in pods:
        view = view.each(adding={0: [pod]})

    assert view.pod_count.tolist() == [1500]
    assert view.sum_terms(INCOMING, next(iter(TermKind))) == {}
    assert len(view.pods_on(0)) == 1500


def test_a_pod_may_be_replaced_by_a_newer_version():
    old = make_pod("p", node="n", requests="4 cpu")
    new = make_pod("p", node="n", requests="1 cpu")
    view = NodeTable(build([make_node("n")], [[old]]))

    changed = view.each(adding={0: [new]}, removing={0: [old]})

    assert changed.requested("cpu").tolist() == [1000]
    assert list(changed.pods_on(0)) == [new]
