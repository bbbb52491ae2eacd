"""The arrays that columns are made of, by the names they have in this room."""

from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

Mask = NDArray[np.bool_]
"""Which rows something is true of."""

Int64s = NDArray[np.int64]
"""A count or an amount, one a row."""

Ids = NDArray[np.int32]
"""The number of a value, one a row."""

Rows = NDArray[np.intp]
"""Row numbers."""

T = TypeVar("T", np.int64, np.int32, np.uint64, np.bool_)
"""What a column may hold."""


def read_only(column: NDArray[T]) -> NDArray[T]:
    """Return *column* itself, which nobody can write to any more."""
    column.flags.writeable = False
    return column
