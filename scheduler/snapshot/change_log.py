"""Which rows of a column have changed since when.

An answer of a plugin stands for as long as the columns that the plugin read stand. Each thing that
can be read has a log; a reader keeps the log's position, and later asks which rows have changed
since. Upstream has no such thing: it asks every plugin about every node for every pod.
"""

from array import array
from collections.abc import Callable
from typing import Final

_ROWS_KEPT: Final = 1024
"""A reader that is further behind asks about every row, which then costs about the same."""


class ChangeLog:
    """The rows of one column that have changed, in the order of the changes.

    Args:
        value_in: Returns the value in a row, where the column has numbers; otherwise None.
    """

    __slots__ = ("_first", "_rows", "position", "value_in")

    def __init__(self, value_in: Callable[[int], int] | None = None) -> None:
        self.value_in = value_in
        self.position = 0
        """How many changes there were."""
        self._rows = array("i")
        self._first = 0

    def note(self, row: int) -> None:
        """Note that *row* has changed."""
        self.position += 1
        rows = self._rows
        rows.append(row)
        if len(rows) > 2 * _ROWS_KEPT:
            del rows[:_ROWS_KEPT]
            self._first += _ROWS_KEPT

    def note_all(self) -> None:
        """Note that every row may have changed."""
        self.position += 1
        del self._rows[:]
        self._first = self.position

    def since(self, position: int) -> "array[int] | None":
        """Return the rows that have changed after *position*; None if any may have."""
        assert position <= self.position, f"{position} is ahead of the log at {self.position}"
        if position < self._first:
            return None
        return self._rows[position - self._first :]


Reads = dict[ChangeLog, int]
"""The log of everything that was read while an answer was computed, and its position then."""
