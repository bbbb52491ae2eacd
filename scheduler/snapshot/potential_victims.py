"""Crowds: pods of one node that would go together, and what they add up to.

Who looks for room asks of a thousand nodes who could go from there, and asks again for the next
pod, while hardly a node has changed. So both are kept, until a pod comes to the node or goes.
"""

from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from operator import attrgetter
from typing import Final

from scheduler.model.pod import Pod
from scheduler.snapshot.count_column import COUNT_MAXIMUM
from scheduler.snapshot.pod_contribution import Contribution

_TOTALS_KEPT: Final = 32
_KINDS_KEPT: Final = 8
_importance = attrgetter("importance")

_Kind = tuple[int, frozenset[str] | None]
"""A priority, and the names of schedulers; None for all of them."""


class PotentialVictims(tuple[Pod, ...]):  # noqa: SLOT001 - a tuple has no room for slots
    """Some pods of one node, the most important first; it remembers what they add up to."""

    totals: dict[Hashable, int]

    def total(self, worth: Contribution) -> int:
        """Add up the *worth* of the pods; no sum is larger than COUNT_MAXIMUM."""
        total = self.totals.get(worth.key)
        if total is None:
            if len(self.totals) >= _TOTALS_KEPT:
                self.totals.clear()
            total = self.totals[worth.key] = min(sum(worth.of(self)), COUNT_MAXIMUM)
        return total


class PotentialVictimsColumn:
    """The crowds that were asked for, by row.

    Args:
        pods: The pods on each row, kept up to date by the owner of the rows.
    """

    def __init__(self, pods: Sequence[Mapping[str, Pod]]) -> None:
        self._pods = pods
        self._known: dict[int, dict[_Kind, PotentialVictims]] = {}

    def potential_victims(
        self, row: int, priority: int, among: frozenset[str] | None
    ) -> PotentialVictims:
        """Return the pods on *row* that `evictable` says."""
        known = self._known.get(row)
        if known is None:
            known = self._known[row] = {}
        crowd = known.get((priority, among))
        if crowd is None:
            if len(known) >= _KINDS_KEPT:
                known.clear()
            crowd = potential_victims(self._pods[row].values(), priority, among)
            known[priority, among] = crowd
        return crowd

    def forget(self, row: int) -> None:
        """Note that other pods are on *row* now."""
        self._known.pop(row, None)


def potential_victims(
    pods: Iterable[Pod], priority: int, among: Collection[str] | None
) -> PotentialVictims:
    """Return those of *pods* that may have to go for one of *priority*, most important first.

    They are less important, no kubelet made them by itself, and they belong to one of the
    schedulers *among* which victims are, unless that is None.
    """
    crowd = PotentialVictims(
        sorted(
            (
                pod
                for pod in pods
                if pod.priority < priority
                and (among is None or pod.spec.scheduler_name in among)
                and not pod.made_by_kubelet
            ),
            key=_importance,
        )
    )
    crowd.totals = {}
    return crowd
