"""Which rows share the best total, kept while totals change, and their order by hash."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.snapshot.arrays import resized
from scheduler.snapshot.tie_break import TiedRows, best, hash_of


def hashes(size: int) -> np.typing.NDArray[np.uint64]:
    return np.random.default_rng(size).integers(0, 2**64, size, dtype=np.uint64)


def first_of_all(totals, seed, uid, names, count):
    """Return what the rule says, computed in the plainest way."""
    highest = max(totals)
    tied = [row for row, total in enumerate(totals) if total == highest]
    mixed = hash_of(seed, uid, names)
    return sorted(tied, key=lambda row: mixed[row])[:count]


@settings(max_examples=100)
@given(data=st.data(), size=st.integers(1, 120))
def test_kept_ties_equal_fresh_ones(data, size):
    names = hashes(size)
    scores = st.integers(0, data.draw(st.sampled_from([1, 3, 100])))
    totals = np.array(data.draw(st.lists(scores, min_size=size, max_size=size)), dtype=np.int64)
    ties = TiedRows(totals.copy(), names)
    for number in range(data.draw(st.integers(1, 12))):
        rows = data.draw(st.lists(st.integers(0, size - 1), max_size=4))
        new = {row: data.draw(scores) for row in rows}
        ties.put([(row, new[row]) for row in rows])
        for row in rows:
            totals[row] = new[row]

        count = data.draw(st.sampled_from([1, 2, 10]))
        found = ties.first(7, f"uid-{number}", count).tolist()

        assert found == first_of_all(totals, 7, f"uid-{number}", names, count)
        assert found == best(totals, 7, f"uid-{number}", names, count).tolist()


@pytest.mark.parametrize("size", [79, 81, 500, 16_384, 16_385, 40_000])
def test_very_many_ties_are_ordered_as_a_few_are(size):
    """They are hashed in blocks, and only those that can be among the first are sorted."""
    names = hashes(size)
    totals = np.full(size, 5, dtype=np.int64)
    totals[::7] = 3

    found = best(totals, 3, "uid", names, 10).tolist()

    assert found == first_of_all(totals, 3, "uid", names, 10)


def test_ties_are_kept_without_looking_at_all_rows_again(monkeypatch):
    totals = np.array([5, 5, 5, 3], dtype=np.int64)
    ties = TiedRows(totals, hashes(4))
    found = []
    monkeypatch.setattr(TiedRows, "_find", lambda _: found.append(len(totals)))

    ties.put([(0, 4), (3, 6)])
    assert ties.first(0, "uid", 10).tolist() == [3]
    ties.put([(1, 6), (2, 2)])
    assert sorted(ties.first(0, "uid", 10).tolist()) == [1, 3]
    assert not found
    ties.put([(1, 1), (3, 1)])
    assert found == [4], "none is left"


def test_names_are_not_written_to():
    names = hashes(5)
    names.flags.writeable = False
    ties = TiedRows(np.ones(5, dtype=np.int64), names)

    ties.put([(0, 0), (1, 0)])
    ties.put([(0, 1), (1, 1)])

    assert sorted(ties.first(0, "uid", 10).tolist()) == [0, 1, 2, 3, 4]


def test_a_column_that_grows_is_copied_now_and_then_only():
    column = np.arange(100, dtype=np.int64)
    memory = set()
    for rows in range(101, 1001):
        column = resized(column, rows)
        assert len(column) == rows
        assert column[-1] == 0
        column[-1] = rows
        memory.add(column.__array_interface__["data"][0])

    assert column[:100].tolist() == list(range(100))
    assert column[100:].tolist() == list(range(101, 1001))
    assert len(memory) < 30


def test_rows_that_are_cut_off_do_not_come_back():
    column = resized(np.ones(100, dtype=np.bool_), 110)
    column[:] = True

    column = resized(resized(column, 50), 105)

    assert column.tolist() == [True] * 50 + [False] * 55
