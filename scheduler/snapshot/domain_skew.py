"""Which topology domains have too many more pods than the emptiest, kept with the sums.

Where a pod goes changes a sum each time, and hardly ever which domains are beyond a limit. So a
plugin that asks for this alone need not be asked again for each pod.
"""

from collections.abc import Callable
from typing import Final

from scheduler.snapshot.arrays import Mask
from scheduler.snapshot.change_log import ChangeLog
from scheduler.snapshot.domains import Domains

SkewLimit = tuple[int, int]
"""By how many pods a domain may exceed the emptiest, and from how many domains on that counts."""

LIMITS_KEPT: Final = 4
"""For each sum: what pods are allowed is up to their authors, and mostly the same for all."""


class SkewedDomains:
    """The domains that are beyond one limit.

    Args:
        domains: The sums, which change.
        limit: The limit.
        slot_of: Returns the slot of a row.
        catch_up: Brings the sums up to date.
    """

    __slots__ = ("_domains", "_most", "_needed", "beyond", "changes")

    def __init__(
        self,
        domains: Domains,
        limit: SkewLimit,
        slot_of: Callable[[int], int],
        catch_up: Callable[[], None],
    ) -> None:
        self._domains = domains
        self._most, self._needed = limit
        self.beyond: Mask = self._judged()
        """By slot."""
        self.changes = ChangeLog(
            lambda row: int(self.beyond[slot_of(row)]), by_domain=True, catch_up=catch_up
        )

    def update(self) -> list[int]:
        """Judge the domains anew; return the slots of those about which the answer is another."""
        before, self.beyond = self.beyond, self._judged()
        changed: list[int] = (before != self.beyond).nonzero()[0].tolist()
        return changed

    def _judged(self) -> Mask:
        least = self._domains.least if self._domains.number >= self._needed else 0
        return self._domains.counts > least + self._most
