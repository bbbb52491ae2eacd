"""Where a pod can be, and which moves exist.

The table is the queue's state machine: whatever is not in it does not happen, and every move
asserts so. A pod that is in no place (None) is unknown to the queue or on its way to a node.
"""

from enum import StrEnum
from typing import Final


class QueueState(StrEnum):
    """Where a pod is."""

    ACTIVE = "active"
    BACKOFF = "backoff"
    UNSCHEDULABLE = "unschedulable"
    GATED = "gated"
    IN_FLIGHT = "in flight"


class Cause(StrEnum):
    """What can move a pod."""

    ADDED = "added"
    UPDATED = "updated"
    DELETED = "deleted"
    POPPED = "popped"
    PARKED = "parked"
    DONE = "done"
    CHANGED = "changed"
    ACTIVATED = "activated"
    BACKED_OFF = "backed off"
    TIMED_OUT = "timed out"
    RELOADED = "reloaded"


READY: Final = frozenset({QueueState.ACTIVE, QueueState.BACKOFF})
"""Where a pod goes when its time has come: now, or when its backoff is over."""

WAITING: Final = frozenset({QueueState.UNSCHEDULABLE, QueueState.GATED})
"""Where a pod stays until something changes."""

_ACTIVE, _BACKOFF, _GATED = QueueState.ACTIVE, QueueState.BACKOFF, QueueState.GATED
_UNSCHEDULABLE, _FLIGHT = QueueState.UNSCHEDULABLE, QueueState.IN_FLIGHT
_OUT: Final = frozenset({None})

TRANSITIONS: Final[dict[tuple[QueueState | None, Cause], frozenset[QueueState | None]]] = {
    # A pod comes.
    (None, Cause.ADDED): frozenset({_ACTIVE, _GATED}),
    (None, Cause.UPDATED): frozenset({_ACTIVE, _GATED}),
    # It is decided about.
    (_ACTIVE, Cause.POPPED): frozenset({_FLIGHT}),
    (_BACKOFF, Cause.POPPED): frozenset({_FLIGHT}),  # rather than leave the scheduler idle
    (_FLIGHT, Cause.DONE): _OUT,
    (_FLIGHT, Cause.PARKED): READY | WAITING,
    (None, Cause.PARKED): READY | WAITING,  # its binding failed
    # It waits for time to pass.
    (_BACKOFF, Cause.BACKED_OFF): frozenset({_ACTIVE}),
    (_UNSCHEDULABLE, Cause.TIMED_OUT): READY | {_GATED},
    # It waits for the cluster to change.
    (_UNSCHEDULABLE, Cause.CHANGED): READY | {_GATED},
    (_GATED, Cause.CHANGED): READY | {_GATED},
    # It is changed itself.
    (_UNSCHEDULABLE, Cause.UPDATED): READY | {_GATED},
    (_GATED, Cause.UPDATED): READY | {_GATED},
    # Somebody asks for it.
    (_BACKOFF, Cause.ACTIVATED): frozenset({_ACTIVE}),
    (_UNSCHEDULABLE, Cause.ACTIVATED): frozenset({_ACTIVE, _GATED}),
    (_GATED, Cause.ACTIVATED): frozenset({_ACTIVE, _GATED}),
    # Plugins are replaced: gates are asked again, and no earlier rejection counts.
    (_ACTIVE, Cause.RELOADED): frozenset({_GATED}),
    (_BACKOFF, Cause.RELOADED): frozenset({_GATED}),
    (_UNSCHEDULABLE, Cause.RELOADED): READY | {_GATED},
    (_GATED, Cause.RELOADED): READY | {_GATED},
    # It goes. In flight it is left to whoever decides about it.
    (_ACTIVE, Cause.DELETED): _OUT,
    (_BACKOFF, Cause.DELETED): _OUT,
    (_UNSCHEDULABLE, Cause.DELETED): _OUT,
    (_GATED, Cause.DELETED): _OUT,
}
