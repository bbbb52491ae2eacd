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
        by_domain: Whether it tells in which rows the number of their domain has changed, though
            the pods that are counted may be on other nodes.
        catch_up: Notes what has changed, where that is not noted at once.
    """

    __slots__ = ("_first", "_rows", "abandoned", "by_domain", "catch_up", "position", "value_in")

    def __init__(
        self,
        value_in: Callable[[int], int] | None = None,
        *,
        by_domain: bool = False,
        catch_up: Callable[[], None] | None = None,
    ) -> None:
        self.value_in = value_in
        self.by_domain = by_domain
        self.catch_up = catch_up
        self.abandoned = False
        """Whether nothing is noted any more: there is another column for the same."""
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

    def abandon(self) -> None:
        """Note that readers have to read anew, and nothing more after that."""
        self.note_all()
        self.abandoned = True
        # Both lead back to the column, which would otherwise wait for a full garbage collection:
        # arrays over all nodes do not count for when that comes.
        self.value_in = self.catch_up = None

    def since(self, position: int) -> "array[int] | None":
        """Return the rows that have changed after *position*; None if any may have."""
        assert position <= self.position, f"{position} is ahead of the log at {self.position}"
        if position < self._first:
            return None
        return self._rows[position - self._first :]


class Reads(dict[ChangeLog, int]):
    """The log of everything that was read while an answer was computed, and its position then."""

    __slots__ = ("keys_of_rows", "more_of_rows", "numbers_only")

    def __init__(self) -> None:
        super().__init__()
        self.keys_of_rows: set[str] = set()
        """The keys of the labels that were read of the rows that were asked about."""
        self.more_of_rows = False
        """Whether anything else was read of them that differs from row to row."""
        self.numbers_only = True
        """Whether of those labels nothing was read but how many pods are in their domains."""
