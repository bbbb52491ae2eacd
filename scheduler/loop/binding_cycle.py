"""The binding cycle: from an assumed pod to a bound one, or back.

Source: ``pkg/scheduler/schedule_one.go`` (assumeAndReserve, bindingCycle, handleBindingCycleError).
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any, Final, assert_never

import msgspec

from scheduler.cache.cluster_cache import ClusterCache
from scheduler.errors import ApiError, PluginError, Unreachable
from scheduler.framework.asking import ask
from scheduler.framework.cluster_event import ASSIGNED_POD_DELETE, Change
from scheduler.framework.decision import Bind, SetTo
from scheduler.framework.effects import Effect, Patch, PostBinding, WaitUntil
from scheduler.framework.extending import bind_question, is_interested, read_bind
from scheduler.framework.filtering import ask_filters, ask_pre_filters
from scheduler.framework.observer import Observer
from scheduler.framework.plugin import PermitPlugin, PreBindPlugin, Reserved, ReservePlugin
from scheduler.framework.profile import Profile
from scheduler.framework.rejection import Allow, Failure, Reject, Wait
from scheduler.kube.binding import BindOutcome, Bound, Refused, Taken, Vanished, bind
from scheduler.kube.pod_status import Unwritten, nomination_patch, patch_status
from scheduler.kube.requests import MERGE_PATCH, Requests
from scheduler.kube.throttling import keep_appointments
from scheduler.loop.extending import Extending
from scheduler.loop.failures import Failed, Failures
from scheduler.loop.held_pods import HeldPods, Released
from scheduler.loop.inbox import Inbox
from scheduler.loop.placement import Placement
from scheduler.loop.plugin_care import PluginCare
from scheduler.loop.telemetry import Telemetry
from scheduler.model.pod import Pod
from scheduler.queue.queued_pod import QueuedPod
from scheduler.queue.scheduling_queue import SchedulingQueue
from scheduler.snapshot.node_table import NodeTable

_encode: Final = msgspec.json.Encoder().encode
# A bind that waited longer than this, for whatever reason, may have been overtaken by facts.
_WAITED_SECONDS: Final = 0.001


class BindingCycle:
    """Assumes, reserves, asks for permits, and binds in a task of its own for each pod.

    Args:
        requests: Carries binds; it does not wait for the rate limit, *pace* does.
        pace: Waits until the rate limit lets a request leave.
        clock: Monotonic seconds.
        extending: The extenders, of which one may bind in our place.
        left: Called with an assumed pod that lost its place again.
    """

    def __init__(
        self,
        *,
        cache: ClusterCache,
        queue: SchedulingQueue,
        inbox: Inbox,
        failures: Failures,
        requests: Requests,
        pace: Callable[[], Awaitable[None]],
        telemetry: Telemetry,
        care: PluginCare,
        clock: Callable[[], float],
        extending: Extending,
        left: Callable[[Pod], None],
    ) -> None:
        self._extending = extending
        self._cache = cache
        self._queue = queue
        self._inbox = inbox
        self._failures = failures
        self._requests = requests
        self._pace = pace
        self._telemetry = telemetry
        self._care = care
        self._clock = clock
        self._left = left
        self._tasks: dict[asyncio.Task[None], Placement] = {}
        self.held = HeldPods(self._ask_permit, cache.view)
        self._unposted: dict[str, Placement] = {}

    @property
    def in_flight(self) -> int:
        """How many pods are between their decision and its end."""
        return len(self._tasks)

    @property
    def busy(self) -> int:
        """How many of them are on their way; the others wait for permits or for conditions."""
        return len(self._tasks) - self.held.count

    def extend(self, extending: Extending) -> None:
        """Let other extenders bind from the next pod on."""
        self._extending = extending

    def asks(self, extending: Extending) -> bool:
        """Tell whether a pod on its way may be bound by one of *extending* still."""
        return any(each.extending is extending for each in self._tasks.values())

    def begin(self, queued: QueuedPod, profile: Profile, decision: Bind, started: float) -> None:
        """Carry out the decision to bind a pod."""
        pod = self._cache.assume(decision.pod, decision.node)
        self._queue.withdraw(pod, self._clock(), placed_on=decision.node)
        placement = Placement(queued, profile, pod, decision, started, self._extending)
        try:
            with self._telemetry.extension_point("Reserve", profile) as ends:
                refusal = self._reserve(placement)
                ends(_status(refusal))
            refusal = refusal or self._permit(placement)
        except PluginError as bug:
            refusal = Failed.error(str(bug), bug.plugin)
        if isinstance(refusal, Failed):
            self._undo(placement, refusal)

    async def finish(self, timeout_seconds: float) -> None:
        """Give binds that are under way *timeout_seconds* to end; who is held is let go."""
        self.held.abandon()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=timeout_seconds)
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def condemned(self, pod: Pod) -> None:
        """React to an assumed pod whose deletion has begun: its place is free again."""
        if self.held.reject(pod.uid, "removed"):
            return
        self.held.give_up(pod.uid, "pod does not exist any more")
        placed = self._cache.forget(pod.uid)
        if placed is not None:
            self._note_freed(placed)

    def call_off(self, pod: Pod) -> bool:
        """Keep *pod*, which must make room, from being bound; False where it is too late for that.

        It goes back into the queue and is not lost, as it would be if it were deleted.
        """
        if self.held.call_off(pod.uid, "preempted"):
            return True
        placement = self._unposted.get(pod.uid)
        if placement is None:
            return False
        placement.called_off = "preempted by DefaultPreemption"
        self.held.give_up(pod.uid, placement.called_off)
        return True

    # In the loop, before the task.

    def _reserve(self, placement: Placement) -> Failed | None:
        for plugin in placement.profile.reserve:
            answer = self._ask_reserve(plugin, placement, self._cache.view())
            if isinstance(answer, Reject):
                return Failed.rejected(plugin.name, answer.reason)
            if isinstance(answer, Failure):
                return Failed.error(
                    f'running Reserve plugin "{plugin.name}": {answer.text}', plugin.name
                )
            for each in answer or ():
                if not self._cache.assume_object(each.resource, each.item):
                    name = each.item.metadata.name
                    return Failed.error(
                        f'running Reserve plugin "{plugin.name}": {name} changed meanwhile',
                        plugin.name,
                    )
                placement.assumed.append(each)
        return None

    def _permit(self, placement: Placement) -> Failed | None:
        with self._telemetry.extension_point("Permit", placement.profile) as ends:
            waits = self._ask_permits(placement)
            if isinstance(waits, Failed):
                ends(_status(waits))
                return waits
            ends("Wait" if waits else "Success")
        placement.will_wait = bool(waits) or self._has_to_prepare(placement)
        if waits:
            held = self.held.hold(placement, waits, self._clock())
            self._start(placement, self._bind_when_released(placement, held))
        else:
            self._queue.done(placement.pod.uid)
            self._start(placement, self._bind(placement))
        return None

    def _ask_permits(self, placement: Placement) -> list[tuple[PermitPlugin, Wait]] | Failed:
        """Return who wants the pod to wait, or the refusal of the first that refuses."""
        waits: list[tuple[PermitPlugin, Wait]] = []
        for plugin in placement.profile.permit:
            answer = self._ask_permit(placement, plugin, self.held.waiting)
            match answer:
                case Allow():
                    pass
                case Wait():
                    waits.append((plugin, answer))
                case Reject(reason):
                    return Failed.rejected(plugin.name, reason)
                case _:
                    raise PluginError(plugin.name, f"answered permit with {answer!r}")
        return waits

    def _has_to_prepare(self, placement: Placement) -> bool:
        """Tell whether a plugin wants something done or waited for before the pod is bound."""
        return any(
            isinstance(effect, Patch | WaitUntil)
            for plugin in placement.profile.pre_bind
            for effect in self._effects(plugin, placement)
        )

    def _start(self, placement: Placement, work: Coroutine[object, object, None]) -> None:
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
        self, placement: Placement, held: "asyncio.Future[Released]"
    ) -> None:
        began = self._clock()
        await self._nominate(placement)
        released = await held
        result = "Error" if released.broken else "Unschedulable" if released.why else "Success"
        self._telemetry.permit_waited(result, self._clock() - began)
        if released.why:
            fail = Failed.error if released.broken else _rejected
            failed = fail(released.why, released.plugin)
            self._inbox.put(lambda: self._undo(placement, failed))
            return
        self._inbox.put(lambda: self._queue.done(placement.pod.uid))
        await self._bind(placement, has_waited=True)

    async def _bind(self, placement: Placement, *, has_waited: bool = False) -> None:
        before = self._clock()
        self._unposted[placement.pod.uid] = placement
        try:
            if not has_waited:
                await self._nominate(placement)
            with self._telemetry.extension_point("PreBind", placement.profile) as ends:
                failed = await self._prepare(placement)
                ends(_status(failed))
            if failed is None:
                await self._pace()
                if has_waited or self._clock() - before > _WAITED_SECONDS:
                    failed = self._no_longer_fits(placement)
            if placement.called_off:
                failed = Failed.error(placement.called_off)
            if failed is None:
                del self._unposted[placement.pod.uid]
                with self._telemetry.extension_point("Bind", placement.profile) as ends:
                    outcome = await self._post(placement)
                    ends("Success" if isinstance(outcome, Bound) else "Error")
                if not isinstance(outcome, Bound):
                    await self._take_back(placement)
                self._inbox.put(lambda: self._ended(placement, outcome))
                return
        except ApiError as error:
            failed = Failed.error(str(error))
        except PluginError as bug:
            failed = Failed.error(str(bug), bug.plugin)
        finally:
            self._unposted.pop(placement.pod.uid, None)
        await self._take_back(placement)
        ended = failed
        self._inbox.put(lambda: self._undo(placement, ended))

    async def _post(self, placement: Placement) -> BindOutcome:
        """Bind the pod: through an extender that wants to, or else by ourselves."""
        for extender in placement.extending.extenders:
            if extender.bind_verb and is_interested(extender, placement.pod):
                ask = bind_question(extender, placement.pod, placement.node)
                why = read_bind(ask, await placement.extending.ask(ask))
                if not why:
                    return Bound(placement.node)
                if not extender.ignorable:
                    return Refused(why)
        return await bind(
            self._requests,
            placement.pod,
            placement.node,
            annotations=placement.annotations,
            observer=self._telemetry,
            objection=lambda: self._objection(placement),
        )

    async def _nominate(self, placement: Placement) -> None:
        """Tell everyone where the pod is going, if it will be some time until it is there."""
        patch = nomination_patch(placement.queued.pod, SetTo(placement.node))
        if not placement.will_wait or patch is None:
            return
        await self._pace()
        outcome = await patch_status(self._requests, placement.queued.pod, patch)
        if isinstance(outcome, Unwritten):
            self._telemetry.status_not_written(placement.pod, outcome.message)

    def _effects(self, plugin: PreBindPlugin, placement: Placement) -> list[Effect]:
        return ask(
            "PreBind",
            plugin.name,
            self._watch(placement),
            lambda: list(plugin.pre_bind(placement.pod, placement.node, self._cache.view())),
        )

    async def _prepare(self, placement: Placement) -> Failed | None:
        """Perform what the pre-bind plugins ask for; None once the pod may be bound."""
        for plugin in placement.profile.pre_bind:
            for effect in self._effects(plugin, placement):
                why = placement.called_off or await self._perform(placement, effect)
                if why:
                    return Failed.error(
                        f'running PreBind plugin "{plugin.name}": {why}', plugin.name
                    )
        return None

    async def _perform(self, placement: Placement, effect: object) -> str:
        match effect:
            case Patch(path, body, undo):
                await self._pace()
                try:
                    await self._patch(path, body, lambda: self._is_on_its_way(placement))
                except Unreachable:
                    # Nobody knows whether it took effect: what takes it back does no harm then.
                    placement.owe(path, undo)
                    raise
                placement.owe(path, undo)
            case WaitUntil():
                return await self.held.until(placement.pod, effect)
            case PostBinding(annotations):
                placement.annotations.update(annotations)
            case _:
                return f"asked for an unknown effect {effect!r}"
        return ""

    async def _take_back(self, placement: Placement) -> None:
        for path, body in reversed(placement.undo):
            try:
                await self._patch(path, body, lambda: True)
            except ApiError as error:
                self._telemetry.effect_not_undone(placement.pod, path, str(error))

    async def _patch(self, path: str, body: dict[str, Any], wanted: Callable[[], bool]) -> None:
        """Patch an object for a plugin, at the time that the API server asks for."""
        await keep_appointments(
            lambda: self._requests.patch(path, _encode(body), MERGE_PATCH),
            wanted=wanted,
            told=self._telemetry.throttled,
        )

    def _is_on_its_way(self, placement: Placement) -> bool:
        return not placement.called_off and self._cache.is_assumed(placement.pod.uid)

    def _objection(self, placement: Placement) -> str:
        """Tell why the binding should not be posted again; empty where it may be."""
        try:
            failed = self._no_longer_fits(placement)
        except PluginError as bug:
            return str(bug)
        return "" if failed is None else failed.message

    def _no_longer_fits(self, placement: Placement) -> Failed | None:
        """Check the chosen row again: facts may have come in while the bind waited for its turn."""
        nodes = self._cache.view()
        row = nodes.row_of(placement.node)
        if row is None:
            return Failed.error(f"node {placement.node} is gone")
        if not self._cache.is_assumed(placement.pod.uid):
            return None  # confirmed or removed meanwhile; the API server's answer will tell
        alone = nodes.alone(row)
        if not _is_overcommitted(alone, placement.pod):
            return None
        # Perhaps nobody minds: filters can be off, or told to pass over a resource.
        before = alone.each(removing={0: (placement.pod,)})
        profile, pod = placement.profile, placement.decision.pod
        watch = self._watch(placement)
        narrowed = ask_pre_filters(profile.pre_filter, pod, before, watch)
        if narrowed.refused is not None:
            return Failed.error(f"node {placement.node}: {narrowed.refused.reason}")
        found = ask_filters(profile.filter, narrowed.skipped, pod, before, watch)
        if found.feasible[0]:
            return None
        reasons = ", ".join(verdict.reason for verdict in found.verdicts)
        return Failed.error(f"node {placement.node} was filled meanwhile: {reasons}")

    # In the loop again, through the inbox.

    def _ended(self, placement: Placement, outcome: BindOutcome) -> None:
        match outcome:
            case Bound():
                self._telemetry.bound(placement, self._clock())
            case Taken(node, why):
                where = f"bound to {node}" if node else "decided elsewhere"
                self._undo(placement, Failed.error(f"the pod was {where}: {why}"))
            case Vanished():
                self._undo(placement, Failed.error("the pod is gone"))
            case Refused(message):
                self._undo(
                    placement, Failed.error(f'running Bind plugin "DefaultBinder": {message}')
                )
            case _:
                assert_never(outcome)

    def _undo(self, placement: Placement, failed: Failed) -> None:
        """Take the placement back and hand the pod to the failure handler."""
        watch = self._watch(placement)
        for plugin in reversed(placement.profile.reserve):
            try:
                ask(
                    "Unreserve",
                    plugin.name,
                    watch,
                    plugin.unreserve,
                    placement.pod,
                    placement.node,
                )
            except PluginError as bug:
                if not self._care.is_foreign(placement.profile, bug.plugin):  # else it is told
                    self._telemetry.plugin_failed(bug.plugin, "Unreserve", str(bug))
        for each in reversed(placement.assumed):
            self._cache.restore_object(each.resource, each.item)
        placed = self._cache.forget(placement.pod.uid)
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

    # Asking.

    def _watch(self, placement: Placement) -> Observer:
        return self._care.watch(placement.profile, placement.pod)

    def _ask_reserve(
        self, plugin: ReservePlugin, placement: Placement, nodes: NodeTable
    ) -> Reserved:
        return ask(
            "Reserve",
            plugin.name,
            self._watch(placement),
            plugin.reserve,
            placement.pod,
            placement.node,
            nodes,
        )

    def _ask_permit(
        self, placement: Placement, plugin: PermitPlugin, waiting: Sequence[Pod]
    ) -> object:
        watch = self._watch(placement)
        return ask(
            "Permit", plugin.name, watch, plugin.permit, placement.pod, placement.node, waiting
        )


def _is_overcommitted(alone: NodeTable, pod: Pod) -> bool:
    """Tell whether the node of the only row has less than what is requested on it."""
    return any(
        amount > 0 and alone.requested(resource)[0] > alone.allocatable(resource)[0]
        for resource, amount in pod.requests.items()
    ) or bool(alone.pod_count[0] > alone.allowed_pods[0])


def _status(failed: Failed | None) -> str:
    """Return upstream's name for how a run of an extension point ended."""
    if failed is None:
        return "Success"
    return "Unschedulable" if failed.rejected_by else "Error"


def _rejected(why: str, plugin: str) -> Failed:
    return Failed.rejected(plugin, why)


def _die_of(bug: BaseException) -> None:
    """End the loop: the bug is ours, and the process must not limp on."""
    raise bug
