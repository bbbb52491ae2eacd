"""Preemption beside kube-scheduler's: what is asked, and what counts as a difference."""

import copy

import pytest

from hack.fidelity.full_clusters import make_full_cluster
from hack.fidelity.live_cluster import Observed
from hack.fidelity.preempting import LEVELS, MATTERS, ask_ours, upstream_miscounts, without
from hack.fidelity.preemption import differences
from scheduler.framework.decision import Bind, Park, Preempt


def node(name):
    resources = {"cpu": "4", "memory": "8Gi", "pods": "110"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "uid": name, "labels": {"kubernetes.io/hostname": name}},
        "spec": {},
        "status": {"capacity": resources, "allocatable": resources},
    }


def pod(name, node="", cpu="2", priority=0, minute=0, **metadata):
    container = {"name": "c", "image": "c", "resources": {"requests": {"cpu": cpu}}}
    identity = {"name": name, "namespace": "default", "uid": name, "labels": {"app": "web"}}
    status = {"phase": "Running", "startTime": f"2026-01-01T00:{minute:02}:00Z"} if node else {}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {**identity, **metadata},
        "spec": {"nodeName": node, "priority": priority, "containers": [container]},
        "status": status,
    }


FULL = [
    node("a"),
    node("b"),
    *(pod(f"a{i}", "a", minute=i) for i in range(2)),
    *(pod(f"b{i}", "b", priority=i, minute=i) for i in range(2)),
]
WANTS_IN = pod("high", cpu="3", priority=10)
SAID = "0/2 nodes are available: 2 Insufficient cpu."


def told(**changed):
    """Tell what kube-scheduler does about the pod that wants in."""
    fields = {
        "message": SAID,
        "event": SAID,
        "nominated": "a",
        "leaving": {"a0", "a1"},
        **changed,
    }
    return Observed(WANTS_IN, **fields)


def test_a_seed_is_a_cluster():
    assert make_full_cluster(1, 5) == make_full_cluster(1, 5)
    assert make_full_cluster(1, 5) != make_full_cluster(1, 6)


def test_clusters_are_judged_and_all_sorts_of_answers_come_up():
    """Most have to preempt, and each way to decide between nodes comes up."""
    answers = []
    for number in range(60):
        cluster = copy.deepcopy(make_full_cluster(1, number))
        for index, each in enumerate((*cluster.objects, *cluster.pods)):
            each["metadata"]["uid"] = f"uid-{index}"
        answers += (ask_ours(cluster.objects, each) for each in cluster.pods)

    assert {type(each.decision) for each in answers} >= {Preempt, Park}
    assert {each.level for each in answers} - {""} <= set(LEVELS)
    assert len({each.level for each in answers}) > 4


def test_the_same_is_no_difference():
    ours = ask_ours(FULL, WANTS_IN)

    assert (ours.nodes, ours.level) == ({"a"}, "lowest highest priority")
    assert not list(differences(FULL, told(), ours))


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"node": "a"}, "bound to 'a'; we would evict pods"),
        ({"message": "no"}, "condition 'no'; we say"),
        ({"event": "no"}, "event 'no'; we say"),
        ({"nominated": "b", "leaving": {"b0", "b1"}}, "evicts pods on 'b'; we would evict pods"),
        ({"nominated": ""}, "evicts pods on ''"),
        ({"leaving": {"a0"}}, "evicts ['a0'] on a; we would evict ['a0', 'a1']"),
        ({"leaving": set()}, "evicts [] on a"),
    ],
)
def test_everything_else_is(changed, said):
    found = list(differences(FULL, told(**changed), ask_ours(FULL, WANTS_IN)))

    assert any(each.startswith(said) for each in found), found


def test_of_pods_that_are_alike_any_may_go():
    alike = [node("a"), *(pod(f"a{i}", "a") for i in range(2))]
    wants = pod("high", cpu="2", priority=10)
    one = "0/1 nodes are available: 1 Insufficient cpu."
    ours = ask_ours(alike, wants)

    for name in ("a0", "a1"):
        seen = Observed(wants, message=one, event=one, nominated="a", leaving={name})
        assert not list(differences(alike, seen, ours))


def test_of_pods_that_are_alike_one_may_go_already():
    """Two of three have to go: upstream may have chosen the one that goes, or not."""
    going = {"deletionTimestamp": "2026-01-01T00:00:00Z"}
    alike = [
        node("a"),
        *(pod(f"a{i}", "a", cpu="1", **(going if i == 0 else {})) for i in range(4)),
    ]
    wants = pod("high", cpu="2", priority=10)
    one = "0/1 nodes are available: 1 Insufficient cpu."
    ours = ask_ours(alike, wants)

    def found(*names):
        seen = Observed(wants, message=one, event=one, nominated="a", leaving=set(names))
        return list(differences(alike, seen, ours))

    assert not found("a1")
    assert not found("a2", "a3")
    assert found()
    assert found("a1", "a2", "a3")
    assert found("elsewhere")


def test_a_pod_that_fits_must_be_bound():
    small = pod("small", cpu="1", priority=10)
    ours = ask_ours([node("a"), node("b")], small)

    assert isinstance(ours.decision, Bind)
    assert not list(differences([], Observed(small, node="b"), ours))
    assert list(differences([], Observed(small, node="c"), ours))
    assert list(differences([], Observed(small, message="no"), ours))


def test_what_upstream_miscounts_is_known():
    """Only hard spread over pods that go already, and that would be evicted."""
    spread = {
        "maxSkew": 1,
        "topologyKey": "kubernetes.io/hostname",
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "web"}},
    }
    wants = copy.deepcopy(WANTS_IN)
    wants["spec"]["topologySpreadConstraints"] = [spread]
    going = pod("going", "a", deletionTimestamp="2026-01-01T00:00:00Z")

    assert upstream_miscounts([*FULL, going], wants)
    assert not upstream_miscounts([*FULL, going], WANTS_IN)
    assert not upstream_miscounts(FULL, wants)


@pytest.mark.parametrize("what", MATTERS)
def test_one_thing_can_be_left_out(what):
    left, without_it = without(what, FULL, WANTS_IN)

    assert ask_ours(left, without_it).candidates.keys() == {"a", "b"}
