"""Chooses among candidates for preemption the one that does least harm.

Source: ``pkg/scheduler/framework/preemption/preemption.go`` (pickOneNodeForPreemption) and
``pkg/scheduler/util/utils.go``.
"""

from collections.abc import Iterable, Sequence
from operator import attrgetter
from typing import Final

from scheduler.framework.rejection import Candidate
from scheduler.model.pod import LATER_THAN_ANY, Pod

_OFFSET: Final = 2**31
"""Makes every priority positive, so that each further victim adds to the sum.

Upstream adds it too: priorities may be negative, and a node with many such victims would otherwise
seem better than one with few of them.
"""

by_importance: Final = attrgetter("importance")
"""The key to sort pods by: see `Pod.importance`."""


def least_harm(candidates: Sequence[Candidate]) -> Candidate:
    """Return the candidate that does least harm; the first of equals.

    Candidates are compared in this order: the fewest victims that a budget protects, the lowest
    priority of the most important victim, the lowest sum of priorities, the fewest victims, the
    latest start among the victims of the highest priority.
    """
    assert candidates, "no candidate to choose from"
    harms = list(map(_harm, candidates))
    lowest = min(harms)
    equals = [each for each, harm in zip(candidates, harms, strict=True) if harm == lowest]
    return max(equals, key=_earliest_start)


def _harm(candidate: Candidate) -> tuple[int, int, int, int]:
    victims = candidate.victims
    return (
        candidate.pdb_violations,
        # The first victim is the most important one; extenders are trusted to keep that order.
        victims[0].priority if victims else -_OFFSET,
        sum(pod.priority + _OFFSET for pod in victims),
        len(victims),
    )


def _earliest_start(candidate: Candidate) -> str:
    """Return when the first of the most important victims started."""
    victims = candidate.victims
    if not victims:
        return ""
    highest = max(pod.priority for pod in victims)
    return _earliest(pod for pod in victims if pod.priority == highest)


def _earliest(pods: Iterable[Pod]) -> str:
    return min(map(_started, pods))


def _started(pod: Pod) -> str:
    return pod.status.start_time or LATER_THAN_ANY
