"""Runs the filters and combines their answers: upstream's runtime tests, on whole tables.

Sources: framework_test.go (TestFilterPlugins, TestRunPreFilterPlugins,
TestFilterPluginsWithNominatedPods), schedule_one_test.go (TestSchedulerSchedulePod).
"""

import numpy as np
import pytest

from scheduler.errors import PluginError
from scheduler.framework.filtering import (
    PreFilterResult,
    diagnose,
    filter_nodes,
    run_filters,
    run_pre_filters,
)
from scheduler.framework.observer import SILENT
from scheduler.framework.profile import Profile
from scheduler.framework.rejection import Failure, Only, Refused, Rejection, Skip
from scheduler.plugins.priority_sort import PrioritySort
from scheduler.snapshot.columns import ClusterColumns
from scheduler.snapshot.node_table import NodeTable
from scheduler.testing import make_node, make_pod

POD = make_pod(requests="1 cpu")
EVERYWHERE = PreFilterResult()


def table(*nodes, pods=()):
    columns = ClusterColumns()
    for node in nodes or ("a", "b", "c"):
        columns.add_node(make_node(node) if isinstance(node, str) else node)
    for pod in pods:
        columns.add_pod(columns.rows[pod.node_name], pod)
    return NodeTable(columns)


def mask(*values):
    return np.array(values, dtype=np.bool_)


class Says:
    """Answers filter and pre_filter with what it was given."""

    def __init__(self, name, *rejections, first=None):
        self.name = name
        self.rejections = rejections
        self.first = first
        self.calls = []

    def pre_filter(self, pod, nodes):
        self.calls.append("pre_filter")
        if isinstance(self.first, Exception):
            raise self.first
        return self.first

    def filter(self, pod, nodes):
        self.calls.append(list(nodes.names))
        for each in self.rejections:
            if isinstance(each, Exception):
                raise each
            yield each


def by_name(name, *rejected, reason="no", resolvable=True):
    """A filter that refuses nodes by name, whatever part of the table it is shown."""

    class ByName:
        node_local = True

        def __init__(self):
            self.name = name
            self.calls = []

        def filter(self, pod, nodes):
            self.calls.append(list(nodes.names))
            refused = mask(*(each in rejected for each in nodes.names))
            if refused.any():
                yield Rejection(refused, reason, resolvable)

    return ByName()


def ask(*plugins, nodes=None, skipped=frozenset()):
    nodes = nodes or table()
    found = run_filters(plugins, skipped, POD, nodes, {}, SILENT)
    found.raise_failure()
    return found


def explain(found, nodes=None):
    """Return (plugin, reason, resolvable) of every row."""
    diagnosis = diagnose(nodes or table(), PreFilterResult(), found)
    return [reasons_of(diagnosis, row) for row in range(len(diagnosis.names))]


def reasons_of(diagnosis, row):
    """Return (plugin, reason, resolvable) of one row."""
    return [
        (verdict.plugin, verdict.reason, bool(verdict.resolvable[row]))
        for verdict in diagnosis.verdicts
        if verdict.nodes[row]
    ]


# Filters.


def test_nobody_who_minds_means_that_every_node_is_feasible():
    assert ask(Says("A"), Says("B")).feasible.tolist() == [True] * 3


def test_the_first_plugin_that_refuses_is_blamed_with_all_its_reasons():
    a = Says("A", Rejection(mask(1, 0, 0), "x"), Rejection(mask(1, 1, 0), "y"))
    b = Says("B", Rejection(mask(1, 1, 1), "z"))

    found = ask(a, b)

    assert not found.feasible.any()
    assert explain(found) == [
        [("A", "x", True), ("A", "y", True)],
        [("A", "y", True)],
        [("B", "z", True)],
    ]


def test_a_row_is_beyond_help_if_any_of_its_reasons_is():
    a = Says(
        "A",
        Rejection(mask(1, 1, 0), "x", resolvable=mask(1, 0, 1)),
        Rejection(mask(1, 0, 0), "y", resolvable=False),
        Rejection(mask(0, 0, 1), "z", resolvable=True),
    )

    diagnosis = diagnose(table(), PreFilterResult(), ask(a))

    assert diagnosis.preemption_may_help.tolist() == [False, False, True]
    assert diagnosis.rejected_by == {"A"}


def test_plugins_that_skip_are_not_called():
    a = Says("A", Rejection(mask(1, 1, 1), "x"))

    assert ask(a, skipped=frozenset({"A"})).feasible.all()
    assert a.calls == []


def test_no_plugin_is_called_once_all_nodes_are_rejected():
    b = Says("B")
    ask(Says("A", Rejection(mask(1, 1, 1), "x")), b)

    assert b.calls == []


def test_closed_nodes_take_no_pods_and_say_why():
    nodes = table()
    nodes._columns.closed[1] = "node(s) could not be read: x"

    found = ask(Says("A", Rejection(mask(0, 1, 0), "mine")), nodes=nodes)

    assert found.feasible.tolist() == [True, False, True]
    assert explain(found, nodes)[1] == [("", "node(s) could not be read: x", False)]


def test_a_failure_counts_where_nobody_refused_before():
    refuses = Says("A", Rejection(mask(1, 0, 0), "x"))

    assert ask(refuses, Says("B", Failure(mask(1, 0, 0), "?"))).feasible.tolist() == [0, 1, 1]
    with pytest.raises(PluginError, match=r"plugin 'B' failed in Filter: \?"):
        ask(refuses, Says("B", Failure(mask(1, 1, 0), "?")))
    with pytest.raises(PluginError, match="plugin 'B'"):
        ask(Says("B", Failure(mask(1, 0, 0), "?")), refuses)


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        ("no", "yielded 'no' from filter"),
        (Rejection(mask(1, 0), "x"), "one truth value for each of 3 rows"),
        (Rejection(np.array([1, 0, 0]), "x"), "one truth value for each of 3 rows"),
        (Rejection([True, False, False], "x"), "one truth value for each of 3 rows"),
        (Failure(mask(1), "x"), "one truth value for each of 3 rows"),
        (Rejection(mask(1, 0, 0), ""), "without giving a reason"),
        (Rejection(mask(1, 0, 0), "x", resolvable=mask(1, 0)), "resolvable"),
        (Rejection(mask(1, 0, 0), "x", resolvable=np.array([1, 0, 1])), "resolvable"),
        (Rejection(mask(1, 0, 0), "x", resolvable="yes"), "resolvable"),
        (ValueError("boom"), "raised ValueError in Filter: boom"),
    ],
)
def test_an_answer_out_of_contract_is_a_bug_of_the_plugin(answer, problem):
    with pytest.raises(PluginError, match=problem) as caught:
        ask(Says("Wrong", answer))

    assert caught.value.plugin == "Wrong"


def test_a_plugin_that_keeps_a_table_fails():
    old = table()
    old._columns.generation += 1
    broken = Says("Keeps")
    broken.filter = lambda pod, nodes: [Rejection(old.unschedulable, "x")]

    with pytest.raises(PluginError, match="plugin 'Keeps' raised StaleView"):
        ask(broken)


# Pre-filters.


def pre(*answers):
    plugins = [Says(name, first=answer) for name, answer in zip("ABCDE", answers, strict=False)]
    return run_pre_filters(plugins, POD, table(), SILENT), plugins


def test_nothing_to_say_and_skip():
    narrowed, _ = pre(None, Skip(), None)

    assert narrowed.skipped == {"B"}
    assert narrowed.only is None
    assert narrowed.refused is None


def test_named_nodes_intersect_and_unknown_ones_are_passed_over():
    narrowed, _ = pre(Only(frozenset({"a", "b", "nowhere"})), None, Only(frozenset({"b", "c"})))

    assert narrowed.only.tolist() == [False, True, False]
    assert narrowed.narrowed_by == ("A", "C")


def test_names_of_nodes_that_do_not_exist_leave_no_node_and_refuse_none():
    narrowed, plugins = pre(Only(frozenset({"nowhere"})), None)

    assert narrowed.refused is None
    assert plugins[1].calls == ["pre_filter"]
    never = Says("Filter")
    found = filter_nodes(
        Profile("p", PrioritySort(), filter=(never,)), narrowed, POD, table(), {}, SILENT
    )
    assert never.calls == []
    assert not found.feasible.any()
    diagnosis = diagnose(table(), narrowed, found)
    text = "3 node(s) didn't satisfy plugin(s) [A]"
    assert diagnosis.message == f"0/3 nodes are available: {text}."
    assert diagnosis.rejected_by == {"A"}


@pytest.mark.parametrize(
    ("answers", "text", "by"),
    [
        ([Only(frozenset())], "node(s) didn't satisfy plugin A", {"A"}),
        (
            [None, Only(frozenset({"b"})), Only(frozenset({"a"}))],
            "node(s) didn't satisfy plugin(s) [B C] simultaneously",
            {"B", "C"},
        ),
    ],
)
def test_when_no_named_node_is_left_no_other_plugin_is_called(answers, text, by):
    narrowed, plugins = pre(*answers, None)

    assert narrowed.refused == Refused(text, resolvable=False)
    assert narrowed.refused_by == by
    assert plugins[len(answers)].calls == []
    assert diagnose(table(), narrowed, None).message == f"0/3 nodes are available: {text}."


def test_no_plugin_is_called_after_an_unresolvable_refusal():
    narrowed, plugins = pre(Refused("never", resolvable=False), Refused("later"))

    assert narrowed.refused == Refused("never", resolvable=False)
    assert narrowed.refused_by == {"A"}
    assert plugins[1].calls == []
    assert not diagnose(table(), narrowed, None).preemption_may_help.any()


def test_plugins_that_named_nodes_are_blamed_beside_a_resolvable_refusal():
    """Upstream wakes the pod for either of them (schedule_one.go, findNodesThatFitPod)."""
    narrowed, _ = pre(Only(frozenset({"a"})), Refused("not now"))
    final, _ = pre(Only(frozenset({"a"})), Refused("never", resolvable=False))

    assert narrowed.refused_by == {"A", "B"}
    assert final.refused_by == {"B"}


def test_other_refusals_let_the_rest_speak_and_the_last_wins():
    narrowed, plugins = pre(Refused("first"), None, Refused("second"), Skip())

    assert narrowed.refused == Refused("second")
    assert narrowed.refused_by == {"C"}
    assert plugins[3].calls == ["pre_filter"]
    diagnosis = diagnose(table(), narrowed, None)
    assert diagnosis.preemption_may_help.all()
    assert diagnosis.message == "0/3 nodes are available: second."


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        (Failure(None, "down"), "plugin 'A' failed in PreFilter: down"),
        ("perhaps", "plugin 'A' answered PreFilter with 'perhaps'"),
        (KeyError("k"), "plugin 'A' raised KeyError in PreFilter: 'k'"),
    ],
)
def test_a_pre_filter_that_fails_ends_the_attempt(answer, problem):
    with pytest.raises(PluginError, match=problem):
        pre(answer)


# Both together.


def judge(*plugins, nodes, narrowed=EVERYWHERE, nominated=None):
    profile = Profile("p", PrioritySort(), filter=plugins)
    found = filter_nodes(profile, narrowed, POD, nodes, nominated or {}, SILENT)
    return found, diagnose(nodes, narrowed, found)


def test_rows_that_were_not_named_are_refused_in_upstreams_words():
    narrowed = PreFilterResult(only=mask(0, 1, 1), narrowed_by=("B", "A"))

    found, diagnosis = judge(by_name("F", "b", "c"), nodes=table(), narrowed=narrowed)

    assert not found.feasible.any()
    assert diagnosis.message == (
        "0/3 nodes are available: 1 node(s) didn't satisfy plugin(s) [A B], 2 no."
    )
    assert diagnosis.rejected_by == {"A", "B", "F"}
    assert diagnosis.preemption_may_help.tolist() == [False, True, True]


def test_only_named_rows_are_judged():
    plugin = by_name("F", "b")
    narrowed = PreFilterResult(only=mask(0, 1, 1), narrowed_by=("A",))

    found, _ = judge(plugin, nodes=table(), narrowed=narrowed)

    assert plugin.calls == [["b", "c"]]
    assert found.feasible.tolist() == [False, False, True]


class PotentialVictims:
    """Counts its questions; refuses nodes where the pod called *name* is, or is not."""

    def __init__(self, *, with_pod, without_pod, name="nominee"):
        self.name = "Crowd"
        self.with_pod, self.without_pod, self.nominee = with_pod, without_pod, name
        self.passes = 0

    def filter(self, pod, nodes):
        self.passes += 1
        there = [
            any(each.name == self.nominee for each in nodes.pods_on(row))
            for row in range(len(nodes))
        ]
        if self.with_pod:
            yield Rejection(mask(*there), "with")
        if self.without_pod:
            yield Rejection(~mask(*there), "without")


@pytest.mark.parametrize(
    ("with_pod", "without_pod", "feasible", "reason", "passes"),
    [
        (False, False, True, None, 2),
        (True, False, False, "with", 1),
        (False, True, False, "without", 2),
    ],
)
def test_a_node_must_take_the_pod_with_and_without_those_nominated_there(
    with_pod, without_pod, feasible, reason, passes
):
    """Upstream's matrix: the second pass is run if, and only if, the first one succeeded."""
    nodes = table("a")
    crowd = PotentialVictims(with_pod=with_pod, without_pod=without_pod)
    nominee = make_pod("nominee", priority=10)

    found, diagnosis = judge(crowd, nodes=nodes, nominated={0: [nominee]})

    assert found.feasible.tolist() == [feasible]
    assert [each[1] for each in reasons_of(diagnosis, 0)] == ([reason] if reason else [])
    assert crowd.passes == passes


def test_without_nominations_one_pass_does():
    crowd = PotentialVictims(with_pod=False, without_pod=False)
    judge(crowd, nodes=table("a"))

    assert crowd.passes == 1


def test_nominations_count_on_their_own_nodes_alone():
    """Also where pre-filters named some rows only."""
    nodes = table("a", "b", "c")
    crowd = PotentialVictims(with_pod=True, without_pod=False)
    nominated = {1: [make_pod("nominee")]}

    found, _ = judge(crowd, nodes=nodes, nominated=nominated)
    assert found.feasible.tolist() == [True, False, True]

    found, _ = judge(
        crowd,
        nodes=nodes,
        nominated=nominated,
        narrowed=PreFilterResult(only=mask(0, 1, 1), narrowed_by=("A",)),
    )
    assert found.feasible.tolist() == [False, False, True]


def test_the_second_pass_judges_only_the_rows_that_are_left():
    nodes = table("a", "b", "c")
    plugin = by_name("F", "a")

    judge(plugin, nodes=nodes, nominated={0: [make_pod("x")], 2: [make_pod("y")]})

    assert plugin.calls == [["a", "b", "c"], ["c"]]
