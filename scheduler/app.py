"""Composition: makes the parts that a process has once, connects them, runs them and closes them.

Their own parts are made by their owners: cache and queue by `SchedulerCore`, reflectors by
`Watches`, profiles by `out_of_tree.loading`, from which `explain` and `check` take them as well.
"""

import asyncio
import os
import signal
import socket
import sys
import time
from collections.abc import AsyncGenerator, Coroutine
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final

from scheduler.binding.binding_requests import BindingRequests
from scheduler.config.run_settings import RunSettings
from scheduler.kube.client import JSON, METADATA, ApiClient
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
from scheduler.observe.health import Endpoint, Judge, ping
from scheduler.observe.logs import configure, get_logger
from scheduler.observe.metrics import Metrics
from scheduler.observe.serving import Serving
from scheduler.out_of_tree.stall_timer import StallTimer
from scheduler.process.background import Heartbeat, cancel, measure_loop_lag, run_and_wait
from scheduler.process.cache_comparer import CacheComparer
from scheduler.process.gauges import read_gauges
from scheduler.process.heap import freeze_heap, freeze_while_listing
from scheduler.process.leadership import Leadership
from scheduler.process.watches import Watches
from scheduler.reload.plan import Plan, plan_of
from scheduler.reload.reloader import Reloader, loop_configuration_of
from scheduler.reload.report import Report
from scheduler.reload.sources import ConfigurationSources
from scheduler.reporting.telemetry import Telemetry
from scheduler.version import __version__

log = get_logger()

USER_AGENT: Final = f"py-scheduler/{__version__}"
_UNLIMITED_QPS: Final = -1.0
_CLOSE_SECONDS: Final = 3.0
"""How long unwritten statuses may delay the end, and unwritten events again."""
_REVIEW_QPS: Final = 20.0
_REVIEW_BURST: Final = 40
_COMPARISON_QPS: Final = 40.0
"""Pages of the cache comparison: 150,000 pods take 38 s of each five minutes."""
_POLL_SECONDS: Final = 0.1


def run(settings: RunSettings) -> int:
    """Schedule until a signal ends it, and return the exit code.

    Raises:
        ConfigurationError: If the configuration, the credentials or a plugin cannot be used.
    """
    configure(settings.log_level, settings.log_format, sys.stderr)
    started_with = plan_of(settings)
    # Before the event loop runs: what the imports left takes 50 ms to visit, in one step.
    freeze_heap()
    return _event_loop_run(_schedule(settings, started_with))


def _event_loop_run(main: Coroutine[Any, Any, int]) -> int:
    """Run *main* on uvloop if it is installed, and else on the standard event loop."""
    try:
        import uvloop
    except ImportError:  # it does not exist for every platform, and is only faster
        return asyncio.run(main)
    code: int = uvloop.run(main)
    return code


async def _schedule(settings: RunSettings, started_with: Plan) -> int:
    """Open the connections, run, and close them in reverse order."""
    connection = started_with.configuration.client_connection
    credentials = await load_credentials(
        connection.kubeconfig or None,
        context=settings.context or None,
        master=settings.master or None,
    )
    telemetry = Telemetry(Metrics(), server=credentials.access.server)
    async with AsyncExitStack() as stack:
        connections = await _open_connections(stack, credentials, started_with, telemetry)
        telemetry.recorder = connections.recorder
        return await _Process(settings, started_with, telemetry, connections).run()


@dataclass(frozen=True, slots=True)
class _Connections:
    """The connections to API server and extenders, open for as long as the process lives.

    Args:
        credentials: Those of all connections.
        client: Sends the requests of scheduling.
        limiter: The rate limit of *client*.
        events: Sends events, at a rate limit of their own.
        recorder: Queues events and sends them through *events*.
        reviews: Sends the reviews of our own permissions.
        metadata: Lists metadata for the cache comparison, at a rate limit of its own.
        comparison: Lists whole objects for it, at the same rate limit.
        extenders: Sends requests to the extenders.
    """

    credentials: Credentials
    client: ApiClient
    limiter: RateLimiter
    events: ApiClient
    recorder: EventRecorder
    reviews: ApiClient
    metadata: ApiClient
    comparison: ApiClient
    extenders: ExtenderClient


async def _open_connections(
    stack: AsyncExitStack, credentials: Credentials, started_with: Plan, telemetry: Telemetry
) -> _Connections:
    configuration = started_with.configuration
    qps, burst = configuration.client_connection.qps, configuration.client_connection.burst

    async def connect(limiter: RateLimiter, accept: str = JSON) -> ApiClient:
        return await stack.enter_async_context(
            ApiClient(
                credentials,
                limiter=limiter,
                user_agent=USER_AGENT,
                observer=telemetry,
                accept=accept,
            )
        )

    limiter = RateLimiter(qps, burst)
    client = await connect(limiter)
    # The recorder waits for a rate limit of its own before each request.
    events = await connect(_unlimited())
    reviews = await connect(_review_limiter())
    # Thousands of pages of a large cluster must not delay bindings either.
    pages = RateLimiter(_COMPARISON_QPS, burst=1)
    metadata, comparison = await connect(pages, METADATA), await connect(pages)
    extenders = await stack.enter_async_context(ExtenderClient(configuration.extenders))
    recorder = EventRecorder(
        events, host=socket.gethostname(), limiter=RateLimiter(qps, burst), observer=telemetry
    )
    return _Connections(
        credentials, client, limiter, events, recorder, reviews, metadata, comparison, extenders
    )


def _unlimited() -> RateLimiter:
    return RateLimiter(_UNLIMITED_QPS)


def _review_limiter() -> RateLimiter:
    """Return a rate limit of its own for reviews, which must not delay bindings."""
    return RateLimiter(_REVIEW_QPS, _REVIEW_BURST)


class _Process:
    """The connected parts of the process; `run` runs them until the process ends."""

    def __init__(
        self,
        settings: RunSettings,
        started_with: Plan,
        telemetry: Telemetry,
        connections: _Connections,
    ) -> None:
        self._settings = settings
        self._configuration = configuration = started_with.configuration
        self._telemetry = telemetry
        self._connections = connections
        self._stop = asyncio.Event()
        self._compare_now = asyncio.Event()
        self._leadership = Leadership(
            configuration.leader_election, self._connect_for_lease, telemetry
        )
        may_act = self._leadership.may_act
        client, record = connections.client, connections.recorder.record
        # The loop checks the lease before it decides. This fence checks it again before each write,
        # whichever part sends it.
        client.write_only_while(may_act)
        connections.events.write_only_while(may_act)
        self._core = SchedulerCore(
            configuration=loop_configuration_of(
                started_with, settings, connections.extenders, may_act
            ),
            requests=client,
            binds=BindingRequests(
                client.without_rate_limit(), self._wait_for_rate_limit, telemetry
            ),
            telemetry=telemetry,
            may_act=may_act,
            settings=LoopSettings(
                pod_entries_maximum=settings.pod_entries_maximum,
                check_decisions=settings.check_decisions,
            ),
            timer=StallTimer(settings.plugin_seconds_maximum),
        )
        self._watches = Watches(client, self._core.inbox.put, telemetry, started_with.watched)
        report = Report(telemetry.metrics, record, _this_pod(), configuration)
        self._reloader = Reloader(
            settings, started_with, self._core, self._watches, connections.reviews, report, may_act
        )
        self._sources = ConfigurationSources(
            settings, self._reloader, report, connections.credentials, client, record, may_act
        )
        self._heartbeat = Heartbeat()
        self._serving = Serving(settings, self._endpoint(), self._judging)
        read_gauges(
            telemetry.metrics,
            self._core,
            self._watches,
            lease=configuration.leader_election.resource_name,
            leads=may_act,
        )

    async def run(self) -> int:
        """Run until a signal, and return the exit code; a lost lease ends the process at once."""
        self._listen_to_signals()
        self._core.supervisor.timer.install()
        await self._serving.open()
        log.info(event_names.SCHEDULER_STARTED, version=__version__)
        self._leadership.start()
        looping = asyncio.create_task(self._core.loop.run())
        # The process stops when the first of these ends: in order, or by raising that one's
        # exception.
        others = [
            asyncio.create_task(self._stop.wait()),
            asyncio.create_task(self._watch_cluster()),
            asyncio.create_task(self._connections.recorder.run()),
            *(asyncio.create_task(run_and_wait(work)) for work in self._background_work()),
        ]
        # Not among them: a failure of kopf must not stop the scheduling of pods.
        following = asyncio.create_task(self._sources.watch_resource(self._listen_to_signals))
        try:
            await asyncio.wait((looping, *others), return_when=asyncio.FIRST_COMPLETED)
            # The lease goes last: until it is released no other replica sends requests.
            self._core.loop.stop()
            await looping
            await self._core.status.close(_CLOSE_SECONDS)
            await self._connections.recorder.close(_CLOSE_SECONDS)
            await self._leadership.release()
        finally:
            await cancel(looping, following, *others)
            await self._reloader.close()
            await self._serving.close()
        log.info(event_names.SCHEDULER_STOPPED)
        return 0

    def _background_work(self) -> tuple[Coroutine[Any, Any, None], ...]:
        return (
            self._leadership.announce(self._core.inbox.wake),
            measure_loop_lag(self._telemetry, self._heartbeat),
            self._compare_cache(),
            freeze_while_listing(lambda: self._core.loop.synced),
            self._serving.watch(),
            self._sources.watch_file(),
        )

    async def _wait_for_rate_limit(self) -> None:
        """Wait until the rate limit permits a binding.

        Bindings wait here and not in the client: a lease may be lost meanwhile, so the permission
        to act is checked once more between the wait and the request.
        """
        if self._connections.limiter.limits:
            began = time.monotonic()
            await self._connections.limiter.acquire()
            self._telemetry.request_waited("POST", time.monotonic() - began)

    def _connect_for_lease(self, request_seconds: float) -> ApiClient:
        return ApiClient(
            self._connections.credentials,
            limiter=_unlimited(),
            user_agent=f"{USER_AGENT} leader-election",
            observer=self._telemetry,
            timeout_seconds=request_seconds,
        )

    # Watches and the cache.

    async def _watch_cluster(self) -> None:
        """Watch everything; a standby waits for the lease first if the configuration says so."""
        if self._configuration.delay_cache_until_active:
            await self._leadership.wait()
        await self._watches.run()

    async def _wait_until_synced(self) -> None:
        """Return once everything was listed."""
        while not self._core.loop.synced:  # noqa: ASYNC110 - the loop has no event for it
            await asyncio.sleep(_POLL_SECONDS)

    async def _compare_cache(self) -> None:
        """Compare the cache with a fresh list, periodically and on SIGUSR2."""
        await self._wait_until_synced()
        comparer = CacheComparer(
            self._connections.metadata,
            self._connections.comparison,
            {each: self._watches.reflectors[each] for each in (Resource.NODE, Resource.POD)},
            self._core.cache,
            self._core.inbox,
            self._telemetry,
        )
        await comparer.run(self._settings.drift_seconds, self._compare_now)

    # Health and signals.

    def _endpoint(self) -> Endpoint:
        resource = self._sources.resource
        configured = {"configuration": resource.check} if resource else {}
        alive = {"ping": ping, "event-loop": self._heartbeat.check}
        return Endpoint(
            self._telemetry.metrics,
            self._reloader.written,
            healthz=alive,
            livez=alive,
            readyz={
                "ping": ping,
                "sched-handler-sync": self._check_synced,
                "profiles": self._core.supervisor.check,
                "shutdown": self._check_shutdown,
                **configured,
            },
        )

    @asynccontextmanager
    async def _judging(self) -> AsyncGenerator[Judge]:
        """Open a client for the thread of the endpoint: a client belongs to one event loop.

        Anybody who can reach the endpoint can cause reviews.
        """
        async with ApiClient(
            self._connections.credentials,
            limiter=_review_limiter(),
            user_agent=USER_AGENT,
            observer=self._telemetry,
        ) as client:
            yield Reviews(client).judge

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
        """Stop in order; end at once on a second signal."""
        if self._stop.is_set():
            os._exit(1)
        self._stop.set()


def _this_pod() -> Reference:
    """Return this process's pod, as events name it; outside a cluster there is no such pod."""
    return Reference(
        kind="Pod", api_version="v1", namespace=own_namespace(), name=socket.gethostname()
    )
