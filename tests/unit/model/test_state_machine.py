"""Transition tables: what they allow, and how they are drawn."""

from enum import StrEnum

import pytest

from scheduler.model.state_machine import Row, Transitions


class Light(StrEnum):
    RED = "red"
    GREEN = "green"


class Event(StrEnum):
    BUILT = "built"
    SWITCHED = "switched"
    REMOVED = "removed"


TABLE = Transitions(
    Row(None, Event.BUILT, Light.RED),
    Row(Light.RED, Event.SWITCHED, Light.GREEN, note="after a while"),
    Row(Light.GREEN, Event.SWITCHED, Light.RED, Light.GREEN),
    Row((Light.RED, Light.GREEN), Event.REMOVED, None),
)


def test_a_move_of_the_table_returns_the_new_state():
    assert TABLE.move(None, Event.BUILT, Light.RED) is Light.RED
    assert TABLE.move(Light.GREEN, Event.REMOVED, None) is None


@pytest.mark.parametrize(
    ("old", "cause", "new"),
    [
        (Light.RED, Event.SWITCHED, Light.RED),
        (Light.RED, Event.BUILT, Light.RED),
        (None, Event.REMOVED, None),
    ],
)
def test_any_other_move_fails_and_names_its_subject(old, cause, new):
    with pytest.raises(AssertionError, match=f"{cause} must not turn .* the crossing"):
        TABLE.move(old, cause, new, "the crossing")


def test_two_rows_for_the_same_state_and_cause_are_a_mistake():
    with pytest.raises(AssertionError, match="two rows for red, removed"):
        Transitions(
            Row((Light.RED, Light.GREEN), Event.REMOVED, None),
            Row(Light.RED, Event.REMOVED, None),
        )


def test_a_table_is_drawn_as_markdown():
    assert TABLE.draw() == (
        "| state | cause | becomes | note |\n"
        "|---|---|---|---|\n"
        "| (absent) | built | red | |\n"
        "| red | switched | green | after a while |\n"
        "| green | switched | red, green | |\n"
        "| red, green | removed | (absent) | |\n"
    )


def test_notes_get_a_column_only_where_there_are_some():
    assert Transitions(Row(None, Event.BUILT, Light.RED)).draw() == (
        "| state | cause | becomes |\n|---|---|---|\n| (absent) | built | red |\n"
    )
