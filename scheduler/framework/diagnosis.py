"""Why a pod fits on no node: for the event, for the queue, and for `explain`.

The texts are upstream's, to the letter: people and tools read them
(``pkg/scheduler/framework/types.go``, FitError).
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from scheduler.errors import PluginError
from scheduler.framework.rejection import Failure, NodeMask
from scheduler.snapshot.arrays import Rows


@dataclass(frozen=True, slots=True, eq=False)
class Verdict:
    """One plugin's reason, and the rows that this plugin was the first to reject."""

    plugin: str
    reason: str
    nodes: NodeMask
    resolvable: NodeMask

    def among(self, rows: Rows, size: int) -> "Verdict":
        """Return this verdict for the table of *size* from which its *rows* were selected."""
        assert len(rows) == len(self.nodes)
        nodes, resolvable = np.zeros((2, size), dtype=np.bool_)
        nodes[rows], resolvable[rows] = self.nodes, self.resolvable
        return Verdict(self.plugin, self.reason, nodes, resolvable)


@dataclass(frozen=True, eq=False)
class Filtered:
    """What the filters answered about every row of a table.

    Args:
        feasible: Rows that can take the pod.
        verdicts: Why the others cannot, in the order of the plugins.
        failures: Rows that a plugin could not judge and no plugin rejected, with its name.
    """

    feasible: NodeMask
    verdicts: tuple[Verdict, ...]
    failures: tuple[tuple[str, Failure], ...] = ()

    @cached_property
    def rows(self) -> Rows:
        """The numbers of the feasible rows."""
        return self.feasible.nonzero()[0]

    def raise_failure(self) -> None:
        """Raise PluginError if some row could not be judged: the attempt ends there."""
        for plugin, failure in self.failures:
            raise PluginError(plugin, f"failed in Filter: {failure.text}")


@dataclass(frozen=True, slots=True, eq=False)
class Diagnosis:
    """Which plugin rejected which node, and why.

    Args:
        names: The name of every row.
        verdicts: In the order of the plugins.
        pre_filter: The reason of a pre-filter plugin, which replaces the count by node; empty where
            nodes were filtered.
        absent: The reason of the rows without a verdict; empty where they have none.
        post_filter: What the post-filter plugins add.
        rejected_by: The plugins that rejected the pod: their hints decide which events wake it.
        unasked: Pre-filter plugins that were not called, since an earlier one refused every node.
        pending: Plugins whose events retry the pod without a backoff (upstream: PendingPlugins).
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
        """Return this diagnosis with the *message* of post-filter plugins."""
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
        return +counts  # without the reasons that concern no node


def single(plugin: str, reason: str) -> Diagnosis:
    """Return the diagnosis of a pod that *plugin* rejected at reserve or permit."""
    yes = np.ones(1, dtype=np.bool_)
    return Diagnosis(
        names=("",),
        verdicts=(Verdict(plugin, reason, yes, yes),),
        rejected_by=frozenset((plugin,)),
        nodes=1,
        preemption_may_help=np.zeros(1, dtype=np.bool_),
    )
