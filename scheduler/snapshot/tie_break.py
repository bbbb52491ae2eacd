"""Breaks ties among nodes of equal score: without state, evenly, and reproducibly.

The node with the smallest hash of (seed, pod UID, node name) wins. Upstream draws a random one
(``pkg/scheduler/schedule_one.go``, selectHost); here no state is kept and row order does not
matter, so that the decision about one pod can be replayed alone
(``docs/decisions/0004-stateless-ties.md``).
"""

from collections.abc import Iterable
from typing import Final

import numpy as np
from numpy.typing import NDArray

from scheduler.snapshot.arrays import Int64s, Rows
from scheduler.snapshot.columns import hash_name

Hashes = NDArray[np.uint64]

# The constants of splitmix64: 2**64 divided by the golden ratio, and the factors of its finalizer.
_GAMMA: Final = np.uint64(0x9E3779B97F4A7C15)
_MIX_1: Final = np.uint64(0xBF58476D1CE4E5B9)
_MIX_2: Final = np.uint64(0x94D049BB133111EB)
_SHIFT_1: Final = np.uint64(30)
_SHIFT_2: Final = np.uint64(27)
_SHIFT_3: Final = np.uint64(31)

_BLOCK: Final = 16384
"""How many names are hashed at a time: the numbers in between then stay in a core's own cache,
which takes a third of the time that ten passes over 100,000 nodes take."""


def hash_of(seed: int, uid: str, name_hashes: Hashes) -> Hashes:
    """Return a 64-bit hash for each node (splitmix64's finalizer)."""
    mixed = np.empty_like(name_hashes)
    _mix(_salt(seed, uid), name_hashes, mixed, np.empty_like(name_hashes))
    mixed ^= mixed >> _SHIFT_3
    return mixed


def _salt(seed: int, uid: str) -> np.uint64:
    return np.uint64((hash_name(uid) ^ seed) & 0xFFFFFFFFFFFFFFFF)


def _mix(salt: np.uint64, name_hashes: Hashes, mixed: Hashes, shifted: Hashes) -> None:
    """Write all but the last step into *mixed*, which leaves the highest 31 bits as they are."""
    # NumPy's uint64 wraps around as splitmix64 demands; Python's integers do not.
    np.bitwise_xor(name_hashes, salt, out=mixed)
    np.add(mixed, _GAMMA, out=mixed)
    np.bitwise_xor(mixed, np.right_shift(mixed, _SHIFT_1, out=shifted), out=mixed)
    np.multiply(mixed, _MIX_1, out=mixed)
    np.bitwise_xor(mixed, np.right_shift(mixed, _SHIFT_2, out=shifted), out=mixed)
    np.multiply(mixed, _MIX_2, out=mixed)


def _lowest(seed: int, uid: str, name_hashes: Hashes, count: int) -> Rows | None:
    """Return where the hashes are low: *count* places at least, among them the lowest ones.

    None if there are fewer, which only happens by a chance of less than one in a million.
    """
    size = len(name_hashes)
    # Hashes are evenly distributed, so below this bound are four times as many as wanted. The last
    # step, which _mix leaves out, does not change bits as high as those of the bound.
    bound = np.uint64((4 * count << 31) // size << 33)
    salt, block = _salt(seed, uid), min(size, _BLOCK)
    mixed, shifted = np.empty(block, dtype=np.uint64), np.empty(block, dtype=np.uint64)
    found = []
    for start in range(0, size, block):
        names = name_hashes[start : start + block]
        here = mixed[: len(names)]
        _mix(salt, names, here, shifted[: len(names)])
        found.append((here < bound).nonzero()[0] + start)
    low = found[0] if len(found) == 1 else np.concatenate(found)
    return low if len(low) >= count else None


class TiedRows:
    """The rows that share the best total, kept while totals change row by row.

    Args:
        totals: The total of each row. `put` writes to them.
        name_hashes: Of each row.
    """

    __slots__ = ("_best", "_count", "_hashes", "_name_hashes", "_rows", "_totals")

    def __init__(self, totals: Int64s, name_hashes: Hashes) -> None:
        assert len(totals) == len(name_hashes) > 0, f"{len(totals)} totals, {len(name_hashes)} rows"
        self._totals = totals
        self._name_hashes = name_hashes
        self._best = 0
        self._find()

    @property
    def size_bytes(self) -> int:
        """How much memory it takes beside the totals, at most."""
        size_bytes: int = self._rows.nbytes + self._hashes.nbytes + self._name_hashes.nbytes
        return size_bytes

    def put(self, totals: Iterable[tuple[int, int]]) -> None:
        """Replace the totals of a few rows, each given with its own."""
        for row, total in totals:
            was = self._totals.item(row)
            self._totals[row] = total
            if was == total:
                continue
            if total > self._best:
                self._best, self._count = total, 0
            elif was == self._best:
                self._remove(row)
            if total == self._best:
                self._add(row)
        if not self._count:
            self._find()

    def first(self, seed: int, uid: str, rows_maximum: int) -> Rows:
        """Return the winner, and the rows that come next; *rows_maximum* at most."""
        assert rows_maximum > 0, "the winner itself must be returned"
        tied, names = self._rows[: self._count], self._hashes[: self._count]
        if len(tied) == 1:
            return tied.copy()
        if len(tied) > 8 * rows_maximum:
            low = _lowest(seed, uid, names, rows_maximum)
            if low is not None:
                tied, names = tied[low], names[low]
        first: Rows = tied[np.argsort(hash_of(seed, uid, names))[:rows_maximum]]
        return first

    def _find(self) -> None:
        """Find the best total and its rows among all."""
        self._best = int(self._totals.max())
        self._rows: Rows = (self._totals == self._best).nonzero()[0]
        self._count = len(self._rows)
        everywhere = self._count == len(self._totals)
        # A copy: rows that fall behind are removed from it.
        self._hashes = self._name_hashes.copy() if everywhere else self._name_hashes[self._rows]

    def _add(self, row: int) -> None:
        if self._count == len(self._rows):
            room = np.zeros(16 + self._count // 2, dtype=np.int64)
            self._rows = np.concatenate([self._rows, room])
            self._hashes = np.concatenate([self._hashes, room.view(np.uint64)])
        self._rows[self._count] = row
        self._hashes[self._count] = self._name_hashes[row]
        self._count += 1

    def _remove(self, row: int) -> None:
        """Let the last row take the place of *row*: their order has no meaning."""
        place = int((self._rows[: self._count] == row).argmax())
        assert self._rows[place] == row, f"row {row} had the best total and was not found"
        self._count -= 1
        self._rows[place] = self._rows[self._count]
        self._hashes[place] = self._hashes[self._count]


def best(totals: Int64s, seed: int, uid: str, name_hashes: Hashes, rows_maximum: int) -> Rows:
    """Return rows with the best total: the winner first, at most *rows_maximum* of them."""
    return TiedRows(totals, name_hashes).first(seed, uid, rows_maximum)
