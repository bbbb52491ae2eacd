"""How raw scores become 0 to 100.

A plugin sets one of these as its ``normalize`` attribute, or has a method of the same signature.
The integer arithmetic is upstream's (``plugins/helper/normalize_score.go``), so that scores are the
same numbers.

``by_range`` promises that what a score becomes follows from it, the lowest and the highest alone:
it then stands while these do (`scheduler.framework.kept_normal`).
"""

from dataclasses import dataclass
from typing import ClassVar, Final

import numpy as np

from scheduler.framework.rejection import MAX_NODE_SCORE, Scores
from scheduler.model.pod import Pod
from scheduler.snapshot.node_table import NodeTable


@dataclass(frozen=True, slots=True)
class Proportional:
    """Scale so that the largest becomes 100; with *reverse*, 100 becomes 0 and 0 becomes 100."""

    reverse: bool = False
    by_range: ClassVar[bool] = True

    def __call__(self, scores: Scores, pod: Pod, nodes: NodeTable) -> Scores:  # noqa: ARG002
        """Return *scores* scaled; all of them zero stay zero, or become 100 in reverse."""
        largest = int(scores.max(initial=0))
        if largest:
            scores = MAX_NODE_SCORE * scores // largest
        return MAX_NODE_SCORE - scores if self.reverse else scores


@dataclass(frozen=True, slots=True)
class MinMax:
    """Stretch so that the smallest becomes 0 and the largest 100.

    Args:
        multiply_last: Divide first, in floating point: 29 of 100 become 28.
    """

    multiply_last: bool = False
    by_range: ClassVar[bool] = True

    def __call__(self, scores: Scores, pod: Pod, nodes: NodeTable) -> Scores:  # noqa: ARG002
        """Return *scores* stretched; where all are equal they become 0."""
        if not len(scores):
            return scores
        smallest, largest = int(scores.min()), int(scores.max())
        if smallest == largest:
            return np.zeros_like(scores)
        if self.multiply_last:
            shares = (scores - smallest) / (largest - smallest)
            truncated: Scores = (MAX_NODE_SCORE * shares).astype(np.int64)
            return truncated
        return MAX_NODE_SCORE * (scores - smallest) // (largest - smallest)


PROPORTIONAL: Final = Proportional()
REVERSED: Final = Proportional(reverse=True)
MIN_MAX: Final = MinMax()
MIN_MAX_MULTIPLIED_LAST: Final = MinMax(multiply_last=True)
