"""Which taints the nodes have: a number for each list of taints."""

import numpy as np

from scheduler.model.taints import Taint
from scheduler.snapshot.change_log import ChangeLog


class TaintSets:
    """The distinct taint lists of all nodes, by number.

    Thousands of nodes share a handful of lists, so tolerations are compared with each list once.
    """

    def __init__(self) -> None:
        self.ids = np.zeros(0, dtype=np.int32)
        self.sets: list[tuple[Taint, ...]] = []
        self.changes = ChangeLog()
        self._numbers: dict[tuple[Taint, ...], int] = {}
        # How many rows have each list; a number that no row has is used again.
        self._rows: list[int] = []
        self._free: list[int] = []

    def set(self, row: int, taints: tuple[Taint, ...]) -> None:
        """Set the taints of *row*, which has none yet."""
        if row >= len(self.ids):
            self.ids = np.concatenate([self.ids, np.zeros(row + 1, dtype=np.int32)])
        number = self._numbers.get(taints)
        if number is None:
            number = self._numbers[taints] = self._number_of(taints)
        self._rows[number] += 1
        self.ids[row] = number
        self.changes.note(row)

    def remove(self, row: int) -> None:
        """Forget the taints of *row*, and their list if no other row has it."""
        # At once: a list may be a megabyte, and most that are forgotten never come back.
        number = int(self.ids[row])
        self._rows[number] -= 1
        assert self._rows[number] >= 0, f"row {row} has no taints to forget"
        if not self._rows[number]:
            del self._numbers[self.sets[number]]
            self.sets[number] = ()
            self._free.append(number)

    def move(self, source: int, target: int) -> None:
        """Move the taints of row *source* to row *target*, whose own were removed."""
        self.ids[target] = self.ids[source]

    def _number_of(self, taints: tuple[Taint, ...]) -> int:
        if self._free:
            number = self._free.pop()
            self.sets[number] = taints
            return number
        self.sets.append(taints)
        self._rows.append(0)
        return len(self.sets) - 1
