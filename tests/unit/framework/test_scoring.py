"""Weights, normalisation and the range of scores (framework_test.go, TestRunScorePlugins)."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.errors import PluginError
from scheduler.framework.normalize import MIN_MAX, PROPORTIONAL, REVERSED
from scheduler.framework.observer import SILENT
from scheduler.framework.profile import Profile, Weighted
from scheduler.framework.scoring import score_nodes
from scheduler.plugins.priority_sort import PrioritySort
from scheduler.snapshot.columns import ClusterColumns
from scheduler.snapshot.node_table import NodeTable
from scheduler.testing import make_node, make_pod

POD = make_pod()


def table(rows):
    columns = ClusterColumns()
    for row in range(rows):
        columns.add_node(make_node(f"n{row}"))
    return NodeTable(columns)


class Rates:
    def __init__(self, *scores, name="Rates", normalize=None):
        self.name = name
        self.scores = scores
        if normalize is not None:
            self.normalize = normalize

    def score(self, pod, nodes):
        match self.scores:
            case (None,):
                return None
            case (Exception() as problem,):
                raise problem
            case (np.ndarray() as given,):
                return given
        return np.array(self.scores, dtype=np.int64)


def total(*weighted, rows=2):
    plugins = tuple(Weighted(plugin, weight) for plugin, weight in weighted)
    profile = Profile("p", PrioritySort(), score=plugins)
    return score_nodes(profile, POD, table(rows), SILENT)


def test_without_score_plugins_every_node_is_worth_1():
    assert total().totals.tolist() == [1, 1]


def test_scores_are_normalised_then_weighted_then_added():
    halves = lambda scores, pod, nodes: scores // 2  # noqa: E731
    scored = total((Rates(10, 20), 3), (Rates(100, 200, normalize=halves), 2))

    assert scored.totals.tolist() == [30 + 100, 60 + 200]
    [first, second] = scored.by_plugin
    assert first.raw.tolist() == first.normalized.tolist() == [10, 20]
    assert second.raw.tolist() == [100, 200]
    assert second.normalized.tolist() == [50, 100]
    assert second.weighted.tolist() == [100, 200]


def test_who_has_nothing_to_say_counts_for_nothing():
    scored = total((Rates(None, name="Mute"), 5), (Rates(1, 2), 1))

    assert scored.totals.tolist() == [1, 2]
    assert [each.plugin for each in scored.by_plugin] == ["Rates"]


def test_a_score_plugin_does_not_change_what_another_sees():
    shared = np.array([1, 2], dtype=np.int64)

    scored = total((Rates(shared, name="A"), 1), (Rates(shared, name="B"), 2))

    assert shared.tolist() == [1, 2]
    assert scored.totals.tolist() == [3, 6]


@pytest.mark.parametrize(
    ("scores", "problem"),
    [
        ((101, 0), r"returns an invalid score 101, it should in the range of \[0, 100\] after"),
        ((5, -1), "returns an invalid score -1"),
        ((1, 2, 3), "one score for each of 2 rows"),
        ((np.zeros(2),), "scored in float64, not in int64"),
        ((np.zeros((2, 1), dtype=np.int64),), "one score for each of 2 rows"),
        ((ZeroDivisionError("x"),), "raised ZeroDivisionError in Score: x"),
    ],
)
def test_scores_out_of_contract_are_a_bug_of_the_plugin(scores, problem):
    with pytest.raises(PluginError, match=problem) as caught:
        total((Rates(*scores), 1))

    assert caught.value.plugin == "Rates"


@pytest.mark.parametrize(
    "normalize",
    [
        lambda scores, pod, nodes: scores * 1000,
        lambda scores, pod, nodes: scores[:1],
        lambda scores, pod, nodes: scores / 2,
        lambda scores, pod, nodes: 1 // 0,
    ],
)
def test_so_are_normalised_scores(normalize):
    with pytest.raises(PluginError, match="plugin 'Rates'"):
        total((Rates(5, 10, normalize=normalize), 1))


def test_raw_scores_may_be_anything_if_they_are_normalised():
    assert total((Rates(-7, 3000, normalize=MIN_MAX), 1)).totals.tolist() == [0, 100]


@pytest.mark.parametrize(
    ("normalize", "scores", "expected"),
    [
        (PROPORTIONAL, [1, 2, 3, 4], [25, 50, 75, 100]),
        (PROPORTIONAL, [1, 2, 3, 0], [33, 66, 100, 0]),
        (PROPORTIONAL, [0, 0], [0, 0]),
        (PROPORTIONAL, [1000, 10, 20, 30], [100, 1, 2, 3]),
        (REVERSED, [1, 2, 3, 4], [75, 50, 25, 0]),
        (REVERSED, [1, 2, 3, 0], [67, 34, 0, 100]),
        (REVERSED, [0, 0], [100, 100]),
        (MIN_MAX, [-10, 0, 10], [0, 50, 100]),
        (MIN_MAX, [7, 7], [0, 0]),
        (MIN_MAX, [0, 1, 3], [0, 33, 100]),
        (PROPORTIONAL, [], []),
        (REVERSED, [], []),
        (MIN_MAX, [], []),
    ],
)
def test_normalisation_is_upstreams_integer_arithmetic(normalize, scores, expected):
    """helper/normalize_score_test.go, and the same for min and max."""
    given = np.array(scores, dtype=np.int64)

    assert normalize(given, POD, None).tolist() == expected
    assert given.tolist() == scores


@given(st.lists(st.integers(0, 10**12), min_size=1), st.sampled_from([PROPORTIONAL, REVERSED]))
def test_normalised_scores_are_in_range_and_keep_their_order(scores, normalize):
    given_scores = np.array(scores, dtype=np.int64)
    found = normalize(given_scores, POD, None)

    assert found.min() >= 0
    assert found.max() <= 100
    order = np.argsort(given_scores)
    steps = np.diff(found[order])
    assert (steps <= 0).all() if normalize.reverse else (steps >= 0).all()
