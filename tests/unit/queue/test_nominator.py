"""Which pods are nominated to which node."""

import pytest

from scheduler.framework.decision import CLEAR, KEEP, SetTo
from scheduler.queue.nominator import Nominator
from scheduler.testing import make_pod


@pytest.mark.parametrize(
    ("status", "order", "expected"),
    [
        ("", KEEP, ""),
        ("n1", KEEP, "n1"),
        ("n1", CLEAR, ""),
        ("n1", SetTo("n2"), "n2"),
        ("", SetTo("n2"), "n2"),
    ],
)
def test_an_order_says_where_a_pod_is_nominated(status, order, expected):
    nominator = Nominator()
    nominator.add(pod := make_pod("a", nominated=status), order)

    assert nominator.node_of.get(pod.uid, "") == expected
    assert nominator.pods_on == ({expected: (pod,)} if expected else {})
    nominator.check_invariants()


def test_a_pod_is_nominated_to_one_node_at_a_time():
    nominator = Nominator()
    nominator.add(pod := make_pod("a"), SetTo("n1"))
    nominator.add(pod, SetTo("n2"))

    assert "n1" not in nominator.pods_on
    assert nominator.pods_on["n2"] == (pod,)
    assert len(nominator.node_of) == 1


def test_a_bound_pod_is_not_nominated():
    nominator = Nominator()
    nominator.add(make_pod("a", node="n1", nominated="n1"), SetTo("n1"))

    assert not nominator.pods_on


@pytest.mark.parametrize(
    ("ours", "old", "new", "expected"),
    [
        ("n1", "", "", "n1"),
        ("n1", "", "n2", "n2"),
        ("n1", "n1", "", ""),
        ("n1", "n1", "n1", "n1"),
        ("", "", "n1", "n1"),
        ("", "", "", ""),
        # Upstream does so too: a cleared nomination comes back until the status follows.
        ("", "n1", "n1", "n1"),
    ],
)
def test_an_update_wins_unless_ours_has_not_been_written_yet(ours, old, new, expected):
    nominator = Nominator()
    if ours:
        nominator.add(make_pod("a"), SetTo(ours))

    nominator.update(make_pod("a", nominated=old), newer := make_pod("a", nominated=new))

    assert nominator.node_of.get(newer.uid, "") == expected
    assert nominator.pods_on == ({expected: (newer,)} if expected else {})


@pytest.mark.parametrize(
    ("act", "given_up"),
    [
        pytest.param(lambda n, pod: n.delete(pod.uid), True, id="withdrawn"),
        pytest.param(lambda n, pod: n.delete(pod.uid, placed_on="n1"), False, id="placed there"),
        pytest.param(lambda n, pod: n.delete(pod.uid, placed_on="n2"), True, id="placed elsewhere"),
        pytest.param(lambda n, pod: n.add(pod, CLEAR), True, id="cleared"),
        pytest.param(lambda n, pod: n.add(pod, SetTo("n1")), False, id="nominated again"),
        pytest.param(lambda n, pod: n.add(pod, SetTo("n2")), True, id="nominated elsewhere"),
        pytest.param(lambda n, _: n.add(make_pod("a", node="n1")), False, id="bound there"),
        pytest.param(lambda n, _: n.add(make_pod("a", node="n2")), True, id="bound elsewhere"),
        pytest.param(
            lambda n, pod: n.update(make_pod("a", nominated="n1"), pod),
            True,
            id="cleared by others",
        ),
        pytest.param(lambda n, pod: n.update(pod, pod), False, id="not written yet"),
    ],
)
def test_the_end_of_a_nomination_returns_the_pod_whose_capacity_is_given_up(act, given_up):
    nominator = Nominator()
    pod = make_pod("a")
    assert nominator.add(pod, SetTo("n1")) is None

    found = act(nominator, pod)

    assert (found and found.nominated_node) == ("n1" if given_up else None)
    assert found is None or found.uid == pod.uid


def test_nominated_pods_are_whole_and_in_order():
    nominator = Nominator()
    nominator.add(first := make_pod("a", priority=7, requests="1 cpu"), SetTo("n1"))
    nominator.add(second := make_pod("b"), SetTo("n1"))

    assert nominator.pods_on["n1"] == (first, second)
    assert nominator.pods_on["n1"][0].priority == 7


def test_a_nomination_can_be_deleted_twice():
    nominator = Nominator()
    nominator.add(pod := make_pod("a"), SetTo("n1"))
    nominator.delete(pod.uid)
    nominator.delete(pod.uid)

    assert not nominator.node_of
    nominator.check_invariants()
