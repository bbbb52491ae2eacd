"""The HTTP endpoint for probes, Prometheus and people: health, metrics, configuration.

Responses read exactly as kube-scheduler's do. The reason of a failed check is withheld from the
response, since anybody may request it; it goes to the log.

Source: ``staging/src/k8s.io/apiserver/pkg/server/healthz/healthz.go``.
"""

import ssl
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from errno import EACCES, EADDRINUSE, EADDRNOTAVAIL
from typing import Final

import msgspec
from aiohttp import web
from aiohttp.typedefs import Middleware
from prometheus_client.exposition import choose_encoder

from scheduler.errors import ConfigurationError
from scheduler.observe import event_names
from scheduler.observe.listener import Listener, listen
from scheduler.observe.logs import get_logger
from scheduler.observe.metrics import Metrics

Check = Callable[[], str | None]
"""Returns what is wrong; None if nothing is."""

Checks = Mapping[str, Check]
Judge = Callable[[str, str, str], Awaitable[int]]
"""Returns the HTTP status for a bearer's token, a verb and a path: 200 where that is allowed."""

Refresh = Callable[[], Awaitable[None]]
"""Brings up to date what only another thread may read; returns after a while even if it cannot."""

Next = Callable[[web.Request], Awaitable[web.StreamResponse]]
Handler = Callable[[web.Request], Awaitable[web.Response]]


_OPEN: Final = frozenset({"healthz", "livez", "readyz"})
_STATUS_TEXTS: Final = {401: "Unauthorized\n", 403: "Forbidden\n", 429: "Too Many Requests\n"}

log = get_logger()


def ping() -> str | None:
    """Return that all is well: a process that answers is alive."""
    return None


@dataclass(frozen=True, slots=True)
class Endpoint:
    """What the endpoint serves.

    Args:
        metrics: What is scraped.
        configuration: Returns the effective configuration, JSON-encodable.
        healthz: Checks whether the process works; kept for old probes.
        livez: Checks whether the process need not be restarted.
        readyz: Checks whether the process is ready to work.
    """

    metrics: Metrics
    configuration: Callable[[], Mapping[str, object]]
    healthz: Checks = field(default_factory=lambda: {"ping": ping})
    livez: Checks = field(default_factory=lambda: {"ping": ping})
    readyz: Checks = field(default_factory=lambda: {"ping": ping})

    def application(
        self, judge: Judge | None = None, refresh: Refresh | None = None
    ) -> web.Application:
        """Return all of it as a web application.

        Args:
            judge: Authorizes each request that is not about health; without it all are allowed.
            refresh: Awaited before each scrape.
        """
        application = web.Application(middlewares=[_guard(judge)] if judge else [])
        application.on_response_prepare.append(_forbid_caching)
        groups = {"healthz": self.healthz, "livez": self.livez, "readyz": self.readyz}
        for name, checks in groups.items():
            application.router.add_get(f"/{name}", _answer_all(name, checks))
            application.router.add_get(f"/{name}/{{check}}", _answer_one(checks))
        application.router.add_get("/metrics", self._answer_metrics(refresh))
        application.router.add_get("/configz", self._answer_configuration)
        return application

    def _answer_metrics(self, refresh: Refresh | None) -> Handler:
        async def answer(request: web.Request) -> web.Response:
            encode, content_type = choose_encoder(request.headers.get("Accept", ""))
            if refresh is not None:
                await refresh()
            body = encode(self.metrics.registry)
            return web.Response(body=body, headers={"Content-Type": content_type})

        return answer

    async def _answer_configuration(self, _request: web.Request) -> web.Response:
        body = msgspec.json.encode({"componentconfig": self.configuration()})
        return web.Response(body=body, content_type="application/json")


async def serve(
    application: web.Application,
    address: str,
    port: int,
    ssl_context: ssl.SSLContext | None = None,
) -> Listener:
    """Serve *application* until the returned listener is cleaned up.

    Args:
        application: What to serve.
        address: The address to listen on.
        port: The port; 0 takes a free one, which ``addresses`` shows.
        ssl_context: Serve HTTPS with it; without one, plain HTTP.

    Raises:
        ConfigurationError: If the address cannot be used; it names the flag.
    """
    try:
        listening = await listen(address, port)
    except OSError as error:
        raise ConfigurationError(_explain(error, address, port)) from error
    runner = web.AppRunner(application, access_log=None, shutdown_timeout=5)
    await runner.setup()
    listener = Listener(runner, listening, ssl_context)
    log.info(
        event_names.ENDPOINT_OPENED,
        addresses=[list(each) for each in listener.addresses],
        scheme="https" if ssl_context else "http",
    )
    return listener


def _explain(error: OSError, address: str, port: int) -> str:
    if error.errno == EADDRINUSE:
        return f"--port: {port} is in use at {address}; choose another one, or 0 to serve nothing"
    if error.errno == EACCES:
        return f"--port: {port} needs privileges; choose one above 1023"
    if error.errno == EADDRNOTAVAIL:
        return f"--bind-address: {address} is no address of this machine"
    return f"--bind-address: cannot listen at {address}, port {port}: {error.strerror or error}"


def _guard(judge: Judge) -> Middleware:
    @web.middleware
    async def guard(request: web.Request, handler: Next) -> web.StreamResponse:
        # Probes have no token. That a path does not exist is no secret, and costs no review.
        if request.match_info.http_exception is not None or _is_open(request.path):
            return await handler(request)
        kind, _, token = request.headers.get("Authorization", "").partition(" ")
        token = token.strip() if kind.lower() == "bearer" else ""
        status = await judge(token, request.method.lower(), request.path)
        if status == 200:
            return await handler(request)
        return _text(_STATUS_TEXTS.get(status, "internal server error\n"), status=status)

    return guard


def _is_open(path: str) -> bool:
    return path.split("/")[1] in _OPEN


async def _forbid_caching(_request: web.Request, response: web.StreamResponse) -> None:
    response.headers.setdefault("Cache-Control", "no-cache, private")


def _answer_all(name: str, checks: Checks) -> Handler:
    async def answer(request: web.Request) -> web.Response:
        excluded = set(request.query.getall("exclude", []))
        failed, lines = _run(name, checks, excluded)
        if unmatched := sorted(excluded - checks.keys()):
            quoted = ",".join(f'"{each}"' for each in unmatched)
            lines += f"warn: some health checks cannot be excluded: no matches for {quoted}\n"
        if failed:
            return _text(f"{lines}{name} check failed\n", status=500)
        return _text(f"{lines}{name} check passed\n" if "verbose" in request.query else "ok")

    return answer


def _run(name: str, checks: Checks, excluded: set[str]) -> tuple[bool, str]:
    """Run *checks*; return whether one failed, and a line about each of them."""
    failed, lines = False, ""
    for called, check in checks.items():
        if called in excluded:
            lines += f"[+]{called} excluded: ok\n"
        elif (problem := _outcome(check)) is None:
            lines += f"[+]{called} ok\n"
        else:
            failed = True
            lines += f"[-]{called} failed: reason withheld\n"
            log.info(event_names.HEALTH_FAILED, endpoint=name, check=called, problem=problem)
    return failed, lines


def _answer_one(checks: Checks) -> Handler:
    async def answer(request: web.Request) -> web.Response:
        name = request.match_info["check"]
        if name not in checks:
            return _text("404 page not found\n", status=404)
        problem = _outcome(checks[name])
        if problem is not None:
            return _text(f"internal server error: {problem}\n", status=500)
        return _text("ok")

    return answer


def _outcome(check: Check) -> str | None:
    try:
        return check()
    except Exception as error:  # noqa: BLE001 - a check that breaks has failed, whatever broke
        return f"check raised {error!r}"


def _text(body: str, status: int = 200) -> web.Response:
    return web.Response(text=body, status=status, headers={"X-Content-Type-Options": "nosniff"})
