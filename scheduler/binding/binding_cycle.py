"""The binding cycle: from an assumed pod to a bound one, or back.

Source: ``pkg/scheduler/schedule_one.go`` (assumeAndReserve, bindingCycle, handleBindingCycleError).
"""

from collections.abc import Awaitable, Callable
from typing import Final, assert_never

from scheduler.binding.binding_attempt import BindingAttempt
from scheduler.binding.binding_plugins import BindingPlugins, is_async, status_of
from scheduler.binding.binding_requests import BindingRequests
from scheduler.binding.waiting_pods import Released, WaitingPods
from scheduler.binding.watch_lag import WatchLag
from scheduler.cache.cluster_cache import ClusterCache
from scheduler.errors import ApiError, PluginError
from scheduler.framework.cluster_event import ASSIGNED_POD_DELETE, Change
from scheduler.framework.decision import Bind
from scheduler.framework.effects import Patch, PostBinding, WaitUntil
from scheduler.framework.profile import Profile
from scheduler.kube.binding import BindOutcome, Bound, Conflicted, NotBound, PodGone, bind
from scheduler.kube.extenders import Extenders
from scheduler.model.meta import PodUid
from scheduler.model.pod import Pod
from scheduler.observe import families
from scheduler.queue.queued_pod import QueuedPod
from scheduler.queue.scheduling_queue import SchedulingQueue
from scheduler.reporting.clock import Clock
from scheduler.reporting.failure_handler import AttemptFailure, FailureHandler
from scheduler.reporting.tasks import Tasks
from scheduler.reporting.telemetry import Telemetry

_GONE: Final = "pod does not exist any more"

# Facts may have been applied while a bind took longer than this; the node is checked again then.
_WAITED_SECONDS: Final = 0.001


class Assumptions:
    """Assumes pods on nodes and forgets them again, with all that follows from either.

    Args:
        on_pod_left: Called with an assumed pod that lost its node: it may have been a victim.
    """

    def __init__(
        self,
        cache: ClusterCache,
        queue: SchedulingQueue,
        clock: Clock,
        on_pod_left: Callable[[Pod], None],
    ) -> None:
        self._cache = cache
        self._queue = queue
        self._clock = clock
        self._on_pod_left = on_pod_left

    def assume(self, decision: Bind) -> Pod:
        """Count the pod on its node, end its nomination, and return the pod as placed."""
        pod = self._cache.assume(decision.pod, decision.node)
        self._queue.withdraw(pod, self._clock.now(), placed_on=decision.node)
        assert not self._queue.nominated_node(pod.uid), f"{pod.key} would be counted twice"
        return pod

    def exists(self, uid: PodUid) -> bool:
        """Tell whether a pod is assumed, by any attempt."""
        return self._cache.is_assumed(uid)

    def stands(self, placed: Pod) -> bool:
        """Tell whether *placed*, which ``assume`` returned, is still assumed."""
        return self._cache.assumes(placed)

    def is_superseded(self, placed: Pod) -> bool:
        """Tell whether the pod is assumed by a later attempt than that of *placed*."""
        return self._cache.is_assumed(placed.uid) and not self._cache.assumes(placed)

    def forget(self, uid: PodUid) -> Pod | None:
        """Free what a pod takes on its node, and requeue no pod; None if it is not assumed."""
        return self._cache.forget(uid)

    def wake_others(self, freed: Pod, *, but: Pod | None = None) -> None:
        """Requeue pods that could use what *freed* took; never the pod *but*."""
        self._queue.requeue_on(
            Change(ASSIGNED_POD_DELETE, freed, None),
            self._clock.now(),
            only=None if but is None else lambda pod: pod.uid != but.uid,
        )
        self._on_pod_left(freed)


class BindingCycle:
    """Assumes the pod, runs reserve and permit plugins, and binds in one task for each pod.

    Args:
        plugins: Calls the late plugins of an attempt's profile.
        requests: Sends what an attempt writes.
        failures: Parks pods that are not bound.
    """

    def __init__(
        self,
        *,
        assumptions: Assumptions,
        queue: SchedulingQueue,
        plugins: BindingPlugins,
        requests: BindingRequests,
        failures: FailureHandler,
        tasks: Tasks[BindingAttempt],
        telemetry: Telemetry,
        clock: Clock,
    ) -> None:
        self._assumptions = assumptions
        self._queue = queue
        self._plugins = plugins
        self._requests = requests
        self._failures = failures
        self._tasks = tasks
        self._telemetry = telemetry
        self._now = clock.now
        self.waiting = WaitingPods(plugins)
        self.watch_lag = WatchLag(telemetry.metrics, assumptions.exists)
        self._unposted: dict[str, BindingAttempt] = {}

    @property
    def in_flight(self) -> int:
        """How many pods are between their decision and its end."""
        return len(self._tasks)

    @property
    def busy(self) -> int:
        """How many of them are being bound; the others wait for permits or for conditions."""
        busy = len(self._tasks) - len(self.waiting)
        assert busy >= 0, f"{len(self.waiting)} pods wait, {len(self._tasks)} are in flight"
        return busy

    def uses(self, extenders: Extenders) -> bool:
        """Tell whether one of *extenders* may still bind a pod that is in flight."""
        return any(attempt.extenders is extenders for attempt in self._tasks.subjects)

    async def finish(self, timeout_seconds: float) -> None:
        """Give binds that are under way *timeout_seconds* to end; waiting pods are not bound."""
        self.waiting.cancel_all()
        await self._tasks.finish(timeout_seconds)

    # In the loop, before the task.

    def begin(
        self,
        queued: QueuedPod,
        profile: Profile,
        decision: Bind,
        started: float,
        extenders: Extenders,
    ) -> None:
        """Carry out the decision to bind a pod; its attempt *started* at these seconds."""
        pod = self._assumptions.assume(decision)
        attempt = BindingAttempt(queued, profile, pod, decision, started, extenders)
        try:
            failure = self._plugins.reserve(attempt)
            if failure is None:
                waits = self._plugins.permit(attempt, self.waiting.pods)
                if isinstance(waits, AttemptFailure):
                    failure = waits
                elif waits:
                    # Not `done` yet: if the permit is refused later, changes since the pop must
                    # count. Upstream calls Done after WaitOnPermit, too.
                    attempt.must_wait = True
                    released = self.waiting.add(attempt, waits, self._now())
                    self._tasks.start(attempt, self._bind_when_released(attempt, released))
                else:
                    annotations = self._plugins.annotations_at_once(attempt)
                    attempt.must_wait = annotations is None
                    attempt.annotations.update(annotations or {})
                    self._queue.done(pod.uid)
                    self._tasks.start(attempt, self._bind(attempt))
        except PluginError as bug:
            failure = AttemptFailure.error(str(bug), bug.plugin)
        if failure is not None:
            self._undo(attempt, failure)

    def on_assumed_pod_deleted(self, pod: Pod) -> None:
        """Free the node of an assumed pod whose deletion has begun."""
        if self.waiting.reject(pod.uid, "removed"):
            return
        if (attempt := self._unposted.get(pod.uid)) is not None:
            attempt.cancelled = _GONE
        self.waiting.cancel_conditions(pod.uid, _GONE)
        placed = self._assumptions.forget(pod.uid)
        if placed is not None:
            self._assumptions.wake_others(placed)

    def cancel(self, victim: Pod) -> bool:
        """Keep *victim* from being bound; False once its binding may have been posted.

        The victim is parked. An eviction would delete the pod, though nothing runs yet.
        """
        if not self._assumptions.exists(victim.uid):
            return False
        if self.waiting.cancel(victim.uid, "preempted"):
            return True
        attempt = self._unposted.get(victim.uid)
        if attempt is None:
            return False
        attempt.cancelled = "preempted by DefaultPreemption"
        self.waiting.cancel_conditions(victim.uid, attempt.cancelled)
        return True

    # In the task: it acts, and reports to the loop.

    async def _bind_when_released(self, attempt: BindingAttempt, wait: Awaitable[Released]) -> None:
        began = self._now()
        await self._requests.nominate(attempt)
        released = await wait
        result = "Error" if released.is_error else "Unschedulable" if released.why else "Success"
        seconds = self._now() - began
        self._telemetry.metrics.observe(families.PERMIT_WAIT_DURATION, seconds, result)
        if released.why:
            failure = (
                AttemptFailure.error(released.why, released.plugin)
                if released.is_error
                else AttemptFailure.rejected(released.plugin, released.why)
            )
            self._tasks.report(lambda: self._undo(attempt, failure))
            return
        self._tasks.report(lambda: self._queue.done(attempt.pod.uid))
        await self._bind(attempt, has_waited=True)

    async def _bind(self, attempt: BindingAttempt, *, has_waited: bool = False) -> None:
        try:
            failure = await self._make_ready(attempt, has_waited=has_waited)
            if failure is None:
                outcome = await self._post(attempt)
                self._tasks.report(lambda: self._ended(attempt, outcome))
                return
        except ApiError as error:
            failure = AttemptFailure.error(str(error))
        except PluginError as bug:
            failure = AttemptFailure.error(str(bug), bug.plugin)
        await self._requests.undo_patches(attempt)
        reported = failure
        self._tasks.report(lambda: self._undo(attempt, reported))

    async def _make_ready(
        self, attempt: BindingAttempt, *, has_waited: bool
    ) -> AttemptFailure | None:
        """Run the pre-bind plugins, and wait for the rate limit; None once the pod may be bound."""
        before = self._now()
        self._unposted[attempt.pod.uid] = attempt
        try:
            failure = None
            if attempt.must_wait:
                if not has_waited:
                    await self._requests.nominate(attempt)
                with self._telemetry.extension_point("PreBind", attempt.profile) as set_status:
                    failure = await self._run_pre_bind(attempt)
                    set_status(status_of(failure))
            if failure is None:
                await self._requests.pace()
                if has_waited or self._now() - before > _WAITED_SECONDS:
                    failure = self._plugins.no_longer_fits(attempt)
            return AttemptFailure.error(attempt.cancelled) if attempt.cancelled else failure
        finally:
            # An API server restored from a backup may show the pod anew, and a newer attempt for
            # the same UID may be here by now.
            if self._unposted.get(attempt.pod.uid) is attempt:
                del self._unposted[attempt.pod.uid]

    async def _run_pre_bind(self, attempt: BindingAttempt) -> AttemptFailure | None:
        for plugin in attempt.profile.pre_bind:
            effects = (
                await self._plugins.call_async(plugin, attempt)
                if is_async(plugin)
                else self._plugins.effects(plugin, attempt)
            )
            for effect in effects:
                why = attempt.cancelled or await self._perform(attempt, effect)
                if why:
                    return AttemptFailure.error(
                        f'running PreBind plugin "{plugin.name}": {why}', plugin.name
                    )
        return None

    async def _perform(self, attempt: BindingAttempt, effect: object) -> str:
        """Perform one effect of a pre-bind plugin; return why that failed, or nothing."""
        match effect:
            case Patch():
                await self._requests.patch(
                    attempt, effect, wanted=lambda: self._is_current(attempt)
                )
            case WaitUntil():
                return await self.waiting.until(attempt.pod, effect)
            case PostBinding(annotations):
                attempt.annotations.update(annotations)
            case _:
                return f"asked for an unknown effect {effect!r}"
        return ""

    def _is_current(self, attempt: BindingAttempt) -> bool:
        return not attempt.cancelled and self._assumptions.stands(attempt.pod)

    async def _post(self, attempt: BindingAttempt) -> BindOutcome:
        with self._telemetry.extension_point("Bind", attempt.profile) as set_status:
            outcome = await self._requests.bind_by_extender(attempt)
            if outcome is None:
                outcome = await bind(
                    self._requests.client,
                    attempt.pod,
                    attempt.node,
                    annotations=attempt.annotations,
                    observer=self._telemetry,
                    objection=lambda: self._plugins.objection(attempt),
                )
            set_status("Success" if isinstance(outcome, Bound) else "Error")
        if not isinstance(outcome, Bound):
            await self._requests.undo_patches(attempt)
        return outcome

    # In the loop again.

    def _ended(self, attempt: BindingAttempt, outcome: BindOutcome) -> None:
        match outcome:
            case Bound():
                attempt.end()
                now = self._now()
                self.watch_lag.answered(attempt.pod.uid, now)
                self._telemetry.bound(
                    attempt.queued, attempt.decision, started=attempt.started, now=now
                )
            case Conflicted(node, why):
                where = f"bound to {node}" if node else "decided elsewhere"
                self._undo(attempt, AttemptFailure.error(f"the pod was {where}: {why}"))
            case PodGone():
                self._undo(attempt, AttemptFailure.error("the pod is gone"))
            case NotBound(message):
                self._undo(
                    attempt, AttemptFailure.error(f'running Bind plugin "DefaultBinder": {message}')
                )
            case _:
                assert_never(outcome)

    def _undo(self, attempt: BindingAttempt, failure: AttemptFailure) -> None:
        """Unreserve and forget, and hand the pod to the failure handler."""
        attempt.end()
        self._plugins.unreserve(attempt)
        if self._assumptions.is_superseded(attempt.pod):
            return  # a newer attempt for the pod is under way, and decides what becomes of it
        freed = self._assumptions.forget(attempt.pod.uid)
        if failure.rejected_by:
            # The pod is parked before others are woken, and is left out: the capacity that its own
            # rejection frees must not requeue it (upstream's handleBindingCycleError).
            self._failures.handle(attempt.queued, failure, attempt.started)
            if freed is not None:
                self._assumptions.wake_others(freed, but=attempt.pod)
        else:
            if freed is not None:
                self._assumptions.wake_others(freed)
            self._failures.handle(attempt.queued, failure, attempt.started)
