"""Node labels in columns: for each key that is read, one array with a number for each value.

A selector is then evaluated once for each distinct value and not once for each node. Columns and
results are kept up to a number of bytes: users can make up any number of requirements. What they
make up matches no node, and costs neither a pass over the nodes nor memory: the keys that nodes
have are known.
"""

from collections import Counter, OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
from numpy.typing import NDArray

from scheduler.model.node import Node
from scheduler.model.selectors import DOES_NOT_EXIST, IN, NOT_IN, Requirement
from scheduler.snapshot.arrays import Ids, read_only
from scheduler.snapshot.change_log import ChangeLog

ABSENT: Final = -1
_COLUMN_BYTES_KEPT: Final = 64 << 20
_MASK_BYTES_KEPT: Final = 16 << 20
_FEW_ROWS: Final = 64
_BYTES_A_VALUE: Final = 128
"""What a value takes in a dictionary or set, about."""


@dataclass(slots=True)
class LabelColumn:
    """The values of one label key: one number a row, ABSENT where the node lacks the key."""

    ids: Ids
    numbers: dict[str, int] = field(default_factory=dict)
    few_rows: dict[int, tuple[int, ...] | None] = field(default_factory=dict)

    @property
    def values(self) -> int:
        """How many numbers were assigned, including those of values that no node has any more."""
        return len(self.numbers)

    @property
    def size_bytes(self) -> int:
        """About how much memory the column takes."""
        return self.ids.nbytes + _BYTES_A_VALUE * self.values

    def number(self, value: str | None) -> int:
        """Return the number of *value*, and assign one if it is new."""
        return ABSENT if value is None else self.numbers.setdefault(value, len(self.numbers))


class LabelIndex:
    """Columns over the labels of the rows' nodes, built when first read."""

    def __init__(self, nodes: Sequence[Node]) -> None:
        self._nodes = nodes
        # The labels that each row counts with in `_nodes_with`; nodes may have changed since.
        self._counted: list[Mapping[str, str]] = []
        self._nodes_with: Counter[str] = Counter()
        self._columns: OrderedDict[str, LabelColumn] = OrderedDict()
        self._masks: OrderedDict[Requirement, NDArray[np.bool_]] = OrderedDict()
        self.changes = ChangeLog()
        self._masks_bytes = 0
        self._nowhere = LabelColumn(np.full(0, ABSENT, np.int32))
        self._none = self._all = np.zeros(0, dtype=np.bool_)
        for row, node in enumerate(nodes):
            self._count(row, node.metadata.labels)

    def has(self, key: str) -> bool:
        """Tell whether any node has a label *key*."""
        return key in self._nodes_with

    def column(self, key: str) -> LabelColumn:
        """Return the column of *key*; its ids are at least as long as there are rows."""
        if key not in self._nodes_with:
            if len(self._nowhere.ids) < len(self._nodes):
                self._nowhere.ids = np.full(2 * len(self._nodes), ABSENT, np.int32)
            return self._nowhere
        column = self._columns.get(key)
        if column is None:
            column = self._columns[key] = self._build(key)
            size_bytes = sum(each.size_bytes for each in self._columns.values())
            while size_bytes > _COLUMN_BYTES_KEPT and len(self._columns) > 1:
                size_bytes -= self._columns.popitem(last=False)[1].size_bytes
        else:
            self._columns.move_to_end(key)
        return column

    def few_rows(self, column: LabelColumn, number: int) -> tuple[int, ...] | None:
        """Return the rows with the value of that *number*; None if they are more than a few."""
        if number not in column.few_rows:
            rows = (column.ids[: len(self._nodes)] == number).nonzero()[0]
            few = tuple(rows.tolist()) if len(rows) <= _FEW_ROWS else None
            column.few_rows[number] = few
        return column.few_rows[number]

    def where(self, requirement: Requirement, rows: int) -> NDArray[np.bool_]:
        """Return which of *rows* rows satisfy *requirement*, read-only."""
        mask = self._masks.get(requirement)
        if mask is None:
            if len(self._none) != rows:
                self._none, self._all = read_only(np.arange(2 * rows) >= rows).reshape(2, rows)
            known = self._known(requirement)
            if known is not None:
                return known
            mask = self._masks[requirement] = self._evaluate(requirement, rows)
            mask.flags.writeable = False
            self._masks_bytes += _mask_bytes(requirement, mask)
            while self._masks_bytes > _MASK_BYTES_KEPT and len(self._masks) > 1:
                self._masks_bytes -= _mask_bytes(*self._masks.popitem(last=False))
        else:
            self._masks.move_to_end(requirement)
        return mask

    def set(self, row: int, node: Node) -> None:
        """Set the labels of *row* to those of *node*."""
        self.changes.note(row)
        self._forget_few_rows()
        # Node labels change rarely, so all masks are dropped, affected or not.
        self._forget_masks()
        self._count(row, node.metadata.labels)
        overfull = []
        for key, column in self._columns.items():
            if row >= len(column.ids):
                column.ids = np.concatenate([column.ids, np.full(row + 1, ABSENT, np.int32)])
            column.ids[row] = column.number(node.metadata.labels.get(key))
            if column.values > 2 * len(self._nodes) + 64 or key not in self._nodes_with:
                overfull.append(key)
        # Most values belong to deleted nodes: hostnames of a cluster that scales up and down.
        for key in overfull:
            del self._columns[key]

    def truncate(self) -> None:
        """Drop the results that cover the last row, which was removed."""
        self.changes.note_all()
        self._forget_few_rows()
        self._forget_masks()
        self._uncount(self._counted.pop())

    def _count(self, row: int, labels: Mapping[str, str]) -> None:
        """Count the keys of *labels*, which replace those of *row*."""
        if row == len(self._counted):
            self._counted.append(labels)
        else:
            old, self._counted[row] = self._counted[row], labels
            self._uncount(old)
        for key in labels:
            self._nodes_with[key] += 1

    def _uncount(self, labels: Mapping[str, str]) -> None:
        for key in labels:
            self._nodes_with[key] -= 1
            if not self._nodes_with[key]:
                del self._nodes_with[key]

    def _forget_few_rows(self) -> None:
        for column in self._columns.values():
            column.few_rows.clear()

    def _forget_masks(self) -> None:
        self._masks.clear()
        self._masks_bytes = 0

    def _known(self, requirement: Requirement) -> NDArray[np.bool_] | None:
        """Return the result for all rows if it follows from the keys and values that nodes have."""
        operator = requirement.operator
        if requirement.key not in self._nodes_with:
            return self._all if operator in {NOT_IN, DOES_NOT_EXIST} else self._none
        if operator in {IN, NOT_IN}:
            numbers = self.column(requirement.key).numbers
            if numbers.keys().isdisjoint(requirement.values):
                return self._all if operator == NOT_IN else self._none
        return None

    def _build(self, key: str) -> LabelColumn:
        values = [node.metadata.labels.get(key) for node in self._nodes]
        column = LabelColumn(np.full(len(values), ABSENT, dtype=np.int32))
        if values.count(None) < len(values):
            column.ids[:] = [column.number(value) for value in values]
        return column

    def _evaluate(self, requirement: Requirement, rows: int) -> NDArray[np.bool_]:
        """Evaluate *requirement* once for each distinct value, then look up each row's result."""
        column = self.column(requirement.key)
        ids = column.ids[:rows]
        match requirement.operator:
            case "Exists":
                return np.not_equal(ids, ABSENT)
            case "DoesNotExist":
                return np.equal(ids, ABSENT)
            case "In" | "NotIn":
                wanted = [column.numbers[v] for v in requirement.values if v in column.numbers]
                if len(wanted) == 1:
                    found = np.equal(ids, wanted[0])
                else:
                    accepted = np.zeros(column.values + 1, dtype=np.bool_)
                    accepted[wanted] = True
                    found = accepted[ids]  # ABSENT is the last element
                return ~found if requirement.operator == NOT_IN else found
            case _:
                answers = [requirement.accepts(value) for value in column.numbers]
                return np.array([*answers, requirement.accepts(None)], dtype=np.bool_)[ids]


def _mask_bytes(requirement: Requirement, mask: NDArray[np.bool_]) -> int:
    return mask.nbytes + _BYTES_A_VALUE * (1 + len(requirement.values))
