"""How many feasible nodes are scored, and which of the equals is chosen.

As in TestNumFeasibleNodesToFind of ``schedule_one_test.go``.
"""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.cycle.scheduling import decide
from scheduler.snapshot.columns import hash_name
from scheduler.snapshot.tie_break import best, hash_of
from scheduler.testing import make_pod
from tests.unit.cycle.cycles import POD, Likes, Refuses, attempt, table


@pytest.mark.parametrize(
    ("percentage", "rows", "feasible"),
    [(0, 1000, 1000), (40, 1000, 400), (100, 1000, 1000), (5, 1000, 100), (40, 90, 90)],
)
def test_how_many_feasible_nodes_are_scored(percentage, rows, feasible):
    """Zero means all: here every node is judged unless a profile says otherwise."""
    likes = Likes()
    names = [f"n{row}" for row in range(rows)]
    decision = decide(attempt(Refuses(), likes, nodes=names, percentage=percentage))

    assert decision.feasible == len(likes.asked[0]) == feasible
    assert decision.evaluated == rows


def test_the_sample_depends_on_the_pod_and_not_on_the_order_of_rows():
    names = [f"n{row}" for row in range(300)]
    samples = []
    for pod, order in ((POD, names), (POD, names[::-1]), (make_pod("other"), names)):
        likes = Likes()
        decide(attempt(likes, nodes=order, pod=pod, percentage=40))
        samples.append(likes.asked[0])

    assert samples[0] == samples[1] != samples[2]


def test_equals_share_the_pods_evenly():
    names = [f"n{row}" for row in range(10)]
    nodes = table(*names)
    chosen = Counter(
        decide(attempt(nodes=nodes, pod=make_pod(f"p{index}"))).node for index in range(2000)
    )

    assert set(chosen) == set(names)
    assert max(chosen.values()) < 260
    assert min(chosen.values()) > 140


def test_another_seed_chooses_anew():
    names = [f"n{row}" for row in range(50)]
    chosen = {decide(attempt(nodes=names, seed=seed)).node for seed in range(30)}

    assert len(chosen) > 15


def test_some_of_the_ties_are_returned_the_winner_first():
    decision = decide(attempt(nodes=[f"n{row}" for row in range(25)]))

    assert len(decision.ties) == len(set(decision.ties)) == 10
    assert decision.ties[0] == decision.node


@settings(max_examples=60)
@given(
    names=st.lists(st.text("abcdef", min_size=1, max_size=4), unique=True, min_size=1, max_size=40),
    data=st.data(),
)
def test_the_choice_knows_no_history_and_no_order_of_rows(names, data):
    points = {name: data.draw(st.integers(0, 2), label=name) for name in names}
    shuffled = data.draw(st.permutations(names))

    first = decide(attempt(Likes(**points), nodes=names))
    again = decide(attempt(Likes(**points), nodes=shuffled))

    assert (first.node, first.ties) == (again.node, again.ties)
    assert points[first.node] == max(points.values())
    losers = [name for name in names if name not in first.ties]
    if losers:
        # One pod replayed on a smaller cluster chooses the same, if the winner is still there.
        left = [name for name in names if name != losers[0]]
        assert decide(attempt(Likes(**points), nodes=left)).node == first.node


def test_the_winner_has_the_smallest_mix():
    names = [f"n{row}" for row in range(40)]
    hashes = np.array([hash_name(name) for name in names], dtype=np.uint64)
    totals = np.array([row % 2 for row in range(40)], dtype=np.int64)

    rows = best(totals, 7, "uid", hashes, 5)

    mixed = hash_of(7, "uid", hashes)
    odd = [row for row in range(40) if row % 2]
    assert rows.tolist() == sorted(odd, key=lambda row: mixed[row])[:5]
