"""State machines as tables: which state may follow which, and by what cause.

A module that keeps states declares one table. Every change of a state goes through ``move`` of that
table, which asserts that the table has it. docs/architecture.md shows the same tables: a test draws
them from the code.
"""

from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Generic, TypeVar

S = TypeVar("S", bound=StrEnum)
C = TypeVar("C", bound=StrEnum)
New = TypeVar("New", bound=StrEnum | None)

ABSENT = "(absent)"
"""How tables show the state None: there is nothing that could be in a state."""


class Row(Generic[S, C]):
    """Which states may follow one state, or several, for one cause.

    Args:
        old: The state before; None where nothing is kept yet. A tuple where several states change
            alike.
        cause: What happens.
        new: The states that may follow; None where nothing is kept any more.
        note: What the table's reader should know besides.
    """

    __slots__ = ("cause", "new", "note", "old")

    def __init__(
        self, old: S | tuple[S | None, ...] | None, cause: C, *new: S | None, note: str = ""
    ) -> None:
        assert new, f"{cause} leads nowhere"
        self.old = old if isinstance(old, tuple) else (old,)
        self.cause, self.new, self.note = cause, new, note


class Transitions(Generic[S, C]):
    """The transition table of one state machine: a transition that is not in it is a bug."""

    def __init__(self, *rows: Row[S, C]) -> None:
        self.rows = rows
        self._allowed: dict[tuple[S | None, C], frozenset[S | None]] = {}
        for row in rows:
            for old in row.old:
                # A second row would contradict the first or repeat it.
                assert (old, row.cause) not in self._allowed, f"two rows for {old}, {row.cause}"
                self._allowed[old, row.cause] = frozenset(row.new)

    @property
    def allowed(self) -> Mapping[tuple[S | None, C], frozenset[S | None]]:
        """The states that may follow, by state and cause."""
        return self._allowed

    def move(self, old: S | None, cause: C, new: New, subject: object = "") -> New:
        """Assert that *cause* may turn *old* into *new*, and return *new*.

        *subject* is what changes its state; its text is made only for the message of a failure.
        """
        assert new in self._allowed.get((old, cause), ()), (
            f"{cause} must not turn {old or ABSENT} into {new or ABSENT}: {subject}"
        )
        return new

    def draw(self) -> str:
        """Return the table in Markdown, as docs/architecture.md shows it."""
        heads = ["state", "cause", "becomes"]
        lines = [[_names(row.old), row.cause.value, _names(row.new)] for row in self.rows]
        if any(row.note for row in self.rows):
            heads.append("note")
            lines = [[*cells, row.note] for cells, row in zip(lines, self.rows, strict=True)]
        ruler = "|" + "---|" * len(heads)
        return "\n".join([_line(heads), ruler, *(_line(cells) for cells in lines)]) + "\n"


def _names(states: Iterable[StrEnum | None]) -> str:
    return ", ".join(ABSENT if state is None else state.value for state in states)


def _line(cells: Iterable[str]) -> str:
    return "| " + " | ".join(cells).rstrip() + " |"
