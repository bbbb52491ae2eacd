"""The times of the scheduling queue."""

from dataclasses import dataclass


@dataclass(frozen=True)
class QueueSettings:
    """How long pods wait."""

    initial_backoff_seconds: float = 1.0
    """The wait after a pod's first failed attempt; each further failure doubles it."""

    maximum_backoff_seconds: float = 10.0
    """The longest wait; 0 means never to wait."""

    unschedulable_seconds: float = 300.0
    """How long a pod waits for a change before it is tried again without one."""

    foreign_nomination_seconds: float = 600.0
    """How long a nomination of another scheduler's pod counts; 0 means never."""
