"""What kube-scheduler made of recorded configuration documents, compared without kube-scheduler.

The rulings come from its own loader, validation and framework (see hack/oracle), recorded by ``make
golden``: who is refused, for which field, and how the rest is completed.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from hack.binaries.pins import KUBERNETES
from hack.fidelity.golden import kept_rulings
from hack.fidelity.rulings import Ruling, difference, rule

FILE = Path(__file__).parent / "configuration" / "rulings.jsonl"
RECORDED = list(kept_rulings(FILE))


@pytest.mark.parametrize(
    ("text", "said"), [pytest.param(*kept, id=str(number)) for number, kept in enumerate(RECORDED)]
)
def test_we_rule_as_kube_scheduler_did(text, said):
    assert difference(said, rule(text)) is None


def test_the_recording_has_enough_in_it():
    header = json.loads(FILE.read_text(encoding="utf-8").partition("\n")[0])
    stages = [said["stage"] for _, said in RECORDED]

    assert header["version"] == KUBERNETES, "record again: make golden"
    assert stages.count("accepted") >= 60
    assert sum(len(said.get("fields", ())) for _, said in RECORDED) >= 60
    assert all(stages.count(stage) >= 40 for stage in ("decode", "validate", "build"))


def test_a_ruling_that_differs_is_told():
    refused = next(said for _, said in RECORDED if said.get("fields"))
    text, accepted = next(kept for kept in RECORDED if kept[1]["stage"] == "accepted")
    completed = {**(rule(text).complete or {}), "podMaxBackoffSeconds": 77}

    assert "we accept" in (difference(refused, Ruling(complete={})) or "")
    assert "we blame other" in (difference(refused, Ruling(("other: is wrong",))) or "")
    assert "we refuse" in (difference(accepted, Ruling(("other: is wrong",))) or "")
    assert ".podMaxBackoffSeconds: " in (difference(accepted, Ruling(complete=completed)) or "")
