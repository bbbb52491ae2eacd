"""Changes at random: the generator's word against the scheduler's own reading."""

import json
import random

import pytest

from hack.reloads.changes import HEAD, any_change, good_change, whole
from hack.reloads.trial import check_status
from scheduler.config.change import Outcome, Result
from scheduler.config.run_settings import RunSettings
from scheduler.crds.status import Seen, status_after
from scheduler.reload.plan import Source, plan, plan_of

NAMES = ("a", "b", "c", "d")
REASONS = {Result.INVALID: "Invalid", Result.NEEDS_RESTART: "NeedsRestart"}
SETTINGS = RunSettings(config_text=json.dumps(HEAD), config_resource="main")
RUNNING = plan_of(SETTINGS)


def judge(change):
    found = plan(SETTINGS, RUNNING, json.dumps(change.document), Source.RESOURCE)
    return found if isinstance(found, Outcome) else found.outcome(Result.APPLIED)


@pytest.mark.parametrize("seed", range(60))
def test_the_generator_knows_what_becomes_of_its_changes(seed):
    change = any_change(random.Random(seed), NAMES)
    outcome = judge(change)

    assert REASONS.get(outcome.result, "Applied") == change.reason, outcome.message
    assert change.says in outcome.message
    seen = Seen("uid", 7, "", {})
    status = status_after(seen, outcome, 7 if outcome.good else 6, "now")
    assert check_status(7, change, status) == []


def test_one_in_five_cannot_be_used():
    rng = random.Random(1)
    drawn = [any_change(rng, NAMES) for _ in range(1000)]

    assert 150 < sum(not change.good for change in drawn) < 250
    assert len({change.says for change in drawn}) == 11


def test_a_status_that_is_not_true_is_noticed():
    change = good_change(random.Random(1), NAMES)
    refused = Outcome(Result.INVALID, ("x: y",), "0", ("a",))

    said = check_status(7, change, status_after(Seen("uid", 7, "", {}), refused, 6, "now"))

    assert len(said) >= 3
    assert all(line.startswith("generation 7: ") for line in said)


def test_the_last_configuration_has_every_profile():
    assert judge(whole(NAMES)).profiles == NAMES
