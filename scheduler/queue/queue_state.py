"""The states of pods in the queue, and the table of moves between them.

A pod without a state (None) is unknown to the queue or on its way to a node. docs/architecture.md
shows the table.
"""

from enum import StrEnum
from typing import Final

from scheduler.model.state_machine import Row, Transitions


class QueueState(StrEnum):
    """The state of a pod in the queue."""

    ACTIVE = "active"
    BACKOFF = "backoff"
    UNSCHEDULABLE = "unschedulable"
    GATED = "gated"
    IN_FLIGHT = "in flight"


class Cause(StrEnum):
    """What moves a pod."""

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
"""A pod that may be popped: now, or when its backoff is over."""

WAITING: Final = frozenset({QueueState.UNSCHEDULABLE, QueueState.GATED})
"""A pod that stays until something changes."""

_ACTIVE, _BACKOFF, _GATED = QueueState.ACTIVE, QueueState.BACKOFF, QueueState.GATED
_UNSCHEDULABLE, _FLIGHT = QueueState.UNSCHEDULABLE, QueueState.IN_FLIGHT
_WAITING: Final = (_UNSCHEDULABLE, _GATED)

TRANSITIONS: Final = Transitions(
    Row(None, Cause.ADDED, _ACTIVE, _GATED),
    Row(None, Cause.UPDATED, _ACTIVE, _GATED),
    Row(_ACTIVE, Cause.POPPED, _FLIGHT),
    Row(_BACKOFF, Cause.POPPED, _FLIGHT, note="if no pod is active"),
    Row(_FLIGHT, Cause.DONE, None, note="it is on its way to a node, or deleted"),
    Row(_FLIGHT, Cause.PARKED, _ACTIVE, _BACKOFF, _UNSCHEDULABLE, _GATED),
    Row(
        None, Cause.PARKED, _ACTIVE, _BACKOFF, _UNSCHEDULABLE, _GATED, note="its binding has failed"
    ),
    Row(_BACKOFF, Cause.BACKED_OFF, _ACTIVE),
    Row(_UNSCHEDULABLE, Cause.TIMED_OUT, _ACTIVE, _BACKOFF, _GATED),
    Row(_WAITING, Cause.CHANGED, _ACTIVE, _BACKOFF, _GATED),
    Row(_WAITING, Cause.UPDATED, _ACTIVE, _BACKOFF, _GATED),
    Row(_BACKOFF, Cause.ACTIVATED, _ACTIVE, note="its gates were open when it came there"),
    Row(_WAITING, Cause.ACTIVATED, _ACTIVE, _GATED),
    Row((_ACTIVE, _BACKOFF), Cause.RELOADED, _GATED, note="if a gate of the new plugins is closed"),
    Row(_WAITING, Cause.RELOADED, _ACTIVE, _BACKOFF, _GATED, note="no earlier rejection counts"),
    Row(
        (_ACTIVE, _BACKOFF, _UNSCHEDULABLE, _GATED),
        Cause.DELETED,
        None,
        note="in flight, the attempt ends first",
    ),
)
