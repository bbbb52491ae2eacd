"""Counting by topology domain: nodes that share the value of a label are one domain.

Sums are kept in slots, one a domain; slot 0 is for nodes that are in no domain, or do not count.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from scheduler.snapshot.arrays import Ids, Int64s, Mask
from scheduler.snapshot.labels import ABSENT

Slots = NDArray[np.intp]

NO_DOMAIN: Final = ABSENT
_FAR: Final = np.iinfo(np.int64).max


@dataclass(frozen=True, slots=True, eq=False)
class DomainCounts:
    """Pods counted by topology domain, as each row's world has them.

    Args:
        domain: The number of each row's domain; NO_DOMAIN where the node lacks the key.
        here: The count in the row's own domain; 0 where it has none or its domain was not
            registered.
        least: The smallest count over all registered domains; 0 where there are none.
        total: The count over all registered domains.
        registered: How many domains at least one included node stands in.
    """

    domain: Ids
    here: Int64s
    least: Int64s
    total: Int64s
    registered: int


@dataclass(frozen=True, slots=True, eq=False)
class DomainSums:
    """Pods counted and weighed by topology domain, as each row's world has them.

    Args:
        here: The sum in the row's own domain; 0 where it has none.
        total: The sum over all domains.
    """

    here: Int64s
    total: Int64s


def slots_of(ids: Ids) -> Slots:
    """Return the slot of each row, given the numbers of their domains."""
    return ids.astype(np.intp) + 1


def sums_of(ids: Ids, amounts: Int64s) -> Int64s:
    """Sum *amounts* by slot; what is in no domain does not count."""
    # bincount sums in float64, which is exact for anything a cluster can hold.
    sums = np.bincount(slots_of(ids), amounts, minlength=1).astype(np.int64)
    sums[0] = 0
    return sums


@dataclass(frozen=True, slots=True, eq=False)
class Domains:
    """The domains of a cluster that are registered, with the pods in each of them.

    Args:
        counts: Pods by slot.
        registered: Which slots have a node that counts.
    """

    counts: Int64s
    registered: Mask

    @classmethod
    def counting(cls, slots: Slots, pods: Int64s, size: int) -> "Domains":
        """Count *pods* by *slots*, of which there are *size*."""
        counts = np.bincount(slots, weights=pods, minlength=size).astype(np.int64)
        registered = np.bincount(slots, minlength=size) > 0
        counts[0], registered[0] = 0, False
        return cls(counts, registered)

    def seen_from(self, rows: Ids) -> DomainCounts:
        """Give each of *rows* the count of its own domain; least and total are the same for all."""
        registered = int(self.registered.sum())
        least = int(self.counts.min(where=self.registered, initial=_FAR)) if registered else 0
        return DomainCounts(
            rows,
            self.counts.take(slots_of(rows)),
            np.full(len(rows), least),
            np.full(len(rows), int(self.counts.sum())),
            registered,
        )

    def seen_from_worlds(self, rows: Ids, delta: Int64s) -> DomainCounts:
        """Give each of *rows* what is so in its own world, which has *delta* pods more there."""
        registered = int(self.registered.sum())
        if not registered:
            return self.seen_from(rows)
        slots = slots_of(rows)
        here = self.counts.take(slots) + delta
        among = np.where(self.registered, self.counts, _FAR)
        emptiest = int(among.argmin())
        least, among[emptiest] = int(among[emptiest]), _FAR
        elsewhere = np.where(slots == emptiest, int(among.min()), least)
        return DomainCounts(
            rows,
            here,
            np.where(self.registered.take(slots), np.minimum(here, elsewhere), least),
            int(self.counts.sum()) + delta,
            registered,
        )
