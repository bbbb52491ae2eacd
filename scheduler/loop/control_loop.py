"""The control loop: apply all facts, pop the next pod, run one attempt, repeat."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from scheduler.loop.fact_handlers import FactHandlers
from scheduler.loop.schedule_one import ScheduleOne
from scheduler.model.fact import Added, Deleted, Listed, Updated
from scheduler.queue.queue_state import QueueState
from scheduler.queue.scheduling_queue import SchedulingQueue
from scheduler.reporting.clock import Clock
from scheduler.reporting.inbox import Inbox
from scheduler.reporting.telemetry import Telemetry

_IDLE_SECONDS_MAXIMUM: Final = 1.0
"""Leadership is polled: `may_act` can change without a message."""


@dataclass(frozen=True, slots=True)
class LoopSettings:
    """Limits of the loop.

    Args:
        binds_in_flight: How many pods may be in their binding cycle before no further pod is
            popped; pods that wait for a volume or a permit do not count.
        slice_seconds: How long the loop may compute before it yields to the event loop, which
            serves the sockets.
        stop_seconds: How long posted binds may take to end after a request to stop.
        seed: Chooses among equal nodes, together with the pod and the node.
        pod_entries_maximum: How much a pod may ask; one that asks more is parked.
        check_decisions: Whether every decision is made a second time, without the answers of
            plugins that were kept, and compared: twice the work, to find a wrong answer.
    """

    binds_in_flight: int = 256
    slice_seconds: float = 0.008
    stop_seconds: float = 20.0
    seed: int = 0
    pod_entries_maximum: int = 5000
    check_decisions: bool = False


class ControlLoop:
    """The only writer of cache and queue.

    Args:
        handlers: Apply facts.
        schedule_one: Takes one pod through its attempt.
        telemetry: Records how long facts take to apply.
        may_act: Returns whether this process leads right now.
    """

    def __init__(
        self,
        *,
        inbox: Inbox,
        queue: SchedulingQueue,
        handlers: FactHandlers,
        schedule_one: ScheduleOne,
        telemetry: Telemetry,
        may_act: Callable[[], bool],
        clock: Clock,
        settings: LoopSettings,
    ) -> None:
        self._inbox = inbox
        self._queue = queue
        self._handlers = handlers
        self._schedule_one = schedule_one
        self._waiting = schedule_one.waiting
        self._telemetry = telemetry
        self._may_act = may_act
        self._now = clock.now
        self._settings = settings
        self._stopping = False
        self._slice_end = self._now() + settings.slice_seconds

    @property
    def synced(self) -> bool:
        """Whether everything that existed at the start has been listed and applied."""
        return self._handlers.synced

    def stop(self) -> None:
        """Pop no further pod, and let `run` end."""
        self._stopping = True
        self._inbox.wake()

    async def run(self) -> None:
        """Work until ``stop`` is called, then let posted binds and evictions end."""
        while not self._stopping:
            await self._apply_facts()
            # Facts that arrive during an attempt are applied before the next one. The time limit is
            # for what no fact announces: backoffs, permits and bans that end.
            until = self._now() + self._settings.slice_seconds
            while self._may_take() and (queued := self._queue.pop(self._now())) is not None:
                await self._schedule_one.run(queued, self._pause)
                # A pod left in flight would be lost, and the log of changes would grow for ever.
                assert (
                    queued.state is not QueueState.IN_FLIGHT or queued.pod.uid in self._waiting
                ), f"its attempt is over, and nothing became of it: {queued}"
                if self._now() >= until or len(self._inbox):
                    break
            if len(self._inbox) or (self._may_take() and self._queue.ready):
                await asyncio.sleep(0)
            else:
                await self._inbox.wait(self._idle_seconds())
        await self._finish()

    async def _finish(self) -> None:
        """Wait for binds and evictions, and apply facts meanwhile: their results are messages."""
        ending = asyncio.ensure_future(self._schedule_one.finish(self._settings.stop_seconds))
        while not ending.done():
            await self._apply_facts()
            await asyncio.wait((ending,), timeout=0.01)
        await self._apply_facts()

    async def _apply_facts(self) -> None:
        """Apply the whole inbox, then whatever is due by the clock, in slices."""
        applied = False
        while (message := self._inbox.take()) is not None:
            applied = True
            if isinstance(message, Added | Updated | Deleted | Listed):
                began = self._now()
                self._handlers.apply(message, began)
                self._telemetry.applied(message, self._now() - began)
            else:
                message()
            # Three messages come with each pod, and most leave nothing to finish.
            if self._handlers.catch_up(self._now()) or self._now() >= self._slice_end:
                await self._catch_up()
        now = self._now()
        deadline = self._waiting.next_deadline()
        if applied or (deadline is not None and deadline <= now):
            for _ in self._waiting.recheck(now):
                await self._pause()
        if self._handlers.expire_bans(now):
            await self._catch_up()
        while (due := self._queue.next_flush(now)) is not None and due <= now:
            self._queue.flush(now)
            await self._pause()

    async def _catch_up(self) -> None:
        """Finish the work that the last message began on many pods, before the next is applied."""
        await self._pause()
        while self._handlers.catch_up(self._now()):
            await self._pause()

    async def _pause(self) -> None:
        """Yield to the event loop once a slice is used up; facts wait in the inbox."""
        if self._now() >= self._slice_end:
            await asyncio.sleep(0)
            self._slice_end = self._now() + self._settings.slice_seconds

    def _may_take(self) -> bool:
        return (
            not self._stopping
            and self._handlers.synced
            and self._schedule_one.busy < self._settings.binds_in_flight
            and self._may_act()
        )

    def _idle_seconds(self) -> float:
        """Return how long the loop may sleep unless a message arrives."""
        upcoming = [
            self._queue.next_flush(self._now()),
            self._waiting.next_deadline(),
            self._handlers.next_expiry(),
        ]
        soonest = min((at for at in upcoming if at is not None), default=float("inf"))
        return max(0.0, min(_IDLE_SECONDS_MAXIMUM, soonest - self._now()))
