"""Breaks ties among nodes of equal score: without state, evenly, and reproducibly.

The node with the smallest hash of (seed, pod UID, node name) wins. Upstream draws a random one
(``pkg/scheduler/schedule_one.go``, selectHost); here no state is kept and row order does not
matter, so that the decision about one pod can be replayed alone
(``docs/decisions/0004-stateless-ties.md``).
"""

from typing import Final

import numpy as np
from numpy.typing import NDArray

from scheduler.snapshot.columns import hash_name

# The constants of splitmix64: 2**64 divided by the golden ratio, and the factors of its finalizer.
_GAMMA: Final = np.uint64(0x9E3779B97F4A7C15)
_MIX_1: Final = np.uint64(0xBF58476D1CE4E5B9)
_MIX_2: Final = np.uint64(0x94D049BB133111EB)


def hash_of(seed: int, uid: str, name_hashes: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return a 64-bit hash for each node (splitmix64's finalizer)."""
    # NumPy's uint64 wraps around as splitmix64 demands; Python's integers do not.
    salt = np.uint64((hash_name(uid) ^ seed) & 0xFFFFFFFFFFFFFFFF)
    mixed = name_hashes ^ salt
    mixed += _GAMMA
    # In place: there may be a tie among all nodes.
    mixed ^= mixed >> np.uint64(30)
    mixed *= _MIX_1
    mixed ^= mixed >> np.uint64(27)
    mixed *= _MIX_2
    mixed ^= mixed >> np.uint64(31)
    return mixed


def best(
    totals: NDArray[np.int64],
    seed: int,
    uid: str,
    name_hashes: NDArray[np.uint64],
    rows_maximum: int,
) -> NDArray[np.intp]:
    """Return rows with the best total: the winner first, at most *rows_maximum* of them."""
    assert len(totals) == len(name_hashes) > 0, f"{len(totals)} totals, {len(name_hashes)} nodes"
    assert rows_maximum > 0, "the winner itself must be returned"
    tied: NDArray[np.intp] = (totals == totals.max()).nonzero()[0]
    if len(tied) == 1:
        return tied
    hashes = hash_of(seed, uid, name_hashes[tied])
    if len(tied) > 8 * rows_maximum:
        # Hashes are evenly distributed, so below this bound are twice as many as wanted.
        low = (hashes < np.uint64((2 * rows_maximum << 64) // len(tied))).nonzero()[0]
        if len(low) >= rows_maximum:
            tied, hashes = tied[low], hashes[low]
    if len(tied) > rows_maximum:
        nearest = np.argpartition(hashes, rows_maximum)[:rows_maximum]
        tied, hashes = tied[nearest], hashes[nearest]
    ordered: NDArray[np.intp] = tied[np.argsort(hashes)]
    return ordered
