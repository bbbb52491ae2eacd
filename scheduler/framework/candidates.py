"""Chooses among candidates for preemption the one that does least harm.

Source: ``pkg/scheduler/framework/preemption/preemption.go`` (pickOneNodeForPreemption) and
``pkg/scheduler/util/utils.go``.
"""

from collections.abc import Sequence
from operator import attrgetter
from typing import Final

from scheduler.framework.rejection import Candidate

by_importance: Final = attrgetter("importance")
"""The key to sort pods by: see `Pod.importance`."""


def least_harm(candidates: Sequence[Candidate]) -> Candidate:
    """Return the candidate that does least harm; the first of equals.

    Candidates are compared in this order: the fewest victims that a budget protects, the lowest
    priority of the most important victim, the lowest sum of priorities, the fewest victims, the
    latest start among the victims of the highest priority.
    """
    assert candidates, "no candidate to choose from"
    lowest = min(each.harm for each in candidates)
    equals = (each for each in candidates if each.harm == lowest)
    return max(equals, key=attrgetter("earliest_start"))
