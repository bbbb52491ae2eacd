"""Breaking ties: stateless, even, and the same whoever asks and when.

Among nodes of equal score the one wins whose mix of (seed, pod, node name) is smallest. Nothing is
remembered and row order means nothing, so that one pod can be replayed alone.
"""

import numpy as np
from numpy.typing import NDArray

from scheduler.snapshot.mixing import mix


def pick(
    totals: NDArray[np.int64], seed: int, uid: str, name_hashes: NDArray[np.uint64], told: int
) -> NDArray[np.intp]:
    """Return rows that share the best total: the winner first, and at most *told* in all."""
    best: NDArray[np.intp] = (totals == totals.max()).nonzero()[0]
    if len(best) == 1:
        return best
    mixed = mix(seed, uid, name_hashes[best])
    if len(best) > told:
        nearest = np.argpartition(mixed, told)[:told]
        best, mixed = best[nearest], mixed[nearest]
    ordered: NDArray[np.intp] = best[np.argsort(mixed)]
    return ordered
