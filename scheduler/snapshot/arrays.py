"""Names for the array types that columns are made of."""

from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

Mask = NDArray[np.bool_]
"""One truth value a row."""

Int64s = NDArray[np.int64]
"""One count or amount a row."""

Ids = NDArray[np.int32]
"""One number a row that stands for a value, such as that of a label."""

Rows = NDArray[np.intp]
"""Row numbers."""

T = TypeVar("T", np.int64, np.int32, np.uint64, np.bool_)
"""The types of a column's elements."""


def read_only(column: NDArray[T]) -> NDArray[T]:
    """Make *column* read-only and return it.

    Arrays that a NodeTable returns are often the columns themselves: a plugin that wrote to one
    would change the cluster for every pod after it.
    """
    column.flags.writeable = False
    return column


def resized(column: NDArray[T], rows: int) -> NDArray[T]:
    """Return the first *rows* of *column*; any that it does not have are zero.

    What is returned may share memory with *column*, which must not be used any more, and is used
    for growing again: adding rows one by one copies a column only now and then.
    """
    if rows <= len(column):
        return column[:rows]
    whole: NDArray[T] = column if column.base is None else column.base
    if rows > len(whole):
        whole = np.zeros(rows + rows // 8, dtype=column.dtype)
        whole[: len(column)] = column
    grown = whole[:rows]
    grown[len(column) :] = 0
    return grown
