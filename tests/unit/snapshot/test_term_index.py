"""The index of the affinity terms of pods."""

from collections import Counter
from functools import cache
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.model.affinity_terms import AffinityTerm, PodAffinityTerms, TermKind
from scheduler.model.pod_set import PodSet
from scheduler.model.selectors import (
    DOES_NOT_EXIST,
    EVERYTHING,
    EXISTS,
    IN,
    NOT_IN,
    NOTHING,
    Requirement,
    Selector,
    from_map,
)
from scheduler.snapshot import term_index
from scheduler.snapshot.labels import LabelIndex
from scheduler.snapshot.node_table import NodeTable
from scheduler.snapshot.term_index import Incoming, TermIndex
from scheduler.testing import make_node, make_pod
from tests.unit.plugins.plugin_calls import columns_of

ANTI = TermKind.REQUIRED_ANTI_AFFINITY
HERE = frozenset({"default"})
WEB = AffinityTerm(ANTI, "zone", from_map({"app": "web"}), HERE)
TEAM_A = from_map({"team": "a"})
ZONES = [make_node(f"n{index}", labels=f"zone=z{index % 3}") for index in range(4)]


def one_of(key, *values):
    return Requirement(key, IN, frozenset(values))


@cache
def terms_of(*terms):
    """Return the terms of one template."""
    return PodAffinityTerms(required_anti_affinity=terms)


def index_of(*terms):
    index = TermIndex(ANTI, LabelIndex(ZONES))
    index.add(terms_of(*terms), ZONES[0].metadata.labels, 1)
    return index


def incoming(labels="", namespace="default", **namespace_labels):
    return Incoming(namespace, make_pod(labels=labels).labels, namespace_labels)


def found(index, asked):
    return {key: (sums.total, sums.pods) for key, sums in index.sums(asked).items()}


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
        (Selector((Requirement("app", EXISTS),)), "rev=1", False),
        (Selector((Requirement("app", NOT_IN, frozenset({"web"})),)), "", True),
        (EVERYTHING, "", True),
        (NOTHING, "app=web", False),
    ],
)
def test_a_term_is_found_by_pods_that_match_its_labels(selector, labels, expected):
    index = index_of(AffinityTerm(ANTI, "zone", selector, HERE))

    assert found(index, incoming(labels)) == ({"zone": (1, 1)} if expected else {})


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
    term = AffinityTerm(ANTI, "zone", from_map({"app": "web"}), frozenset(namespaces), selector)

    assert found(index_of(term), incoming("app=web", **labels)) == (
        {"zone": (1, 1)} if expected else {}
    )


def test_pods_with_a_term_are_counted_by_the_domain_of_their_node():
    index = index_of(WEB, WEB)
    index.add(terms_of(WEB), ZONES[1].metadata.labels, 1)

    sums = index.sums(incoming("app=web"))["zone"]

    assert sums.of(sums.column.ids[:4]).tolist() == [2, 1, 0, 2]


def test_a_term_applies_nowhere_if_the_nodes_of_its_pods_lack_its_key():
    index = index_of(AffinityTerm(ANTI, "rack", EVERYTHING, HERE))

    assert len(index) == 0
    assert index.sums(incoming()) == {}


def test_a_term_without_pods_is_dropped():
    """Terms of deleted workloads would pile up otherwise."""
    index = index_of(WEB)
    zone = ZONES[0].metadata.labels

    index.add(terms_of(WEB), zone, 1)
    index.add(terms_of(WEB), zone, -1)
    assert found(index, incoming("app=web")) == {"zone": (1, 1)}
    index.add(terms_of(WEB), zone, -1)

    assert index.sums(incoming("app=web")) == {}
    left = vars(index)
    assert not any(
        left[name]
        for name in ("_domains", "_index", "_labels_read", "_namespace_labels_read", "_changes")
    )
    assert not left["_kept"]
    assert left["_kept_bytes"] == left["_changes_size"] == 0


def test_a_pod_with_a_term_cannot_be_removed_twice():
    with pytest.raises(AssertionError, match="more often"):
        index_of().add(terms_of(WEB), ZONES[0].metadata.labels, -1)


# What many terms cost.


@pytest.fixture
def matched(monkeypatch):
    """Count how often a term is compared with a pod."""
    count = Counter()
    matches = PodSet.matches

    def counting(self, *asked, **more):
        count["terms"] += 1
        return matches(self, *asked, **more)

    monkeypatch.setattr(PodSet, "matches", counting)
    return count


def selector(number):
    return Selector((one_of("app", "web", str(number)),))


def lacking(number):
    return Selector((Requirement(f"key-{number}", DOES_NOT_EXIST),))


def test_terms_are_compared_once_for_all_pods_that_they_cannot_tell_apart(matched):
    index = index_of(*(AffinityTerm(ANTI, "zone", lacking(n), HERE) for n in range(1000)))

    assert found(index, incoming("app=web, pod=0")) == {"zone": (1000, 1000)}
    for number in range(1, 100):
        assert found(index, incoming(f"app=web, pod={number}")) == {"zone": (1000, 1000)}
        index.add(terms_of(WEB), ZONES[number % 4].metadata.labels, 1)
        index.add(terms_of(WEB), ZONES[number % 4].metadata.labels, -1)

    # What excludes labels is not compared at all.
    assert matched["terms"] <= 2 * 99


def test_terms_of_one_template_are_compared_once_for_all_its_pods(matched):
    terms = terms_of(*(AffinityTerm(ANTI, "zone", selector(n), HERE) for n in range(1000)))
    index = index_of()
    for number in range(300):
        index.add(terms, ZONES[number % 4].metadata.labels, 1)

    assert found(index, incoming("app=web")) == {"zone": (300_000, 300_000)}
    for number in range(300):
        index.add(terms, ZONES[number % 4].metadata.labels, -1)
        index.sums(incoming("app=web"))
    assert matched["terms"] <= 1000


def test_terms_over_keys_that_no_node_has_are_never_compared(matched):
    index = index_of(WEB, *(AffinityTerm(ANTI, f"key-{n}", EVERYTHING, HERE) for n in range(5000)))

    assert found(index, incoming("app=web")) == {"zone": (1, 1)}
    assert matched["terms"] == 1


def test_terms_about_other_labels_are_never_compared(matched):
    others = (AffinityTerm(ANTI, "zone", from_map({"app": f"a{n}"}), HERE) for n in range(5000))
    exist = (
        AffinityTerm(ANTI, "zone", Selector((Requirement(f"k{n}", EXISTS),)), HERE)
        for n in range(5000)
    )
    index = index_of(WEB, *others, *exist)

    assert found(index, incoming("app=web")) == {"zone": (1, 1)}
    assert matched["terms"] == 1


def test_what_is_kept_is_limited(monkeypatch):
    monkeypatch.setattr(term_index, "_SUMS_BYTES_KEPT", 64 << 10)
    large = AffinityTerm(ANTI, "zone", EVERYTHING, frozenset(map(str, range(1000))) | HERE)
    index = index_of(WEB)
    for number in range(1000):
        index.sums(incoming("app=web", namespace=f"ns-{number}"))
        index.add(terms_of(large), ZONES[0].metadata.labels, 1)
        index.add(terms_of(large), ZONES[0].metadata.labels, -1)

    assert len(index._kept) <= 64
    assert index._changes_size <= 70000
    assert found(index, incoming("app=web")) == {"zone": (1, 1)}


# The same as comparing every term of every pod.


def any_affinity(random):
    def term():
        selectors = [None, {}, {"matchLabels": {"team": "x"}}]
        operator = random.choice(["In", "NotIn", "Exists", "DoesNotExist"])
        values = random.sample(["a", "b"], k=1) if operator in {"In", "NotIn"} else []
        expression = {"key": random.choice(["app", "rev"]), "operator": operator, "values": values}
        return {
            "topologyKey": random.choice(["zone", "zone", "rack", "nowhere"]),
            "labelSelector": random.choice([None, {}, {"matchExpressions": [expression]}]),
            "namespaces": random.choice([[], ["other"], ["other", "default"]]),
            "namespaceSelector": random.choice(selectors),
        }

    preferred = [
        {"weight": random.randint(1, 3), "podAffinityTerm": term()}
        for _ in range(random.randint(0, 2))
    ]
    return {
        random.choice(["podAffinity", "podAntiAffinity"]): {
            "requiredDuringSchedulingIgnoredDuringExecution": [
                term() for _ in range(random.randint(0, 3))
            ],
            "preferredDuringSchedulingIgnoredDuringExecution": preferred,
        }
    }


def any_labels(random):
    return {key: random.choice("ab") for key in ("app", "rev") if random.random() < 0.6}


def any_node(random, name):
    labels = {"zone": random.choice("xyz"), "rack": random.choice("12")}
    return make_node(name, labels={k: v for k, v in labels.items() if random.random() < 0.8})


def straightforward(columns, pod, kind, *, weighted):
    """Compare every term of every pod, as upstream does."""
    sums = {}
    namespace_labels = columns.objects.namespace_labels(pod.namespace)
    for node, pods in zip(columns.nodes, columns.pods, strict=True):
        for term in (term for each in pods.values() for term in each.affinity_terms.of(kind)):
            value = node.metadata.labels.get(term.topology_key)
            if value is not None and term.incoming.holds(pod, lambda _: namespace_labels):
                domains = sums.setdefault(term.topology_key, Counter())
                domains[value] += term.weight if weighted else 1
    return {
        key: [
            (domains[node.metadata.labels.get(key)], sum(domains.values()))
            for node in columns.nodes
        ]
        for key, domains in sums.items()
    }


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_sums_are_those_of_all_terms_whatever_happened_before(seed):
    random = Random(seed)
    columns = columns_of([any_node(random, f"n{index}") for index in range(3)], [])
    for step in range(40):
        match random.choice(["pod", "pod", "pod", "gone", "node", "labels", "no node"]):
            case "pod" if columns.nodes:
                row = random.randrange(len(columns))
                pod = make_pod(
                    f"p{step}",
                    namespace=random.choice(["default", "other"]),
                    affinity=any_affinity(random),
                )
                columns.add_pod(row, pod.on(columns.names[row]))
            case "gone" if any(columns.pods):
                row = random.choice([row for row, pods in enumerate(columns.pods) if pods])
                columns.remove_pod(row, random.choice(list(columns.pods[row])))
            case "labels" if columns.nodes:
                columns.update_node(any_node(random, random.choice(columns.names)))
            case "node":
                columns.add_node(any_node(random, f"n{step}x"))
            case "no node" if not all(columns.pods):
                empty = [row for row, pods in enumerate(columns.pods) if not pods]
                columns.remove_node(columns.names[random.choice(empty)])
        pod = make_pod(
            "incoming",
            namespace=random.choice(["default", "other"]),
            labels=any_labels(random) | {"own": str(step)},
        )
        for kind in TermKind:
            for weighted in (False, kind is TermKind.PREFERRED):
                view = NodeTable(columns)
                right = straightforward(columns, pod, kind, weighted=weighted)
                sums = view.sum_terms(pod, kind, weighted=weighted)
                assert {key: each.tolist() for key, each in sums.items()} == {
                    key: [here for here, _ in pairs] for key, pairs in right.items()
                }
                found = {} if weighted else view.any_terms(pod, kind)
                assert {
                    key: list(zip(each.here.tolist(), each.anywhere.tolist(), strict=True))
                    for key, each in found.items()
                } == {
                    key: [(here > 0, total > 0) for here, total in pairs]
                    for key, pairs in right.items()
                    if not weighted
                }
