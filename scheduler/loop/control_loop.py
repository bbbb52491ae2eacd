"""The control loop: drain the inbox, take the next pod, decide, carry out. At our own pace."""

import asyncio
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Final, assert_never

from scheduler.binding.binding_cycle import BindingCycle
from scheduler.cache.cluster_cache import ClusterCache
from scheduler.cycle.scheduling import Attempt, ExtenderResponses, schedule
from scheduler.cycle.taken_capacity import capacity_was_taken
from scheduler.framework.decision import Bind, Decision, Park, Preempt, Retry
from scheduler.framework.extender_protocol import ExtenderRequests
from scheduler.framework.profile import Profile
from scheduler.kube.extenders import Extenders
from scheduler.loop.fact_handlers import FactHandlers
from scheduler.model.fact import Added, Deleted, Listed, ResourceName, Updated
from scheduler.model.pod import Pod
from scheduler.out_of_tree.plugin_supervisor import PluginSupervisor
from scheduler.preemption.evictions import Evictions
from scheduler.preemption.freed_capacity import FreedCapacities
from scheduler.preemption.other_schedulers import OtherSchedulers
from scheduler.queue.queued_pod import QueuedPod
from scheduler.queue.scheduling_queue import SchedulingQueue
from scheduler.reporting.failure_handler import AttemptFailure, FailureHandler
from scheduler.reporting.inbox import Inbox, Message
from scheduler.reporting.telemetry import Telemetry

_IDLE_SECONDS_MAXIMUM: Final = 1.0


@dataclass(frozen=True, slots=True)
class LoopSettings:
    """How the loop shares its time.

    Args:
        binds_in_flight: At this many on their way no further pod is taken; who waits for a volume
            or a permit is not counted.
        slice_seconds: How long it may decide or drain before the sockets get their turn.
        stop_seconds: How long posted binds may take to end after a request to stop.
        seed: Chooses among equal nodes, together with the pod and the node.
    """

    binds_in_flight: int = 256
    slice_seconds: float = 0.008
    stop_seconds: float = 20.0
    seed: int = 0


class ControlLoop:
    """The only writer of cache and queue.

    Args:
        care: Knows the profiles, and how their plugins are doing.
        awaited: What must have been listed before the first decision.
        may_act: Tells whether this process leads right now.
        clock: Monotonic seconds.
        extenders: The extenders, and how they are asked.
    """

    def __init__(
        self,
        *,
        care: PluginSupervisor,
        cache: ClusterCache,
        queue: SchedulingQueue,
        inbox: Inbox,
        handlers: FactHandlers,
        binding: BindingCycle,
        failures: FailureHandler,
        evictions: Evictions,
        other_schedulers: OtherSchedulers,
        rooms: FreedCapacities,
        telemetry: Telemetry,
        awaited: Collection[ResourceName],
        may_act: Callable[[], bool],
        clock: Callable[[], float],
        settings: LoopSettings,
        extenders: Extenders,
    ) -> None:
        self._care = care
        self._cache = cache
        self._queue = queue
        self._inbox = inbox
        self._handlers = handlers
        self._binding = binding
        self._failures = failures
        self._evictions = evictions
        self._other_schedulers = other_schedulers
        self._rooms = rooms
        self._telemetry = telemetry
        self._awaited = frozenset(awaited)
        self._may_act = may_act
        self._clock = clock
        self._settings = settings
        self._extenders = extenders
        self._stopping = False
        self._slice_end = clock() + settings.slice_seconds

    @property
    def synced(self) -> bool:
        """Whether everything that existed at the start has been told and applied."""
        return self._awaited <= self._handlers.listed

    def use_extenders(self, extenders: Extenders, awaited: Collection[ResourceName]) -> None:
        """Ask other extenders from the next pod on, and decide only once *awaited* is listed."""
        self._extenders = extenders
        self._awaited = self._awaited.union(awaited)

    def stop(self) -> None:
        """Take no further pod."""
        self._stopping = True
        self._inbox.stir()

    async def run(self) -> None:
        """Work until told to stop, then let posted binds end."""
        while not self._stopping:
            await self._drain()
            if self._can_take():
                await self._decide_for_a_slice()
            if self._has_work():
                await asyncio.sleep(0)
            else:
                await self._inbox.wait(self._idle_seconds())
        await self._finish()

    async def _finish(self) -> None:
        """Wait for binds and evictions while facts go on being applied."""
        seconds = self._settings.stop_seconds
        ending = asyncio.gather(self._binding.finish(seconds), self._evictions.finish(seconds))
        while not ending.done():
            await self._drain()
            await asyncio.wait((ending,), timeout=0.01)
        await self._drain()

    # Facts.

    async def _drain(self) -> None:
        """Apply everything in the inbox and make ready who has waited long enough, in slices."""
        applied = False
        while (message := self._inbox.take()) is not None:
            applied = True
            self._apply(message)
            await self._catch_up()
        now = self._clock()
        if applied or (self._binding.held.next_deadline() or now + 1) <= now:
            for _ in self._binding.held.reconsider(now):
                await self._pause()
        if (self._other_schedulers.next_change() or now + 1) <= now:
            self._other_schedulers.pass_time(now)
            await self._catch_up()
        while (due := self._queue.next_flush(now)) is not None and due <= now:
            self._queue.flush(now)
            await self._pause()

    def _apply(self, message: Message) -> None:
        if isinstance(message, Added | Updated | Deleted | Listed):
            began = self._clock()
            self._handlers.apply(message, began)
            self._telemetry.applied(message, self._clock() - began)
        else:
            message()

    async def _catch_up(self) -> None:
        """Let the queue hear all that was noted."""
        await self._pause()
        while self._handlers.catch_up(self._clock()):
            await self._pause()

    async def _pause(self) -> None:
        """Give the sockets their turn once a slice is used up; facts wait in the inbox."""
        if self._clock() >= self._slice_end:
            await asyncio.sleep(0)
            self._slice_end = self._clock() + self._settings.slice_seconds

    def _can_take(self) -> bool:
        return (
            not self._stopping
            and self.synced
            and self._binding.busy < self._settings.binds_in_flight
            and self._may_act()
        )

    def _has_work(self) -> bool:
        return bool(len(self._inbox)) or (self._can_take() and self._queue.ready)

    def _idle_seconds(self) -> float:
        """Return how long nothing needs to happen unless something comes in."""
        upcoming = [
            self._queue.next_flush(self._clock()),
            self._binding.held.next_deadline(),
            self._other_schedulers.next_change(),
        ]
        soonest = min((at for at in upcoming if at is not None), default=float("inf"))
        return max(0.0, min(_IDLE_SECONDS_MAXIMUM, soonest - self._clock()))

    # Decisions.

    async def _decide_for_a_slice(self) -> None:
        until = self._clock() + self._settings.slice_seconds
        while self._can_take() and (queued := self._queue.pop(self._clock())) is not None:
            await self._attempt(queued)
            if self._clock() >= until or len(self._inbox):
                return

    async def _attempt(self, queued: QueuedPod) -> None:
        pod, started = queued.pod, self._clock()
        profile = self._care.profile(pod.spec.scheduler_name)
        if profile is None:
            # The configuration that had one was replaced while the pod was on its way to a node.
            self._queue.done(pod.uid)
            self._queue.delete(pod, started)
            return
        if self._is_passed_over(pod):
            self._queue.done(pod.uid)
            return
        if why := self._care.stopped.get(profile.scheduler_name):
            self._failures.handle(queued, AttemptFailure.stopped(why), started)
            return
        attempt = self._prepare(profile, self._as_nominated(pod))
        if self._capacity_was_taken(attempt):
            self._failures.handle(queued, AttemptFailure.undone(), started)
            return
        decision = await self._decide(attempt)
        self._telemetry.decided(self._clock() - started)
        self._rooms.decided(pod.uid, decision.node if isinstance(decision, Bind) else "")
        self._carry_out(queued, profile, decision, started)

    def _is_passed_over(self, pod: Pod) -> bool:
        """Tell whether there is nothing to decide: the pod goes away, or has a node already."""
        if pod.terminating:
            self._telemetry.failed_event(pod, f"skip schedule deleting pod: {pod.key}")
            # It will never come for the room that was made for it.
            self._queue.withdraw(pod, self._clock())
            return True
        return self._cache.pod(pod.uid) is not None

    def _as_nominated(self, pod: Pod) -> Pod:
        """Return *pod* with the nomination that we know of, if the API server was not quicker."""
        node = self._queue.nominated_node(pod.uid)
        return pod.nominated_to(node) if node and node != pod.nominated_node else pod

    def _prepare(self, profile: Profile, pod: Pod) -> Attempt:
        return Attempt(
            profile,
            pod,
            self._cache.view(),
            self._queue.nominated_pods(),
            self._settings.seed,
            self._extenders.extenders,
            self._care.watch(profile, pod, self._telemetry.cycle_observer(profile)),
        )

    def _capacity_was_taken(self, attempt: Attempt) -> bool:
        """Tell whether others took the room that was made for a pod, and draw the conclusions.

        It must not make more room at once: whoever was quicker this time will be so next time.
        """
        uid = attempt.pod.uid
        room = self._rooms.suspect(uid)
        if room is None or not capacity_was_taken(
            attempt, room.node, tuple(room.taken_by.values())
        ):
            return False
        self._other_schedulers.undone(attempt.pod, room, self._clock())
        return True

    async def _decide(self, attempt: Attempt) -> Decision:
        cycle = schedule(attempt)
        responses: ExtenderResponses = None
        while True:
            try:
                step = cycle.send(responses)
            except StopIteration as end:
                decision: Decision = end.value
                return decision
            if isinstance(step, ExtenderRequests):
                responses = tuple(await asyncio.gather(*map(self._extenders.ask, step.requests)))
                continue
            responses = None
            await self._pause()

    def _carry_out(
        self, queued: QueuedPod, profile: Profile, decision: Decision, started: float
    ) -> None:
        match decision:
            case Bind():
                self._binding.begin(queued, profile, decision, started)
            case Park() | Retry():
                self._failures.handle(queued, AttemptFailure.of(decision), started)
            case Preempt():
                # Begun before the pod is parked: its gate must be closed by then.
                if self._failures.is_waiting(decision.pod):
                    self._evictions.begin(decision)
                self._failures.handle(queued, AttemptFailure.of(decision), started)
            case _:
                assert_never(decision)
