"""What the status of a SchedulerConfiguration says."""

import pytest

from scheduler.config.change import Outcome, Result
from scheduler.crds.status import Seen, contains, status_after

GOOD = Outcome(Result.APPLIED, (), "f00", ("a", "b"))
BAD = Outcome(Result.INVALID, ("profiles[0].plugin: unknown field",), "f00", ("a", "b"))


def seen(generation=3, **status):
    return Seen("uid", generation, "{}", status)


def conditions(status):
    return {each["type"]: each for each in status["conditions"]}


def test_what_can_be_used_is_valid_and_active():
    status = status_after(seen(), GOOD, 3, "now")

    assert (status["observedGeneration"], status["activeGeneration"]) == (3, 3)
    assert (status["fingerprint"], status["profiles"]) == ("f00", ["a", "b"])
    found = conditions(status)
    assert (found["Valid"]["status"], found["Valid"]["reason"]) == ("True", "Accepted")
    assert (found["Active"]["status"], found["Active"]["reason"]) == ("True", "Applied")
    assert found["Active"]["message"] == "serves a, b"
    assert {each["observedGeneration"] for each in found.values()} == {3}


@pytest.mark.parametrize(
    ("result", "valid", "reason"),
    [
        (Result.INVALID, "False", "Invalid"),
        (Result.NEEDS_RESTART, "False", "NeedsRestart"),
        (Result.FORBIDDEN, "True", "Forbidden"),
        (Result.UNWATCHED, "True", "Unwatched"),
        (Result.UNANSWERED, "True", "Unanswered"),
    ],
)
def test_what_cannot_be_used_names_field_and_what_stays(result, valid, reason):
    found = conditions(status_after(seen(), Outcome(result, ("a: b",), "f", ("a",)), 2, "now"))

    assert found["Valid"]["status"] == valid
    assert (found["Active"]["status"], found["Active"]["reason"]) == ("False", reason)
    assert found["Active"]["message"] == "generation 2 stays in force: a: b"


def test_before_the_first_configuration_nothing_is_in_force():
    status = status_after(seen(), Outcome(Result.INVALID, ("a: b",), "f"), None, "now")

    assert (status["activeGeneration"], status["fingerprint"], status["profiles"]) == (
        None,
        None,
        [],
    )
    assert "no pod is scheduled" in conditions(status)["Active"]["message"]


def test_the_word_of_an_object_that_is_gone_may_be_in_force():
    found = conditions(status_after(seen(1), BAD, None, "now"))

    assert "the configuration of another object" in found["Active"]["message"]


def test_a_condition_keeps_its_time_until_it_changes():
    first = status_after(seen(), GOOD, 3, "monday")
    again = status_after(seen(4, **first), GOOD, 4, "tuesday")
    worse = status_after(seen(5, **again), BAD, 4, "wednesday")

    assert {each["lastTransitionTime"] for each in again["conditions"]} == {"monday"}
    assert {each["lastTransitionTime"] for each in worse["conditions"]} == {"wednesday"}


def test_a_status_says_what_is_wanted_or_does_not():
    wanted = status_after(seen(), BAD, None, "now")
    read = {name: value for name, value in wanted.items() if value is not None}

    assert contains(read | {"more": 1}, wanted)
    assert not contains({**read, "observedGeneration": 2}, wanted)
    assert not contains({}, wanted)
