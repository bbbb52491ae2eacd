"""Rows that are alike: a plugin that cannot tell them apart is asked about one of them."""

from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from scheduler.snapshot.arrays import Rows

_T = TypeVar("_T", np.int64, np.bool_)


@dataclass(frozen=True, slots=True, eq=False)
class AlikeRows:
    """Rows in groups.

    Args:
        first: One row of each group.
        group: The number of each row's group.
    """

    first: Rows
    group: Rows

    @classmethod
    def of(cls, slots: Rows, size: int) -> "AlikeRows":
        """Group the rows that have the same of *slots*, which are less than *size*."""
        assert size > 0, "no slot for any row"
        first = np.full(size, -1, dtype=np.intp)
        first[slots] = np.arange(len(slots))
        taken = first >= 0
        return cls(first[taken], (np.cumsum(taken) - 1).take(slots))

    @property
    def size_bytes(self) -> int:
        """How much memory they take."""
        return self.first.nbytes + self.group.nbytes

    def expand(self, answers: NDArray[_T]) -> NDArray[_T]:
        """Give each row the answer about its group, of which there is one each."""
        assert len(answers) == len(self.first), f"{len(answers)} for {len(self.first)} groups"
        return answers.take(self.group)
