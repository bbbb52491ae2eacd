"""Serves the endpoint as the flags say: address, certificate, and authorization of requests.

It is served from a thread with an event loop of its own. A scrape encodes thousands of lines, and a
flood of connections keeps a loop busy with handshakes: neither may delay a decision. And a long
step of the scheduler's loop must not delay a probe, whose failure restarts the process.
"""

import asyncio
import contextlib
import ssl
import threading
from collections.abc import Callable, Coroutine
from contextlib import AbstractAsyncContextManager
from typing import Any, Final

from scheduler.config.run_settings import RunSettings
from scheduler.observe.certificate import ServingCertificate, self_signed
from scheduler.observe.health import Endpoint, Judge, serve

REFRESH_SECONDS: Final = 0.5
"""How long a scrape waits for the scheduler's loop; after that it shows gauges of the last one."""

Judges = Callable[[], AbstractAsyncContextManager[Judge]]
"""Opens what authorizes requests, in the thread that serves."""


class Serving:
    """Serves an endpoint, or nothing if the flags say so.

    Args:
        settings: The settings of the command line.
        endpoint: What is served.
        judges: Opens what authorizes requests that are not about health, unless --insecure-metrics
            is set.
    """

    def __init__(self, settings: RunSettings, endpoint: Endpoint, judges: Judges) -> None:
        self._settings = settings
        self._endpoint = endpoint
        self._judges = judges
        self._loop: asyncio.AbstractEventLoop
        self._thread: threading.Thread | None = None
        self._opened: asyncio.Future[None]
        self._ended: asyncio.Future[None]
        self._close: Callable[[], object] = _nothing

    async def open(self) -> None:
        """Start to serve.

        Raises:
            ConfigurationError: If address or certificate cannot be used; it names the flag.
        """
        assert self._thread is None, "the endpoint is open already"
        if not self._settings.port:
            return
        self._loop = asyncio.get_running_loop()
        self._opened, self._ended = self._loop.create_future(), self._loop.create_future()
        # A daemon: a process that ends in a hurry does not wait for those who are being answered.
        self._thread = threading.Thread(target=self._run, name="endpoint", daemon=True)
        self._thread.start()
        done, _ = await asyncio.wait(
            (self._opened, self._ended), return_when=asyncio.FIRST_COMPLETED
        )
        if self._ended in done:
            await self._ended

    async def close(self) -> None:
        """Stop serving."""
        if self._thread is not None:
            with contextlib.suppress(RuntimeError):  # its loop is closed: a problem has ended it
                self._close()
            await asyncio.to_thread(self._thread.join)

    async def watch(self) -> None:
        """Return once nothing is served any more; raise what ended it, if anything did."""
        if self._thread is not None:
            await asyncio.shield(self._ended)

    # In the thread.

    def _run(self) -> None:
        problem: BaseException | None = None
        try:
            asyncio.run(self._serve())
        except BaseException as raised:  # noqa: BLE001 - it is raised again in the other thread
            problem = raised
        with contextlib.suppress(RuntimeError):  # the other loop is closed: the process ends
            self._loop.call_soon_threadsafe(_end, self._ended, problem)

    async def _serve(self) -> None:
        closing = asyncio.Event()
        loop = asyncio.get_running_loop()
        settings, endpoint = self._settings, self._endpoint
        async with contextlib.AsyncExitStack() as stack:
            if settings.insecure_metrics:
                application, tls, keep_fresh = endpoint.application(None, self._refresh), None, None
            else:
                tls, keep_fresh = self._tls()
                judge = await stack.enter_async_context(self._judges())
                application = endpoint.application(judge, self._refresh)
            listener = await serve(application, settings.bind_address, settings.port, tls)
            stack.push_async_callback(listener.cleanup)
            self._close = lambda: loop.call_soon_threadsafe(closing.set)
            self._loop.call_soon_threadsafe(self._opened.set_result, None)
            async with asyncio.TaskGroup() as group:
                keeping = group.create_task(keep_fresh()) if keep_fresh else None
                await closing.wait()
                if keeping is not None:
                    keeping.cancel()

    def _tls(self) -> tuple[ssl.SSLContext, Callable[[], Coroutine[Any, Any, None]] | None]:
        """Return the context to serve with, and what keeps its certificate fresh."""
        settings = self._settings
        if not settings.tls_cert_file:
            return self_signed(), None
        certificate = ServingCertificate(settings.tls_cert_file, settings.tls_private_key_file)
        return certificate.context, certificate.keep_fresh

    async def _refresh(self) -> None:
        """Have the gauges read by the scheduler's loop, to which belongs what they show."""
        reading = asyncio.run_coroutine_threadsafe(self._read_gauges(), self._loop)
        with contextlib.suppress(TimeoutError):
            # Given up, it is cancelled: scrapes do not pile up behind a long step.
            await asyncio.wait_for(asyncio.wrap_future(reading), REFRESH_SECONDS)

    # In the scheduler's loop again.

    async def _read_gauges(self) -> None:
        metrics = self._endpoint.metrics
        metrics.gauges = metrics.read_gauges()


def _nothing() -> None:
    """Close nothing: nothing was opened."""


def _end(ended: "asyncio.Future[None]", problem: BaseException | None) -> None:
    if problem is None:
        ended.set_result(None)
    else:
        ended.set_exception(problem)
