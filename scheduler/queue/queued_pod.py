"""A pod with what the queue remembers of it, from its first appearance to its binding."""

from dataclasses import dataclass, field
from math import nan
from typing import Final, NamedTuple

from scheduler.model.pod import Pod
from scheduler.queue.queue_state import Cause, QueueState

STORY_LENGTH: Final = 16
_NOBODY: Final[frozenset[str]] = frozenset()


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
        timestamp: When it came, or came back from its latest attempt; other moves leave it.
        order: Breaks ties between equal timestamps: the order of coming.
        attempts: How often it was popped.
        unschedulable_count: How many of its attempts ended without a node that fits.
        consecutive_errors: How many of its latest attempts ended in an error.
        initial_attempt: When it first became ready, the time spent gated not counted.
        rejected_by: Plugins that turned it away, the pending ones among them.
        pending: Those of them that asked to hear of it again without delay.
        gated_by: The plugin that keeps it out of the queue; empty where none does.
        gate_reason: What that plugin said.
        flushed: Whether it is on its way only because it had waited for too long.
        backoff_expiry: When its backoff ends, once that has been computed.
        state: Where it is.
        story: Its latest moves, for people: reason and state.
    """

    pod: Pod
    timestamp: float
    order: int
    attempts: int = 0
    unschedulable_count: int = 0
    consecutive_errors: int = 0
    initial_attempt: float | None = None
    rejected_by: frozenset[str] = _NOBODY
    pending: frozenset[str] = _NOBODY
    gated_by: str = ""
    gate_reason: str = ""
    flushed: bool = False
    backoff_expiry: float | None = None
    state: QueueState | None = None
    story: list[tuple[MoveReason, QueueState | None]] = field(default_factory=list)

    @property
    def failed(self) -> bool:
        """Whether its latest attempt ended in an error rather than with a plugin's verdict."""
        return not self.rejected_by

    def note_failure(
        self, pod: Pod, rejected_by: frozenset[str], pending: frozenset[str], now: float
    ) -> None:
        """Remember that an attempt ended without a node."""
        self.pod = pod
        self.rejected_by, self.pending = rejected_by | pending, pending
        if self.failed:
            self.consecutive_errors += 1
        else:
            self.unschedulable_count += 1
            self.consecutive_errors = 0
        self.timestamp, self.backoff_expiry, self.flushed = now, None, False

    def move(self, to: QueueState | None, reason: MoveReason) -> None:
        """Remember a move."""
        self.state = to
        self.story.append((reason, to))
        if len(self.story) > STORY_LENGTH:
            del self.story[0]

    def __str__(self) -> str:
        """Return the pod's latest moves, one a line, for whoever looks into a failed assertion."""
        lines = [f"pod {self.pod.key} ({self.pod.uid}), attempt {self.attempts}, {self.state}:"]
        lines += (
            f"  at {reason.now:.3f}s {reason.cause} {reason.label} -> {state or 'gone'}"
            for reason, state in self.story
        )
        return "\n".join(lines)
