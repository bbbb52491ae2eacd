"""Handles attempts that did not end in a binding.

Source: ``pkg/scheduler/schedule_one.go`` (handleSchedulingFailure).
"""

from dataclasses import dataclass
from typing import Final

from scheduler.cache.pending_pods import PendingPods
from scheduler.framework.decision import CLEAR, NominationOrder, Park, Preempt, Retry
from scheduler.framework.diagnosis import single
from scheduler.kube.pod_status import condition_patch
from scheduler.model.pod import Pod
from scheduler.queue.queued_pod import QueuedPod
from scheduler.queue.scheduling_queue import SchedulingQueue
from scheduler.reporting.clock import Clock
from scheduler.reporting.status_writer import StatusWriter
from scheduler.reporting.telemetry import Telemetry

UNSCHEDULABLE: Final = "Unschedulable"
SCHEDULER_ERROR: Final = "SchedulerError"
PROFILE_STOPPED: Final = "ProfileStopped"
"""In place of the name of a rejecting plugin; no event wakes a pod that it rejected."""

_NONE: Final[frozenset[str]] = frozenset()


@dataclass(frozen=True, slots=True)
class AttemptFailure:
    """How an attempt failed, at whichever stage: cycle, reserve, permit, pre-bind or binding.

    Args:
        message: What condition and event say.
        reason: ``Unschedulable`` or ``SchedulerError``.
        rejected_by: Plugins whose hints may wake the pod; empty sends it into the error backoff.
        pending: Those of them whose hints requeue the pod without backoff.
        nomination: Whether the pod's nominated node is kept, set or cleared.
        plugin: The plugin to blame for an error.
    """

    message: str
    reason: str
    rejected_by: frozenset[str] = _NONE
    pending: frozenset[str] = _NONE
    nomination: NominationOrder = CLEAR
    plugin: str = ""

    @classmethod
    def error(cls, message: str, plugin: str = "") -> "AttemptFailure":
        """Return the failure of an attempt that ended in an error."""
        return cls(message, SCHEDULER_ERROR, plugin=plugin)

    @classmethod
    def stopped(cls, why: str) -> "AttemptFailure":
        """Return the failure of a pod whose profile is stopped: only a timeout retries it."""
        return cls(why, SCHEDULER_ERROR, frozenset((PROFILE_STOPPED,)))

    @classmethod
    def capacity_taken(cls) -> "AttemptFailure":
        """Return the failure of a pod whose freed capacity other schedulers took.

        No plugin rejected it, so it waits in the error backoff.
        """
        return cls("the room that was made for the pod was taken by others", UNSCHEDULABLE)

    @classmethod
    def rejected(cls, plugin: str, reason: str) -> "AttemptFailure":
        """Return the failure of a pod that *plugin* rejected after its node was chosen."""
        return cls(single(plugin, reason).message, UNSCHEDULABLE, frozenset((plugin,)))

    @classmethod
    def of(cls, decision: Park | Preempt | Retry) -> "AttemptFailure":
        """Return the failure that *decision*, which is not to bind, stands for."""
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
    """Puts pods whose attempt failed back into the queue, and reports why.

    Args:
        pending: Has the newest version of each pending pod.
        status: Writes conditions and nominations.
    """

    def __init__(
        self,
        queue: SchedulingQueue,
        pending: PendingPods,
        status: StatusWriter,
        telemetry: Telemetry,
        clock: Clock,
    ) -> None:
        self._queue = queue
        self._pending = pending
        self._status = status
        self._telemetry = telemetry
        self._clock = clock

    def handle(self, queued: QueuedPod, failure: AttemptFailure, started: float) -> None:
        """Park the pod unless it is gone or bound meanwhile, and report the failure.

        *started* is when the attempt began, in monotonic seconds.
        """
        now = self._clock.now()
        self._telemetry.failed(
            queued, failure.reason, failure.message, failure.plugin, started=started, now=now
        )
        newest = self._pending.newest(queued.pod)
        if newest is None or not self._pending.is_ours(newest):
            self._queue.done(queued.pod.uid)
        elif newest.uid != queued.pod.uid:
            # A new pod of the same name: nothing is reported to it about its predecessor.
            self._queue.done(queued.pod.uid)
            return
        else:
            self._queue.park(
                queued,
                newest,
                rejected_by=failure.rejected_by,
                pending=failure.pending,
                now=now,
            )
            self._queue.nominate(newest, failure.nomination, now)
        self.report(newest or queued.pod, failure)

    def report(self, pod: Pod, failure: AttemptFailure) -> None:
        """Record the event, and begin to write the condition and the nomination of *pod*."""
        self._telemetry.failed_event(pod, failure.message)
        patch = condition_patch(
            pod,
            reason=failure.reason,
            message=failure.message,
            nominated_node=failure.nomination,
            now=self._clock.stamp(),
        )
        if patch is not None:
            self._status.replace(pod, patch)

    async def reported(self, pod: Pod) -> None:
        """Return once condition and nomination of *pod* are written, or given up."""
        await self._status.written(pod.uid)

    def report_kept_out(self, pod: Pod, why: str) -> None:
        """Report that a pending pod of ours does not enter the queue."""
        self.report(pod, AttemptFailure.error(why))
