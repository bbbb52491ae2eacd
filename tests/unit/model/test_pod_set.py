"""Sets of pods with weights, and selectors with many requirements."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.model.match_index import MatchIndex
from scheduler.model.pod_set import NamespaceScope, PodSet, WeightedPods, sum_up, weighted
from scheduler.model.selectors import (
    DOES_NOT_EXIST,
    EVERYTHING,
    EXISTS,
    GT,
    IN,
    NOT_IN,
    NOTHING,
    Requirement,
    Selector,
    all_match,
    from_map,
    merged,
)
from scheduler.testing import make_pod

KEYS = ("app", "rev", "tier")
NAMESPACES = {"default": {}, "other": {"app": "a"}, "third": {"app": "b", "rev": "1"}}


def any_requirement(random):
    operator = random.choice([IN, NOT_IN, EXISTS, DOES_NOT_EXIST, GT])
    values = random.sample(["a", "b", "1"], k=random.randint(1, 2))
    if operator in {EXISTS, DOES_NOT_EXIST}:
        values = []
    return Requirement(
        random.choice(KEYS), operator, frozenset(["1"] if operator == GT else values)
    )


def any_selector(random, most=3):
    if random.random() < 0.1:
        return NOTHING
    return Selector(tuple(any_requirement(random) for _ in range(random.randint(0, most))))


def any_labels(random):
    return {key: random.choice(["a", "b", "1", "2"]) for key in KEYS if random.random() < 0.5}


def any_pod_set(random):
    names = frozenset(random.sample(sorted(NAMESPACES), k=random.randint(0, 3)))
    scopes = (NamespaceScope(names, any_selector(random)),) if random.random() < 0.3 else ()
    return PodSet(
        random.choice([None, names]),
        any_selector(random),
        terminating=random.random() < 0.7,
        scopes=scopes,
    )


def any_pod(random):
    return make_pod(
        namespace=random.choice(sorted(NAMESPACES)),
        labels=any_labels(random),
        terminating=random.random() < 0.3,
    )


@settings(max_examples=200, deadline=None)
@given(random=st.randoms(use_true_random=False))
def test_a_pod_counts_with_the_weights_of_all_sets_that_hold_it(random):
    parts = [(any_pod_set(random), random.randint(-3, 3)) for _ in range(random.randint(0, 30))]
    together = WeightedPods(tuple(dict(parts).items()))

    for _ in range(10):
        pod = any_pod(random)
        found = together.weight(pod.namespace, pod.labels, pod.terminating, NAMESPACES.get)
        assert found == sum(
            weight for part, weight in together.parts if part.holds(pod, NAMESPACES.get)
        )


@settings(max_examples=200, deadline=None)
@given(random=st.randoms(use_true_random=False))
def test_many_requirements_match_what_each_of_them_matches(random):
    requirements = [any_requirement(random) for _ in range(random.randint(33, 60))]
    # Mostly such selectors match nothing, so these exclude only.
    if random.random() < 0.7:
        requirements = [each for each in requirements if each.accepts(None)] * 4
    selector = all_match([Selector((each,)) for each in requirements])

    for _ in range(10):
        labels = any_labels(random)
        expected = all(each.matches(labels) for each in requirements)
        assert selector.matches(labels) is expected
        assert Selector(tuple(requirements)).matches(labels) is expected
        assert all(each.matches(labels) for each in merged(requirements)) is expected


@settings(max_examples=200, deadline=None)
@given(random=st.randoms(use_true_random=False))
def test_an_index_finds_all_that_match(random):
    index = MatchIndex()
    items = {number: (any_pod_set(random), random.random() < 0.3) for number in range(20)}
    for number, (pods, _) in items.items():
        index.add(number, pods.namespaces, pods.selector)
    for number, (pods, removed) in items.items():
        if removed:
            index.remove(number, pods.namespaces, pods.selector)

    pod = any_pod(random)
    found = list(index.candidates(pod.namespace, pod.labels))

    assert len(found) == len(set(found))
    assert set(found) >= {
        number
        for number, (pods, removed) in items.items()
        if not removed and pods.holds(pod, NAMESPACES.get)
    }
    for number, (pods, removed) in items.items():
        if not removed:
            index.remove(number, pods.namespaces, pods.selector)
    assert not index


def test_equal_sets_are_one_with_the_sum_of_their_weights():
    web, everything = PodSet(None, from_map({"app": "web"})), PodSet(None, EVERYTHING)

    assert weighted([(web, 1), (web, 4)]) == (web, 5)
    assert sum_up([(web, 1), (everything, 2), (web, 4)]).parts == ((web, 5), (everything, 2))


@pytest.mark.parametrize(
    ("selector", "found"),
    [
        (from_map({"app": "web"}), True),
        (from_map({"app": "db"}), False),
        (Selector((Requirement("app", EXISTS),)), True),
        (Selector((Requirement("rev", EXISTS),)), False),
        (Selector((Requirement("rev", GT, frozenset("1")),)), False),
        (NOTHING, False),
    ],
)
def test_what_needs_another_label_is_not_even_compared(selector, found):
    index = MatchIndex()
    index.add("item", {"default"}, selector)

    assert list(index.candidates("default", {"app": "web"})) == ["item"] * found
    assert list(index.candidates("other", {"app": "web"})) == []


def test_sets_that_name_thousands_of_namespaces_count_in_those_alone():
    selector = from_map({"app": "a"})
    parts = tuple(
        (PodSet(frozenset(f"n-{first}-{index}" for index in range(5000)), selector), 1)
        for first in range(20)
    )

    counted = WeightedPods(parts)

    for namespace, weight in (("n-3-4999", 1), ("n-3-5000", 0)):
        assert counted.weight(namespace, {"app": "a"}, False, lambda _: {}) == weight
