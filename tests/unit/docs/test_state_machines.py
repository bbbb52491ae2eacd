"""docs/architecture.md shows the transition tables that the code asserts.

``pytest tests/unit/docs/test_state_machines.py --rewrite`` writes the tables of the document anew.
"""

import re
from pathlib import Path

import pytest

from scheduler.cache import cluster_cache, trust_ledger
from scheduler.kube import election
from scheduler.preemption import preemptions
from scheduler.process import leadership
from scheduler.queue import foreign_nominations, queue_state

PAGE = Path(__file__).parents[3] / "docs" / "architecture.md"

MACHINES = {
    "Leadership": leadership.TRANSITIONS,
    "Pods in the queue": queue_state.TRANSITIONS,
    "Preemptions": preemptions.TRANSITIONS,
    "Nominations by other schedulers": foreign_nominations.TRANSITIONS,
    "Pods in the cache": cluster_cache.TRANSITIONS,
    "Trust": trust_ledger.TRANSITIONS,
    "The lease": election.TRANSITIONS,
}
"""Every table in the code, by the heading under which the document shows it."""


def _table_under(page, heading):
    """Return where the first table after *heading* is, as a match."""
    found = re.compile(
        rf"^### {re.escape(heading)}\n(?:(?![#|]).*\n)*(?P<table>(?:\|.*\|\n)+)", re.MULTILINE
    ).search(page)
    assert found, f"docs/architecture.md has no table under '### {heading}'"
    return found


@pytest.mark.parametrize("heading", MACHINES)
def test_the_document_shows_the_table_of_the_code(heading, request):
    page = PAGE.read_text()
    found = _table_under(page, heading)
    drawn = MACHINES[heading].draw()
    if request.config.getoption("--rewrite"):
        PAGE.write_text(page[: found.start("table")] + drawn + page[found.end("table") :])
    else:
        assert found["table"] == drawn, "the table can be written anew: pytest --rewrite"


@pytest.mark.parametrize("heading", MACHINES)
def test_every_state_can_be_reached_and_left(heading):
    rows = MACHINES[heading].rows

    assert {new for row in rows for new in row.new} == {old for row in rows for old in row.old}
