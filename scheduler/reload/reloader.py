"""Applies a changed configuration."""

import asyncio
import time
from collections.abc import Callable
from contextlib import AsyncExitStack
from typing import Any, Final

from scheduler.config.change import Outcome, Result
from scheduler.config.run_settings import RunSettings
from scheduler.errors import ApiError, ConfigurationError
from scheduler.framework.extender_protocol import in_order
from scheduler.kube.extender_client import ExtenderClient
from scheduler.kube.extenders import Extenders
from scheduler.kube.requests import Requests
from scheduler.kube.self_access_review import granted
from scheduler.loop.core import AppliedConfiguration, LoopConfiguration, SchedulerCore
from scheduler.process.watches import Watches
from scheduler.queue.queue_settings import QueueSettings
from scheduler.reload.plan import Plan, Source, further_permissions, plan, refusal
from scheduler.reload.report import Report

LISTING_SECONDS: Final = 30.0
_CLOSE_CHECK_SECONDS: Final = 1.0


class Reloader:
    """Keeps the plan in force, and replaces it.

    Args:
        settings: The settings of the command line.
        running: The plan that the process was started with.
        core: The loop that goes on with another configuration.
        watches: Starts further watches.
        requests: Sends access reviews, which a standby needs as well.
        report: Reports the outcome of each configuration.
        may_act: Tells whether this process leads right now.
        clock: Monotonic seconds, those of the loop.
    """

    def __init__(
        self,
        settings: RunSettings,
        running: Plan,
        core: SchedulerCore,
        watches: Watches,
        requests: Requests,
        report: Report,
        may_act: Callable[[], bool],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.running = running
        self._settings = settings
        self._connected = AsyncExitStack()
        self._extenders = Extenders()
        self._core = core
        self._watches = watches
        self._requests = requests
        self._report = report
        self._may_act = may_act
        self._clock = clock
        self._one_at_a_time = asyncio.Lock()
        self._closing: set[asyncio.Task[None]] = set()

    def written(self) -> dict[str, Any]:
        """Return the document in force, JSON-encodable; secrets are withheld."""
        return self.running.configuration.written()

    async def offer(self, text: str, source: Source) -> Outcome:
        """Apply the document *text* if that is possible, and return the outcome."""
        async with self._one_at_a_time:
            # In a thread, since plugins may have to be imported for it.
            planned = await asyncio.to_thread(plan, self._settings, self.running, text, source)
            outcome = planned if isinstance(planned, Outcome) else await self._apply(planned)
            self._report.judged(source, outcome)
            return outcome

    async def close(self) -> None:
        """Close the connections to extenders of all configurations but the first."""
        for task in self._closing:
            task.cancel()
        await asyncio.gather(*self._closing, return_exceptions=True)
        await self._connected.aclose()

    async def _apply(self, planned: Plan) -> Outcome:
        # The supervisor ignores failures of plugins of an earlier generation, and tells generations
        # apart by number alone.
        assert planned.generation > self.running.generation, "two plans share a generation"
        try:
            missing = await self._missing_permissions(planned)
        except ApiError as error:
            return self.running.outcome(Result.UNANSWERED, str(error))
        if missing:
            return self.running.outcome(Result.FORBIDDEN, *missing)
        try:
            extenders = await asyncio.to_thread(ExtenderClient, planned.configuration.extenders)
        except ConfigurationError as problem:
            return self.running.outcome(Result.INVALID, *problem.problems)
        if late := await self._watches.widen(planned.watched, LISTING_SECONDS):
            return self.running.outcome(
                Result.UNWATCHED,
                f"{late}: could not be listed within {LISTING_SECONDS:g}s; "
                f"see the lines watch.restarted and watch.refused",
            )
        connected = AsyncExitStack()
        await connected.enter_async_context(extenders)
        exchanged = loop_configuration_of(planned, self._settings, extenders, self._may_act)
        applied = await self._swap(exchanged)
        self._close_connections(self._connected, self._extenders)
        self._connected, self._extenders = connected, exchanged.extenders
        self.running = planned
        self._report.applied(planned.configuration, applied)
        return planned.outcome(Result.APPLIED)

    async def _missing_permissions(self, planned: Plan) -> list[str]:
        further = further_permissions(self.running, planned)
        answers = await asyncio.gather(*(granted(self._requests, each) for each in further))
        said = (refusal(need, given) for need, given in zip(further, answers, strict=True))
        return [line for line in said if line]

    async def _swap(self, configuration: LoopConfiguration) -> AppliedConfiguration:
        """Let the loop exchange everything between two pods, after the facts that came before."""
        done: asyncio.Future[AppliedConfiguration] = asyncio.get_running_loop().create_future()
        self._core.inbox.put(
            lambda: done.set_result(self._core.apply_configuration(configuration, self._clock()))
        )
        return await done

    def _close_connections(self, connected: AsyncExitStack, extenders: Extenders) -> None:
        """Close connections once no pod in the binding cycle needs their extenders."""
        task = asyncio.get_running_loop().create_task(self._close_later(connected, extenders))
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)

    async def _close_later(self, connected: AsyncExitStack, extenders: Extenders) -> None:
        try:
            while self._core.binding.uses(extenders):  # noqa: ASYNC110 - closing is not urgent
                await asyncio.sleep(_CLOSE_CHECK_SECONDS)
        finally:
            await connected.aclose()


def loop_configuration_of(
    planned: Plan, settings: RunSettings, extenders: ExtenderClient, may_act: Callable[[], bool]
) -> LoopConfiguration:
    """Return the part of *planned* that the loop needs."""
    configuration = planned.configuration
    return LoopConfiguration(
        planned.profiles,
        planned.out_of_tree,
        QueueSettings(
            configuration.backoff_seconds_initial,
            configuration.backoff_seconds_maximum,
            settings.pod_seconds_unschedulable_maximum,
            settings.foreign_nomination_seconds,
        ),
        Extenders(tuple(in_order(configuration.extenders)), extenders.called_only_while(may_act)),
        frozenset(each.resource for each in planned.watched),
    )
