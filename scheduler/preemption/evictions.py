"""Carries preemptions out: nominates the preemptor, then evicts its victims.

As upstream does, all victims but one are evicted at once, and the last one after them: its end is
what makes another attempt worthwhile, so it must not come before the others are evicted.

Source: ``pkg/scheduler/framework/preemption/executor.go``.
"""

import asyncio
from collections.abc import Sequence
from functools import partial
from typing import Final

from scheduler.binding.binding_cycle import BindingCycle
from scheduler.cache.pending_pods import PendingPods
from scheduler.framework.decision import Preempt
from scheduler.kube.eviction import AlreadyGone, Evicted, NotEvicted, Spared, evict
from scheduler.kube.requests import Requests
from scheduler.model.pod import Pod
from scheduler.preemption.preemptions import Cause, Preemption, State
from scheduler.preemption.preemptors import Preemptors
from scheduler.preemption.priority_semaphore import PrioritySemaphore
from scheduler.queue.queued_pod import QueuedPod
from scheduler.reporting.clock import Clock
from scheduler.reporting.failure_handler import AttemptFailure, FailureHandler
from scheduler.reporting.tasks import Tasks
from scheduler.reporting.telemetry import Telemetry

_PREEMPTIONS_AT_ONCE: Final = 32
"""By priority of the preemptor. If all ran at once, their evictions would share the rate
limit, and even the most important preemption would end among the last."""
_EVICTIONS_AT_ONCE: Final = 64
_PAUSE_SECONDS: Final = 1.0
"""The pause before a failed preemption is retried; without it, a pod whose victims we may not evict
would be retried in a busy loop."""


class Evictions:
    """Carries out decisions to preempt.

    Args:
        pending: Has the preemptors that still wait.
        binding: Cancels victims that are not bound yet.
        requests: Sends evictions; every request waits for the rate limit inside.
    """

    def __init__(
        self,
        *,
        preemptors: Preemptors,
        pending: PendingPods,
        binding: BindingCycle,
        failures: FailureHandler,
        requests: Requests,
        tasks: Tasks[Preemption],
        telemetry: Telemetry,
        clock: Clock,
    ) -> None:
        self._preemptors = preemptors
        self._pending = pending
        self._binding = binding
        self._failures = failures
        self._requests = requests
        self._tasks = tasks
        self._telemetry = telemetry
        self._clock = clock
        self._slots = PrioritySemaphore(_PREEMPTIONS_AT_ONCE)
        self._requests_at_once = asyncio.Semaphore(_EVICTIONS_AT_ONCE)

    @property
    def in_flight(self) -> int:
        """How many preemptions have victims that are not evicted yet."""
        return len(self._tasks)

    async def finish(self, timeout_seconds: float) -> None:
        """Give evictions that are under way *timeout_seconds* to end."""
        await self._tasks.finish(timeout_seconds)

    # In the loop.

    def preempt(self, queued: QueuedPod, decision: Preempt, started: float) -> None:
        """Carry out the decision to preempt; the pod's attempt *started* at these seconds.

        The order matters. First the preemption begins, which closes the gate that the pod is parked
        behind. Then the failure handler begins to write the nomination, for which the task waits.
        """
        preemption, bound = (
            self.begin(decision) if self._pending.is_waiting(decision.pod) else (None, ())
        )
        self._failures.handle(queued, AttemptFailure.of(decision), started)
        if preemption is not None and bound:
            self._tasks.start(preemption, self._carry_out(preemption, bound))

    def begin(self, decision: Preempt) -> tuple[Preemption, Sequence[Pod]]:
        """Begin the preemption, and return it with the victims that have to be evicted.

        Victims that terminate need no eviction, and those that are not bound yet are cancelled.
        """
        victims = self._preemptors.preemptions.newest(decision.victims)
        preemption = self._preemptors.begin(decision, victims)
        if preemption.state is State.LEAVING:
            return preemption, ()
        self._telemetry.evicting(decision.pod, decision.node, len(victims))
        self._preemptors.withdraw_lower(preemption)
        staying = [victim for victim in victims if not victim.terminating]
        bound = [victim for victim in staying if not self._cancel(preemption, victim)]
        if not bound:
            self._ended(preemption)
        return preemption, bound

    def _cancel(self, preemption: Preemption, victim: Pod) -> bool:
        """Cancel the binding of a victim; False once the binding may have been posted."""
        if not self._binding.cancel(victim):
            return False
        self._telemetry.evicted(victim, preemption.pod, preemption.node, in_memory=True)
        return True

    def _ended(self, preemption: Preemption) -> None:
        """Move the preemption on once each victim is evicted, or could not be."""
        if not self._preemptors.preemptions.is_current(preemption):
            return
        if preemption.problems:
            preemption.move(Cause.FAILED, State.PAUSED)
            self._tasks.report_later(_PAUSE_SECONDS, partial(self._preemptors.resume, preemption))
        else:
            self._preemptors.evicted(preemption)

    # In the task: it acts, and reports to the loop.

    async def _carry_out(self, preemption: Preemption, victims: Sequence[Pod]) -> None:
        """Wait until the nomination is written, evict the victims, and report.

        Facts tell the loop later that victims are gone: each has its grace period.
        """
        pod = preemption.pod
        # If the process is killed in between, the nomination in the status keeps the capacity.
        await self._failures.reported(pod)
        *others, last = victims
        async with self._slots.acquire(pod.priority):
            await asyncio.gather(*(self._evict(preemption, victim) for victim in others))
            if preemption.is_wanted and not preemption.problems:
                preemption.last = last
                preemption.move(Cause.LAST_IS_NEXT, State.LAST)
                await self._evict(preemption, last)
        seconds = self._clock.now() - preemption.started
        problems = "; ".join(preemption.problems)
        self._telemetry.evictions_ended(pod, preemption.node, problems, seconds)
        self._tasks.report(lambda: self._ended(preemption))

    async def _evict(self, preemption: Preemption, victim: Pod) -> None:
        """Evict *victim*, unless it has left, or another preemption has evicted it."""
        known = self._preemptors.preemptions.victim(victim.uid)
        if known is None:
            return
        async with known.lock, self._requests_at_once:
            if known.is_evicted:
                return
            outcome = await evict(
                self._requests,
                victim,
                preemption.pod.spec.scheduler_name,
                self._clock.stamp(),
                wanted=lambda: preemption.is_wanted,
            )
            known.is_evicted = isinstance(outcome, Evicted)
        match outcome:
            case Evicted():
                self._telemetry.evicted(victim, preemption.pod, preemption.node)
            case NotEvicted(message):
                preemption.problems.append(f"{victim.key}: {message}")
            case AlreadyGone() | Spared():
                pass
