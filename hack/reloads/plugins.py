"""Out-of-tree plugins, which changed configurations enable and disable again."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from scheduler import Allow, Wait

if TYPE_CHECKING:
    from collections.abc import Sequence

    from scheduler import NodeTable, Pod, Scores


class Dawdle:
    """Holds every third pod for a moment: some are on their way whenever something changes."""

    name = "Dawdle"
    requeue_on = ()

    def __init__(self) -> None:
        self._asked: dict[str, int] = {}

    def permit(self, pod: Pod, _node: str, _waiting: Sequence[Pod]) -> Allow | Wait:
        asked = self._asked[pod.uid] = self._asked.get(pod.uid, 0) + 1
        return Wait(60.0) if hash(pod.uid) % 3 == 0 and asked < 3 else Allow()


class ByName:
    """Prefers nodes by the length of their annotations, which no other plugin reads."""

    name = "ByName"
    needs = frozenset({"node.annotations"})
    requeue_on = ()

    def score(self, _pod: Pod, nodes: NodeTable) -> Scores:
        return np.zeros(len(nodes), dtype=np.int64)
