"""Node selectors with many terms: merged, they say the same as term by term."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.snapshot.labels import LabelIndex
from scheduler.snapshot.node_selector import preferred_of, required_of
from scheduler.snapshot.node_table import NodeTable
from scheduler.testing import make_node, make_pod
from tests.unit.plugins.plugin_calls import columns_of

KEYS = ("disk", "zone", "rack")


def any_expression(random):
    operator = random.choice(["In", "In", "NotIn", "Exists", "DoesNotExist", "Gt"])
    values = random.sample(["1", "2", "x", "y"], k=random.randint(1, 2))
    if operator in {"Exists", "DoesNotExist"}:
        values = []
    return {
        "key": random.choice([*KEYS, "nowhere"]),
        "operator": operator,
        "values": ["1"] if operator == "Gt" else values,
    }


def any_term(random):
    name = {
        "key": "metadata.name",
        "operator": random.choice(["In", "In", "NotIn"]),
        "values": [random.choice(["n0", "n1", "n2", "gone"])],
    }
    kind = random.choice(["label", "label", "name", "both", "many"])
    expressions = {"label": 1, "name": 0, "both": 1, "many": random.randint(2, 12)}[kind]
    return {
        "matchExpressions": [any_expression(random) for _ in range(expressions)],
        "matchFields": [name] if kind in {"name", "both"} else [],
    }


def any_nodes(random):
    return [
        make_node(
            f"n{row}",
            labels={key: random.choice(["1", "2", "x"]) for key in KEYS if random.random() < 0.7},
        )
        for row in range(5)
    ]


def any_pod(random):
    preferred = [
        {"weight": random.randint(1, 3), "preference": any_term(random)} for _ in range(20)
    ]
    affinity = {
        "requiredDuringSchedulingIgnoredDuringExecution": {
            "nodeSelectorTerms": [any_term(random) for _ in range(random.choice([1, 20]))]
        },
        "preferredDuringSchedulingIgnoredDuringExecution": preferred,
    }
    return make_pod(affinity={"nodeAffinity": affinity})


def as_written(term, node):
    """Judge one node by one preferred term alone."""
    required = {"nodeSelectorTerms": [term]}
    only = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}
    return required_of(make_pod(affinity=only)).matches(node)


@settings(max_examples=150, deadline=None)
@given(random=st.randoms(use_true_random=False))
def test_many_terms_say_the_same_as_one_after_the_other(random):
    nodes, pod = any_nodes(random), any_pod(random)
    table = NodeTable(columns_of(nodes, []))

    required = required_of(pod)
    assert required.mask(table).tolist() == [required.matches(node) for node in nodes]

    scores = np.zeros(len(nodes), dtype=np.int64)
    for preferred in preferred_of(pod.spec.affinity.node_affinity):
        scores += preferred.weight * preferred.term.mask(table)
    written = pod.spec.affinity.node_affinity.preferred_during_scheduling_ignored_during_execution
    assert scores.tolist() == [
        sum(
            each.weight
            for each in written
            if as_written(
                {
                    "matchExpressions": [
                        {"key": x.key, "operator": x.operator, "values": x.values}
                        for x in each.preference.match_expressions
                    ],
                    "matchFields": [
                        {"key": x.key, "operator": x.operator, "values": x.values}
                        for x in each.preference.match_fields
                    ],
                },
                node,
            )
        )
        for node in nodes
    ]


def test_thousands_of_terms_about_one_label_are_a_few_passes(monkeypatch):
    evaluated = []
    evaluate = LabelIndex._evaluate
    monkeypatch.setattr(
        LabelIndex,
        "_evaluate",
        lambda self, *asked: evaluated.append(asked) or evaluate(self, *asked),
    )
    nodes = [make_node(f"n{row}") for row in range(100)]
    table = NodeTable(columns_of(nodes, []))

    def about(number, operator="In"):
        expression = {
            "key": "kubernetes.io/hostname",
            "operator": operator,
            "values": [f"n{number}"],
        }
        return {"matchExpressions": [expression]}

    excluding = [
        each for number in range(50) for each in about(number, "NotIn")["matchExpressions"]
    ]
    required = [about(number) for number in range(3000)] + [{"matchExpressions": excluding}]
    preferred = [{"weight": 1 + n % 3, "preference": about(n)} for n in range(3000)]
    pod = make_pod(
        affinity={
            "nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": required},
                "preferredDuringSchedulingIgnoredDuringExecution": preferred,
            }
        }
    )

    assert required_of(pod).mask(table).all()
    for each in preferred_of(pod.spec.affinity.node_affinity):
        each.term.mask(table)
    assert len(evaluated) <= 5
