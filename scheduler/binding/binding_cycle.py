"""The binding cycle: from an assumed pod to a bound one, or back.

Source: ``pkg/scheduler/schedule_one.go`` (assumeAndReserve, bindingCycle, handleBindingCycleError).
"""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Final, assert_never

from scheduler.binding.binding_attempt import BindingAttempt
from scheduler.binding.binding_plugins import BindingPlugins, acts_by_itself, status_of
from scheduler.binding.binding_requests import BindingRequests
from scheduler.binding.waiting_pods import Released, WaitingPods
from scheduler.cache.cluster_cache import ClusterCache
from scheduler.errors import ApiError, PluginError
from scheduler.framework.cluster_event import ASSIGNED_POD_DELETE, Change
from scheduler.framework.decision import Bind
from scheduler.framework.effects import Patch, PostBinding, WaitUntil
from scheduler.framework.profile import Profile
from scheduler.kube.binding import BindOutcome, Bound, Conflicted, NotBound, PodGone
from scheduler.kube.extenders import Extenders
from scheduler.model.pod import Pod
from scheduler.queue.queued_pod import QueuedPod
from scheduler.queue.scheduling_queue import SchedulingQueue
from scheduler.reporting.failure_handler import AttemptFailure, FailureHandler
from scheduler.reporting.inbox import Inbox
from scheduler.reporting.telemetry import Telemetry

# A bind that waited longer than this, for whatever reason, may have been overtaken by facts.
_WAITED_SECONDS: Final = 0.001


class BindingCycle:
    """Assumes, reserves, asks for permits, and binds in a task of its own for each pod.

    Args:
        plugins: Have their say about a placement.
        requests: Carry to the API server what a placement writes.
        clock: Monotonic seconds.
        extenders: The extenders, of which one may bind in our place.
        left: Called with an assumed pod that lost its place again.
    """

    def __init__(
        self,
        *,
        cache: ClusterCache,
        queue: SchedulingQueue,
        inbox: Inbox,
        failures: FailureHandler,
        plugins: BindingPlugins,
        requests: BindingRequests,
        telemetry: Telemetry,
        clock: Callable[[], float],
        extenders: Extenders,
        left: Callable[[Pod], None],
    ) -> None:
        self._extenders = extenders
        self._cache = cache
        self._queue = queue
        self._inbox = inbox
        self._failures = failures
        self._plugins = plugins
        self._requests = requests
        self._telemetry = telemetry
        self._clock = clock
        self._left = left
        self._tasks: dict[asyncio.Task[None], BindingAttempt] = {}
        self.held = WaitingPods(plugins.ask_permit, cache.view)
        self._unposted: dict[str, BindingAttempt] = {}

    @property
    def in_flight(self) -> int:
        """How many pods are between their decision and its end."""
        return len(self._tasks)

    @property
    def busy(self) -> int:
        """How many of them are on their way; the others wait for permits or for conditions."""
        return len(self._tasks) - self.held.count

    def use_extenders(self, extenders: Extenders) -> None:
        """Let other extenders bind from the next pod on."""
        self._extenders = extenders

    def asks(self, extenders: Extenders) -> bool:
        """Tell whether a pod on its way may be bound by one of *extenders* still."""
        return any(each.extenders is extenders for each in self._tasks.values())

    def begin(self, queued: QueuedPod, profile: Profile, decision: Bind, started: float) -> None:
        """Carry out the decision to bind a pod."""
        pod = self._cache.assume(decision.pod, decision.node)
        self._queue.withdraw(pod, self._clock(), placed_on=decision.node)
        placement = BindingAttempt(queued, profile, pod, decision, started, self._extenders)
        try:
            refusal = self._plugins.reserve(placement) or self._set_out(placement)
        except PluginError as bug:
            refusal = AttemptFailure.error(str(bug), bug.plugin)
        if refusal is not None:
            self._undo(placement, refusal)

    async def finish(self, timeout_seconds: float) -> None:
        """Give binds that are under way *timeout_seconds* to end; who is held is let go."""
        self.held.abandon()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=timeout_seconds)
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def on_assumed_pod_deleted(self, pod: Pod) -> None:
        """React to an assumed pod whose deletion has begun: its place is free again."""
        if self.held.reject(pod.uid, "removed"):
            return
        if (placement := self._unposted.get(pod.uid)) is not None:
            placement.cancelled = "pod does not exist any more"
        self.held.give_up(pod.uid, "pod does not exist any more")
        placed = self._cache.forget(pod.uid)
        if placed is not None:
            self._note_freed(placed)

    def cancel(self, pod: Pod) -> bool:
        """Keep *pod*, which must make room, from being bound; False where it is too late for that.

        It goes back into the queue and is not lost, as it would be if it were deleted.
        """
        if self.held.cancel(pod.uid, "preempted"):
            return True
        placement = self._unposted.get(pod.uid)
        if placement is None:
            return False
        placement.cancelled = "preempted by DefaultPreemption"
        self.held.give_up(pod.uid, placement.cancelled)
        return True

    # In the loop, before the task.

    def _set_out(self, placement: BindingAttempt) -> AttemptFailure | None:
        """Send the pod on its way, at once or when all permits are there; or return the refusal."""
        waits = self._plugins.permit(placement, self.held.waiting)
        if isinstance(waits, AttemptFailure):
            return waits
        placement.will_wait = bool(waits) or self._plugins.has_to_prepare(placement)
        if waits:
            held = self.held.hold(placement, waits, self._clock())
            self._start(placement, self._bind_when_released(placement, held))
        else:
            self._queue.done(placement.pod.uid)
            self._start(placement, self._bind(placement))
        return None

    def _start(self, placement: BindingAttempt, work: Coroutine[object, object, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks[task] = placement
        task.add_done_callback(self._ended_task)

    def _ended_task(self, task: asyncio.Task[None]) -> None:
        del self._tasks[task]
        self._inbox.stir()  # the loop may have waited for a free place
        if not task.cancelled() and (bug := task.exception()) is not None:
            self._inbox.put(lambda: _die_of(bug))

    # In the task: it acts, and tells the loop through the inbox.

    async def _bind_when_released(
        self, placement: BindingAttempt, held: "asyncio.Future[Released]"
    ) -> None:
        began = self._clock()
        await self._requests.nominate(placement)
        released = await held
        result = "Error" if released.broken else "Unschedulable" if released.why else "Success"
        self._telemetry.permit_waited(result, self._clock() - began)
        if released.why:
            failed = (
                AttemptFailure.error(released.why, released.plugin)
                if released.broken
                else AttemptFailure.rejected(released.plugin, released.why)
            )
            self._inbox.put(lambda: self._undo(placement, failed))
            return
        self._inbox.put(lambda: self._queue.done(placement.pod.uid))
        await self._bind(placement, has_waited=True)

    async def _bind(self, placement: BindingAttempt, *, has_waited: bool = False) -> None:
        try:
            failed = await self._make_ready(placement, has_waited=has_waited)
            if failed is None:
                outcome = await self._post(placement)
                self._inbox.put(lambda: self._ended(placement, outcome))
                return
        except ApiError as error:
            failed = AttemptFailure.error(str(error))
        except PluginError as bug:
            failed = AttemptFailure.error(str(bug), bug.plugin)
        await self._requests.take_back(placement)
        ended = failed
        self._inbox.put(lambda: self._undo(placement, ended))

    async def _make_ready(
        self, placement: BindingAttempt, *, has_waited: bool
    ) -> AttemptFailure | None:
        """Do and await what comes before the binding; None once it may be posted."""
        before = self._clock()
        self._unposted[placement.pod.uid] = placement
        try:
            if not has_waited:
                await self._requests.nominate(placement)
            with self._telemetry.extension_point("PreBind", placement.profile) as ends:
                failed = await self._prepare(placement)
                ends(status_of(failed))
            if failed is None:
                await self._requests.pace()
                if has_waited or self._clock() - before > _WAITED_SECONDS:
                    failed = self._plugins.no_longer_fits(placement)
            return AttemptFailure.error(placement.cancelled) if placement.cancelled else failed
        finally:
            # A server that went back in time may have shown the pod anew, and it set out again.
            if self._unposted.get(placement.pod.uid) is placement:
                del self._unposted[placement.pod.uid]

    async def _post(self, placement: BindingAttempt) -> BindOutcome:
        with self._telemetry.extension_point("Bind", placement.profile) as ends:
            outcome = await self._requests.bind(
                placement, objection=lambda: self._plugins.objection(placement)
            )
            ends("Success" if isinstance(outcome, Bound) else "Error")
        if not isinstance(outcome, Bound):
            await self._requests.take_back(placement)
        return outcome

    async def _prepare(self, placement: BindingAttempt) -> AttemptFailure | None:
        """Perform what the pre-bind plugins ask for; None once the pod may be bound."""
        for plugin in placement.profile.pre_bind:
            wanted = (
                await self._plugins.acts(plugin, placement)
                if acts_by_itself(plugin)
                else self._plugins.effects(plugin, placement)
            )
            for effect in wanted:
                why = placement.cancelled or await self._perform(placement, effect)
                if why:
                    return AttemptFailure.error(
                        f'running PreBind plugin "{plugin.name}": {why}', plugin.name
                    )
        return None

    async def _perform(self, placement: BindingAttempt, effect: object) -> str:
        match effect:
            case Patch():
                await self._requests.patch(
                    placement, effect, wanted=lambda: self._is_on_its_way(placement)
                )
            case WaitUntil():
                return await self.held.until(placement.pod, effect)
            case PostBinding(annotations):
                placement.annotations.update(annotations)
            case _:
                return f"asked for an unknown effect {effect!r}"
        return ""

    def _is_on_its_way(self, placement: BindingAttempt) -> bool:
        return not placement.cancelled and self._cache.assumes(placement.pod)

    # In the loop again, through the inbox.

    def _ended(self, placement: BindingAttempt, outcome: BindOutcome) -> None:
        match outcome:
            case Bound():
                self._telemetry.bound(
                    placement.queued,
                    placement.decision,
                    started=placement.started,
                    now=self._clock(),
                )
            case Conflicted(node, why):
                where = f"bound to {node}" if node else "decided elsewhere"
                self._undo(placement, AttemptFailure.error(f"the pod was {where}: {why}"))
            case PodGone():
                self._undo(placement, AttemptFailure.error("the pod is gone"))
            case NotBound(message):
                self._undo(
                    placement,
                    AttemptFailure.error(f'running Bind plugin "DefaultBinder": {message}'),
                )
            case _:
                assert_never(outcome)

    def _undo(self, placement: BindingAttempt, failed: AttemptFailure) -> None:
        """Take the placement back and hand the pod to the failure handler."""
        self._plugins.unreserve(placement)
        uid = placement.pod.uid
        if self._cache.is_assumed(uid) and not self._cache.assumes(placement.pod):
            return  # the pod is on its way once more, and that is the newer story
        placed = self._cache.forget(uid)
        if failed.rejected_by:
            # The pod itself must not be woken by the room that its own failure leaves.
            self._failures.handle(placement.queued, failed, placement.started)
            if placed is not None:
                self._note_freed(placed, but=placement.pod)
        else:
            if placed is not None:
                self._note_freed(placed)
            self._failures.handle(placement.queued, failed, placement.started)

    def _note_freed(self, placed: Pod, *, but: Pod | None = None) -> None:
        self._queue.note(
            Change(ASSIGNED_POD_DELETE, placed, None),
            self._clock(),
            only=None if but is None else lambda pod: pod.uid != but.uid,
        )
        self._left(placed)


def _die_of(bug: BaseException) -> None:
    """End the loop: the bug is ours, and the process must not limp on."""
    raise bug
