"""When plugins are asked again about pods of a template, and when they are not."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, Final

import numpy as np
import pytest

from scheduler.cache.cluster_cache import ClusterCache
from scheduler.cycle.comparing import difference
from scheduler.cycle.scheduling import Attempt, decide
from scheduler.framework import kept_normal
from scheduler.framework.decision import Bind, Park, Retry
from scheduler.framework.normalize import REVERSED
from scheduler.framework.profile import Profile, Weighted
from scheduler.framework.rejection import Rejection
from scheduler.framework.templates import Templates
from scheduler.model.pod import Pod
from scheduler.model.trust import NODE_DISTRUST, distrust
from scheduler.plugins.node_trust import NodeTrust
from scheduler.plugins.priority_sort import PrioritySort
from scheduler.snapshot.arrays import Int64s
from scheduler.snapshot.node_table import NodeTable
from scheduler.testing import make_node, make_pod


class Counting:
    """A plugin of every kind that counts the rows it is asked about.

    Args:
        reads: What it reads of a table.
    """

    name = "Counting"

    def __init__(self, reads: Callable[[NodeTable], Int64s], **promises: bool) -> None:
        self.reads = reads
        self.filtered: list[int] = []
        self.scored: list[int] = []
        vars(self).update(promises)

    def filter(self, pod: Pod, nodes: NodeTable) -> Iterator[Rejection]:
        self.filtered.append(len(nodes))
        full = self.reads(nodes) > 90
        if full.any():
            yield Rejection(full, "node(s) were full")

    def score(self, pod: Pod, nodes: NodeTable) -> Int64s:
        self.scored.append(len(nodes))
        return self.reads(nodes).copy()


NODES: Final = 30


class Asked:
    """A cluster of thirty nodes, a pod of one template after another, and one plugin."""

    def __init__(self, plugin: Counting, templates: Templates | None = None) -> None:
        self.plugin = plugin
        self.cache = ClusterCache()
        for number in range(NODES):
            self.cache.add_node(make_node(f"node-{number}"))
        self.profile = Profile(
            "py-scheduler", PrioritySort(), filter=(plugin,), score=(Weighted(plugin, 1),)
        )
        self.templates = templates or Templates()
        self.chosen = ""
        self.serial = 0

    def decide(self, **says: Any) -> tuple[list[int], list[int]]:
        """Decide about a further pod; return the numbers of rows that filter and score got."""
        self.serial += 1
        pod = make_pod(f"pod-{self.serial}", **says)
        attempt = Attempt(self.profile, pod, self.cache.view(), {}, templates=self.templates)
        self.plugin.filtered, self.plugin.scored = [], []
        kept = decide(attempt)
        asked = self.plugin.filtered[:], self.plugin.scored[:]
        assert difference(kept, decide(replace(attempt, templates=None))) == ""
        assert isinstance(kept, Bind)
        self.chosen = kept.node
        return asked

    def place(self, node: str, count: int = 1) -> None:
        for _ in range(count):
            self.serial += 1
            self.cache.assume(make_pod(f"other-{self.serial}"), node)


def pod_count(nodes: NodeTable) -> Int64s:
    return nodes.pod_count


def length_of_names(nodes: NodeTable) -> Int64s:
    return nodes.pod_count + np.array([len(name) for name in nodes.names], dtype=np.int64)


def test_nothing_is_asked_about_a_pod_like_the_one_before():
    asked = Asked(Counting(pod_count, node_local=True))

    assert [asked.decide() for _ in range(4)] == [
        ([NODES], [NODES]),  # the first of its template, about which nothing is kept
        ([NODES], [NODES]),
        ([], []),
        ([], []),
    ]


def test_a_node_local_plugin_is_asked_about_the_rows_that_have_changed():
    asked = Asked(Counting(pod_count, node_local=True))
    asked.decide(), asked.decide()

    asked.place("node-3")
    asked.place("node-7", 2)

    assert asked.decide() == ([2], [2])
    assert asked.decide() == ([], [])


def test_a_row_with_the_same_numbers_as_another_needs_no_call():
    asked = Asked(Counting(pod_count, node_local=True))
    asked.decide(), asked.decide()
    asked.place("node-3")
    asked.decide()

    asked.place("node-4")

    assert asked.decide() == ([], [])


def test_a_row_with_the_numbers_of_a_rejected_one_is_rejected_without_a_call():
    """Nodes of one size fill up one after the other."""
    asked = Asked(Counting(pod_count, node_local=True))
    asked.decide(), asked.decide()

    calls = []
    for node in ("node-3", "node-4", "node-5"):
        asked.place(node, 91)
        calls.append(asked.decide())

    # The plugin says in which order reasons are given, so a new one has it asked about all.
    assert calls == [([1, NODES], []), ([1], []), ([], [])]


class CountedNormalize:
    """A normalization that counts the rows that it is called for."""

    by_range = True

    def __init__(self) -> None:
        self.rows: list[int] = []

    def __call__(self, scores: Int64s, pod: Pod, nodes: NodeTable) -> Int64s:
        assert len(scores) == len(nodes)
        self.rows.append(len(scores))
        return REVERSED(scores, pod, nodes)


@pytest.mark.parametrize(
    ("higher_at_most", "rows"),
    [
        (64, [[3], [], [], [], [3], [2]]),
        (1, [[NODES], [], [], [], [NODES - 2], [2]]),
    ],
)
def test_scores_are_normalized_anew_only_if_the_lowest_or_highest_moves(
    higher_at_most: int, rows: list[list[int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only the rows that are above the lowest then, with one of the lowest, if these are few."""
    monkeypatch.setattr(kept_normal, "_HIGHER_AT_MOST", higher_at_most)
    normalize, plugin = CountedNormalize(), Counting(pod_count, node_local=True)
    vars(plugin)["normalize"] = normalize
    asked = Asked(plugin)
    asked.place("node-0", 50)
    asked.decide(), asked.decide()
    seen = []
    for node, count in (
        ("node-1", 10),  # what 10 become is not known yet
        ("node-2", 10),
        ("node-1", 90),  # rejected
        ("node-3", 91),  # rejected, by the same filter
        ("node-0", 10),  # the highest
        ("node-0", 40),  # rejected: another row is the highest
    ):
        asked.place(node, count)
        normalize.rows.clear()
        asked.decide()
        seen.append(normalize.rows[:-1])  # the last are those of the fresh answers

    assert seen == rows


def test_rows_that_arrive_at_the_lowest_score_are_no_ones_that_stayed_there():
    """Where no other row stayed, it is not known what the lowest score had become."""
    normalize, plugin = CountedNormalize(), Counting(pod_count, node_local=True)
    vars(plugin)["normalize"] = normalize
    asked = Asked(plugin)
    for number in range(NODES):
        asked.place(f"node-{number}", 91 if number > 1 else 80 + number)
    asked.decide(), asked.decide()
    asked.place("node-0", 2)
    for uid in [pod.uid for pod in asked.cache.assumed() if pod.node_name == "node-2"][:11]:
        asked.cache.forget(uid)
    normalize.rows.clear()
    asked.decide()

    assert normalize.rows == [3, 3], "the kept answer and the fresh one: 82, 81 and 80 pods"
    assert asked.chosen == "node-2"


def test_names_tell_rows_apart_that_have_the_same_numbers():
    """Otherwise a plugin that reads names would get the answer about another node."""
    asked = Asked(Counting(length_of_names, node_local=True))
    asked.decide(), asked.decide()
    asked.place("node-3")
    asked.decide()

    asked.place("node-14")

    assert asked.decide() == ([1], [1])


def test_a_plugin_that_is_not_node_local_is_asked_about_all_rows_when_a_column_changes():
    asked = Asked(Counting(pod_count, each_world=True))
    asked.decide(), asked.decide()

    assert asked.decide() == ([], []), "no column that it read has changed"
    asked.place("node-3")
    assert asked.decide() == ([NODES], [NODES])


def test_a_plugin_that_promises_nothing_is_asked_about_every_pod():
    """It may read the pod's name, or its status."""
    asked = Asked(Counting(pod_count))

    assert [asked.decide() for _ in range(4)] == [([NODES], [NODES])] * 4


def test_a_plugin_that_reads_the_identity_of_pods_is_asked_about_every_pod():
    asked = Asked(Counting(pod_count, node_local=True, reads_identity=True))

    assert [asked.decide() for _ in range(3)] == [([NODES], [NODES])] * 3


def test_one_of_two_pods_of_a_template_may_be_distrusted():
    """A pod without a controller is its own owner, and no plugin but NodeTrust may know it."""
    asked = Asked(Counting(pod_count, node_local=True))
    asked.profile = replace(asked.profile, pre_filter=(NodeTrust(),), filter=(NodeTrust(),))
    pods = [make_pod(f"pod-{number}") for number in range(4)]
    for node in asked.cache.nodes():
        asked.cache.put(NODE_DISTRUST, distrust(pods[3].uid, node.name, "are bad"))

    kinds = [
        type(decide(Attempt(asked.profile, pod, asked.cache.view(), {}, templates=asked.templates)))
        for pod in pods
    ]

    assert kinds == [Bind, Bind, Bind, Park]


def test_a_change_of_another_column_does_not_matter():
    asked = Asked(Counting(lambda nodes: nodes.allocatable("cpu") * 0, node_local=True))
    asked.decide(), asked.decide()

    asked.place("node-3", 5)

    assert asked.decide() == ([], [])


def test_a_plugin_that_scores_by_row_is_asked_about_rows_that_become_feasible():
    plugin = Counting(pod_count, node_local=True)
    other = Counting(lambda nodes: nodes.allocatable("cpu") * 0, scores_by_row=True)
    asked = Asked(plugin)
    asked.profile = replace(asked.profile, score=(Weighted(plugin, 1), Weighted(other, 1)))
    asked.place("node-3", 95)
    asked.decide(), asked.decide()
    other.scored = []

    asked.place("node-5", 95)
    for uid in [pod.uid for pod in asked.cache.assumed() if pod.node_name == "node-3"]:
        asked.cache.forget(uid)
    asked.decide()

    assert other.scored[0] == 1, "node-3 alone; node-5 is not feasible any more"


def test_a_reason_that_is_new_is_given_in_the_plugins_order():
    """Only the plugin knows where it belongs, so it is asked about every row."""
    asked = Asked(Counting(pod_count, node_local=True))
    asked.decide(), asked.decide()

    asked.place("node-3", 95)

    assert asked.decide() == ([1, NODES], [])
    asked.place("node-4", 95)
    assert asked.decide()[0] == [1]


def test_pods_of_another_template_have_answers_of_their_own():
    asked = Asked(Counting(pod_count, node_local=True))
    asked.decide(), asked.decide()

    assert asked.decide(labels="app=other") == ([NODES], [NODES])
    assert asked.decide() == ([], [])


def test_nodes_that_come_and_go_are_rows_that_have_changed():
    asked = Asked(Counting(length_of_names, node_local=True))
    asked.decide(), asked.decide()

    asked.cache.add_node(make_node("new"))
    assert asked.decide() == ([1], [1])
    asked.place("new", 3)
    assert asked.decide() == ([1], [1])
    asked.cache.remove_node("new")
    assert asked.decide() == ([], []), "the last row has gone"
    asked.cache.remove_node("node-5")
    assert asked.decide() == ([1], [1]), "the last row has moved to its place"
    for number in range(100):
        asked.cache.add_node(make_node(f"more-{number}"))
    assert asked.decide() == ([100], [100])


def test_nodes_that_come_can_be_chosen_and_those_that_went_cannot():
    asked = Asked(Counting(lambda nodes: 9 - nodes.pod_count, node_local=True))
    for number in range(NODES):
        asked.place(f"node-{number}")
    asked.decide(), asked.decide()

    asked.cache.add_node(make_node("new"))
    asked.decide()
    assert asked.chosen == "new"
    asked.cache.remove_node("new")
    asked.decide()
    assert asked.chosen.startswith("node-")


def test_a_plugin_that_is_not_node_local_is_asked_anew_when_nodes_come_or_go():
    asked = Asked(Counting(pod_count, each_world=True))
    asked.decide(), asked.decide()

    asked.cache.add_node(make_node("new"))
    assert asked.decide() == ([NODES + 1], [NODES + 1])
    asked.cache.remove_node("new")
    assert asked.decide() == ([NODES], [NODES])


@pytest.mark.parametrize(
    ("reads", "calls"),
    [(lambda _: 0, 2), (len, 3), (lambda nodes: nodes.pod_count.sum(), 3)],
    ids=["nothing", "how many nodes there are", "a column"],
)
def test_a_pre_filter_that_reads_no_row_is_not_asked_again_when_a_node_comes(reads, calls):
    class Asks:
        name = "Asks"
        node_local = True
        asked = 0

        def pre_filter(self, pod: Pod, nodes: NodeTable) -> None:
            self.asked += 1
            reads(nodes)

    plugin = Asks()
    asked = Asked(Counting(pod_count, node_local=True))
    asked.profile = replace(asked.profile, pre_filter=(plugin,))
    attempts = [
        Attempt(asked.profile, make_pod(f"pod-{number}"), asked.cache.view(), {})
        for number in range(3)
    ]
    for attempt in attempts:
        decide(replace(attempt, templates=asked.templates))
    assert plugin.asked == 2, "the first of its template, and the second"

    asked.cache.add_node(make_node("new"))
    decide(replace(attempts[0], nodes=asked.cache.view(), templates=asked.templates))

    assert plugin.asked == calls


def test_all_is_asked_anew_when_very_many_nodes_come_or_the_profile_is_replaced():
    asked = Asked(Counting(pod_count, node_local=True))
    asked.decide(), asked.decide()

    for number in range(3000):
        asked.cache.add_node(make_node(f"more-{number}"))
    rows = NODES + 3000
    assert asked.decide() == ([rows], [rows])
    asked.profile = replace(asked.profile, generation=1)
    assert asked.decide() == ([rows], [rows])
    asked.templates.clear()
    assert asked.decide() == ([rows], [rows])


def test_a_plugin_that_failed_is_asked_again():
    plugin = Counting(pod_count, node_local=True)
    asked = Asked(plugin)
    asked.decide(), asked.decide()
    asked.place("node-3")

    def fail(_: NodeTable) -> Int64s:
        raise RuntimeError("once")

    plugin.reads = fail
    pod = make_pod("pod-x")
    attempt = Attempt(asked.profile, pod, asked.cache.view(), {}, templates=asked.templates)
    assert isinstance(decide(attempt), Retry)

    plugin.reads = pod_count
    assert asked.decide() == ([NODES], [1]), "the scores stood all the while"


def test_answers_take_bounded_memory():
    template = Templates()
    asked = Asked(Counting(pod_count, node_local=True), template)
    asked.decide(), asked.decide(), asked.decide()
    size_bytes = template.size_bytes
    assert size_bytes > 8 * NODES

    few = Templates(bytes_maximum=3 * size_bytes)
    asked = Asked(Counting(pod_count, node_local=True), few)
    for number in range(20):
        for _ in range(3):
            asked.decide(labels=f"app=app-{number}")

    assert few.count in {3, 4}, "the last one is measured when the next one comes"
    assert few.size_bytes <= 4 * size_bytes


def test_a_template_of_which_one_pod_came_displaces_nothing():
    asked = Asked(Counting(pod_count, node_local=True))
    asked.decide(), asked.decide()

    for number in range(50):
        asked.decide(labels=f"app=app-{number}")

    assert asked.templates.count == 1


def test_a_pod_that_comes_again_is_no_second_pod_of_its_template():
    asked = Asked(Counting(pod_count, node_local=True))
    lonely = make_pod("pod-lonely", labels={"app": "lonely"})

    for _ in range(3):
        attempt = Attempt(asked.profile, lonely, asked.cache.view(), {}, templates=asked.templates)
        decide(attempt)

    assert asked.templates.count == 0
