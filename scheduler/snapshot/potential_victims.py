"""The pods of each row that a preemptor may evict, and their sums.

A dry run lists the potential victims of a thousand nodes, and the next preemptor lists them again
while hardly a node has changed. So lists and sums are cached until a pod is added to or removed
from the row. Upstream collects them anew for every node and preemptor
(``plugins/defaultpreemption/default_preemption.go``, SelectVictimsOnNode).
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


class PotentialVictims(tuple[Pod, ...]):  # noqa: SLOT001 - a subclass of tuple cannot have slots
    """Some pods of one node, the most important first, with what was computed from them."""

    totals: dict[Hashable, int]
    found: dict[int, object]
    """What searches for victims found out, by the number of their memory. Kept here, it goes as
    soon as the pods on the node change."""

    def remember(self, number: int, found: object) -> None:
        """Keep what a search *found* out about evicting some of these pods."""
        if len(self.found) >= _TOTALS_KEPT:
            self.found.clear()
        self.found[number] = found

    def total(self, contribution: Contribution) -> int:
        """Return the sum of the pods' contributions, COUNT_MAXIMUM at most."""
        total = self.totals.get(contribution.key)
        if total is None:
            if len(self.totals) >= _TOTALS_KEPT:
                self.totals.clear()
            total = self.totals[contribution.key] = min(sum(contribution.of(self)), COUNT_MAXIMUM)
        return total


class PotentialVictimsColumn:
    """The potential victims by row, for the priorities and schedulers that were read.

    Args:
        pods: The pods on each row, kept up to date by the owner of the rows.
    """

    def __init__(self, pods: Sequence[Mapping[str, Pod]]) -> None:
        self._pods = pods
        self._known: dict[int, dict[_Kind, PotentialVictims]] = {}

    def potential_victims(
        self, row: int, priority: int, schedulers: frozenset[str] | None
    ) -> PotentialVictims:
        """Return the potential victims on *row*; see the function of the same name."""
        known = self._known.get(row)
        if known is None:
            known = self._known[row] = {}
        victims = known.get((priority, schedulers))
        if victims is None:
            if len(known) >= _KINDS_KEPT:
                known.clear()
            victims = potential_victims(self._pods[row].values(), priority, schedulers)
            known[priority, schedulers] = victims
        return victims

    def forget(self, row: int) -> None:
        """Drop what is cached for *row*, whose pods changed."""
        self._known.pop(row, None)


def potential_victims(
    pods: Iterable[Pod], priority: int, schedulers: Collection[str] | None
) -> PotentialVictims:
    """Return those of *pods* that a pod of *priority* may evict, the most important first.

    They have a lower priority, are no mirror pods, and name one of *schedulers*, unless that is
    None. A kubelet would create a mirror pod again at once; evicting it frees nothing.
    """
    victims = PotentialVictims(
        sorted(
            (
                pod
                for pod in pods
                if pod.priority < priority
                and (schedulers is None or pod.spec.scheduler_name in schedulers)
                and not pod.made_by_kubelet
            ),
            key=_importance,
        )
    )
    victims.totals, victims.found = {}, {}
    return victims
