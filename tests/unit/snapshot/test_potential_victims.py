"""Potential victims are cached by row, and the cache is never out of date."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.snapshot.columns import ClusterColumns
from scheduler.snapshot.count_column import COUNT_MAXIMUM
from scheduler.snapshot.node_table import NodeTable
from scheduler.snapshot.pod_contribution import Contribution, requested
from scheduler.snapshot.potential_victims import PotentialVictimsColumn
from scheduler.testing import make_node, make_pod

STARTED = "2026-01-01T00:00:0{}Z"
MIRROR = {"ownerReferences": [{"kind": "Node", "name": "n0", "uid": "u"}]}


def potential_victims(table, priority, among=None):
    """Return the names of the potential victims, by row."""
    found = table.potential_victims(np.arange(len(table)), priority, among)
    return [[pod.name for pod in victims] for victims in found]


def columns_of(*pods_of_rows):
    columns = ClusterColumns()
    for row, pods in enumerate(pods_of_rows):
        columns.add_node(make_node(f"n{row}"))
        for pod in pods:
            columns.add_pod(row, pod)
    return columns


def test_victims_have_a_lower_priority_and_the_most_important_comes_first():
    pods = [
        make_pod("unstarted", priority=1),
        make_pod("late", priority=1, status={"startTime": STARTED.format(9)}),
        make_pod("early", priority=1, status={"startTime": STARTED.format(2)}),
        make_pod("least", priority=-5),
        make_pod("equal", priority=9),
        make_pod("more", priority=10),
    ]

    assert potential_victims(NodeTable(columns_of(pods, [])), 9) == [
        ["early", "late", "unstarted", "least"],
        [],
    ]


def test_mirror_pods_and_pods_of_other_schedulers_are_left_out():
    pods = [make_pod("mirror", metadata=MIRROR), make_pod("theirs", scheduler="other")]
    table = NodeTable(columns_of([*pods, make_pod("ours")]))

    assert potential_victims(table, 9, frozenset({"py-scheduler"})) == [["ours"]]
    assert potential_victims(table, 9) == [["ours", "theirs"]]


def test_a_what_if_lists_the_pods_as_changed():
    stays, leaves = make_pod("stays"), make_pod("leaves")
    table = NodeTable(columns_of([stays, leaves], [])).each(
        removing={0: [leaves]}, adding={1: [make_pod("comes")]}
    )

    assert potential_victims(table, 9) == [["stays"], ["comes"]]


AMOUNTS = st.sampled_from(["1", "5", "4E"])
STEPS = st.lists(
    st.tuples(
        st.sampled_from(["come", "go", "node", "no node"]),
        st.integers(0, 9),
        st.integers(0, 3),
        AMOUNTS,
    ),
    max_size=30,
)


@settings(max_examples=80, deadline=None)
@given(STEPS)
def test_cached_victims_equal_a_new_list(steps):
    """The cache follows pods and nodes that are added and removed, and rows that move."""
    columns, names = columns_of([], [], []), iter(range(99))
    for what, which, priority, amount in steps:
        row = which % len(columns)
        there = list(columns.pods[row].values())
        if what == "come":
            requests = {"memory": amount}
            columns.add_pod(row, make_pod(f"p{next(names)}", priority=priority, requests=requests))
        elif what == "go" and there:
            columns.remove_pod(row, there[which % len(there)].uid)
        elif what == "node":
            columns.add_node(make_node(f"more-{next(names)}"))
        elif what == "no node" and not there and len(columns) > 1:
            columns.remove_node(columns.names[row])
        table = NodeTable(columns)
        for asked in (1, 3):
            lower = table.potential_victims(np.arange(len(table)), asked)
            for index, victims in enumerate(lower):
                expected = [pod for pod in table.pods_on(index) if pod.priority < asked]
                assert sorted(victims, key=id) == sorted(expected, key=id)
            without = table.each(removing=dict(enumerate(lower)))
            plain = table.each(removing={i: list(victims) for i, victims in enumerate(lower)})
            assert without.requested("memory").tolist() == plain.requested("memory").tolist()
            assert without.pod_count.tolist() == plain.pod_count.tolist()


def test_sums_are_limited_to_what_columns_show():
    pods = [make_pod(f"p{i}", requests={"memory": "4E"}) for i in range(3)]
    (victims,) = NodeTable(columns_of(pods)).potential_victims(np.array([0]), 9)

    assert victims.total(requested("memory")) == COUNT_MAXIMUM


@pytest.mark.parametrize("asked", [range(100), [9] * 100])
def test_the_cache_of_victims_is_limited(asked):
    pods = {"u": make_pod("p")}
    victims_column = PotentialVictimsColumn([pods])

    for priority in asked:
        victims = victims_column.potential_victims(0, priority, None)
        for key in range(100):
            assert victims.total(Contribution(key, lambda pods: [1] * len(pods))) == len(victims)

    assert len(victims_column._known[0]) <= 8
    assert len(victims.totals) <= 32
