"""Tolerations (api/core/v1/toleration_test.go)."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.model.taints import (
    DO_NOT_SCHEDULE,
    Taint,
    Toleration,
    first_untolerated,
    tolerated_by,
)
from scheduler.testing.builders import parse_taint, parse_toleration


def taint(words):
    return Taint(**parse_taint(words))


def toleration(words):
    return Toleration(**parse_toleration(words))


@pytest.mark.parametrize(
    ("has", "meets", "tolerates"),
    [
        (Toleration(key="foo", operator="Exists", effect="NoSchedule"), "foo=bar:NoSchedule", True),
        (Toleration(key="foo", operator="Exists", effect="NoSchedule"), "foo=bar:NoExecute", False),
        (Toleration(operator="Exists", effect="NoSchedule"), "any=x:NoSchedule", True),
        (Toleration(operator="Exists", effect="NoSchedule"), "any=x:NoExecute", False),
        (Toleration(operator="Exists"), "any=x:NoExecute", True),
        (Toleration(key="foo", operator="Equal", value="bar"), "foo=bar:NoSchedule", True),
        (Toleration(key="foo", operator="Equal", value="bar"), "foo=bar:NoExecute", True),
        (Toleration(key="foo", operator="Equal", value="bar"), "foo=baz:NoSchedule", False),
        (Toleration(key="foo", value="bar"), "foo=bar:NoSchedule", True),
        (Toleration(key="foo"), "foo:NoSchedule", True),
        (Toleration(key="foo"), "foo=bar:NoSchedule", False),
        (Toleration(key="foo", operator="Exists"), "bar:NoSchedule", False),
        # An empty key is any key, for each operator.
        (Toleration(operator="Equal", value="bar"), "foo=bar:NoSchedule", True),
        # Behind a gate that is off, or unknown.
        (Toleration(key="foo", operator="Gt", value="1"), "foo=2:NoSchedule", False),
        (Toleration(key="foo", operator="Lt", value="3"), "foo=2:NoSchedule", False),
        (Toleration(key="foo", operator="exists"), "foo=2:NoSchedule", False),
        # Seconds mean nothing to scheduling.
        (
            Toleration(key="foo", operator="Exists", effect="NoExecute", toleration_seconds=0),
            "foo:NoExecute",
            True,
        ),
    ],
)
def test_tolerates(has, meets, tolerates):
    assert has.tolerates(taint(meets)) is tolerates


def test_the_first_untolerated_taint_is_returned():
    taints = [
        taint(words)
        for words in ("soft:PreferNoSchedule", "ok=1:NoSchedule", "a:NoExecute", "b:NoSchedule")
    ]

    found = first_untolerated(taints, [toleration("ok=1")], DO_NOT_SCHEDULE)
    assert found == taint("a:NoExecute")

    assert first_untolerated(taints, [toleration("*")], DO_NOT_SCHEDULE) is None
    assert first_untolerated(taints, [], {"PreferNoSchedule"}) == taints[0]
    assert first_untolerated([], [], DO_NOT_SCHEDULE) is None


@settings(max_examples=200, deadline=None)
@given(random=st.randoms(use_true_random=False))
def test_thousands_of_tolerations_tolerate_what_each_of_them_does(random):
    tolerations = [
        Toleration(
            key=random.choice(["", "a", "b"]),
            operator=random.choice(["", "Equal", "Exists", "Gt"]),
            value=random.choice(["", "1", "2"]),
            effect=random.choice(["", "NoSchedule", "NoExecute"]),
        )
        for _ in range(random.randint(17, 25))
    ]
    # All of them together tolerate nearly everything.
    tolerations = random.sample(tolerations, k=1) * 20 if random.random() < 0.7 else tolerations
    taint = Taint(
        key=random.choice("abc"),
        value=random.choice(["", "1", "2"]),
        effect=random.choice(["NoSchedule", "NoExecute", "PreferNoSchedule"]),
    )

    expected = any(each.tolerates(taint) for each in tolerations)

    assert tolerated_by(tolerations)(taint) is expected
