"""Selectors as the API machinery means them (labels/selector_test.go)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.errors import MalformedObject
from scheduler.model.meta import LabelSelector, LabelSelectorRequirement
from scheduler.model.selectors import (
    DOES_NOT_EXIST,
    EVERYTHING,
    EXISTS,
    GT,
    IN,
    LT,
    NOT_IN,
    NOTHING,
    Requirement,
    compile_selector,
    from_map,
    node_requirement,
    parse_int64,
)


def written(key, operator, *values):
    return LabelSelectorRequirement(key=key, operator=operator, values=values)


def selector(*expressions, **labels):
    return LabelSelector(match_labels=labels, match_expressions=expressions)


@pytest.mark.parametrize(
    ("operator", "values", "answers"),
    [
        # answers for: absent, "", "a", "b"
        (IN, ["a"], [False, False, True, False]),
        (IN, [""], [False, True, False, False]),
        (NOT_IN, ["a"], [True, True, False, True]),
        (NOT_IN, [""], [True, False, True, True]),
        (EXISTS, [], [False, True, True, True]),
        (DOES_NOT_EXIST, [], [True, False, False, False]),
    ],
)
def test_operators(operator, values, answers):
    requirement = Requirement("k", operator, frozenset(values))

    assert [requirement.accepts(value) for value in (None, "", "a", "b")] == answers
    assert [requirement.matches(labels) for labels in ({}, {"k": ""}, {"k": "a"})] == answers[:3]


@pytest.mark.parametrize(
    ("value", "operand", "greater", "less"),
    [
        ("2", "1", True, False),
        ("1", "1", False, False),
        ("0", "1", False, True),
        ("+2", "1", True, False),
        ("-2", "1", False, True),
        ("007", "6", True, False),
        ("v2", "1", False, False),
        (" 2", "1", False, False),
        ("1_0", "1", False, False),
        ("9223372036854775807", "1", True, False),
        ("9223372036854775808", "1", False, False),
        (None, "1", False, False),
    ],
)
def test_comparisons_want_integers_of_64_bits(value, operand, greater, less):
    assert Requirement("k", GT, frozenset({operand})).accepts(value) is greater
    assert Requirement("k", LT, frozenset({operand})).accepts(value) is less


def test_absent_and_empty_are_opposites():
    assert compile_selector(None, "s") is NOTHING
    assert compile_selector(selector(), "s") == EVERYTHING
    assert not NOTHING.matches({}), "an absent selector matches nothing"
    assert EVERYTHING.matches({"a": "b"}), "an empty one matches everything"
    assert (NOTHING.empty, EVERYTHING.empty) == (False, True)
    assert from_map({}) == EVERYTHING


def test_adding_to_nothing_leaves_nothing():
    more = (Requirement("k", EXISTS),)

    assert NOTHING.and_also(more) is NOTHING
    assert EVERYTHING.and_also(more).matches({"k": ""})
    assert not EVERYTHING.and_also(more).matches({})


def test_all_requirements_must_hold():
    found = compile_selector(selector(written("z", NOT_IN, "w"), written("x", NOT_IN, "y")), "s")

    assert found.matches({"x": "z", "z": "a"})
    assert not found.matches({"x": "z", "z": "w"})


def test_selectors_that_mean_the_same_are_equal():
    """They share one column, and thousands of pods share them."""
    one = compile_selector(selector(written("tier", IN, "b", "a"), app="web", env="x"), "s")
    two = compile_selector(
        selector(written("tier", IN, "a", "b"), written("app", IN, "web"), env="x"), "t"
    )

    assert one == two
    assert hash(one) == hash(two)


@pytest.mark.parametrize(
    ("expression", "field", "problem"),
    [
        (written("k", "in", "a"), "operator", '"in" is not a valid label selector operator'),
        (written("k", GT, "1"), "operator", '"Gt" is not a valid label selector operator'),
        (written("k", IN), "values", "values set can't be empty"),
        (written("k", NOT_IN), "values", "values set can't be empty"),
        (written("k", EXISTS, "a"), "values", "values set must be empty"),
        (written("", EXISTS), "key", "Invalid value: ''"),
        (written("invalid key", EXISTS), "key", "Invalid value"),
        (written("a/b/c", EXISTS), "key", "Invalid value"),
        (written("/b", EXISTS), "key", "Invalid value"),
        (written("Upper.com/b", EXISTS), "key", "Invalid value"),
        (written("k" * 64, EXISTS), "key", "Invalid value"),
        (written("k", IN, "ok", "-bad"), "values[1][k]", "Invalid value: '-bad'"),
        (written("k", IN, "v" * 64), "values[0][k]", "Invalid value"),
    ],
)
def test_invalid_expressions_are_named(expression, field, problem):
    with pytest.raises(MalformedObject) as caught:
        compile_selector(selector(expression), "spec.s")

    assert caught.value.field == f"spec.s.matchExpressions[0].{field}"
    assert problem in caught.value.problem


@pytest.mark.parametrize("key", ["k", "a.b/c", "a-b.example.com/K_9.x", "A", "0"])
@pytest.mark.parametrize("value", ["", "a", "A-b_c.9", "v" * 63])
def test_valid_keys_and_values(key, value):
    assert compile_selector(selector(written(key, IN, value)), "s").matches({key: value})


@pytest.mark.parametrize("values", [(), ("1", "2"), ("x",), ("",), ("1.5",)])
def test_comparisons_want_one_integer(values):
    with pytest.raises(MalformedObject, match="exactly one integer"):
        node_requirement(written("k", GT, *values), "f")


def test_a_negative_operand_is_no_label_value():
    with pytest.raises(MalformedObject, match="Invalid value: '-1'"):
        node_requirement(written("k", LT, "-1"), "f")


def test_a_plain_map_is_not_checked():
    assert from_map({"in valid": "*"}).matches({"in valid": "*"})


LABELS = st.dictionaries(st.sampled_from("abc"), st.sampled_from(["", "x", "y"]))


@given(LABELS, LABELS)
def test_a_map_selects_what_contains_it(wanted, labels):
    assert from_map(wanted).matches(labels) == (wanted.items() <= labels.items())


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("7", 7),
        ("-7", -7),
        ("+007", 7),
        ("0" * 10_000, 0),
        ("-" + "0" * 10_000 + "1", -1),
        ("9223372036854775807", 2**63 - 1),
        ("9223372036854775808", None),
        ("-9223372036854775808", -(2**63)),
        ("9" * 10_000, None),
        ("", None),
        ("+-1", None),
        ("1_0", None),
        ("٣", None),
        (None, None),
    ],
)
def test_integers_are_read_as_go_reads_them(text, number):
    """However many digits there are: the API server does not count them."""
    assert parse_int64(text) == number
