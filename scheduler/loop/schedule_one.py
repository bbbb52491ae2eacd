"""One attempt to schedule one pod: run the cycle, and begin to carry the decision out.

Source: ``pkg/scheduler/schedule_one.go`` (ScheduleOne, schedulingCycle).
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import assert_never

from scheduler.binding.binding_cycle import BindingCycle
from scheduler.binding.waiting_pods import WaitingPods
from scheduler.cache.cluster_cache import ClusterCache
from scheduler.cycle.comparing import difference
from scheduler.cycle.scheduling import Attempt, ExtenderResponses, decide, schedule
from scheduler.cycle.taken_capacity import capacity_was_taken
from scheduler.framework.decision import Bind, Decision, Park, Preempt, Retry
from scheduler.framework.extender_protocol import ExtenderRequests
from scheduler.framework.profile import Profile
from scheduler.framework.templates import Templates
from scheduler.kube.extenders import Extenders
from scheduler.model.pod import Pod
from scheduler.observe import families
from scheduler.out_of_tree.plugin_supervisor import PluginSupervisor
from scheduler.preemption.evictions import Evictions
from scheduler.preemption.other_schedulers import OtherSchedulers
from scheduler.queue.queued_pod import QueuedPod
from scheduler.queue.scheduling_queue import SchedulingQueue
from scheduler.reporting.clock import Clock
from scheduler.reporting.failure_handler import AttemptFailure, FailureHandler
from scheduler.reporting.telemetry import Telemetry


class SchedulingCycle:
    """Prepares attempts and runs the cycle.

    Args:
        supervisor: Has the profiles, and the reasons why some of them are stopped.
        extenders: Those of the current configuration; a reload replaces them as a whole.
        seed: Chooses among equal nodes, together with the pod and the node.
        check_decisions: Whether every pod is decided a second time, from nothing, and both
            decisions are compared.
    """

    def __init__(
        self,
        *,
        cache: ClusterCache,
        queue: SchedulingQueue,
        supervisor: PluginSupervisor,
        telemetry: Telemetry,
        extenders: Extenders,
        seed: int,
        check_decisions: bool,
    ) -> None:
        self._cache = cache
        self._queue = queue
        self._supervisor = supervisor
        self._telemetry = telemetry
        self._seed = seed
        self._check_decisions = check_decisions
        self._templates = Templates()
        self._extenders = extenders

    @property
    def extenders(self) -> Extenders:
        """The extenders, and how they are called."""
        return self._extenders

    def replace_extenders(self, extenders: Extenders) -> None:
        """Use other extenders from now on, and drop what plugins of other profiles answered."""
        self._extenders = extenders
        self._templates.clear()

    def profile_of(self, pod: Pod) -> Profile | None:
        """Return the profile of the pod's scheduler name, with the plugins that still work."""
        return self._supervisor.profile(pod.spec.scheduler_name)

    def why_stopped(self, profile: Profile) -> str:
        """Return why *profile* takes no pods; empty where it does."""
        return self._supervisor.stopped.get(profile.scheduler_name, "")

    def has_node(self, pod: Pod) -> bool:
        """Tell whether *pod* is bound or assumed already."""
        return self._cache.pod(pod.uid) is not None

    def attempt(self, profile: Profile, pod: Pod) -> Attempt:
        """Return all that the decision about *pod* depends on."""
        # A nomination of ours may not have reached the API server yet.
        node = self._queue.nominated_node(pod.uid)
        if node and node != pod.nominated_node:
            pod = pod.nominated_to(node)
        return Attempt(
            profile,
            pod,
            self._cache.view(),
            self._queue.nominated_pods(),
            self._seed,
            self.extenders.extenders,
            self._supervisor.observer_for(profile, pod, self._telemetry.cycle_observer(profile)),
            self._templates,
        )

    async def decide(self, attempt: Attempt, pause: Callable[[], Awaitable[None]]) -> Decision:
        """Run the cycle: send its requests to extenders, and await *pause* wherever it yields.

        Facts wait in the inbox meanwhile: one cycle sees one state.
        """
        cycle = schedule(attempt)
        responses: ExtenderResponses = None
        while True:
            try:
                step = cycle.send(responses)
            except StopIteration as end:
                decision: Decision = end.value
                return self._checked(attempt, decision) if self._check_decisions else decision
            if isinstance(step, ExtenderRequests):
                responses = tuple(await asyncio.gather(*map(self.extenders.call, step.requests)))
                continue
            responses = None
            await pause()

    def _checked(self, attempt: Attempt, decision: Decision) -> Decision:
        """Return *decision*, or where it differs the one that is made without kept answers."""
        if attempt.extenders:
            return decision  # they would be called twice
        fresh = decide(replace(attempt, observer=attempt.observer.unmeasured(), templates=None))
        if differs := difference(decision, fresh):
            self._telemetry.decision_differed(attempt.pod, differs)
        return fresh


class ScheduleOne:
    """Runs one attempt for each popped pod: it ends bound, preempting, parked or retried.

    Args:
        cycle: Decides.
        binding: Carries out decisions to bind.
        evictions: Carries out decisions to preempt.
        failures: Parks the others.
    """

    def __init__(
        self,
        *,
        queue: SchedulingQueue,
        cycle: SchedulingCycle,
        binding: BindingCycle,
        evictions: Evictions,
        failures: FailureHandler,
        other_schedulers: OtherSchedulers,
        telemetry: Telemetry,
        clock: Clock,
    ) -> None:
        self._queue = queue
        self._cycle = cycle
        self._binding = binding
        self._evictions = evictions
        self._failures = failures
        self._other_schedulers = other_schedulers
        self._telemetry = telemetry
        self._clock = clock

    @property
    def waiting(self) -> WaitingPods:
        """Pods that have a node and wait for permits or conditions."""
        return self._binding.waiting

    @property
    def busy(self) -> int:
        """How many pods are being bound, waiting pods not counted."""
        return self._binding.busy

    async def finish(self, timeout_seconds: float) -> None:
        """Give binds and evictions that are under way *timeout_seconds* to end."""
        await asyncio.gather(
            self._binding.finish(timeout_seconds), self._evictions.finish(timeout_seconds)
        )

    async def run(self, queued: QueuedPod, pause: Callable[[], Awaitable[None]]) -> None:
        """Attempt to schedule a pod; *pause* lets the event loop serve its sockets."""
        pod, started = queued.pod, self._clock.now()
        profile = self._cycle.profile_of(pod)
        if profile is None:
            # A reload removed the profile while the pod was on its way to a node.
            self._queue.done(pod.uid)
            self._queue.delete(pod, started)
            return
        if self._is_to_be_skipped(pod):
            self._queue.done(pod.uid)
            return
        if why := self._cycle.why_stopped(profile):
            self._failures.handle(queued, AttemptFailure.stopped(why), started)
            return
        attempt = self._cycle.attempt(profile, pod)
        if self._capacity_was_taken(attempt):
            self._failures.handle(queued, AttemptFailure.capacity_taken(), started)
            return
        decision = await self._cycle.decide(attempt, pause)
        seconds = self._clock.now() - started
        self._telemetry.metrics.observe(families.ALGORITHM_DURATION, seconds)
        node = decision.node if isinstance(decision, Bind) else ""
        self._other_schedulers.decided(pod, node)
        match decision:
            case Bind():
                extenders = self._cycle.extenders
                self._binding.begin(queued, profile, decision, started, extenders)
            case Preempt():
                self._evictions.preempt(queued, decision, started)
            case Park() | Retry():
                self._failures.handle(queued, AttemptFailure.of(decision), started)
            case _:
                assert_never(decision)

    def _is_to_be_skipped(self, pod: Pod) -> bool:
        """Tell whether *pod* is being deleted or has a node (upstream's skipPodSchedule)."""
        if pod.terminating:
            self._telemetry.failed_event(pod, f"skip schedule deleting pod: {pod.key}")
            # It will never use the capacity that its nomination keeps for it.
            self._queue.withdraw(pod, self._clock.now())
            return True
        return self._cycle.has_node(pod)

    def _capacity_was_taken(self, attempt: Attempt) -> bool:
        """Tell whether others took the capacity that was freed for a pod, and note it.

        The pod must not preempt again at once: the other scheduler would most likely take the
        capacity again, and victims would be evicted in vain.
        """
        freed = self._other_schedulers.possibly_taken(attempt.pod)
        if freed is None or not capacity_was_taken(
            attempt, freed.node, tuple(freed.taken_by.values())
        ):
            return False
        self._other_schedulers.capacity_taken(attempt.pod, freed, self._clock.now())
        return True
