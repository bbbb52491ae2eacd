"""Carrying out a preemption: victims go, and the pod that needs their place waits for that.

While the API server is told, a gate keeps the pod out of the queue: the first victim's end must not
make it look for yet more victims.

=========  =====================================  ============================================
state      fact                                   becomes
=========  =====================================  ============================================
(absent)   a pod is to be given room              evicting; leaving if all victims go already
evicting   all victims but one are told to go     last
evicting   the API server cannot be brought to    paused
last       the last victim is told to go          leaving
last       the API server cannot be brought to    paused
paused     a second is over                       (absent): the pod is ready at once
last       the last of all victims has gone       (absent): the pod is ready at once
leaving    the last of all victims has gone       (absent): the pod is ready at once
leaving    other room is to be made for the pod   evicting, anew
last       the same, its last victim being gone   evicting, anew; nobody else is told to go
any        the pod goes, is gone or bound         (absent): who was not told to go is spared
any        the node vanishes                      (absent): who was not told to go is spared
=========  =====================================  ============================================

The gate is closed in *evicting* and *paused*, and in *last* until the last victim is seen to go:
that may be heard before the answer to the request that caused it. Nothing here outlives the
process, so the pod's status names the node before the first victim is told to go: after a restart
its victims go, or the rest of them does.

Source: ``pkg/scheduler/framework/preemption/executor.go``.
"""

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from functools import partial
from typing import Final

from scheduler.binding.binding_cycle import BindingCycle
from scheduler.cache.cluster_cache import ClusterCache
from scheduler.framework.decision import Preempt
from scheduler.framework.rejection import Gate
from scheduler.kube.eviction import AlreadyGone, Evicted, NotEvicted, Spared, evict
from scheduler.kube.pod_status import withdrawal_patch
from scheduler.kube.requests import Requests
from scheduler.model.pod import Pod
from scheduler.preemption.freed_capacity import FreedCapacities
from scheduler.preemption.priority_semaphore import PrioritySemaphore
from scheduler.queue.queue_state import QueueState
from scheduler.queue.scheduling_queue import SchedulingQueue
from scheduler.reporting.inbox import Inbox
from scheduler.reporting.status_writer import StatusWriter
from scheduler.reporting.telemetry import Telemetry

WAITING: Final = "waiting for the preemption for this pod to be finished"
_PREEMPTIONS_AT_ONCE: Final = 32
"""The others wait, the most important first: were all begun, each would wait for the last."""
_EVICTIONS_AT_ONCE: Final = 64
_PAUSE_SECONDS: Final = 1.0
"""Where evicting is not permitted at all, nobody must try it all the time."""


class State(Enum):
    """How far a preemption is; see the table above."""

    EVICTING = auto()
    LAST = auto()
    LEAVING = auto()
    PAUSED = auto()


@dataclass(slots=True, eq=False)
class _Preemption:
    """Room that is being made.

    Args:
        pod: Who needs it.
        started: Monotonic seconds.
        there: UIDs of the victims that have not gone yet.
        last: The victim that is told last.
        wanted: Whether the room is still needed.
    """

    pod: Pod
    node: str
    started: float
    there: set[str]
    state: State = State.EVICTING
    last: Pod | None = None
    wanted: bool = True
    problems: list[str] = field(default_factory=list)


@dataclass(slots=True, eq=False)
class _Victim:
    """A pod whose place one preemption needs, or several.

    Args:
        awaited_by: UIDs of the pods that need it.
        told: Whether it has been told to go: once is enough.
        turn: Whoever tells it; the others wait for what comes of that.
    """

    awaited_by: set[str] = field(default_factory=set)
    told: bool = False
    turn: asyncio.Lock = field(default_factory=asyncio.Lock)


class EvictionGate:
    """Stands among the plugins for DefaultPreemption, and keeps out pods that wait for victims.

    Upstream shows each deletion to them, and thousands of victims to as many pods. Here nothing is
    shown to them: as soon as the gate opens, the pod is made ready.
    """

    name = "DefaultPreemption"
    requeue_on = ()

    def __init__(self, holds_back: Callable[[Pod], bool]) -> None:
        self._holds_back = holds_back

    def pre_enqueue(self, pod: Pod) -> Gate | None:
        """Keep *pod* out until its victims have been told to go."""
        return Gate(WAITING) if self._holds_back(pod) else None


class Evictions:
    """Preemptions that are under way, by the UID of the pod that needs the room.

    Args:
        requests: Keeps to the rate limit by itself.
        rooms: Remembers what room was made, until somebody has it.
        clock: Monotonic seconds.
        wall: The time of day as RFC 3339, for stamps that are written.
    """

    def __init__(
        self,
        *,
        cache: ClusterCache,
        queue: SchedulingQueue,
        inbox: Inbox,
        requests: Requests,
        binding: BindingCycle,
        status: StatusWriter,
        telemetry: Telemetry,
        rooms: FreedCapacities,
        clock: Callable[[], float],
        wall: Callable[[], str],
    ) -> None:
        self._rooms = rooms
        self._cache = cache
        self._queue = queue
        self._inbox = inbox
        self._requests = requests
        self._binding = binding
        self._status = status
        self._telemetry = telemetry
        self._clock = clock
        self._wall = wall
        self._running: dict[str, _Preemption] = {}
        self._victims: dict[str, _Victim] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._places = PrioritySemaphore(_PREEMPTIONS_AT_ONCE)
        self._turns = asyncio.Semaphore(_EVICTIONS_AT_ONCE)

    @property
    def in_flight(self) -> int:
        """How many preemptions have victims that have not been told to go."""
        return len(self._tasks)

    @property
    def preemptors(self) -> Iterator[Pod]:
        """The pods that room is made for."""
        return (preemption.pod for preemption in self._running.values())

    def state_of(self, uid: str) -> State | None:
        """Return how far the preemption for a pod is; None where there is none."""
        preemption = self._running.get(uid)
        return preemption.state if preemption else None

    def holds_back(self, pod: Pod) -> bool:
        """Tell whether *pod* must not be tried yet."""
        preemption = self._running.get(pod.uid)
        if preemption is None or preemption.state is State.LEAVING:
            return False
        if preemption.state is not State.LAST or preemption.last is None:
            return True
        # Who has been seen to go may be told once more, by a watch that is behind a list.
        uid = preemption.last.uid
        last = self._cache.pod(uid) if uid in preemption.there else None
        return last is not None and not last.terminating

    def begin(self, decision: Preempt) -> None:
        """Carry out the decision to make room for a pod."""
        pod, node = decision.pod, decision.node
        assert not self.holds_back(pod), f"{pod.key} was let in before its victims were told"
        self._forget(pod.uid)
        victims = [self._cache.pod(victim.uid) or victim for victim in decision.victims]
        preemption = _Preemption(pod, node, self._clock(), {victim.uid for victim in victims})
        self._running[pod.uid] = preemption
        self._rooms.begin(pod.uid, node)
        for uid in preemption.there:
            self._victims.setdefault(uid, _Victim()).awaited_by.add(pod.uid)
        staying = [victim for victim in victims if not victim.terminating]
        if not staying:
            preemption.state = State.LEAVING
            return
        self._telemetry.evicting(pod, node, len(victims))
        nominees = self._queue.own_nominees(node)
        self._withdraw(other for other in nominees if other.priority < pod.priority)
        bound = [victim for victim in staying if not self._cancel(preemption, victim)]
        if bound:
            self._start(self._evict_all(preemption, bound))
        else:
            self._ended(preemption)

    async def finish(self, timeout_seconds: float) -> None:
        """Give what is under way *timeout_seconds* to end."""
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=timeout_seconds)
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    # Facts, told by the loop.

    def left(self, gone: Pod) -> None:
        """Note that a pod has left its node."""
        victim = self._victims.pop(gone.uid, None)
        for uid in tuple(victim.awaited_by if victim else ()):
            preemption = self._running[uid]
            preemption.there.discard(gone.uid)
            self._wake_if_clear(preemption)

    def abandon(self, pod: Pod) -> None:
        """Note that *pod* needs no room any more: it goes, is gone, or is bound."""
        self._forget(pod.uid)
        self._rooms.forget(pod.uid)

    def node_vanished(self, node: str) -> None:
        """Note that there is no room to be made on *node* any more; who waited for it looks on.

        Somebody more important may have taken a preemptor's nomination: it waits here all the same.
        """
        waiting = [each.pod for each in self._running.values() if each.node == node]
        for pod in waiting:
            self._forget(pod.uid)
        nominees = self._queue.own_nominees(node)
        self._withdraw(nominees)
        freed = dict.fromkeys(pod.uid for pod in (*nominees, *waiting))
        self._queue.activate(freed, self._clock())

    # In the loop.

    def _cancel(self, preemption: _Preemption, victim: Pod) -> bool:
        """Take back the place of a victim that is not bound yet; False where it is too late."""
        if not self._cache.is_assumed(victim.uid) or not self._binding.cancel(victim):
            return False
        self._telemetry.evicted(victim, preemption.pod, preemption.node, in_memory=True)
        return True

    def _withdraw(self, nominees: Iterable[Pod]) -> None:
        """Take nominations away."""
        for pod in tuple(nominees):
            self._queue.withdraw(pod, self._clock())
            self._status.also_write(pod, withdrawal_patch(pod))

    def _ended(self, preemption: _Preemption) -> None:
        """Go on once all victims have been told to go, or cannot be."""
        pod = preemption.pod
        if self._running.get(pod.uid) is not preemption:
            return
        if preemption.problems:
            preemption.state = State.PAUSED
            resume = partial(self._inbox.put, partial(self._resume, preemption))
            asyncio.get_running_loop().call_later(_PAUSE_SECONDS, resume)
            return
        preemption.state = State.LEAVING
        self._wake_if_clear(preemption)
        if self._queue.state_of(pod.uid) is QueueState.GATED:
            # It was kept out when something changed that may be of use to it, here or elsewhere.
            self._queue.activate((pod.uid,), self._clock())

    def _resume(self, preemption: _Preemption) -> None:
        """Let the pod try again after a pause."""
        if self._running.get(preemption.pod.uid) is preemption:
            self._forget(preemption.pod.uid)
            self._rooms.forget(preemption.pod.uid)
            self._queue.activate((preemption.pod.uid,), self._clock())

    def _wake_if_clear(self, preemption: _Preemption) -> None:
        """Let the pod try as soon as all its victims have gone, whatever backoff it has."""
        if preemption.there or preemption.state in {State.EVICTING, State.PAUSED}:
            return
        self._forget(preemption.pod.uid)
        self._rooms.clear(preemption.pod.uid)
        self._queue.activate((preemption.pod.uid,), self._clock())

    def _forget(self, uid: str) -> None:
        preemption = self._running.pop(uid, None)
        if preemption is None:
            return
        preemption.wanted = False
        for each in preemption.there:
            if (victim := self._victims.get(each)) is not None:
                victim.awaited_by.discard(uid)
                if not victim.awaited_by:
                    del self._victims[each]

    def _start(self, work: Coroutine[object, object, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended_task)

    def _ended_task(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (bug := task.exception()) is not None:
            self._inbox.put(lambda: _die_of(bug))

    # In the task: it acts, and tells the loop through the inbox.

    async def _evict_all(self, preemption: _Preemption, victims: Sequence[Pod]) -> None:
        # Were we killed in between, nobody would know for whom the victims had to go.
        await self._status.written(preemption.pod.uid)
        *others, last = victims
        async with self._places.take(preemption.pod.priority):
            await asyncio.gather(*(self._evict(preemption, victim) for victim in others))
            if preemption.wanted and not preemption.problems:
                preemption.state, preemption.last = State.LAST, last
                await self._evict(preemption, last)
        seconds = self._clock() - preemption.started
        self._telemetry.evictions_ended(
            preemption.pod, preemption.node, "; ".join(preemption.problems), seconds
        )
        self._inbox.put(lambda: self._ended(preemption))

    async def _evict(self, preemption: _Preemption, victim: Pod) -> None:
        """Tell *victim* to go, unless it has left, or another preemption has told it."""
        known = self._victims.get(victim.uid)
        if known is None:
            return
        async with known.turn, self._turns:
            if known.told:
                return
            outcome = await evict(
                self._requests,
                victim,
                preemption.pod.spec.scheduler_name,
                self._wall(),
                wanted=lambda: preemption.wanted,
            )
            known.told = isinstance(outcome, Evicted)
        match outcome:
            case Evicted():
                self._telemetry.evicted(victim, preemption.pod, preemption.node)
            case NotEvicted(message):
                preemption.problems.append(f"{victim.key}: {message}")
            case AlreadyGone() | Spared():
                pass


def _die_of(bug: BaseException) -> None:
    """End the loop: the bug is ours, and the process must not limp on."""
    raise bug
