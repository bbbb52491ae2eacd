"""Node selectors and node affinity."""

import pytest

from scheduler.config.plugin_args import NodeAffinityArgs
from scheduler.errors import ConfigurationError, MalformedObject
from scheduler.framework.cluster_event import NODE, Action
from scheduler.framework.rejection import Only, Refused, Skip
from scheduler.model.affinity import NodeSelectorTerm
from scheduler.model.node import Node
from scheduler.plugins import NodeAffinity
from scheduler.snapshot.node_selector import compile_term, required_of
from scheduler.testing import make_node, make_pod
from tests.unit.plugins.plugin_calls import OK, UAU, answers, codes, scores, table_of, wakes

PLUGIN = NodeAffinity()


def expression(key, operator, *values):
    return {"key": key, "operator": operator, "values": list(values)}


def term(*expressions, fields=()):
    return {"matchExpressions": list(expressions), "matchFields": list(fields)}


def named(*names, operator="In"):
    return term(fields=[expression("metadata.name", operator, *names)])


def required(*terms):
    selector = {"nodeSelectorTerms": list(terms)}
    return {"requiredDuringSchedulingIgnoredDuringExecution": selector}


def preferred(*wishes):
    terms = [{"weight": weight, "preference": preference} for weight, preference in wishes]
    return {"preferredDuringSchedulingIgnoredDuringExecution": terms}


def pod_with(node_affinity=None, node_selector=""):
    affinity = None if node_affinity is None else {"nodeAffinity": node_affinity}
    return make_pod(affinity=affinity, node_selector=node_selector)


FOO_BAR = expression("foo", "In", "bar", "value2")
GPU = "GPU=NVIDIA-GRID-K1"
INVALID = "invalid value: ___@#$%^"

REQUIREMENTS = [
    pytest.param("", [FOO_BAR], UAU, id="In, absent"),
    pytest.param("foo=bar", [FOO_BAR], OK, id="In"),
    pytest.param("foo=x", [FOO_BAR], UAU, id="In, another value"),
    pytest.param(
        "kernel-version=0206",
        [expression("kernel-version", "Gt", "0204")],
        OK,
        id="Gt compares numbers, leading zeros and all",
    ),
    pytest.param("v=9", [expression("v", "Gt", "10")], UAU, id="Gt, less"),
    pytest.param("v=10", [expression("v", "Gt", "10")], UAU, id="Gt is strict"),
    pytest.param("v=9", [expression("v", "Lt", "10")], OK, id="Lt"),
    pytest.param("v=v2", [expression("v", "Gt", "1")], UAU, id="Gt, no number"),
    pytest.param("", [expression("v", "Lt", "10")], UAU, id="Lt, absent"),
    pytest.param("v=9", [expression("v", "Gt", "-5")], UAU, id="a negative operand is invalid"),
    pytest.param("v=9", [expression("v", "Gt", "1", "2")], UAU, id="two operands are invalid"),
    pytest.param("v=9223372036854775808", [expression("v", "Gt", "1")], UAU, id="beyond int64"),
    pytest.param(GPU, [expression("GPU", "NotIn", "AMD", "INTER")], OK, id="NotIn"),
    pytest.param("", [expression("GPU", "NotIn", "AMD")], OK, id="NotIn, absent"),
    pytest.param(GPU, [expression("GPU", "Exists")], OK, id="Exists"),
    pytest.param("", [expression("GPU", "Exists")], UAU, id="Exists, absent"),
    pytest.param("", [expression("GPU", "DoesNotExist")], OK, id="DoesNotExist"),
    pytest.param(GPU, [expression("GPU", "DoesNotExist")], UAU, id="DoesNotExist, there"),
    pytest.param(GPU, [expression("GPU", "Exists", "x")], UAU, id="Exists takes no value"),
    pytest.param(GPU, [expression("GPU", "In")], UAU, id="In takes values"),
    pytest.param(GPU, [expression("GPU", "Has", "x")], UAU, id="an unknown operator"),
    pytest.param(f"{GPU}, foo=bar", [FOO_BAR, expression("GPU", "Exists")], OK, id="both hold"),
    pytest.param(GPU, [FOO_BAR, expression("GPU", "Exists")], UAU, id="one of two holds"),
    pytest.param("foo=bar", [expression("foo", "NotIn", INVALID)], UAU, id="an invalid value"),
    pytest.param("foo=bar", [expression("bad key", "DoesNotExist")], UAU, id="an invalid key"),
]


@pytest.mark.parametrize(("labels", "expressions", "expected"), REQUIREMENTS)
def test_expressions_match_labels(labels, expressions, expected):
    node, pod = make_node("a", labels=labels), pod_with(required(term(*expressions)))

    assert codes(PLUGIN, pod, table_of([node])) == [expected]
    assert required_of(pod).matches(node) == (expected == OK)


AFFINITIES = [
    pytest.param(
        "foo=bar",
        required(term(expression("foo", "In", "x")), term(FOO_BAR)),
        OK,
        id="one of two terms matches",
    ),
    pytest.param("foo=bar", required(), UAU, id="no term"),
    pytest.param(
        "foo=bar", {"requiredDuringSchedulingIgnoredDuringExecution": {}}, UAU, id="terms left out"
    ),
    pytest.param("foo=bar", required(term()), UAU, id="an empty term"),
    pytest.param("foo=bar", required(term(), term(FOO_BAR)), OK, id="an empty term beside another"),
    pytest.param(
        "foo=bar",
        required(term(expression("?", "Exists")), term(FOO_BAR)),
        OK,
        id="an invalid term beside one that matches",
    ),
    pytest.param(
        "foo=bar",
        required(term(FOO_BAR, fields=named("a")["matchFields"])),
        OK,
        id="labels and name",
    ),
    pytest.param(
        "foo=x", required(term(FOO_BAR, fields=named("a")["matchFields"])), UAU, id="the name only"
    ),
    pytest.param("", required(named("a")), OK, id="the name"),
    pytest.param("", required(named("b")), UAU, id="another name"),
    pytest.param("", required(named("b", operator="NotIn")), OK, id="not that name"),
    pytest.param("", required(named("a", operator="NotIn")), UAU, id="not this name"),
    pytest.param("", required(named("a", "b")), UAU, id="two names are invalid"),
    pytest.param("", required(named("a", operator="Exists")), UAU, id="fields only compare"),
    pytest.param(
        "",
        required(term(fields=[expression("metadata.uid", "NotIn", "x")])),
        OK,
        id="another field is empty",
    ),
    pytest.param(
        "",
        required(term(fields=[expression("metadata.uid", "In", "x")])),
        UAU,
        id="another field is empty and cannot match",
    ),
]


@pytest.mark.parametrize(("labels", "affinity", "expected"), AFFINITIES)
def test_any_term_will_do(labels, affinity, expected):
    node, pod = make_node("a", labels=labels), pod_with(affinity)

    assert codes(PLUGIN, pod, table_of([node])) == [expected]
    assert required_of(pod).matches(node) == (expected == OK)


SELECTORS = [
    pytest.param("foo=bar", "foo=bar", None, OK, id="equal"),
    pytest.param("foo=bar", "foo=bar, baz=blah", None, UAU, id="a label is missing"),
    pytest.param("foo=bar, baz=blah", "foo=bar", None, OK, id="more labels"),
    pytest.param("foo=bar", "foo=x", required(term(FOO_BAR)), UAU, id="affinity alone"),
    pytest.param("foo=bar", "foo=bar", required(term(FOO_BAR)), OK, id="with affinity"),
]


@pytest.mark.parametrize(("labels", "selector", "affinity", "expected"), SELECTORS)
def test_a_node_selector_must_hold_as_well(labels, selector, affinity, expected):
    nodes = table_of([make_node("a", labels=labels)])

    assert codes(PLUGIN, pod_with(affinity, selector), nodes) == [expected]


PRE_FILTER = [
    pytest.param(pod_with(), Skip(), id="nothing is required"),
    pytest.param(pod_with(preferred((1, term(FOO_BAR)))), Skip(), id="wishes are no requirement"),
    pytest.param(pod_with(node_selector="foo=bar"), None, id="a selector names no node"),
    pytest.param(pod_with(required()), None, id="no term is not no requirement"),
    pytest.param(pod_with(required(named("a"))), Only(frozenset("a")), id="one name"),
    pytest.param(
        pod_with(required(named("a"), named("b"))), Only(frozenset("ab")), id="either name"
    ),
    pytest.param(pod_with(required(named("a"), term(FOO_BAR))), None, id="a term without a name"),
    pytest.param(pod_with(required(named("a", operator="NotIn"))), None, id="NotIn names nobody"),
    pytest.param(
        pod_with(required(term(fields=named("a")["matchFields"] + named("b")["matchFields"]))),
        Refused("pod affinity terms conflict", resolvable=False),
        id="two names for one node",
    ),
    pytest.param(pod_with(required(named("a", "b"))), Only(frozenset("ab")), id="a list narrows"),
]


@pytest.mark.parametrize(("pod", "answer"), PRE_FILTER)
def test_names_restrict_the_nodes(pod, answer):
    assert PLUGIN.pre_filter(pod, table_of([make_node("a")])) == answer


def test_an_empty_selector_that_is_there_is_not_skipped():
    pod = make_pod(affinity=None)
    written = type(pod)(spec=type(pod.spec)(node_selector={}))

    assert PLUGIN.pre_filter(written, table_of([])) is None


def added(**affinity):
    return NodeAffinity(NodeAffinityArgs(added_affinity=affinity))


def test_an_added_affinity_is_enforced_first():
    nodes = table_of([make_node(zone, labels={"zone": zone}) for zone in ("foo", "bar")])
    plugin = added(**required(term(expression("zone", "In", "foo"))))

    assert answers(plugin, pod_with(node_selector="zone=x"), nodes) == {
        "foo": (UAU, ("node(s) didn't match Pod's node affinity/selector",)),
        "bar": (UAU, ("node(s) didn't match scheduler-enforced node affinity",)),
    }
    assert codes(plugin, pod_with(), nodes) == [OK, UAU]


def test_an_added_preference_adds_up():
    nodes = table_of(
        make_node(name, labels=labels)
        for name, labels in [("a", "foo=bar"), ("b", "baz=x"), ("c", "foo=bar, baz=x")]
    )
    plugin = added(**preferred((3, term(expression("baz", "Exists")))))
    pod = pod_with(preferred((2, term(FOO_BAR))))

    assert scores(plugin, pod, nodes) == [40, 60, 100]


def test_preferred_weights_add_up():
    nodes = table_of(
        make_node(name, labels=labels)
        for name, labels in [
            ("a", "foo=bar"),
            ("b", "foo=bar, key=value, az=az1"),
            ("c", "key=value"),
        ]
    )
    foo, key, az = (
        expression("foo", "In", "bar"),
        expression("key", "In", "value"),
        expression("az", "In", "az1"),
    )
    pod = pod_with(preferred((2, term(foo)), (4, term(key)), (5, term(foo, key, az))))

    assert NodeAffinity().score(pod, nodes).tolist() == [2, 11, 4]
    assert scores(PLUGIN, pod, nodes) == [18, 100, 36]


def test_a_pod_without_preferred_terms_is_not_scored():
    assert scores(PLUGIN, pod_with(required(term(FOO_BAR))), table_of([make_node()])) is None


def test_preferred_terms_without_a_match_score_0():
    assert scores(PLUGIN, pod_with(preferred((1, term(FOO_BAR)))), table_of([make_node()])) == [0]


def test_a_preferred_term_without_weight_is_not_read():
    wishes = preferred((0, term(expression("?", "Exists"))), (1, term()), (2, term(FOO_BAR)))

    assert scores(PLUGIN, pod_with(wishes), table_of([make_node(labels="foo=bar")])) == [100]


def test_an_invalid_preferred_term_is_an_error():
    pod = pod_with(preferred((1, term(expression("invalid key", "Exists")))))

    with pytest.raises(MalformedObject, match=r"^\[0\]\.matchExpressions\[0\]\.key: "):
        PLUGIN.score(pod, table_of([make_node()]))


def test_a_node_without_a_name_has_no_fields_to_disagree():
    written = NodeSelectorTerm(match_fields=required_fields("a"))

    assert compile_term(written, "").matches(Node())


def required_fields(name):
    pod = pod_with(required(named(name)))
    selector = pod.spec.affinity.node_affinity.required_during_scheduling_ignored_during_execution
    return selector.node_selector_terms[0].match_fields


@pytest.mark.parametrize(
    ("affinity", "problem"),
    [
        pytest.param(
            required(term(expression("?", "Exists"))),
            "addedAffinity.requiredDuringSchedulingIgnoredDuringExecution"
            ".nodeSelectorTerms[0].matchExpressions[0].key: ",
            id="required",
        ),
        pytest.param(
            preferred((1, named("a", "b"))),
            "addedAffinity.preferredDuringSchedulingIgnoredDuringExecution"
            "[0].matchFields[0].values: ",
            id="preferred",
        ),
        pytest.param(
            {"requiredDuringSchedulingIgnoredDuringExecution": []},
            "addedAffinity: ",
            id="of another shape",
        ),
    ],
)
def test_an_unreadable_added_affinity_is_named(affinity, problem):
    with pytest.raises(ConfigurationError) as caught:
        added(**affinity)

    assert caught.value.problems[0].startswith(problem)


FOO, PLAIN = make_node("a", labels="foo=bar"), make_node("a")
BROKEN = pod_with(required(term(expression("?", "Exists"))))
LABEL = Action.UPDATE_NODE_LABEL

HINTS = [
    pytest.param(PLUGIN, pod_with(node_selector="foo=bar"), None, FOO, True, id="added, matches"),
    pytest.param(PLUGIN, pod_with(node_selector="foo=bar"), None, PLAIN, False, id="added, not"),
    pytest.param(PLUGIN, pod_with(node_selector="foo=bar"), PLAIN, FOO, True, id="began to match"),
    pytest.param(PLUGIN, pod_with(node_selector="foo=bar"), FOO, FOO, False, id="matched before"),
    pytest.param(PLUGIN, pod_with(node_selector="foo=bar"), FOO, PLAIN, False, id="does no more"),
    pytest.param(PLUGIN, BROKEN, None, PLAIN, True, id="in doubt about an invalid term"),
    pytest.param(added(**required(term(FOO_BAR))), pod_with(), None, PLAIN, False,
                 id="the added affinity does not match"),
    pytest.param(added(**required(term(FOO_BAR))), pod_with(), None, FOO, True,
                 id="the added affinity matches"),
    pytest.param(added(**required(term(FOO_BAR))), pod_with(), PLAIN, FOO, False,
                 id="the pod itself matched before"),
]  # fmt: skip


@pytest.mark.parametrize(("plugin", "pod", "old", "new", "expected"), HINTS)
def test_a_node_that_began_to_match_wakes_the_pod(plugin, pod, old, new, expected):
    action = Action.ADD if old is None else LABEL

    assert wakes(plugin, pod, NODE, action, old, new) == expected
