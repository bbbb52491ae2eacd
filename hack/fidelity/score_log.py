"""What kube-scheduler scored, read from its log.

At level 10 it logs, before it chooses a node, every plugin's weighted score and their sum for every
node that is left (``pkg/scheduler/schedule_one.go``, prioritizeNodes).
"""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pathlib import Path

_SCORED: Final = re.compile(
    r'"Plugin scored node for pod" pod="([^"]+)" plugin="([^"]+)" node="([^"]+)" score=(-?\d+)'
)
_TOTAL: Final = re.compile(
    r'"Calculated node\'s final score for pod" pod="([^"]+)" node="([^"]+)" score=(-?\d+)'
)


@dataclass
class Scores:
    """What was logged about one pod.

    Args:
        weighted: By plugin, by node.
        totals: By node.
    """

    weighted: defaultdict[str, dict[str, int]] = field(default_factory=lambda: defaultdict(dict))
    totals: dict[str, int] = field(default_factory=dict)


class ScoreLog:
    """The log of a kube-scheduler, read on where the last reading ended."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._read = 0
        self._pods: defaultdict[str, Scores] = defaultdict(Scores)

    def of(self, namespace: str, name: str) -> Scores:
        """Return what has been logged about a pod so far, and forget it."""
        self._read_on()
        return self._pods.pop(f"{namespace}/{name}", Scores())

    def _read_on(self) -> None:
        with self._path.open("rb") as log:
            log.seek(self._read)
            whole, _, _ = log.read().rpartition(b"\n")
        if not whole:
            return
        self._read += len(whole) + 1
        for line in whole.decode().split("\n"):
            if found := _SCORED.search(line):
                pod, plugin, node, score = found.groups()
                self._pods[pod].weighted[plugin][node] = int(score)
            elif found := _TOTAL.search(line):
                pod, node, score = found.groups()
                self._pods[pod].totals[node] = int(score)
