"""An even choice among nodes that nothing else decides: stateless, and the same whoever asks."""

from typing import Final

import numpy as np
from numpy.typing import NDArray

from scheduler.snapshot.columns import hash_name

_GAMMA: Final = np.uint64(0x9E3779B97F4A7C15)
_MIX_1: Final = np.uint64(0xBF58476D1CE4E5B9)
_MIX_2: Final = np.uint64(0x94D049BB133111EB)


def mix(seed: int, uid: str, name_hashes: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return an even 64-bit number for each node (splitmix64's finalizer)."""
    salt = np.uint64((hash_name(uid) ^ seed) & 0xFFFFFFFFFFFFFFFF)
    mixed = (name_hashes ^ salt) + _GAMMA
    mixed = (mixed ^ (mixed >> np.uint64(30))) * _MIX_1
    mixed = (mixed ^ (mixed >> np.uint64(27))) * _MIX_2
    return mixed ^ (mixed >> np.uint64(31))
