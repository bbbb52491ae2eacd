"""Nominations by other schedulers, and how long they count."""

import pytest
from msgspec.structs import replace

from scheduler.queue.foreign_nominations import ForeignNominations
from scheduler.queue.nominator import Nominator
from scheduler.testing import make_pod

SECONDS = 600.0


class Queue:
    def __init__(self, seconds=SECONDS):
        self.nominator = Nominator()
        self.others = ForeignNominations(self.nominator, seconds)

    def follow(self, now=0.0, **more):
        """Follow a version of the pod `a`; return the pod whose capacity is given up."""
        return self.others.follow(theirs(**more), now)

    @property
    def node(self):
        self.nominator.check_invariants()
        self.others.check_invariants()
        return self.nominator.node_of.get(theirs().uid, "")


def theirs(name="a", **more):
    return make_pod(name, scheduler="default-scheduler", **more)


def test_a_nominated_pod_counts_for_a_while():
    queue = Queue()
    assert queue.follow(10.0, nominated="n1") is None
    assert (queue.node, len(queue.others)) == ("n1", 1)
    assert queue.others.next_expiry() == 610.0

    assert list(queue.others.expire(609.9)) == []
    (given_up,) = queue.others.expire(610.0)
    assert given_up.name == "a"
    assert (queue.node, len(queue.others)) == ("", 0)
    assert queue.others.next_expiry() is None


def test_it_does_not_count_again_when_its_time_is_over():
    queue = Queue()
    queue.follow(0.0, nominated="n1")
    list(queue.others.expire(600.0))

    assert queue.follow(601.0, nominated="n1", labels="v=2") is None
    assert queue.node == ""
    queue.follow(602.0, nominated="n2")
    assert queue.node == "n2"


def test_an_update_is_the_same_nomination():
    queue = Queue()
    queue.follow(0.0, nominated="n1")
    queue.follow(500.0, nominated="n1", labels="v=2")

    assert queue.others.next_expiry() == 600.0
    assert queue.nominator.pods_on["n1"][0].labels == {"v": "2"}


def test_another_node_is_another_nomination():
    queue = Queue()
    queue.follow(0.0, nominated="n1")
    queue.others.follow(theirs("b", nominated="n1"), 1.0)
    given_up = queue.follow(2.0, nominated="n2")

    assert given_up.nominated_node == "n1"
    assert queue.node == "n2"
    assert queue.others.next_expiry() == 601.0
    assert [pod.name for pod in queue.others.expire(602.0)] == ["b", "a"]


@pytest.mark.parametrize(
    "end", [{"nominated": ""}, {"nominated": "n1", "terminating": True}], ids=["cleared", "leaving"]
)
def test_its_end_gives_the_capacity_up(end):
    queue = Queue()
    queue.follow(0.0, nominated="n1")

    assert queue.follow(1.0, **end).nominated_node == "n1"
    assert queue.node == ""
    assert queue.follow(2.0, **end) is None


@pytest.mark.parametrize(("node", "given_up"), [("n1", False), ("n2", True), ("", True)])
def test_the_capacity_is_given_up_if_the_pod_is_bound_elsewhere_or_gone(node, given_up):
    queue = Queue()
    queue.follow(0.0, nominated="n1")

    assert (queue.others.forget(theirs(node=node)) is not None) is given_up
    assert queue.node == ""


def test_zero_seconds_is_never():
    queue = Queue(0.0)

    assert queue.follow(0.0, nominated="n1") is None
    assert queue.node == ""


def test_a_pod_of_unknown_size_keeps_no_capacity():
    queue = Queue()
    queue.others.follow(replace(theirs(nominated="n1"), malformed="unreadable"), 0.0)

    assert queue.node == ""
