"""Node labels in columns: for each key that is read, one array with a number for each value.

A selector is then evaluated once for each distinct value and not once for each node. Columns and
results are kept for a bounded number of keys and requirements: users can make up any number.
"""

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
from numpy.typing import NDArray

from scheduler.model.node import Node
from scheduler.model.selectors import NOT_IN, Requirement
from scheduler.snapshot.arrays import Ids
from scheduler.snapshot.change_log import ChangeLog

ABSENT: Final = -1
_KEYS_KEPT: Final = 256
_MASKS_KEPT: Final = 1024


@dataclass(slots=True)
class LabelColumn:
    """The values of one label key: one number a row, ABSENT where the node lacks the key."""

    ids: Ids
    numbers: dict[str, int] = field(default_factory=dict)

    @property
    def values(self) -> int:
        """How many numbers were assigned, including those of values that no node has any more."""
        return len(self.numbers)

    def number(self, value: str | None) -> int:
        """Return the number of *value*, and assign one if it is new."""
        return ABSENT if value is None else self.numbers.setdefault(value, len(self.numbers))


class LabelIndex:
    """Columns over the labels of the rows' nodes, built when first read."""

    def __init__(self, nodes: Sequence[Node]) -> None:
        self._nodes = nodes
        self._columns: OrderedDict[str, LabelColumn] = OrderedDict()
        self._masks: OrderedDict[Requirement, NDArray[np.bool_]] = OrderedDict()
        self.changes = ChangeLog()

    def column(self, key: str) -> LabelColumn:
        """Return the column of *key*; its ids are at least as long as there are rows."""
        column = self._columns.get(key)
        if column is None:
            column = self._columns[key] = self._build(key)
            if len(self._columns) > _KEYS_KEPT:
                self._columns.popitem(last=False)
        else:
            self._columns.move_to_end(key)
        return column

    def where(self, requirement: Requirement, rows: int) -> NDArray[np.bool_]:
        """Return which of *rows* rows satisfy *requirement*, read-only."""
        mask = self._masks.get(requirement)
        if mask is None:
            mask = self._masks[requirement] = self._evaluate(requirement, rows)
            mask.flags.writeable = False
            if len(self._masks) > _MASKS_KEPT:
                self._masks.popitem(last=False)
        else:
            self._masks.move_to_end(requirement)
        return mask

    def set(self, row: int, node: Node) -> None:
        """Set the labels of *row* to those of *node*."""
        self.changes.note(row)
        # Node labels change rarely, so all masks are dropped, affected or not.
        self._masks.clear()
        overfull = []
        for key, column in self._columns.items():
            if row >= len(column.ids):
                column.ids = np.concatenate([column.ids, np.full(row + 1, ABSENT, np.int32)])
            column.ids[row] = column.number(node.metadata.labels.get(key))
            if column.values > 2 * len(self._nodes) + 64:
                overfull.append(key)
        # Most values belong to deleted nodes: hostnames of a cluster that scales up and down.
        for key in overfull:
            del self._columns[key]

    def truncate(self) -> None:
        """Drop the results that cover a removed row."""
        self.changes.note_all()
        self._masks.clear()

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
                    found = np.isin(ids, np.array(wanted, dtype=np.int32))
                return ~found if requirement.operator == NOT_IN else found
            case _:
                answers = [requirement.accepts(value) for value in column.numbers]
                return np.array([*answers, requirement.accepts(None)], dtype=np.bool_)[ids]
