"""Who may have to go is remembered by node, and never outlives what it was derived from."""

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
    """Return the names of who may have to go, by row."""
    found = table.potential_victims(np.arange(len(table)), priority, among)
    return [[pod.name for pod in crowd] for crowd in found]


def columns_of(*pods_of_rows):
    columns = ClusterColumns()
    for row, pods in enumerate(pods_of_rows):
        columns.add_node(make_node(f"n{row}"))
        for pod in pods:
            columns.add_pod(row, pod)
    return columns


def test_the_less_important_are_named_and_the_most_important_of_them_first():
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


def test_pods_of_kubelets_and_of_other_schedulers_may_be_left_out():
    pods = [make_pod("mirror", metadata=MIRROR), make_pod("theirs", scheduler="other")]
    table = NodeTable(columns_of([*pods, make_pod("ours")]))

    assert potential_victims(table, 9, frozenset({"py-scheduler"})) == [["ours"]]
    assert potential_victims(table, 9) == [["ours", "theirs"]]


def test_in_a_what_if_it_is_asked_who_is_there():
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
def test_what_is_remembered_is_what_would_be_found_anew(steps):
    """Pods come and go, nodes come and leave their row to another: what is asked is up to date."""
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
            for index, crowd in enumerate(lower):
                expected = [pod for pod in table.pods_on(index) if pod.priority < asked]
                assert sorted(crowd, key=id) == sorted(expected, key=id)
            without = table.each(removing=dict(enumerate(lower)))
            plain = table.each(removing={i: list(crowd) for i, crowd in enumerate(lower)})
            assert without.requested("memory").tolist() == plain.requested("memory").tolist()
            assert without.pod_count.tolist() == plain.pod_count.tolist()


def test_no_sum_is_beyond_what_columns_show():
    pods = [make_pod(f"p{i}", requests={"memory": "4E"}) for i in range(3)]
    (crowd,) = NodeTable(columns_of(pods)).potential_victims(np.array([0]), 9)

    assert crowd.total(requested("memory")) == COUNT_MAXIMUM


@pytest.mark.parametrize("asked", [range(100), [9] * 100])
def test_little_is_remembered_of_many_priorities_and_keys(asked):
    pods = {"u": make_pod("p")}
    victims_column = PotentialVictimsColumn([pods])

    for priority in asked:
        crowd = victims_column.potential_victims(0, priority, None)
        for key in range(100):
            assert crowd.total(Contribution(key, lambda pods: [1] * len(pods))) == len(crowd)

    assert len(victims_column._known[0]) <= 8
    assert len(crowd.totals) <= 32
