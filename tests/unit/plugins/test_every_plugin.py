"""What holds for every plugin: in every cluster, for every part of the table, in any order."""

from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.config.plugin_args import NodeAffinityArgs
from scheduler.framework.cluster_event import Change
from scheduler.framework.plugin import FilterPlugin, ScorePlugin, judges_changed_rows
from scheduler.plugins import IN_TREE, NodeAffinity
from scheduler.snapshot.node_table import NodeTable
from scheduler.testing import check_plugin, make_pod
from tests.unit.plugins.plugin_calls import answers, columns_of
from tests.unit.plugins.random_clusters import RandomCluster, clusters

ALL = [plugin() for plugin in IN_TREE.values()]
ADDED = NodeAffinity(
    NodeAffinityArgs(
        added_affinity={
            "requiredDuringSchedulingIgnoredDuringExecution": {
                "nodeSelectorTerms": [{"matchExpressions": [{"key": "disk", "operator": "Exists"}]}]
            }
        }
    )
)
FILTERS = [plugin for plugin in (*ALL, ADDED) if isinstance(plugin, FilterPlugin)]
SCORERS = [plugin for plugin in (*ALL, ADDED) if isinstance(plugin, ScorePlugin)]
named = pytest.mark.parametrize


def label(plugin):
    return f"{plugin.name}, added affinity" if plugin is ADDED else plugin.name


@named("plugin", FILTERS, ids=label)
@settings(max_examples=60, deadline=None)
@given(cluster=clusters)
def test_each_row_is_judged_as_if_only_its_node_had_changed(plugin, cluster):
    table = cluster.table().each(adding=cluster.adding, removing=cluster.removing)

    together = answers(plugin, cluster.incoming, table)

    for row, node in enumerate(cluster.nodes):
        alone = answers(plugin, cluster.incoming, cluster.table(changed=row))
        assert together[node.name] == alone[node.name]


@named("plugin", SCORERS, ids=label)
@settings(max_examples=30, deadline=None)
@given(cluster=clusters)
def test_each_row_is_scored_as_if_only_its_node_had_changed(plugin, cluster):
    table = cluster.table().each(adding=cluster.adding, removing=cluster.removing)

    together = plugin.score(cluster.incoming, table)

    for row in range(len(cluster.nodes)):
        alone = plugin.score(cluster.incoming, cluster.table(changed=row))
        # A plugin may skip scoring in some of the clusters: that is a score of 0.
        assert _at(row, together) == _at(row, alone)


def _at(row, scores):
    return 0 if scores is None else scores[row]


@named("plugin", FILTERS, ids=label)
@settings(max_examples=40, deadline=None)
@given(cluster=clusters, seed=st.integers(0, 1000))
def test_a_part_of_the_table_in_any_order_is_judged_the_same(plugin, cluster, seed):
    table = cluster.table().each(adding=cluster.adding, removing=cluster.removing)
    rows = np.random.default_rng(seed).permutation(len(table))[: 1 + seed % len(table)]

    whole = answers(plugin, cluster.incoming, table)
    part = answers(plugin, cluster.incoming, table.select(rows))

    assert part == {name: whole[name] for name in part}


@named("plugin", SCORERS, ids=label)
@settings(max_examples=30, deadline=None)
@given(cluster=clusters, seed=st.integers(0, 1000))
def test_the_order_of_rows_means_nothing_to_scores(plugin, cluster, seed):
    table = cluster.table()
    rows = np.random.default_rng(seed).permutation(len(table))

    whole = plugin.score(cluster.incoming, table)
    shuffled = plugin.score(cluster.incoming, table.select(rows))

    assert (whole is None) == (shuffled is None)
    assert whole is None or shuffled.tolist() == whole[rows].tolist()


@named("plugin", [p for p in SCORERS if getattr(p, "node_local", False)], ids=label)
@settings(max_examples=30, deadline=None)
@given(cluster=clusters)
def test_a_node_local_score_does_not_depend_on_other_rows(plugin, cluster):
    table = cluster.table()

    whole = plugin.score(cluster.incoming, table)

    for row in range(len(table)):
        alone = plugin.score(cluster.incoming, table.select(np.array([row])))
        assert (whole is None) == (alone is None)
        assert whole is None or alone.tolist() == [whole[row]]


@named("plugin", FILTERS, ids=label)
def test_a_cluster_without_nodes_is_no_trouble(plugin):
    assert (
        answers(
            plugin,
            make_pod(host_ports=[80]),
            RandomCluster(Random(1)).table().select(np.zeros(0, dtype=np.intp)),
        )
        == {}
    )
    assert (
        answers(plugin, make_pod(node="a", node_selector="disk=ssd"), NodeTable(columns_of([])))
        == {}
    )


@named("plugin", SCORERS, ids=label)
def test_no_candidate_means_no_score(plugin):
    found = plugin.score(make_pod(requests="1 cpu"), NodeTable(columns_of([])))

    assert found is None or found.tolist() == []


@named("plugin", FILTERS, ids=label)
def test_every_filter_judges_each_row_of_a_what_if_by_itself(plugin):
    """The test above shows that it does; this, that it is not called for them one by one."""
    assert judges_changed_rows(plugin)


def test_every_plugin_is_listed_under_its_own_name():
    assert all(plugin.name == name == plugin.__name__ for name, plugin in IN_TREE.items())


@named("plugin", [p for p in (*ALL, ADDED) if p.name != "DefaultBinder"], ids=label)
def test_every_plugin_keeps_the_contract(plugin):
    check_plugin(plugin, pods=[RandomCluster(Random(seed)).incoming for seed in range(5)])


HINTS = [
    (plugin, requeue)
    for plugin in (*ALL, ADDED)
    for requeue in getattr(plugin, "requeue_on", ())
    if requeue.hint is not None
]


@named(("plugin", "requeue"), HINTS, ids=[f"{label(p)}, {r.event.resource}" for p, r in HINTS])
def test_a_change_without_objects_wakes_the_pod(plugin, requeue):
    assert requeue.hint(make_pod(), Change(requeue.event))
