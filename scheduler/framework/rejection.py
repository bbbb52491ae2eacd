"""The answers of plugins, as values.

Each type that rejects belongs to one stage:

============  =================  ====================================================
pre_enqueue   ``Gate``           the pod must not enter the queue yet
pre_filter    ``Refused``        no node can take the pod
filter        ``Rejection``      these nodes cannot take the pod
either        ``Failure``        these nodes could not be judged: an error, not a no
post_filter   ``Refusal``        no preemption would help
reserve       ``Reject``         the chosen node cannot take the pod after all
permit        ``Reject``         the pod must not be bound
============  =================  ====================================================

The names are part of the plugin contract.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np
from numpy.typing import NDArray

from scheduler.model.pod import LATER_THAN_ANY, Pod

NodeMask = NDArray[np.bool_]
"""One truth value a row."""

Scores = NDArray[np.int64]
"""One score a row."""

MAX_NODE_SCORE: Final = 100

_OFFSET: Final = 2**31
"""Makes every priority positive, so that each further victim adds to the sum.

Upstream adds it too: priorities may be negative, and a node with many such victims would otherwise
seem better than one with few of them.
"""


@dataclass(frozen=True, slots=True, eq=False)
class Rejection:
    """Filter: these nodes cannot take the pod, for this reason.

    Args:
        nodes: One truth value a row.
        reason: Counted over the nodes and shown to people; never empty.
        resolvable: Where evicting lower-priority pods could help; one value for all rows, or one a
            row.
    """

    nodes: NodeMask
    reason: str
    resolvable: NodeMask | bool = True


@dataclass(frozen=True, slots=True, eq=False)
class Failure:
    """Pre-filter, filter or reserve: the plugin could not judge the pod or these nodes.

    In filter it is ignored for nodes that some plugin rejects: their verdict does not depend on it.
    Elsewhere the attempt ends in an error, as upstream's status Error.
    """

    nodes: NodeMask
    text: str


@dataclass(frozen=True, slots=True)
class Skip:
    """Pre-filter: the plugin's filter is not needed for this pod."""


@dataclass(frozen=True, slots=True)
class Only:
    """Pre-filter: no nodes but these can take the pod; names that do not exist are ignored."""

    names: frozenset[str]


@dataclass(frozen=True, slots=True)
class Refused:
    """Pre-filter: no node can take the pod; the reason replaces the count by node."""

    reason: str
    resolvable: bool = True


PreFilterAnswer = Skip | Only | Refused | Failure | None


@dataclass(frozen=True, slots=True)
class Gate:
    """Pre-enqueue: the pod must not enter the queue yet."""

    reason: str


@dataclass(frozen=True, slots=True)
class Allow:
    """Permit: the pod may be bound."""


@dataclass(frozen=True, slots=True)
class Wait:
    """Permit: the pod waits for at most *seconds*, with its node reserved."""

    seconds: float
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Reject:
    """Reserve or permit: the pod must not be bound to the chosen node after all.

    It is unschedulable, not failed: events that the plugin names in ``requeue_on`` try it again.
    """

    reason: str


PermitAnswer = Allow | Wait | Reject


@dataclass(frozen=True)
class Candidate:
    """One possible preemption: evict *victims*, the most important first, from *node*.

    What it is compared by is computed once: a candidate is offered for many pods of a template.

    Args:
        pdb_violations: How many of the victims a disruption budget protects.
    """

    node: str
    victims: Sequence[Pod]
    pdb_violations: int = 0

    @cached_property
    def harm(self) -> tuple[int, int, int, int]:
        """The lower, the better: violations, highest priority, sum of priorities, victims."""
        victims = self.victims
        return (
            self.pdb_violations,
            # The first victim is the most important one; extenders are trusted to keep that order.
            victims[0].priority if victims else -_OFFSET,
            sum(pod.priority + _OFFSET for pod in victims),
            len(victims),
        )

    @cached_property
    def earliest_start(self) -> str:
        """When the first of the most important victims started."""
        highest = max((pod.priority for pod in self.victims), default=0)
        most_important = (pod for pod in self.victims if pod.priority == highest)
        return min((pod.status.start_time or LATER_THAN_ANY for pod in most_important), default="")


@dataclass(frozen=True, slots=True)
class Proposal:
    """Post-filter: evict the victims of *chosen*, and nominate its node."""

    chosen: Candidate
    candidates: tuple[Candidate, ...]
    message: str = ""


@dataclass(frozen=True, slots=True)
class Refusal:
    """Post-filter: no preemption would help.

    Args:
        message: Shown after the list of reasons; may be empty.
        clear_nomination: Whether an earlier nomination of the pod is cleared.
        stop: Whether later post-filter plugins are skipped.
    """

    message: str
    clear_nomination: bool = False
    stop: bool = False
