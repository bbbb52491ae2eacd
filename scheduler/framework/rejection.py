"""What plugins answer before and while nodes are filtered, as values."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from scheduler.model.pod import Pod

NodeMask = NDArray[np.bool_]
"""One truth value a row."""

Scores = NDArray[np.int64]
"""One score a row."""

MAX_NODE_SCORE: Final = 100


@dataclass(frozen=True, slots=True, eq=False)
class Rejection:
    """These nodes cannot take the pod, for this reason.

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
    """These nodes could not be judged.

    It is ignored where another plugin refused the node already; elsewhere the attempt ends in an
    error.
    """

    nodes: NodeMask
    text: str


@dataclass(frozen=True, slots=True)
class Skip:
    """The plugin has nothing to say about this pod."""


@dataclass(frozen=True, slots=True)
class Only:
    """No nodes but these can take the pod; names that do not exist are passed over."""

    names: frozenset[str]


@dataclass(frozen=True, slots=True)
class Refused:
    """No node can take the pod; the text stands instead of a list of nodes."""

    reason: str
    resolvable: bool = True


PreFilterAnswer = Skip | Only | Refused | Failure | None


@dataclass(frozen=True, slots=True)
class Gate:
    """The pod must not enter the queue yet."""

    reason: str


@dataclass(frozen=True, slots=True)
class Allow:
    """Let the pod go on to binding."""


@dataclass(frozen=True, slots=True)
class Wait:
    """Hold the pod, with its node reserved, for at most *seconds*."""

    seconds: float
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Reject:
    """The pod must not be bound after all; other pods may have to change first."""

    reason: str


PermitAnswer = Allow | Wait | Reject


@dataclass(frozen=True, slots=True)
class Candidate:
    """One way to make room: evict *victims*, the most important first, from *node*.

    Args:
        pdb_violations: How many of the victims a disruption budget protects.
    """

    node: str
    victims: Sequence[Pod]
    pdb_violations: int = 0


@dataclass(frozen=True, slots=True)
class Proposal:
    """Make room on a node by evicting pods, and nominate it."""

    chosen: Candidate
    candidates: tuple[Candidate, ...]
    message: str = ""


@dataclass(frozen=True, slots=True)
class Refusal:
    """A post-filter plugin found no way to make room.

    Args:
        message: Shown after the list of reasons; may be empty.
        clear_nomination: Whether an earlier nomination of the pod is to be withdrawn.
        stop: Whether later post-filter plugins are not asked.
    """

    message: str
    clear_nomination: bool = False
    stop: bool = False
