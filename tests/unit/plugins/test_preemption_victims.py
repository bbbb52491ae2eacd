"""Who goes from a node, so that as few and as unimportant pods go as can be.

As in TestDryRunPreemption of ``plugins/defaultpreemption/default_preemption_test.go``.
"""

import numpy as np
import pytest

from scheduler.framework.candidates import by_importance
from scheduler.framework.rejection import Refusal, Rejection
from scheduler.plugins import InterPodAffinity, NodeResourcesFit
from scheduler.testing import make_node
from tests.unit.plugins.preempting import (
    HIGH,
    LOW,
    MID,
    NO_VICTIMS,
    VERY_HIGH,
    Counts,
    node,
    pod,
    preempt,
    proposal,
    victims_of,
)

AFFINITY = {
    "podAntiAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": [
            {
                "labelSelector": {"matchLabels": {"foo": ""}},
                "topologyKey": "kubernetes.io/hostname",
            }
        ]
    }
}


PLAIN = [
    (
        "one each",
        pod("p", "large", HIGH),
        "ab",
        [pod("p1", "large", MID, "a"), pod("p2", "large", MID, "b")],
        {"a": (["p1"], 0), "b": (["p2"], 0)},
        4,
    ),
    (
        "nobody is lower",
        pod("p", "large", LOW),
        "ab",
        [pod("p1", "large", MID, "a"), pod("p2", "large", MID, "b")],
        None,
        0,
    ),
    (
        "a small one is spared",
        pod("p", "large", HIGH),
        "ab",
        [
            pod("p1.1", "small", LOW, "a"),
            pod("p1.2", "large", MID, "a"),
            pod("p2", "large", MID, "b"),
        ],
        {"a": (["p1.2"], 0), "b": (["p2"], 0)},
        # One row more than upstream judges: a row that is done is judged along with the others.
        6,
    ),
    (
        "the more important of the small ones is spared",
        pod("p", "large", HIGH),
        "ab",
        [
            pod("p1.1", "small", MID, "a"),
            pod("p1.2", "small", LOW, "a"),
            pod("p1.3", "medium", MID, "a"),
            pod("p1.4", "small", HIGH, "a"),
            pod("p2", "large", HIGH, "b"),
        ],
        {"a": (["p1.3", "p1.2"], 0)},
        4,
    ),
    (
        "of equals those that started later go",
        pod("p", "large", HIGH),
        "ab",
        [
            pod("p1.1", "small", LOW, "a", start=5),
            pod("p1.2", "small", LOW, "a", start=4),
            pod("p1.3", "medium", MID, "a", start=3),
            pod("p1.4", "small", HIGH, "a", start=2),
            pod("p2", "large", HIGH, "b", start=1),
        ],
        {"a": (["p1.3", "p1.1"], 0)},
        4,
    ),
    (
        "who objects goes",
        pod("p", "small", HIGH, labels="foo"),
        "ab",
        [
            pod("p1.1", "small", LOW, "a", affinity=AFFINITY),
            pod("p1.2", "medium", MID, "a"),
            pod("p1.3", "small", HIGH, "a"),
            pod("p2", "very large", HIGH, "b"),
        ],
        {"a": (["p1.1"], 0)},
        3,
    ),
]


@pytest.mark.parametrize(
    ("incoming", "nodes", "pods", "expected", "rows_judged"),
    [case[1:] for case in PLAIN],
    ids=[case[0] for case in PLAIN],
)
def test_lower_pods_become_victims(incoming, nodes, pods, expected, rows_judged):
    counts = Counts()
    filters = (NodeResourcesFit(), InterPodAffinity())

    found = proposal(incoming, [node(name) for name in nodes], pods, [], counts, *filters)

    assert counts.rows == rows_judged
    if expected is None:
        assert isinstance(found, Refusal)
    else:
        assert victims_of(found) == expected


def test_a_pod_that_violates_the_spread_is_a_victim():
    def spread(key):
        selector = {"matchExpressions": [{"key": "app", "operator": "In", "values": ["foo"]}]}
        return {
            "maxSkew": 1,
            "topologyKey": key,
            "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": selector,
        }

    nodes = [
        make_node("node-a", zone="zone1", labels="hostname=node-a"),
        make_node("node-b", zone="zone1", labels="hostname=node-b"),
        make_node("node-x", zone="zone2", labels="hostname=node-x"),
    ]
    pods = [
        pod("pod-a1", "", MID, "node-a", labels="app=foo"),
        pod("pod-a2", "", LOW, "node-a", labels="app=foo"),
        pod("pod-b1", "", LOW, "node-b", labels="app=foo"),
        pod("pod-x1", "", HIGH, "node-x", labels="app=foo"),
        pod("pod-x2", "", HIGH, "node-x", labels="app=foo"),
    ]
    incoming = pod(
        "p",
        "",
        HIGH,
        labels="app=foo",
        topology_spread_constraints=[spread("topology.kubernetes.io/zone"), spread("hostname")],
    )

    assert victims_of(proposal(incoming, nodes, pods)) == {
        "node-a": (["pod-a2"], 0),
        "node-b": (["pod-b1"], 0),
    }


def test_who_has_not_started_goes_first():
    pods = [pod("none"), pod("late", start=9), pod("early", start=2), pod("more", "", MID)]

    assert [each.name for each in sorted(pods, key=by_importance)] == [
        "more",
        "early",
        "late",
        "none",
    ]


def test_pods_of_the_kubelets_own_are_never_victims():
    mirror = pod(
        "static",
        "large",
        LOW,
        "a",
        metadata={"ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": "a"}]},
    )

    decision = preempt(pod("p", "large", HIGH), [node("a", "large")], [mirror])

    assert decision.message.endswith(f"1 {NO_VICTIMS}.")


def test_those_as_important_that_are_nominated_are_counted_on():
    """In the dry run too: what is left for them must not be promised twice."""
    pods = [pod(f"x{i}", "small", LOW, "a") for i in range(5)]
    other = pod("other", "medium", HIGH)

    alone = preempt(pod("p", "medium", HIGH), [node("a")], pods)
    beside = preempt(pod("p", "medium", HIGH), [node("a")], pods, nominated={"a": [other]})
    below = preempt(pod("p", "medium", VERY_HIGH), [node("a")], pods, nominated={"a": [other]})

    assert [len(each.victims) for each in (alone, beside, below)] == [2, 4, 2]


class Apart:
    """A filter by somebody else, which looks at the whole cluster and promises nothing.

    Not more than two pods of the kind may run in the cluster.
    """

    name = "Apart"

    def __init__(self):
        self.calls = 0

    def filter(self, pod, nodes):
        self.calls += 1
        total = nodes.cluster.pod_count.sum()
        yield Rejection(np.full(len(nodes), total > 2), "too many pods in the cluster")


def test_filters_without_each_world_get_one_what_if_at_a_time():
    """With three pods, each on a node of its own, one must go: any, and no more than that."""
    nodes = [node(name) for name in "abc"]
    pods = [pod(f"x-{name}", "small", LOW, name) for name in "abc"]

    found = proposal(pod("p", "small", HIGH), nodes, pods, [], apart := Apart())

    assert victims_of(found) == {name: ([f"x-{name}"], 0) for name in "abc"}
    assert apart.calls == 1 + 3 + 3
