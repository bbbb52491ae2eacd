"""Sums by topology domain: nodes with the same value of a label are one domain.

Upstream keeps a map from domain to count for each constraint and pod
(``plugins/podtopologyspread/filtering.go``, ``plugins/interpodaffinity/filtering.go``). Here the
counts are summed into slots, one a domain, by one ``bincount`` over all rows. Slot 0 takes the
nodes that are in no domain, or do not count.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from scheduler.snapshot.arrays import Ids, Int64s, Mask
from scheduler.snapshot.labels import ABSENT

Slots = NDArray[np.intp]

NO_DOMAIN: Final = ABSENT
_INT64_MAX: Final = np.iinfo(np.int64).max


@dataclass(frozen=True, slots=True, eq=False)
class DomainCounts:
    """Pods counted by topology domain, for each row with its own what-if changes.

    Args:
        domain: The number of each row's domain; NO_DOMAIN where the node lacks the key.
        here: The count in the row's own domain; 0 where it has none or its domain is not
            registered.
        least: The smallest count over all registered domains; 0 if there are none.
        total: The count over all registered domains.
        registered: How many domains have at least one included node.
    """

    domain: Ids
    here: Int64s
    least: Int64s
    total: Int64s
    registered: int


@dataclass(frozen=True, slots=True, eq=False)
class DomainPresence:
    """Whether pods are in topology domains, for each row with its own what-if changes.

    Args:
        here: Whether any is in the row's own domain; false where it has none.
        anywhere: Whether any is in any domain.
    """

    here: Mask
    anywhere: Mask


def slots_of(ids: Ids) -> Slots:
    """Return the slot of each row, given the numbers of their domains."""
    return ids.astype(np.intp) + 1


@dataclass(frozen=True, slots=True, eq=False)
class Domains:
    """The topology domains of a cluster, with the pods in each of them.

    Args:
        counts: Pods by slot.
        registered: Which slots have an included node: only those count for the minimum.
    """

    counts: Int64s
    registered: Mask

    @classmethod
    def counting(cls, slots: Slots, pods: Int64s, size: int) -> "Domains":
        """Sum *pods*, one count a row, by the slot of each row; there are *size* slots."""
        assert len(slots) == len(pods), f"{len(slots)} rows with {len(pods)} counts"
        # bincount sums in float64, which is exact up to 2**53: counts of pods times small weights.
        counts = np.bincount(slots, weights=pods, minlength=size).astype(np.int64)
        registered = np.bincount(slots, minlength=size) > 0
        counts[0], registered[0] = 0, False
        return cls(counts, registered)

    @property
    def number(self) -> int:
        """How many domains are registered."""
        return int(np.count_nonzero(self.registered))

    @property
    def least(self) -> int:
        """The smallest count over all registered domains; 0 if there are none."""
        least = int(self.counts.min(where=self.registered, initial=_INT64_MAX))
        return 0 if least == _INT64_MAX else least

    def without_changes(self, rows: Ids) -> DomainCounts:
        """Return the counts for rows whose domains are *rows*, in the true cluster."""
        return DomainCounts(
            rows,
            self.counts.take(slots_of(rows)),
            np.full(len(rows), self.least),
            np.full(len(rows), int(self.counts.sum())),
            self.number,
        )

    def with_changes(self, rows: Ids, delta: Int64s) -> DomainCounts:
        """Return the counts for rows whose domains are *rows*, if each row had *delta* more pods.

        The change of a row counts for that row alone, and only in its own domain. So each row's
        minimum is the smaller of its own changed count and the minimum over the other domains: the
        count of the emptiest domain or, for rows in that one, of the second emptiest.
        """
        assert len(rows) == len(delta), f"{len(rows)} rows with {len(delta)} changes"
        if not self.number:
            return self.without_changes(rows)
        slots = slots_of(rows)
        here = self.counts.take(slots) + delta
        among = np.where(self.registered, self.counts, _INT64_MAX)
        emptiest = int(among.argmin())
        least, among[emptiest] = int(among[emptiest]), _INT64_MAX
        elsewhere = np.where(slots == emptiest, int(among.min()), least)
        return DomainCounts(
            rows,
            here,
            np.where(self.registered.take(slots), np.minimum(here, elsewhere), least),
            int(self.counts.sum()) + delta,
            self.number,
        )
