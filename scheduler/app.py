"""Composition: the only place that builds things and joins them."""

import asyncio
import gc
import os
import signal
import socket
import sys
import time
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from scheduler.config.change import Outcome
from scheduler.config.run_settings import STANDARD_INPUT, RunSettings
from scheduler.crds.configuration import ConfigurationResource
from scheduler.crds.following import follow
from scheduler.kube.client import ApiClient
from scheduler.kube.credentials import Credentials, load_credentials, own_namespace
from scheduler.kube.event_recorder import EventRecorder
from scheduler.kube.events import Reference
from scheduler.kube.extender_client import ExtenderClient
from scheduler.kube.rate_limit import RateLimiter
from scheduler.kube.reviews import Reviews
from scheduler.loop.control_loop import LoopSettings
from scheduler.loop.core import SchedulerCore
from scheduler.model.fact import Resource
from scheduler.observe import event_names
from scheduler.observe.health import Endpoint, ping
from scheduler.observe.logs import configure, get_logger
from scheduler.observe.metrics import Metrics
from scheduler.observe.serving import Serving
from scheduler.out_of_tree.stall_timer import StallTimer
from scheduler.process.cache_comparer import CacheComparer
from scheduler.process.gauges import read_gauges
from scheduler.process.leadership import Leadership
from scheduler.process.watches import Watches
from scheduler.reload.config_file import ConfigFile
from scheduler.reload.plan import Plan, Source, plan_of
from scheduler.reload.reloader import Reloader, loop_configuration_of
from scheduler.reload.report import Report
from scheduler.reporting.telemetry import Telemetry
from scheduler.version import __version__

log = get_logger()

USER_AGENT: Final = f"py-scheduler/{__version__}"
_UNLIMITED_QPS: Final = -1.0
_EVENT_SECONDS_AT_THE_END: Final = 3.0
_REVIEW_QPS: Final = 20.0
_REVIEW_BURST: Final = 40
_PULSE_SECONDS: Final = 0.5
_GLANCE_SECONDS: Final = 0.1
_FOLLOWING_AGAIN_SECONDS: Final = 30.0


def run(settings: RunSettings) -> int:
    """Schedule until told to stop, and return the exit code.

    Raises:
        ConfigurationError: If the configuration, the credentials or a plugin cannot be used.
    """
    configure(settings.log_level, settings.log_format, sys.stderr)
    started_with = plan_of(settings)
    return _event_loop_run(_schedule(settings, started_with))


def _event_loop_run(main: Coroutine[Any, Any, int]) -> int:
    """Run *main* on the fastest event loop there is."""
    try:
        import uvloop
    except ImportError:  # not on every platform; the standard loop does as well, only slower
        return asyncio.run(main)
    code: int = uvloop.run(main)
    return code


async def _schedule(settings: RunSettings, started_with: Plan) -> int:
    """Open what has to be open, run, and close everything in turn."""
    configuration = started_with.configuration
    connection = configuration.client_connection
    credentials = await load_credentials(
        connection.kubeconfig or None,
        context=settings.context or None,
        master=settings.master or None,
    )
    telemetry = Telemetry(Metrics(), server=credentials.access.server)
    limiter = RateLimiter(connection.qps, connection.burst)
    async with AsyncExitStack() as stack:
        client = await stack.enter_async_context(_client(credentials, limiter, telemetry))
        events = await stack.enter_async_context(_client(credentials, _unlimited(), telemetry))
        # Anybody may make us ask for a review: that must not cost the pods their requests.
        asking = await stack.enter_async_context(
            _client(credentials, RateLimiter(_REVIEW_QPS, _REVIEW_BURST), telemetry)
        )
        extenders = await stack.enter_async_context(ExtenderClient(configuration.extenders))
        telemetry.recorder = recorder = EventRecorder(
            events,
            host=socket.gethostname(),
            limiter=RateLimiter(connection.qps, connection.burst),
            observer=telemetry,
        )
        outside = _Outside(credentials, client, limiter, asking, extenders, recorder)
        run = _Run(settings, started_with, telemetry, outside)
        events.write_only_while(run.may_act)
        return await run.to_the_end()


def _unlimited() -> RateLimiter:
    return RateLimiter(_UNLIMITED_QPS)


def _client(credentials: Credentials, limiter: RateLimiter, telemetry: Telemetry) -> ApiClient:
    return ApiClient(credentials, limiter=limiter, user_agent=USER_AGENT, observer=telemetry)


@dataclass(frozen=True, slots=True)
class _Outside:
    """What is open towards the outside for as long as the process lives.

    Args:
        credentials: As whom we ask.
        client: Carries what scheduling takes.
        limiter: The rate limit of *client*.
        asking: Carries what others make us ask, at a rate of its own.
        extenders: Asks the extenders.
        recorder: Delivers events.
    """

    credentials: Credentials
    client: ApiClient
    limiter: RateLimiter
    asking: ApiClient
    extenders: ExtenderClient
    recorder: EventRecorder


class _Run:
    """One life of the process, from the first list to the last answer."""

    def __init__(
        self, settings: RunSettings, started_with: Plan, telemetry: Telemetry, outside: _Outside
    ) -> None:
        self._settings = settings
        self._configuration = started_with.configuration
        self._telemetry = telemetry
        self._outside = outside
        self._stop = asyncio.Event()
        self._compare_now = asyncio.Event()
        self._leadership = Leadership(
            self._configuration.leader_election, self._connect_for_lease, telemetry
        )
        self.may_act = self._leadership.may_act
        client = outside.client
        client.write_only_while(self.may_act)
        self._core = SchedulerCore(
            setup=loop_configuration_of(started_with, settings, outside.extenders, self.may_act),
            requests=client,
            binds=client.unpaced(),
            pace=self._pace,
            telemetry=telemetry,
            may_act=self.may_act,
            loop_settings=LoopSettings(),
            timer=StallTimer(settings.plugin_seconds_maximum),
        )
        self._watches = Watches(client, self._core.inbox.put, telemetry, started_with.watched)
        self._report = Report(
            telemetry.metrics, outside.recorder.record, _ourselves(), started_with.configuration
        )
        self._reloader = Reloader(
            settings,
            started_with,
            self._core,
            self._watches,
            outside.asking,
            self._report,
            self.may_act,
        )
        self._resource = self._configuration_resource()
        self._serving = Serving(settings, self._endpoint(), Reviews(outside.asking).judge)
        read_gauges(
            telemetry.metrics,
            self._core,
            self._watches,
            lease=self._configuration.leader_election.resource_name,
            leads=self.may_act,
        )

    async def to_the_end(self) -> int:
        """Run until a signal, and return the exit code; a lost lease ends the process at once."""
        self._listen_to_signals()
        self._core.care.timer.install()
        await self._serving.open()
        log.info(event_names.SCHEDULER_STARTED, version=__version__)
        self._leadership.start()
        delivering = asyncio.create_task(self._outside.recorder.run())
        reflecting = asyncio.create_task(self._reflect())
        looping = asyncio.create_task(self._core.loop.run())
        stopping = asyncio.create_task(self._stop.wait())
        following = asyncio.create_task(self._follow_resource())
        beside = [
            asyncio.create_task(run_and_wait(work))
            for work in (
                self._leadership.announce(self._core.inbox.stir),
                self._measure_loop_lag(),
                self._watch_for_drift(),
                self._serving.keep_certificate_fresh(),
                self._tidy_when_synced(),
                self._watch_config_file(),
            )
        ]
        try:
            await asyncio.wait(
                (delivering, reflecting, looping, stopping, *beside),
                return_when=asyncio.FIRST_COMPLETED,
            )
            self._core.loop.stop()
            await looping
            await self._core.status.close(_EVENT_SECONDS_AT_THE_END)
            await self._outside.recorder.close(_EVENT_SECONDS_AT_THE_END)
            await self._leadership.release()
        finally:
            await _cancel(delivering, reflecting, looping, stopping, following, *beside)
            await self._reloader.close()
            await self._serving.close()
        log.info(event_names.SCHEDULER_STOPPED)
        return 0

    async def _measure_loop_lag(self) -> None:
        """Measure how late the event loop gets round to a task that is due."""
        while True:
            due = time.monotonic() + _PULSE_SECONDS
            await asyncio.sleep(_PULSE_SECONDS)
            self._telemetry.loop_stalled(max(0.0, time.monotonic() - due))

    async def _pace(self) -> None:
        """Wait until the rate limit lets a request leave; nearly all of these are bindings."""
        if self._outside.limiter.limits:
            began = time.monotonic()
            await self._outside.limiter.acquire()
            self._telemetry.request_waited("POST", time.monotonic() - began)

    def _connect_for_lease(self, request_seconds: float) -> ApiClient:
        return ApiClient(
            self._outside.credentials,
            limiter=_unlimited(),
            user_agent=f"{USER_AGENT} leader-election",
            observer=self._telemetry,
            timeout_seconds=request_seconds,
        )

    # Watches.

    async def _reflect(self) -> None:
        """Watch everything, if this replica may know the cluster already."""
        if self._configuration.delay_cache_until_active:
            await self._leadership.wait()
        await self._watches.run()

    async def _synced(self) -> None:
        """Return once everything was listed."""
        while not self._core.loop.synced:  # noqa: ASYNC110 - the loop is not made to tell anyone
            await asyncio.sleep(_GLANCE_SECONDS)

    async def _watch_for_drift(self) -> None:
        """Compare the cache with a fresh list, now and then and on SIGUSR2."""
        await self._synced()
        check = CacheComparer(
            self._outside.client,
            {each: self._watches.reflectors[each] for each in (Resource.NODE, Resource.POD)},
            self._core.cache,
            self._core.inbox,
            self._telemetry,
        )
        await check.run(self._settings.drift_seconds, self._compare_now)

    async def _tidy_when_synced(self) -> None:
        await self._synced()
        # What was listed lives as long as we do: the collector need not look at it again.
        gc.collect()
        gc.freeze()
        gc.set_threshold(50_000, 20, 50)

    # The configuration.

    async def _watch_config_file(self) -> None:
        path, text = self._settings.config_path, self._settings.config_text
        if text is not None and path != STANDARD_INPUT:
            await ConfigFile(Path(path), text, self._offer_file).run()

    async def _offer_file(self, text: str) -> Outcome:
        return await self._reloader.offer(text, Source.FILE)

    def _configuration_resource(self) -> ConfigurationResource | None:
        name = self._settings.config_resource
        if not name:
            return None
        return ConfigurationResource(
            name,
            self._offer_resource,
            self._outside.client,
            self._outside.recorder.record,
            lambda: self._report.forget(Source.RESOURCE),
            self.may_act,
        )

    async def _offer_resource(self, text: str) -> Outcome:
        return await self._reloader.offer(text, Source.RESOURCE)

    async def _follow_resource(self) -> None:
        """Follow the object that tells the configuration; a defect of that must harm no pod."""

        def broke_off(problem: Exception) -> None:
            self._report.broke_off(Source.RESOURCE, problem, _FOLLOWING_AGAIN_SECONDS)

        resource, outside = self._resource, self._outside
        if resource is not None:
            await restart_forever(
                lambda: follow(
                    self._settings.config_resource,
                    resource,
                    outside.credentials,
                    outside.client,
                    self._listen_to_signals,
                ),
                broke_off,
                _FOLLOWING_AGAIN_SECONDS,
            )

    # Health and signals.

    def _endpoint(self) -> Endpoint:
        configured = {"configuration": self._resource.check} if self._resource else {}
        return Endpoint(
            self._telemetry.metrics,
            self._reloader.written,
            healthz={"ping": ping},
            readyz={
                "ping": ping,
                "sched-handler-sync": self._check_synced,
                "profiles": self._core.care.check,
                "shutdown": self._check_shutdown,
                **configured,
            },
        )

    def _check_synced(self) -> str | None:
        return None if self._core.loop.synced else "handlers are not fully synchronized"

    def _check_shutdown(self) -> str | None:
        return "process is shutting down" if self._stop.is_set() else None

    def _listen_to_signals(self) -> None:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._on_signal)
        loop.add_signal_handler(signal.SIGUSR2, self._compare_now.set)

    def _on_signal(self) -> None:
        """Stop in order; a second signal does not wait for anything."""
        if self._stop.is_set():
            os._exit(1)
        self._stop.set()


def _ourselves() -> Reference:
    """Return this process's pod, as events name it; outside a cluster nobody looks for it."""
    return Reference(
        kind="Pod", api_version="v1", namespace=own_namespace(), name=socket.gethostname()
    )


async def run_and_wait(work: Awaitable[None]) -> None:
    """Do *work* and never return: what breaks beside the loop must not go unseen for days."""
    await work
    await asyncio.Event().wait()


async def restart_forever(
    work: Callable[[], Awaitable[None]],
    broke_off: Callable[[Exception], None],
    pause_seconds: float,
) -> None:
    """Do *work* until cancelled; whenever it breaks, tell *broke_off*, and begin anew."""
    while True:
        try:
            await work()
        except Exception as problem:  # noqa: BLE001 - whatever it is, it is told
            broke_off(problem)
        await asyncio.sleep(pause_seconds)


async def _cancel(*tasks: asyncio.Task[Any]) -> None:
    """End *tasks*; what one of them died of is raised."""
    for task in tasks:
        task.cancel()
    results = await asyncio.gather(*tasks, return_exceptions=True)
    for result in results:
        if isinstance(result, Exception) and not isinstance(result, asyncio.CancelledError):
            raise result
