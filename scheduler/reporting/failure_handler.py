"""What happens to a pod whose attempt did not end in a binding.

Source: ``pkg/scheduler/schedule_one.go`` (handleSchedulingFailure).
"""

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Final

from scheduler.framework.decision import CLEAR, NominationOrder, Park, Preempt, Retry
from scheduler.framework.diagnosis import single
from scheduler.kube.pod_status import condition_patch
from scheduler.model.pod import Pod
from scheduler.queue.queued_pod import QueuedPod
from scheduler.queue.scheduling_queue import SchedulingQueue
from scheduler.reporting.status_writer import StatusWriter
from scheduler.reporting.telemetry import Telemetry

UNSCHEDULABLE: Final = "Unschedulable"
SCHEDULER_ERROR: Final = "SchedulerError"
PROFILE_STOPPED: Final = "ProfileStopped"
"""Stands where a plugin stands that turned a pod away; no event is of interest to it."""

_NOBODY: Final[frozenset[str]] = frozenset()


@dataclass(frozen=True, slots=True)
class AttemptFailure:
    """How an attempt failed.

    Args:
        message: What condition and event say.
        reason: ``Unschedulable`` or ``SchedulerError``.
        rejected_by: Plugins whose hints may wake the pod; empty sends it into the error backoff.
        pending: Those of them that want the pod back without a backoff.
        nomination: What becomes of the pod's nominated node.
        plugin: The plugin to blame for an error.
    """

    message: str
    reason: str
    rejected_by: frozenset[str] = _NOBODY
    pending: frozenset[str] = _NOBODY
    nomination: NominationOrder = CLEAR
    plugin: str = ""

    @classmethod
    def error(cls, message: str, plugin: str = "") -> "AttemptFailure":
        """Return the failure of an attempt that went wrong."""
        return cls(message, SCHEDULER_ERROR, plugin=plugin)

    @classmethod
    def stopped(cls, why: str) -> "AttemptFailure":
        """Return the failure of a pod whose profile is stopped: nothing but time can help it."""
        return cls(why, SCHEDULER_ERROR, frozenset((PROFILE_STOPPED,)))

    @classmethod
    def undone(cls) -> "AttemptFailure":
        """Return the failure of a pod whose room others took: it waits as after an error."""
        return cls("the room that was made for the pod was taken by others", UNSCHEDULABLE)

    @classmethod
    def rejected(cls, plugin: str, reason: str) -> "AttemptFailure":
        """Return the failure of a pod that *plugin* turned away after its node was chosen."""
        return cls(single(plugin, reason).message, UNSCHEDULABLE, frozenset((plugin,)))

    @classmethod
    def of(cls, decision: Park | Preempt | Retry) -> "AttemptFailure":
        """Return what *decision* means for the pod."""
        match decision:
            case Retry():
                reason = UNSCHEDULABLE if decision.unschedulable else SCHEDULER_ERROR
                return cls(
                    decision.message,
                    reason,
                    nomination=decision.nomination,
                    plugin=decision.plugin,
                )
            case Park() | Preempt():
                return cls(
                    decision.diagnosis.message,
                    UNSCHEDULABLE,
                    decision.diagnosis.rejected_by,
                    decision.diagnosis.pending,
                    decision.nomination,
                )


class FailureHandler:
    """Puts failed pods back into the queue, and tells everyone why.

    Args:
        newest: Returns the newest version of a pending pod of the same name, if there is one.
        ours: The scheduler names that our profiles answer to.
        wall: The time of day as RFC 3339, for stamps that are written.
    """

    def __init__(
        self,
        *,
        queue: SchedulingQueue,
        status: StatusWriter,
        telemetry: Telemetry,
        newest: Callable[[Pod], Pod | None],
        ours: Collection[str],
        clock: Callable[[], float],
        wall: Callable[[], str],
    ) -> None:
        self._queue = queue
        self._status = status
        self._telemetry = telemetry
        self._newest = newest
        self._ours = ours
        self._clock = clock
        self._wall = wall

    def is_waiting(self, pod: Pod) -> bool:
        """Tell whether *pod* is still there, unbound and not being deleted."""
        newest = self._newest(pod)
        return newest is not None and newest.uid == pod.uid and not newest.terminating

    def handle(self, queued: QueuedPod, failed: AttemptFailure, started: float) -> None:
        """Requeue the pod unless it is gone or bound meanwhile, and report the failure."""
        now = self._clock()
        self._telemetry.failed(
            queued, failed.reason, failed.message, failed.plugin, started=started, now=now
        )
        newest = self._newest(queued.pod)
        if newest is None or newest.spec.scheduler_name not in self._ours:
            self._queue.done(queued.pod.uid)
        elif newest.uid != queued.pod.uid:
            # A new pod of the same name: the verdict on its predecessor says nothing about it.
            self._queue.done(queued.pod.uid)
            return
        else:
            self._queue.park(
                queued,
                newest,
                rejected_by=failed.rejected_by,
                pending=failed.pending,
                now=now,
            )
            self._queue.nominate(newest, failed.nomination, now)
        self.report(newest or queued.pod, failed)

    def report(self, pod: Pod, failed: AttemptFailure) -> None:
        """Write the event and the condition of *pod*."""
        self._telemetry.failed_event(pod, failed.message)
        patch = condition_patch(
            pod,
            reason=failed.reason,
            message=failed.message,
            nominated_node=failed.nomination,
            now=self._wall(),
        )
        if patch is not None:
            self._status.write(pod, patch)
