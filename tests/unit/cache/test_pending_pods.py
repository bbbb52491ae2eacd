"""The newest version of every pod without a node."""

import pytest

from scheduler.cache.pending_pods import PendingPods
from scheduler.testing import make_pod


def test_the_newest_version_replaces_the_one_before():
    pending, old = PendingPods(["py-scheduler"]), make_pod("a", uid="1")
    new = make_pod("a", uid="1", priority=7)

    pending.put(old)
    pending.put(new)

    assert pending.newest(old) is new
    assert len(pending) == 1


def test_dropping_a_pod_leaves_its_successor():
    pending, old, successor = PendingPods([]), make_pod("a", uid="1"), make_pod("a", uid="2")

    pending.put(successor)
    pending.drop(old)
    assert pending.newest(old) is successor
    assert not pending.is_waiting(old)
    assert pending.is_waiting(successor)

    pending.drop(successor)
    assert pending.newest(old) is None


def test_a_pod_with_a_node_is_not_pending():
    with pytest.raises(AssertionError, match="is on n, so it is not pending"):
        PendingPods([]).put(make_pod("a", node="n"))


def test_names_change_hands_with_their_pods():
    pending = PendingPods(["ours"])
    mine = make_pod("a", scheduler="ours")
    theirs = make_pod("b", scheduler="theirs")
    pending.put(mine)
    pending.put(theirs)

    assert pending.add_names({"theirs"}) == [theirs]
    assert pending.remove_names({"ours"}) == [mine]
    assert pending.add_names(()) == []
    assert (pending.is_ours(mine), pending.is_ours(theirs)) == (False, True)
