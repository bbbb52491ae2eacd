"""A pod and its record in the queue, from the time it is added until it is bound or deleted."""

from dataclasses import dataclass, field
from math import nan
from typing import Final, NamedTuple

from scheduler.model.pod import Pod
from scheduler.queue.queue_state import Cause, QueueState

HISTORY_LENGTH: Final = 16
"""How many moves each pod remembers: enough to see how it came into a wrong state."""

_NONE: Final[frozenset[str]] = frozenset()


class MoveReason(NamedTuple):
    """Why a pod moves, what metrics call it, and when.

    Args:
        cause: The row of the transition table.
        label: The event's name, as in ``NodeAdd`` or ``ScheduleAttemptFailure``.
        now: Monotonic seconds; nan where time does not matter.
    """

    cause: Cause
    label: str = ""
    now: float = nan


@dataclass(slots=True, eq=False)
class QueuedPod:
    """A pod with its history in the queue.

    Args:
        pod: Its newest version, except in flight: there it is the version that is being decided.
        timestamp: When it was added or last parked; other moves do not change it.
        order: Breaks ties between equal timestamps: the order of arrival.
        attempts: How often it was popped.
        unschedulable_count: How many of its attempts ended without a node that fits.
        consecutive_errors: How many of its latest attempts ended in an error.
        initial_attempt: When it first became ready, the time spent gated not counted.
        rejected_by: Plugins that rejected it, the pending ones among them.
        pending: Those of them that rejected it only until something they wait for happens: their
            hint moves the pod without backoff.
        gated_by: The plugin that keeps it out of the queue; empty where none does.
        gate_reason: The reason that this plugin gave.
        flushed: Whether it was requeued only because it had waited for too long.
        backoff_expiry: When its backoff ends, once that has been computed.
        state: Its state in the queue; only ``QueueStates.move`` changes it.
        history: Its latest moves, as reason and new state; for messages of failed assertions.
    """

    pod: Pod
    timestamp: float
    order: int
    attempts: int = 0
    unschedulable_count: int = 0
    consecutive_errors: int = 0
    initial_attempt: float | None = None
    rejected_by: frozenset[str] = _NONE
    pending: frozenset[str] = _NONE
    gated_by: str = ""
    gate_reason: str = ""
    flushed: bool = False
    backoff_expiry: float | None = None
    state: QueueState | None = None
    history: list[tuple[MoveReason, QueueState | None]] = field(default_factory=list)

    def __str__(self) -> str:
        """Return the pod's latest moves, one a line, for messages of failed assertions."""
        lines = [f"pod {self.pod.key} ({self.pod.uid}), attempt {self.attempts}, {self.state}:"]
        lines += (
            f"  at {reason.now:.3f}s {reason.cause} {reason.label} -> {state or 'gone'}"
            for reason, state in self.history
        )
        return "\n".join(lines)

    @property
    def ended_in_error(self) -> bool:
        """Whether its latest attempt ended in an error rather than with a plugin's rejection."""
        return not self.rejected_by

    def note_failure(
        self, pod: Pod, rejected_by: frozenset[str], pending: frozenset[str], now: float
    ) -> None:
        """Remember that an attempt ended without a node."""
        assert pod.uid == self.pod.uid, f"{pod.key} is another pod than {self}"
        self.pod = pod
        self.rejected_by, self.pending = rejected_by | pending, pending
        # Upstream counts errors apart as well: backoff grows with errors in a row, and a rejection
        # in between proves that the error has gone.
        if self.ended_in_error:
            self.consecutive_errors += 1
        else:
            self.unschedulable_count += 1
            self.consecutive_errors = 0
        self.timestamp, self.backoff_expiry, self.flushed = now, None, False
