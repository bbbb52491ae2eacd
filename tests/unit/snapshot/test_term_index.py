"""The index of the affinity terms of pods."""

import pytest

from scheduler.model.affinity_terms import AffinityTerm, TermKind
from scheduler.model.selectors import (
    EVERYTHING,
    EXISTS,
    IN,
    NOT_IN,
    NOTHING,
    Requirement,
    Selector,
    from_map,
)
from scheduler.snapshot.term_index import TermIndex
from scheduler.testing import make_pod

HERE = frozenset({"default"})
WEB = AffinityTerm(TermKind.REQUIRED_ANTI_AFFINITY, "zone", from_map({"app": "web"}), HERE)
TEAM_A = from_map({"team": "a"})


def one_of(key, *values):
    return Requirement(key, IN, frozenset(values))


def index_of(*terms):
    index = TermIndex()
    for term in terms:
        index.add(0, term, 1)
    return index


@pytest.mark.parametrize(
    ("selector", "labels", "expected"),
    [
        (from_map({"app": "web"}), "app=web", True),
        (from_map({"app": "web"}), "app=db", False),
        (from_map({"app": "web", "rev": "1"}), "app=web", False),
        (
            Selector((one_of("app", "web", "db"), one_of("rev", "1", "2", "3"))),
            "app=db, rev=3",
            True,
        ),
        (Selector((one_of("app", "web", "db"), one_of("rev", "1", "2", "3"))), "app=db", False),
        (Selector((Requirement("app", EXISTS),)), "app=web", True),
        (Selector((Requirement("app", NOT_IN, frozenset({"web"})),)), "", True),
        (EVERYTHING, "", True),
        (NOTHING, "app=web", False),
    ],
)
def test_a_term_is_found_by_pods_that_match_its_labels(selector, labels, expected):
    term = AffinityTerm(TermKind.REQUIRED_ANTI_AFFINITY, "zone", selector, HERE)

    assert (term in index_of(term).matching(make_pod(labels=labels), {})) is expected


@pytest.mark.parametrize(
    ("namespaces", "selector", "labels", "expected"),
    [
        ({"default"}, NOTHING, {}, True),
        ({"other"}, NOTHING, {}, False),
        ({"other", "default"}, NOTHING, {}, True),
        (set(), TEAM_A, {"team": "a"}, True),
        (set(), TEAM_A, {"team": "b"}, False),
        ({"default"}, TEAM_A, {}, True),
        (set(), EVERYTHING, {}, True),
    ],
)
def test_a_term_is_found_by_pods_of_its_namespaces(namespaces, selector, labels, expected):
    term = AffinityTerm(
        TermKind.REQUIRED_ANTI_AFFINITY,
        "zone",
        from_map({"app": "web"}),
        frozenset(namespaces),
        selector,
    )

    found = index_of(term).matching(make_pod(labels="app=web"), labels)

    assert found == ([term] if expected else [])


def test_pods_with_a_term_are_counted_by_row_and_move_with_it():
    index = index_of(WEB, WEB)
    index.add(3, WEB, 1)

    index.move(3, 1, {WEB})

    assert index.counts(WEB).dense(4).tolist() == [2, 1, 0, 0]


def test_a_term_without_pods_is_dropped():
    """Terms of deleted workloads would pile up otherwise."""
    index = index_of(WEB, WEB)

    index.add(0, WEB, -1)
    assert index.matching(make_pod(labels="app=web"), {}) == [WEB]
    index.add(0, WEB, -1)

    assert index.counts(WEB) is None
    assert index.matching(make_pod(labels="app=web"), {}) == []
    assert vars(index) | {"changes": None} == vars(TermIndex()) | {"changes": None}


def test_a_pod_with_a_term_cannot_be_removed_twice():
    with pytest.raises(AssertionError, match="more often"):
        TermIndex().add(0, WEB, -1)
