"""Why a pod fits nowhere: for the event, for the queue, and in full for whoever asks.

The texts are upstream's, to the letter: people and tools read them
(``pkg/scheduler/framework/types.go``, FitError).
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from scheduler.errors import PluginError
from scheduler.framework.rejection import Failure, NodeMask


@dataclass(frozen=True, slots=True, eq=False)
class Verdict:
    """One plugin's reason, and the nodes it was the first plugin to refuse."""

    plugin: str
    reason: str
    nodes: NodeMask
    resolvable: NodeMask

    def among(self, rows: NDArray[np.intp], size: int) -> "Verdict":
        """Carry a verdict about some *rows* over to the table of *size* they were taken from."""
        nodes, resolvable = np.zeros((2, size), dtype=np.bool_)
        nodes[rows], resolvable[rows] = self.nodes, self.resolvable
        return Verdict(self.plugin, self.reason, nodes, resolvable)


@dataclass(frozen=True, slots=True, eq=False)
class Filtered:
    """What the filters said about every row of a table.

    Args:
        feasible: Rows that can take the pod.
        verdicts: What stands against the others, in the order of the plugins.
        failures: Rows that nobody refused and some plugin could not judge, with its name.
    """

    feasible: NodeMask
    verdicts: tuple[Verdict, ...]
    failures: tuple[tuple[str, Failure], ...] = ()

    def raise_failure(self) -> None:
        """Raise PluginError if some row could not be judged: the attempt ends there."""
        for plugin, failure in self.failures:
            raise PluginError(plugin, f"failed in Filter: {failure.text}")


@dataclass(frozen=True, slots=True, eq=False)
class Diagnosis:
    """What every plugin said about every node it refused.

    Args:
        names: The name of every row, for those who ask about single nodes.
        verdicts: In the order of the plugins.
        pre_filter: The text that stands instead of a list of nodes; empty where every node was
            judged.
        absent: The reason of the rows that no verdict covers; empty where they have none.
        post_filter: What the post-filter plugins add.
        rejected_by: The plugins whose hints may wake the pod.
        unasked: Pre-filter plugins that were not asked, since an earlier one refused every node.
        pending: Those of them that want it back without a backoff.
        nodes: How many nodes the message counts.
        preemption_may_help: Rows where evicting pods could help.
    """

    names: Sequence[str] = ()
    verdicts: tuple[Verdict, ...] = ()
    pre_filter: str = ""
    absent: str = ""
    post_filter: str = ""
    rejected_by: frozenset[str] = frozenset()
    unasked: frozenset[str] = frozenset()
    pending: frozenset[str] = frozenset()
    nodes: int = 0
    preemption_may_help: NodeMask = field(default_factory=lambda: np.zeros(0, dtype=np.bool_))

    @property
    def message(self) -> str:
        """The one-line summary, as in ``0/5 nodes are available: 5 Insufficient cpu``."""
        text = f"0/{self.nodes} nodes are available:"
        if self.pre_filter:
            text += f" {self.pre_filter}."
        elif entries := sorted(f"{count} {reason}" for reason, count in self._counts().items()):
            text += f" {', '.join(entries)}."
        if self.post_filter:
            text += f" {self.post_filter}"
        return text

    def with_post_filter(self, message: str) -> "Diagnosis":
        """Return this diagnosis with what post-filter plugins said."""
        return replace(self, post_filter=message)

    def _counts(self) -> Mapping[str, int]:
        counts: Counter[str] = Counter()
        covered = np.zeros(len(self.names), dtype=np.bool_)
        for verdict in self.verdicts:
            covered |= verdict.nodes
            if verdict.reason:
                counts[verdict.reason] += int(verdict.nodes.sum())
        if self.absent:
            counts[self.absent] += self.nodes - int(covered.sum())
        return +counts


def single(plugin: str, reason: str) -> Diagnosis:
    """Return the diagnosis of a pod that *plugin* turned away from its one chosen node."""
    yes = np.ones(1, dtype=np.bool_)
    return Diagnosis(
        names=("",),
        verdicts=(Verdict(plugin, reason, yes, yes),),
        rejected_by=frozenset((plugin,)),
        nodes=1,
        preemption_may_help=np.zeros(1, dtype=np.bool_),
    )
