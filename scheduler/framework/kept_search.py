"""What a search for victims found out about each row, kept for further pods of its template."""

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from typing import Final

from scheduler.framework.kept import Kept
from scheduler.snapshot.change_log import Reads
from scheduler.snapshot.node_table import NodeTable

_NUMBERS: Final = count()
_ROW_BYTES: Final = 500
"""About what one row takes: its reasons, or its candidate beside the victims, which are shared."""


class SearchMemory:
    """What a search found out about rows, without those that have changed since.

    A search may write what follows from the pod's template, the row, and the filters that it runs
    on what-if tables that change this row. Candidates are kept beside the pods they consist of
    (`PotentialVictims.found`): here they would keep pods that are gone.
    """

    __slots__ = ("number", "reasons")

    def __init__(self) -> None:
        self.number = next(_NUMBERS)
        """Under which the candidates of this memory are kept."""
        self.reasons: dict[int, tuple[str, ...]] = {}
        """By row, why it is no candidate; empty for a candidate."""

    def forget(self, row: int) -> None:
        """Forget what was found out about *row*."""
        self.reasons.pop(row, None)


class KeptSearch(Kept):
    """The memory of one post-filter plugin, for as long as it stands."""

    __slots__ = ("memory", "reads")

    def __init__(self) -> None:
        super().__init__(keepable=False, by_row=False)
        self.memory = SearchMemory()
        self.reads = Reads()
        """What the search under way has read."""

    @property
    def size_bytes(self) -> int:
        """How much memory the rows take, about."""
        return _ROW_BYTES * len(self.memory.reasons)

    def give_up(self) -> None:
        """Forget everything."""
        super().give_up()
        self.memory = SearchMemory()

    def begin(self) -> SearchMemory:
        """Return the memory for a search, without the rows that have changed.

        What the search finds out stands only once it is settled.
        """
        if self.stands:
            for row in self.stale_rows:
                self.memory.forget(row)
        else:
            self.give_up()
        self.stands = False
        self.reads = Reads()
        return self.memory

    @contextmanager
    def step(self, nodes: NodeTable) -> Iterator[None]:
        """Record what is read in the block; other code runs between two steps of a search."""
        with nodes.recording() as reads:
            yield
        self.reads.update(reads)
