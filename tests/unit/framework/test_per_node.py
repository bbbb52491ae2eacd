"""Plugins that look at one node at a time."""

import pytest

from scheduler import PluginError, Refused, per_node
from scheduler.framework.filtering import PreFilterResult, filter_nodes
from scheduler.framework.observer import SILENT
from scheduler.framework.profile import Profile, Weighted
from scheduler.framework.registry import points_of
from scheduler.framework.scoring import score_nodes
from scheduler.testing import check_plugin, make_node, make_pod, make_table

POD = make_pod("incoming", requests="1 cpu")


@per_node
class Roomy:
    """Wants a free cpu, and prefers free cpus."""

    node_local = True

    def filter_node(self, pod, node):
        if "taboo" in node.labels:
            return Refused("node(s) were taboo", resolvable=False)
        return None if node.free["cpu"] >= pod.requests.get("cpu", 0) else "node(s) were narrow"

    def score_node(self, pod, node):
        return max(0, min(100, node.free["cpu"] // 100))


def table():
    nodes = [
        make_node("a", allocatable="4 cpu, 8Gi, 10 pods"),
        make_node("b", allocatable="4 cpu", taints="k=v:NoSchedule"),
        make_node("c", labels="taboo=yes"),
    ]
    pods = [
        make_pod("one", requests="1 cpu, 1Gi", node="a"),
        make_pod("two", requests="4 cpu", node="b"),
    ]
    return make_table(*nodes, placed=pods)


def test_it_keeps_the_contract():
    check_plugin(Roomy())


def test_the_class_serves_its_points_and_has_a_name():
    assert {point.value for point in points_of(Roomy)} >= {"filter", "score"}
    assert Roomy.name == "Roomy"


def test_reasons_are_gathered():
    said = {
        each.reason: (each.nodes.tolist(), each.resolvable) for each in Roomy().filter(POD, table())
    }

    assert said == {
        "node(s) were narrow": ([False, True, False], True),
        "node(s) were taboo": ([False, False, True], False),
    }


def test_scores_are_one_number_a_row():
    assert Roomy().score(POD, table()).tolist() == [30, 0, 80]


def test_a_row_shows_the_node_and_what_is_on_it():
    rows = []

    @per_node
    class Looks:
        def filter_node(self, pod, node):
            rows.append(node)

    nodes = table()
    assert not list(Looks().filter(POD, nodes))
    a, b, _ = rows
    assert (a.name, a.labels, a.annotations) == ("a", {"kubernetes.io/hostname": "a"}, {})
    assert [taint.key for taint in b.taints] == ["k"]
    assert [pod.name for pod in a.pods] == ["one"]
    assert dict(a.allocatable) == {"cpu": 4000, "memory": 8 * 2**30, "pods": 10}
    assert dict(a.requested) == {"cpu": 1000, "memory": 2**30, "pods": 1}
    assert dict(a.free) == {"cpu": 3000, "memory": 7 * 2**30, "pods": 9}
    assert a.free["example.com/gpu"] == 0
    assert not a.unschedulable
    assert not a.objects.custom("gauges.v1.example.com")
    with pytest.raises(AttributeError):
        a.name = "other"


def test_every_row_is_judged_by_its_own_changes():
    """Preemption calls the filter for a node without some of its pods."""
    nodes = table()
    row = nodes.row_of("b")

    without = nodes.each(removing={row: nodes.pods_on(row)})

    assert not any(each.nodes[row] for each in Roomy().filter(POD, without))


def test_a_class_with_neither_method_is_refused():
    with pytest.raises(TypeError, match="Idle has neither filter_node nor score_node"):

        @per_node
        class Idle:
            pass


@pytest.mark.parametrize("answer", [1.5, None, "many"])
def test_scores_that_are_no_numbers_are_the_plugins_fault(answer):
    @per_node
    class Odd:
        def score_node(self, pod, node):
            return answer

    profile = Profile("p", queue_sort=None, score=(Weighted(Odd(), 1),))
    with pytest.raises(
        PluginError, match=r"'Odd' raised TypeError in Score: score_node\(a\) returned"
    ):
        score_nodes(profile, POD, table(), SILENT)


@pytest.mark.parametrize("answer", [False, 3, ""])
def test_answers_that_are_no_reasons_are_the_plugins_fault(answer):
    @per_node
    class Odd:
        def filter_node(self, pod, node):
            return answer

    profile = Profile("p", queue_sort=None, filter=(Odd(),))
    with pytest.raises(PluginError, match="Odd"):
        filter_nodes(profile, PreFilterResult(), POD, table(), {}, SILENT)
