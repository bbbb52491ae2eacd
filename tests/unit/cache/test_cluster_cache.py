"""The cases of upstream's cache tests that teach something, on our cache."""

import msgspec
import pytest

from scheduler.cache.cluster_cache import ClusterCache
from scheduler.errors import StaleView
from scheduler.testing.builders import make_node, make_pod


@pytest.fixture
def cache():
    cache = ClusterCache()
    yield cache
    cache.check_invariants()


def requested(cache: ClusterCache, node: str) -> int:
    view = cache.view()
    row = view.row_of(node)
    assert row is not None
    return int(view.requested("cpu")[row])


def test_confirmation_replaces_the_assumption(cache):
    """A pod that is reported on another node than assumed is counted where it is reported."""
    cache.add_node(make_node("a"))
    cache.add_node(make_node("b"))
    cache.assume(make_pod("p", requests="2 cpu"), "a")

    cache.add_pod(make_pod("p", requests="2 cpu", node="b"))

    assert (requested(cache, "a"), requested(cache, "b")) == (0, 2000)
    assert not cache.is_assumed(make_pod("p").uid)


def test_assuming_twice_is_our_bug(cache):
    cache.add_node(make_node("a"))
    cache.assume(make_pod("p"), "a")

    with pytest.raises(AssertionError, match="assume must not turn assumed into assumed"):
        cache.assume(make_pod("p"), "a")


def test_orphaned_pods_are_counted_when_their_node_comes(cache):
    cache.add_pod(make_pod("p", requests="1 cpu", node="late"))
    assert len(cache.view()) == 0

    cache.add_node(make_node("late"))

    assert requested(cache, "late") == 1000


def test_pods_outlive_their_node_and_find_it_again(cache):
    cache.add_node(make_node("a"))
    cache.add_pod(make_pod("p", requests="1 cpu", node="a"))
    cache.remove_node("a")
    assert len(cache.view()) == 0

    cache.add_node(make_node("a", uid="reborn"))

    assert requested(cache, "a") == 1000


def test_a_node_of_the_same_name_with_another_uid_is_a_new_node(cache):
    cache.add_node(make_node("a", allocatable="4 cpu", images={"nginx": "40Mi"}))

    cache.update_node(make_node("a", uid="reborn", allocatable="8 cpu"))

    view = cache.view()
    assert view.allocatable("cpu").tolist() == [8000]
    assert view.image("nginx") is None


def test_an_unreadable_pod_closes_its_node_and_is_named(cache):
    """What it requests is unknown, so nothing may be added to the node."""
    cache.add_node(make_node("a"))
    bad = make_pod("bad", node="a")
    cache.add_pod(msgspec.structs.replace(bad, malformed="spec.containers[0]: what?"))
    assert "default/bad" in cache.view().closed[0]

    cache.remove_pod(bad.uid)

    assert cache.view().closed == {}


def test_a_view_answers_only_until_the_next_fact(cache):
    cache.add_node(make_node("a"))
    view = cache.view()

    cache.add_node(make_node("b"))

    with pytest.raises(StaleView):
        len(view)


def test_an_in_place_resize_frees_capacity(cache):
    cache.add_node(make_node("a"))
    cache.add_pod(make_pod("p", node="a", requests="4 cpu"))

    cache.add_pod(make_pod("p", node="a", requests="1 cpu"))

    assert requested(cache, "a") == 1000
