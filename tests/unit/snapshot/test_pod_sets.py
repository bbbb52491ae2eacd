"""The columns of sets of pods: kept up to date, and built in pieces."""

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.model.fact import Resource
from scheduler.model.objects import Namespace
from scheduler.model.pod_set import NamespaceScope, PodSet, sum_up
from scheduler.model.selectors import (
    DOES_NOT_EXIST,
    EVERYTHING,
    NOT_IN,
    Requirement,
    Selector,
    from_map,
)
from scheduler.snapshot import pod_sets
from scheduler.snapshot.pod_sets import PodSetColumns
from scheduler.testing import make_node, make_object, make_pod
from tests.unit.plugins.plugin_calls import columns_of

TEAM_A = from_map({"team": "a"})
NAMES = ["default", "other", "third"]


def any_counted(random):
    def part():
        selectors = [
            EVERYTHING,
            from_map({"app": random.choice("ab")}),
            Selector((Requirement("app", DOES_NOT_EXIST),)),
            Selector((Requirement("app", NOT_IN, frozenset("a")),)),
        ]
        names = frozenset(random.sample(NAMES, k=random.randint(0, 2)))
        scope = NamespaceScope(names, random.choice([TEAM_A, from_map({"team": "b"})]))
        return PodSet(
            random.choice([None, names]),
            random.choice(selectors),
            terminating=random.random() < 0.8,
            scopes=(scope,) if random.random() < 0.5 else (),
        )

    if random.random() < 0.4:
        return part()
    return sum_up((part(), random.randint(-2, 3)) for _ in range(random.randint(2, 12)))


def counts(columns, counted):
    """Count every pod anew."""
    labels_of = columns.objects.namespace_labels
    weigh = counted.matches if isinstance(counted, PodSet) else counted.weight
    return [
        sum(
            weigh(each.namespace, each.labels, each.terminating, labels_of)
            for each in pods.values()
        )
        for pods in columns.pods
    ]


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_columns_are_what_counting_anew_would_give(seed):
    random = Random(seed)
    columns = columns_of([make_node(f"n{row}") for row in range(3)], [])
    asked = [any_counted(random) for _ in range(6)]
    for step in range(40):
        match random.choice(["pod", "pod", "gone", "namespace", "no namespace"]):
            case "pod":
                pod = make_pod(
                    f"p{step}",
                    namespace=random.choice(NAMES),
                    labels=random.choice(["", "app=a", "app=b, rev=1"]),
                    terminating=random.random() < 0.2,
                )
                row = random.randrange(3)
                columns.add_pod(row, pod.on(f"n{row}"))
            case "gone" if any(columns.pods):
                row = random.choice([row for row, pods in enumerate(columns.pods) if pods])
                columns.remove_pod(row, random.choice(list(columns.pods[row])))
            case "namespace":
                labels = random.choice(["", "team=a", "team=b"])
                name = random.choice(NAMES)
                item = make_object(Namespace, name, namespace="", labels=labels)
                columns.objects.put(Resource.NAMESPACE, item)
            case "no namespace":
                item = make_object(Namespace, random.choice(NAMES), namespace="")
                known = columns.objects.get(Resource.NAMESPACE, "", item.metadata.name)
                if known is not None:
                    columns.objects.drop(Resource.NAMESPACE, known)
        counted = random.choice(asked)
        found = columns.pod_sets.column(counted, 3).dense(3).tolist()
        assert found == counts(columns, counted)


def test_a_column_is_built_in_pieces(monkeypatch):
    monkeypatch.setattr(pod_sets, "_COMPARED_AT_ONCE", 100)
    groups = PodSetColumns()
    for number in range(500):
        groups.add(0, make_pod(f"p{number}", labels=f"app=web, index={number}"), 1)
    web = PodSet(None, from_map({"app": "web"}))

    pauses = sum(1 for _ in groups.build(web, 1))

    assert pauses >= 5
    assert groups.column(web, 1).dense(1).tolist() == [500]
    assert list(groups.build(web, 1)) == [], "it is there"


def test_columns_with_many_requirements_count_for_more(monkeypatch):
    """A group of pods with new labels is compared with all of them."""
    groups = PodSetColumns()
    for number in range(100):
        many = Selector(
            tuple(Requirement(f"k{number}-{each}", DOES_NOT_EXIST) for each in range(1000))
        )
        groups.column(PodSet(None, many), 1)

    assert len(groups._columns) <= 9
    compared = []
    matches = PodSet.matches
    monkeypatch.setattr(
        PodSet, "matches", lambda self, *asked: compared.append(self) or matches(self, *asked)
    )
    groups.add(0, make_pod(labels="app=web"), 1)
    assert len(compared) <= 9


@pytest.mark.parametrize("columns", [500])
def test_a_new_group_is_compared_only_with_what_may_match_it(columns, monkeypatch):
    groups = PodSetColumns()
    for number in range(columns):
        groups.column(PodSet(None, from_map({"app": f"a{number}"})), 1)
    compared = []
    matches = PodSet.matches
    monkeypatch.setattr(
        PodSet, "matches", lambda self, *asked: compared.append(self) or matches(self, *asked)
    )

    groups.add(0, make_pod(labels="app=a7, index=3"), 1)

    assert len(compared) == 1


def test_a_selector_of_namespaces_is_not_expanded():
    """Fifty thousand names would be hashed, compared, and collected anew with each change."""
    groups = PodSetColumns(lambda name: {"team": "a"} if name != "n7" else {})
    pods = PodSet(None, EVERYTHING, scopes=(NamespaceScope(frozenset(), TEAM_A),))
    for number in range(10):
        groups.add(0, make_pod("p", namespace=f"n{number}"), 1)

    assert groups.column(pods, 1).dense(1).tolist() == [9]
    old = make_object(Namespace, "n7", namespace="")
    new = make_object(Namespace, "n7", namespace="", labels="team=a")
    groups.namespace_changed(Resource.NAMESPACE, old, new)
    assert groups.column(pods, 1).dense(1).tolist() == [10]
