"""Conversations with the ledger of trust, in the folder beside this file.

Said: ``ban OWNER NODE``, ``forget NODE``, ``tick``.

Answered: what became of which owner and node, and until when; ``nothing`` where nothing changed.
"""

from pathlib import Path

import pytest

from scheduler.cache.trust_ledger import TrustLedger
from scheduler.model.fact import Deleted

SCRIPTS = sorted((Path(__file__).parent / "trust").glob("*.txt"))


class Speaker:
    """Says each command to a ledger, and describes what it changed."""

    def __init__(self):
        self.ledger = TrustLedger(maximum=3)

    def __call__(self, now, command):
        verb, *rest = command.split()
        passed = self.ledger.expire(now)
        changes = {
            "ban": lambda: self.ledger.ban(*rest, "refused a pod", now),
            "forget": lambda: self.ledger.forget_node(*rest),
            "tick": list,
        }[verb]()
        return "; ".join(map(self.describe, (*passed, *changes))) or "nothing"

    def describe(self, change):
        about = change.old if isinstance(change, Deleted) else change.new
        if isinstance(change, Deleted):
            state = "trusted"
        elif about.on_trial:
            state = "on trial"
        else:
            state = f"banned until {self.ledger.until(about.owner, about.node):g}s"
        return f"{about.owner} and {about.node}: {state}"


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.stem)
def test_the_ledger_answers_as_written(script, rehearse):
    rehearse(script, Speaker())


def test_there_are_conversations():
    assert SCRIPTS
