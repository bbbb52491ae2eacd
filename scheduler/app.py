"""Composition: the only place that builds things and joins them."""

import asyncio
import gc
import os
import signal
import socket
import ssl
import sys
import time
import uuid
from collections.abc import Awaitable, Callable, Coroutine, Sized
from contextlib import AsyncExitStack
from importlib import import_module
from pathlib import Path
from typing import Any, Final

from scheduler.config.change import Outcome
from scheduler.config.run_settings import STANDARD_INPUT, RunSettings
from scheduler.crds.configuration import ConfigurationResource
from scheduler.kube.client import ApiClient
from scheduler.kube.credentials import Credentials, load_credentials, own_namespace
from scheduler.kube.election import LeaseSettings
from scheduler.kube.event_recorder import EventRecorder
from scheduler.kube.events import Reference
from scheduler.kube.extender_client import ExtenderClient
from scheduler.kube.lease import LeaseKeeper
from scheduler.kube.rate_limit import RateLimiter
from scheduler.kube.reviews import Reviews
from scheduler.loop.assembly import Core
from scheduler.loop.control_loop import LoopSettings
from scheduler.loop.drift import DriftCheck
from scheduler.loop.stall_timer import StallTimer
from scheduler.loop.telemetry import Telemetry
from scheduler.loop.watches import Watches
from scheduler.model.fact import Resource
from scheduler.observe import event_names, families
from scheduler.observe.certificate import ServingCertificate, self_signed
from scheduler.observe.health import Checks, Endpoint, ping, serve
from scheduler.observe.logs import configure, get_logger
from scheduler.observe.metrics import Metrics
from scheduler.reload.config_file import ConfigFile
from scheduler.reload.plan import Plan, Source, plan_of
from scheduler.reload.reloader import Reloader, setup_of
from scheduler.reload.report import Report
from scheduler.version import __version__

log = get_logger()

USER_AGENT: Final = f"py-scheduler/{__version__}"
LOST_LEASE_EXIT_CODE: Final = 1
_UNLIMITED_QPS: Final = -1.0
_EVENT_SECONDS_AT_THE_END: Final = 3.0
_REVIEW_QPS: Final = 20.0
_REVIEW_BURST: Final = 40
_PULSE_SECONDS: Final = 0.5
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


async def _schedule(
    settings: RunSettings,
    started_with: Plan,
) -> int:
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
        recorder = EventRecorder(
            events,
            host=socket.gethostname(),
            limiter=RateLimiter(connection.qps, connection.burst),
            observer=telemetry,
        )
        telemetry.recorder = recorder
        # Anybody may make us ask for a review: that must not cost the pods their requests.
        asking = await stack.enter_async_context(
            _client(credentials, RateLimiter(_REVIEW_QPS, _REVIEW_BURST), telemetry)
        )
        extenders = await stack.enter_async_context(ExtenderClient(configuration.extenders))
        run = _Run(
            settings,
            started_with,
            telemetry,
            client,
            limiter,
            credentials,
            extenders,
            asking,
            recorder,
        )
        events.write_only_while(run.may_act)
        return await run.to_the_end()


def _unlimited() -> RateLimiter:
    return RateLimiter(_UNLIMITED_QPS)


def _client(credentials: Credentials, limiter: RateLimiter, telemetry: Telemetry) -> ApiClient:
    return ApiClient(credentials, limiter=limiter, user_agent=USER_AGENT, observer=telemetry)


class _Run:
    """One life of the process, from the first list to the last answer."""

    def __init__(
        self,
        settings: RunSettings,
        started_with: Plan,
        telemetry: Telemetry,
        client: ApiClient,
        limiter: RateLimiter,
        credentials: Credentials,
        extenders: ExtenderClient,
        asking: ApiClient,
        recorder: EventRecorder,
    ) -> None:
        self._settings = settings
        self._reviews = Reviews(asking)
        self._recorder = recorder
        self._configuration = started_with.configuration
        self._telemetry = telemetry
        self._credentials = credentials
        self._client = client
        self._limiter = limiter
        self._stop = asyncio.Event()
        self._compare_now = asyncio.Event()
        self._certificate: ServingCertificate | None = None
        self._keeper = self._lease_keeper()
        client.write_only_while(self.may_act)
        self._core = Core(
            setup=setup_of(started_with, settings, extenders, self.may_act),
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
            telemetry.metrics, recorder.record, _ourselves(), started_with.configuration
        )
        self._reloader = Reloader(
            settings, started_with, self._core, self._watches, asking, self._report, self.may_act
        )
        self._resource = self._configuration_resource()
        self._read_gauges()

    async def to_the_end(self) -> int:
        """Run until a signal, and return the exit code; a lost lease ends the process at once."""
        self._listen_to_signals()
        self._core.care.timer.install()
        runner = await self._serve()
        log.info(event_names.SCHEDULER_STARTED, version=__version__)
        if self._keeper is not None:
            self._keeper.start()
        delivering = asyncio.create_task(self._recorder.run())
        reflecting = asyncio.create_task(self._reflect())
        looping = asyncio.create_task(self._core.loop.run())
        stopping = asyncio.create_task(self._stop.wait())
        following = asyncio.create_task(self._follow_resource())
        beside = [
            asyncio.create_task(until_broken(work))
            for work in (
                self._announce_leading(),
                self._feel_for_stalls(),
                self._watch_for_drift(),
                self._keep_certificate_fresh(),
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
            await self._recorder.close(_EVENT_SECONDS_AT_THE_END)
            await self._release()
        finally:
            await _cancel(delivering, reflecting, looping, stopping, following, *beside)
            await self._reloader.close()
            if runner is not None:
                await runner.cleanup()
        log.info(event_names.SCHEDULER_STOPPED)
        return 0

    async def _feel_for_stalls(self) -> None:
        """Measure how late the event loop gets round to a task that is due."""
        while True:
            due = time.monotonic() + _PULSE_SECONDS
            await asyncio.sleep(_PULSE_SECONDS)
            self._telemetry.loop_stalled(max(0.0, time.monotonic() - due))

    async def _pace(self) -> None:
        """Wait until the rate limit lets a request leave; nearly all of these are bindings."""
        if self._limiter.limits:
            began = time.monotonic()
            await self._limiter.acquire()
            self._telemetry.request_waited("POST", time.monotonic() - began)

    def may_act(self) -> bool:
        """Tell whether this process leads at this moment, or need not."""
        return self._keeper is None or self._keeper.is_leading

    # The lease.

    def _lease_keeper(self) -> LeaseKeeper | None:
        election = self._configuration.leader_election
        if not election.leader_elect:
            return None
        settings = LeaseSettings(
            namespace=election.resource_namespace or own_namespace(),
            name=election.resource_name,
            identity=f"{socket.gethostname()}_{uuid.uuid4()}",
            lease_seconds=int(election.lease_duration_seconds),
            renew_deadline_seconds=election.renew_deadline_seconds,
            retry_seconds=election.retry_period_seconds,
        )
        self._telemetry.identity = settings.identity
        return LeaseKeeper(
            settings,
            lambda: ApiClient(
                self._credentials,
                limiter=_unlimited(),
                user_agent=f"{USER_AGENT} leader-election",
                observer=self._telemetry,
                timeout_seconds=settings.request_seconds,
            ),
            on_lost=_die,
            observer=self._telemetry,
        )

    async def _announce_leading(self) -> None:
        if self._keeper is not None and await self._keeper.wait_until_leading():
            log.info(event_names.LEASE_ACQUIRED)
            self._core.inbox.stir()

    async def _release(self) -> None:
        if self._keeper is not None:
            led = self._keeper.is_leading
            await self._keeper.release()
            if led:
                log.info(event_names.LEASE_RELEASED)

    # Watches.

    async def _reflect(self) -> None:
        """Watch everything, if this replica may know the cluster already."""
        if self._configuration.delay_cache_until_active and self._keeper is not None:
            await self._keeper.wait_until_leading()
        await self._watches.run()

    async def _watch_for_drift(self) -> None:
        """Compare the cache with a fresh list, now and then and on SIGUSR2."""
        while not self._core.loop.synced:  # noqa: ASYNC110 - the loop is not made to tell anyone
            await asyncio.sleep(0.5)
        check = DriftCheck(
            self._client,
            {each: self._watches.reflectors[each] for each in (Resource.NODE, Resource.POD)},
            self._core.cache,
            self._core.inbox,
            self._telemetry,
        )
        await check.run(self._settings.drift_seconds, self._compare_now)

    async def _tidy_when_synced(self) -> None:
        while not self._core.loop.synced:  # noqa: ASYNC110 - the loop is not made to tell anyone
            await asyncio.sleep(0.1)
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
            self._client,
            self._recorder.record,
            lambda: self._report.forget(Source.RESOURCE),
            self.may_act,
        )

    async def _offer_resource(self, text: str) -> Outcome:
        return await self._reloader.offer(text, Source.RESOURCE)

    async def _follow_resource(self) -> None:
        """Follow the object that tells the configuration; a defect of that must harm no pod."""

        def broke_off(problem: Exception) -> None:
            self._report.broke_off(Source.RESOURCE, problem, _FOLLOWING_AGAIN_SECONDS)

        resource = self._resource
        if resource is not None:
            await ever_anew(lambda: self._follow(resource), broke_off, _FOLLOWING_AGAIN_SECONDS)

    async def _follow(self, resource: ConfigurationResource) -> None:
        """Watch the object, and write down what came of it."""
        # Late and beside the loop: importing kopf takes half a second, and few need it.
        watching = await asyncio.to_thread(import_module, "scheduler.crds.watching")
        async with asyncio.TaskGroup() as group:
            group.create_task(resource.consider())
            group.create_task(resource.write())
            group.create_task(
                watching.watch(
                    self._settings.config_resource,
                    resource,
                    self._credentials,
                    self._client,
                    self._listen_to_signals,
                )
            )

    # Health, metrics, signals.

    async def _serve(self) -> Any:
        if not self._settings.port:
            return None
        synced: Checks = {"ping": ping, "sched-handler-sync": self._check_synced}
        endpoint = Endpoint(
            self._telemetry.metrics,
            self._reloader.written,
            healthz={"ping": ping},
            readyz={
                **synced,
                "profiles": self._core.care.check,
                "shutdown": self._check_shutdown,
                **({"configuration": self._resource.check} if self._resource else {}),
            },
        )
        address, port = self._settings.bind_address, self._settings.port
        if self._settings.insecure_metrics:
            return await serve(endpoint.application(), address, port)
        return await serve(
            endpoint.application(self._reviews.judge), address, port, self._tls_context()
        )

    def _tls_context(self) -> ssl.SSLContext:
        settings = self._settings
        if not settings.tls_cert_file:
            return self_signed()
        self._certificate = ServingCertificate(
            settings.tls_cert_file, settings.tls_private_key_file
        )
        return self._certificate.context

    async def _keep_certificate_fresh(self) -> None:
        if self._certificate is not None:
            await self._certificate.keep_fresh()

    def _check_synced(self) -> str | None:
        return None if self._core.loop.synced else "handlers are not fully synchronized"

    def _check_shutdown(self) -> str | None:
        return "process is shutting down" if self._stop.is_set() else None

    def _read_gauges(self) -> None:
        core, metrics = self._core, self._telemetry.metrics
        metrics.read(families.PENDING_PODS, core.queue.counts)
        metrics.read(families.INFLIGHT_EVENTS, core.queue.in_flight_counts)
        metrics.read(families.INBOX_FACTS, lambda: _alone(core.inbox))
        metrics.read(families.PENDING_AGE, self._read_pending_age)
        metrics.read(families.DISTRUST, lambda: _alone(core.neighbours.ledger))
        metrics.read(families.FOREIGN_NOMINATIONS, lambda: _alone(core.queue.others))
        metrics.read(families.WATCH_SILENCE, self._read_watch_silence)
        metrics.read(families.CACHE_SIZE, core.cache.sizes)
        metrics.read(families.GOROUTINES, self._count_tasks)
        metrics.read(families.TASKS, lambda: _alone(asyncio.all_tasks()))
        name = self._configuration.leader_election.resource_name
        metrics.read(families.LEADER, lambda: {name: int(self.may_act())})

    def _read_pending_age(self) -> dict[tuple[str, ...], float]:
        oldest = self._core.queue.oldest()
        return {(): 0.0 if oldest is None else time.monotonic() - oldest}

    def _read_watch_silence(self) -> dict[str, float]:
        reflectors = self._watches.reflectors.items()
        silences = ((resource, each.silence_seconds) for resource, each in reflectors)
        return {resource: seconds for resource, seconds in silences if seconds is not None}

    def _count_tasks(self) -> dict[str, float]:
        core = self._core
        return {"binding": core.binding.in_flight, "DefaultPreemption": core.evictions.in_flight}

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


def _alone(counted: Sized) -> dict[tuple[str, ...], float]:
    """Return how many there are, for a gauge without labels."""
    return {(): len(counted)}


def _die(why: str) -> None:
    """End the process at once: somebody else may lead now, and no request may begin any more.

    It runs in the lease's own thread, since the event loop may be what is stuck.
    """
    log.error(event_names.LEASE_LOST, why=why)
    os._exit(LOST_LEASE_EXIT_CODE)


async def until_broken(work: Awaitable[None]) -> None:
    """Do *work* and never return: what breaks beside the loop must not go unseen for days."""
    await work
    await asyncio.Event().wait()


async def ever_anew(
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
