"""Decisions: what the loop does with a pod after a scheduling cycle; there are four kinds."""

from dataclasses import dataclass, field

from scheduler.framework.diagnosis import Diagnosis
from scheduler.framework.rejection import Candidate
from scheduler.model.pod import Pod


@dataclass(frozen=True, slots=True)
class Keep:
    """Leave the pod's nominated node as it is."""


@dataclass(frozen=True, slots=True)
class Clear:
    """Clear the pod's nomination."""


@dataclass(frozen=True, slots=True)
class SetTo:
    """Nominate *node*: victims are evicted there."""

    node: str


NominationOrder = Keep | Clear | SetTo
KEEP = Keep()
CLEAR = Clear()


@dataclass(frozen=True, slots=True)
class Bind:
    """Bind *pod* to *node*.

    Args:
        evaluated: How many nodes were judged.
        feasible: How many of them could take the pod.
        ties: Nodes that shared the best total, the chosen one first, ten at most.
    """

    pod: Pod
    node: str
    evaluated: int
    feasible: int
    ties: tuple[str, ...] = ()
    nomination: NominationOrder = KEEP


@dataclass(frozen=True, slots=True)
class Preempt:
    """Evict *victims* from *node*, and nominate it.

    Args:
        message: What the post-filter plugin adds to the diagnosis.
        candidates: All preemptions that were found, the chosen one included.
    """

    pod: Pod
    node: str
    victims: tuple[Pod, ...]
    diagnosis: Diagnosis
    message: str
    candidates: tuple[Candidate, ...] = ()

    @property
    def nomination(self) -> NominationOrder:
        """The pod is nominated to the node of its victims."""
        return SetTo(self.node)


@dataclass(frozen=True, slots=True)
class Park:
    """Park the pod: no node can take it now, so it waits for an event that could help."""

    pod: Pod
    diagnosis: Diagnosis
    nomination: NominationOrder = CLEAR

    @property
    def message(self) -> str:
        """What the pod's condition and event say."""
        return self.diagnosis.message


@dataclass(frozen=True, slots=True)
class Retry:
    """Try the pod again after a backoff: the attempt failed with an error.

    Args:
        message: What went wrong, in one line.
        plugin: The plugin to blame; empty where none is.
        unschedulable: Whether the pod's condition says Unschedulable rather than SchedulerError, as
            with a cluster of no nodes at all.
    """

    pod: Pod
    message: str
    plugin: str = ""
    unschedulable: bool = False
    nomination: NominationOrder = field(default=CLEAR)


Decision = Bind | Preempt | Park | Retry
