"""Normalized scores, kept while a few raw ones change or rows become feasible or not."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from scheduler.framework.kept import Kept
from scheduler.framework.profile import Weighted
from scheduler.framework.rejection import NodeMask, Scores
from scheduler.snapshot.alike import AlikeRows
from scheduler.snapshot.arrays import Rows
from scheduler.snapshot.node_table import NodeTable

VALUES_KEPT: Final = 1024
_HIGHER_AT_MOST: Final = 64
"""As many rows above the lowest raw score are normalized alone where the highest has moved."""

_MOVES_MAXIMUM: Final = 4
_TRIED_AGAIN_AFTER: Final = 16
"""Where the lowest or highest raw score moves with every pod, patching is not tried each time."""


@dataclass(frozen=True, slots=True, eq=False)
class FeasibleRows:
    """The rows that are scored.

    Args:
        rows: Their numbers.
        table: A view of them.
        mask: Whether each row of all is one of them.
        turned: The rows that were feasible the last time and are not, or are now; None if these are
            more than a few.
    """

    rows: Rows
    table: NodeTable
    mask: NodeMask
    turned: Sequence[int] | None

    @property
    def same(self) -> bool:
        """Whether the same rows were feasible the last time."""
        return self.turned is not None and not self.turned

    @property
    def everywhere(self) -> bool:
        """Whether all rows are feasible."""
        return len(self.rows) == len(self.mask)

    def were_feasible(self, rows: Sequence[int]) -> list[int]:
        """Return those of *rows* that were feasible the last time."""
        turned = self.turned
        assert turned is not None, "more than a few have changed"
        return [row for row in rows if self.mask.item(row) != (row in turned)]


class _Range:
    """The lowest and the highest of some scores, and at how many rows they are."""

    __slots__ = ("at_highest", "at_lowest", "highest", "lowest")

    def __init__(self, scores: Scores) -> None:
        self.lowest, self.highest = int(scores.min()), int(scores.max())
        self.at_lowest = int(np.count_nonzero(scores == self.lowest))
        self.at_highest = int(np.count_nonzero(scores == self.highest))

    def count(self, score: int, rows: int) -> None:
        """Count *rows* more with *score*, or fewer if it is negative."""
        if score == self.lowest:
            self.at_lowest += rows
        if score == self.highest:
            self.at_highest += rows


class KeptNormal(Kept):
    """The scores of one plugin, normalized and weighted.

    If `normalize` promises to go by the lowest and the highest raw score alone (``by_range``), a
    row that changes or turns feasible changes no other row, unless one of these moves.
    """

    __slots__ = (
        "_bounds",
        "_by_group",
        "_known",
        "_moves",
        "_range",
        "_values",
        "by_range",
        "weight",
    )

    def __init__(self, weighted: Weighted, *, keepable: bool) -> None:
        super().__init__(keepable=keepable, by_row=False)
        self.weight = weighted.weight
        normalize = getattr(weighted.plugin, "normalize", None)
        self.by_range = bool(getattr(normalize, "by_range", False))
        self._values: Scores | None = None
        self._by_group: tuple[AlikeRows, Scores] | None = None
        """The groups of the feasible rows and the value of each, if *values* are made of them."""
        self._range: _Range | None = None
        self._bounds: tuple[int, int] | None = None
        """Of which range the scores are that are known."""
        self._known: dict[int, int] = {}
        """What raw scores become."""
        self._moves = 0
        """How often one after the other the range has moved."""

    @property
    def values(self) -> Scores | None:
        """Over all rows, of which only the feasible count; None without an answer."""
        return self._values

    def give_up(self) -> None:
        """Normalize all anew."""
        super().give_up()
        self._range = None

    def put(self, values: Scores | None, these: FeasibleRows) -> None:
        """Take over the normalized *values* of the feasible rows; None if the plugin has none."""
        self._by_group = None
        if values is None or these.everywhere:
            # A copy: what is normalized may be the raw scores themselves, or the plugin's.
            self._values = None if values is None else values * self.weight
            return
        self._values = np.zeros(len(these.mask), dtype=np.int64)
        self._values[these.rows] = values * self.weight

    def put_groups(self, alike: AlikeRows, values: Scores, these: FeasibleRows) -> bool:
        """Take over the normalized *values* of groups; return whether any is new."""
        # One pod more in a domain of a thousand mostly leaves all percentages as they are.
        before = self._by_group
        if before is not None and before[0] is alike and (before[1] == values).all():
            return False
        if these.everywhere:
            self._values = alike.expand(values * self.weight)
        else:
            self.put(alike.expand(values), these)
        self._by_group = alike, values
        return True

    def measure(self, raw: Scores, these: FeasibleRows) -> bool:
        """Tell whether `patch` may help, before *raw* scores change that were normalized."""
        if not self.by_range or not self.stands or self._values is None:
            return False
        if self._moves >= _MOVES_MAXIMUM:
            self._moves += 1
            if self._moves % _TRIED_AGAIN_AFTER:
                return False
        if self._range is None:
            mask = these.mask
            if these.turned:
                mask = mask.copy()
                mask[list(these.turned)] ^= True
            self._range = _Range(raw if mask.all() else raw[mask])
            bounds = self._range.lowest, self._range.highest
            if bounds != self._bounds:
                self._bounds = bounds
                self._known.clear()
        return True

    def patch(self, left: Sequence[int], entered: Sequence[tuple[int, int]]) -> bool:
        """Replace raw scores that have *left* by others, with the rows that have *entered* them.

        Returns False if all have to be normalized anew.
        """
        found = self._range
        assert found is not None, "not measured"
        assert self._values is not None, "nothing to patch"
        for score in left:
            found.count(score, -1)
        holds = True
        for _, score in entered:
            holds &= found.lowest <= score <= found.highest
            found.count(score, 1)
        if not (holds and found.at_lowest and found.at_highest):
            self._moves += 1
            self._bounds = None
            return False
        assert min(found.at_lowest, found.at_highest) > 0, "more rows left than were there"
        self._moves = 0
        known, self._by_group = self._known, None
        if not all(score in known for _, score in entered):
            return False
        for row, score in entered:
            self._values[row] = known[score]
        return True

    def patch_higher(
        self,
        raw: Scores,
        these: FeasibleRows,
        entered: Sequence[tuple[int, int]],
        normalize: Callable[[Rows], Scores],
    ) -> Rows | None:
        """Let *normalize* look only at rows above the lowest raw score, after `patch` failed.

        While pods draw each other to a node, the highest score moves with each of them, and most
        nodes stay at the lowest. Returns the rows whose values are new; None if these are not few.
        """
        found, values = self._range, self._values
        assert found is not None, "not measured"
        assert values is not None, "nothing to patch"
        if not found.at_lowest or any(score < found.lowest for _, score in entered):
            return None
        if len(these.rows) - found.at_lowest > _HIGHER_AT_MOST:
            return None
        higher = raw != found.lowest
        lowest = ~higher
        if not these.everywhere:
            higher &= these.mask
            lowest &= these.mask
        arrived = [row for row, score in entered if score == found.lowest]
        lowest[arrived] = False
        stayed = int(lowest.argmax())
        if not lowest[stayed]:
            return None
        rows = np.append(higher.nonzero()[0], stayed)
        new = normalize(rows) * self.weight
        if new[-1] != values[stayed]:
            return None
        changed = rows[new != values[rows]]
        values[rows], values[arrived] = new, new[-1]
        scores = raw[rows]
        found.highest = int(scores.max())
        found.at_highest = int(np.count_nonzero(scores == found.highest))
        if found.highest == found.lowest:  # of those rows only one was looked at
            found.at_highest = found.at_lowest
        bounds = found.lowest, found.highest
        if bounds != self._bounds:
            self._bounds = bounds
            self._known.clear()
        self.learn([(row, raw.item(row)) for row in rows.tolist()])
        self._moves, self._by_group = 0, None
        return np.append(changed, np.array(arrived, dtype=np.intp))

    def learn(self, entered: Sequence[tuple[int, int]]) -> None:
        """Remember what the scores of rows were normalized to."""
        if self._values is None or len(self._known) > VALUES_KEPT:
            self._known.clear()
            return
        for row, score in entered:
            self._known[score] = self._values.item(row)


class Patch:
    """What becomes of normalized scores where a few raw ones change.

    Args:
        normal: The normalized scores.
        these: The rows that are feasible now.
        rows: Where raw scores change, and those that turn feasible or no longer are.
        raw: The raw scores before they change.
    """

    __slots__ = ("_left", "_normal", "_rows", "_these", "tried")

    def __init__(
        self, normal: KeptNormal, these: FeasibleRows, rows: Sequence[int], raw: Scores
    ) -> None:
        self._normal, self._these, self._rows = normal, these, rows
        self._left = [raw.item(row) for row in these.were_feasible(rows)]
        self.tried = False

    @property
    def rows(self) -> Rows:
        """Rows among which are all whose scores are new."""
        return np.array(self._rows, dtype=np.intp)

    def apply(self, raw: Scores) -> bool:
        """Patch the scores for the *raw* ones of now; False if all have to be normalized anew."""
        self.tried = True
        return self._normal.patch(self._left, self._entered(raw))

    def apply_to_higher(self, raw: Scores, normalize: Callable[[Rows], Scores]) -> Rows | None:
        """Let *normalize* look at a few rows, if not all scores have to be normalized anew."""
        found = self._normal.patch_higher(raw, self._these, self._entered(raw), normalize)
        return None if found is None else np.append(found, self.rows)

    def learn(self, raw: Scores) -> None:
        """Remember what the scores of these rows were normalized to, now that all were."""
        self._normal.learn(self._entered(raw))

    def _entered(self, raw: Scores) -> list[tuple[int, int]]:
        mask = self._these.mask
        return [(row, raw.item(row)) for row in self._rows if mask.item(row)]
