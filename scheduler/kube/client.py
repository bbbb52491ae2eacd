"""One thin client towards the API server: bytes in, bytes out, failures as an `ApiError`.

It repeats nothing but a request whose credentials were stale (401), once, and a GET, PUT or DELETE
whose idle connection was closed while it was sent; never a POST or PATCH. Only the caller knows
whether a lost answer, a conflict or a 429 is worth another try; see `retry`.
"""

import asyncio
import time
from collections.abc import AsyncGenerator, Callable, Mapping
from copy import copy
from types import TracebackType
from typing import Final, Protocol, Self
from urllib.parse import urlencode

import aiohttp
import msgspec
from yarl import URL

from scheduler.errors import (
    ApiError,
    ConfigurationError,
    Conflict,
    Forbidden,
    Gone,
    NotFound,
    Rejected,
    Throttled,
    Unauthorized,
    Unreachable,
)
from scheduler.kube.access import Access
from scheduler.kube.connection_pool import CONNECT_SECONDS, KEEPALIVE_SECONDS, ConnectionPool
from scheduler.kube.credentials import Credentials
from scheduler.kube.fence import Fence
from scheduler.kube.http_response import Response
from scheduler.kube.rate_limit import RateLimiter

JSON: Final = "application/json"
METADATA: Final = f"{JSON};as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,{JSON}"
"""Asks for the metadata of listed objects alone; whoever cannot leave out the rest sends it all."""

CONNECTIONS_DEFAULT: Final = 100
READ_BUFFER_BYTES: Final = 256 * 1024

_ERRORS: Final[Mapping[int, type[ApiError]]] = {
    401: Unauthorized,
    403: Forbidden,
    404: NotFound,
    409: Conflict,
    410: Gone,
}


class RequestObserver(Protocol):
    """Receives every request, for metrics."""

    def request_done(self, method: str, status: int, seconds: float) -> None:
        """A request was answered, or given up with status 0. A watch is done once it is open."""

    def request_waited(self, method: str, seconds: float) -> None:
        """A request waited *seconds* for the rate limit."""

    def request_sized(self, method: str, sent: int, received: int) -> None:
        """A request was answered: its body had *sent* bytes, the response *received*."""


class SilentRequests:
    """The observer that ignores everything."""

    def request_done(self, method: str, status: int, seconds: float) -> None:
        """Ignore it."""

    def request_waited(self, method: str, seconds: float) -> None:
        """Ignore it."""

    def request_sized(self, method: str, sent: int, received: int) -> None:
        """Ignore it."""


SILENT_REQUESTS: Final = SilentRequests()


class _Details(msgspec.Struct, rename="camel"):
    retry_after_seconds: float = 0


class _Status(msgspec.Struct):
    """The API server's answer to a failed request."""

    message: str = ""
    reason: str = ""
    details: _Details | None = None


_decode_status = msgspec.json.Decoder(_Status).decode


class ApiClient:
    """Pooled HTTP/1.1 connections towards the API server: one pool for requests, one for watches.

    Args:
        credentials: Where the API server is and who we are there.
        limiter: The rate limit of requests.
        user_agent: The User-Agent header.
        observer: Receives every request.
        timeout_seconds: How long a request may take, connecting included.
        connections: How many requests may be under way at once; more wait in line.
        accept: The Accept header: what of an object answers hold.
    """

    def __init__(
        self,
        credentials: Credentials,
        *,
        limiter: RateLimiter,
        user_agent: str,
        observer: RequestObserver = SILENT_REQUESTS,
        timeout_seconds: float = 30.0,
        connections: int = CONNECTIONS_DEFAULT,
        accept: str = JSON,
    ) -> None:
        self._credentials = credentials
        self._limiter = limiter
        self._observer = observer
        self._timeout = aiohttp.ClientTimeout(total=timeout_seconds, sock_connect=CONNECT_SECONDS)
        self._timeout_seconds = timeout_seconds
        self._connections = connections
        # Waiting here does not count against a request's timeout.
        self._connection_slots = asyncio.Semaphore(connections)
        self._fence = Fence()
        # No compression: bandwidth is not scarce, and decompressing would cost time of the one
        # thread in which pods are scheduled.
        self._headers = {"User-Agent": user_agent, "Accept": accept, "Accept-Encoding": "identity"}
        self._pool: ConnectionPool
        self._proxied: aiohttp.ClientSession
        self._watches: aiohttp.ClientSession

    async def __aenter__(self) -> Self:
        self._pool = ConnectionPool(
            user_agent=self._headers["User-Agent"],
            accept=self._headers["Accept"],
            timeout_seconds=self._timeout_seconds,
            fence=self._fence,
        )
        self._proxied = self._session(limit=self._connections)
        # A watch keeps its connection for minutes and must not take one away from bindings.
        self._watches = self._session(limit=0)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._pool.close()
        await self._proxied.close()
        await self._watches.close()

    def without_rate_limit(self) -> "ApiClient":
        """Return a client over the same connections that leaves the rate limit to its caller."""
        twin = copy(self)
        twin._limiter = RateLimiter(-1)  # noqa: SLF001 - a twin of our own
        return twin

    def write_only_while(self, may_write: Callable[[], bool]) -> None:
        """Send no request that changes anything while *may_write* returns False.

        It is called right before a request is sent, over a connection that is open by then, and
        again before one is repeated. A process that was paused, that had requests waiting in
        line, or that waited for a connection, may have lost its lease in between: those requests
        raise Fenced.
        """
        self._fence.may_write = may_write

    async def get(self, path: str, params: Mapping[str, str] | None = None) -> bytes:
        """Read what is at *path*."""
        return await self._request("GET", path, b"", params)

    async def post(self, path: str, body: bytes, params: Mapping[str, str] | None = None) -> bytes:
        """Create what *body* says. Unreachable leaves open whether it took effect."""
        return await self._request("POST", path, body, params)

    async def put(self, path: str, body: bytes, params: Mapping[str, str] | None = None) -> bytes:
        """Replace what is at *path* by *body*."""
        return await self._request("PUT", path, body, params)

    async def patch(
        self, path: str, body: bytes, content_type: str, params: Mapping[str, str] | None = None
    ) -> bytes:
        """Change what is at *path*; *body* is a patch of *content_type*."""
        return await self._request("PATCH", path, body, params, content_type)

    async def delete(
        self, path: str, body: bytes = b"", params: Mapping[str, str] | None = None
    ) -> bytes:
        """Delete what is at *path*; *body* may hold options such as preconditions."""
        return await self._request("DELETE", path, body, params)

    async def watch(
        self, path: str, params: Mapping[str, str], *, silence_seconds: float = 90.0
    ) -> AsyncGenerator[bytes]:
        """Yield line after line, each a JSON watch event, until the server ends the watch.

        Leave it early only through ``contextlib.aclosing``, or its connection stays open.

        Raises:
            Unreachable: If the connection breaks, or if nothing came for *silence_seconds*.
        """
        response = await self._open(path, params, silence_seconds)
        # Lines may be of any length; each byte is searched and copied once.
        pieces: list[bytes] = []
        try:
            async for chunk in response.content.iter_any():
                first, *rest = chunk.split(b"\n")
                pieces.append(first)
                if not rest:
                    continue
                yield b"".join(pieces)
                for line in rest[:-1]:
                    yield line
                pieces = [rest[-1]]
            if any(pieces):
                raise aiohttp.ClientPayloadError("the watch ended in the middle of an event")
        except (aiohttp.ClientError, OSError) as problem:
            raise self._unreachable("WATCH", path, problem) from problem
        finally:
            response.close()

    async def _request(
        self,
        method: str,
        path: str,
        body: bytes,
        params: Mapping[str, str] | None,
        content_type: str = JSON,
    ) -> bytes:
        if self._limiter.limits:
            await self._acquire(method)
        target = f"{path}?{urlencode(params)}" if params else path
        access = await self._credentials.fresh()
        try:
            return await self._request_once(access, method, target, body, content_type)
        except Unauthorized as refusal:
            access = await self._renew(access, refusal)
        return await self._request_once(access, method, target, body, content_type)

    async def _request_once(
        self, access: Access, method: str, target: str, body: bytes, content_type: str
    ) -> bytes:
        started, status = time.monotonic(), 0
        send = self._pool.request if access.proxy is None else self._request_by_proxy
        async with self._connection_slots:
            try:
                response = await send(access, method, target, body, content_type)
                status = response.status
            except (aiohttp.ClientError, OSError) as problem:
                raise self._unreachable(method, target, problem) from problem
            finally:
                self._observer.request_done(method, status, time.monotonic() - started)
        self._observer.request_sized(method, len(body), len(response.body))
        if status >= 300:
            raise api_error(
                f"{method} {target}", status, response.body, response.header("Retry-After")
            )
        return response.body

    async def _request_by_proxy(
        self, access: Access, method: str, target: str, body: bytes, content_type: str
    ) -> Response:
        headers = {"Authorization": access.authorization} if access.authorization else {}
        if body:
            headers["Content-Type"] = content_type
        async with self._proxied.request(
            method,
            URL(access.server + target, encoded=True),
            data=body or None,
            headers=headers,
            ssl=access.tls,
            server_hostname=access.server_hostname,
            proxy=access.proxy,
            proxy_headers=access.proxy_headers,
            timeout=self._timeout,
            allow_redirects=False,
        ) as response:
            head = b"".join(b"\r\n%b: %b" % header for header in response.raw_headers)
            return Response(response.status, head, await response.read())

    async def _acquire(self, method: str) -> None:
        """Wait until the rate limit allows a request."""
        began = time.monotonic()
        await self._limiter.acquire()
        self._observer.request_waited(method, time.monotonic() - began)

    async def _open(
        self, path: str, params: Mapping[str, str], silence_seconds: float
    ) -> aiohttp.ClientResponse:
        if self._limiter.limits:
            await self._acquire("WATCH")
        target = f"{path}?{urlencode({**params, 'watch': '1'})}"
        access = await self._credentials.fresh()
        try:
            return await self._open_once(access, target, silence_seconds)
        except Unauthorized as refusal:
            access = await self._renew(access, refusal)
        return await self._open_once(access, target, silence_seconds)

    async def _open_once(
        self, access: Access, target: str, silence_seconds: float
    ) -> aiohttp.ClientResponse:
        started, status = time.monotonic(), 0
        # The parameters of a watch differ each time and explain nothing: errors name its path.
        path = target.partition("?")[0]
        try:
            response = await self._watches.get(
                URL(access.server + target, encoded=True),
                headers={"Authorization": access.authorization} if access.authorization else {},
                ssl=access.tls,
                server_hostname=access.server_hostname,
                proxy=access.proxy,
                proxy_headers=access.proxy_headers,
                timeout=aiohttp.ClientTimeout(
                    total=None, sock_connect=CONNECT_SECONDS, sock_read=silence_seconds
                ),
                allow_redirects=False,
            )
            status = response.status
            content = b"" if status == 200 else await response.read()
        except (aiohttp.ClientError, OSError) as problem:
            raise self._unreachable("WATCH", path, problem) from problem
        finally:
            self._observer.request_done("WATCH", status, time.monotonic() - started)
        if status != 200:
            retry_after = response.headers.get("Retry-After", "")
            raise api_error(f"WATCH {path}", status, content, retry_after)
        return response

    async def _renew(self, access: Access, refusal: Unauthorized) -> Access:
        """Read the credentials again, after the server answered 401 to those in *access*."""
        try:
            return await self._credentials.reload(refused=access)
        except ConfigurationError as problem:
            raise Unauthorized(
                f"{refusal}; renewing the credentials failed: {problem}",
                status=401,
                reason=refusal.reason,
            ) from problem

    def _unreachable(self, method: str, target: str, problem: Exception) -> Unreachable:
        server = URL(self._credentials.access.server)
        return Unreachable(
            f"{server.host_subcomponent}:{server.port} gave no answer to "
            f"{method} {target}: {_cause(problem)}"
        )

    def _session(self, limit: int) -> aiohttp.ClientSession:
        return aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=limit, keepalive_timeout=KEEPALIVE_SECONDS),
            cookie_jar=aiohttp.DummyCookieJar(),
            request_class=self._fence.request_class(),
            headers=self._headers,
            auto_decompress=False,
            read_bufsize=READ_BUFFER_BYTES,
        )


def api_error(request: str, status: int, body: bytes, retry_after: str) -> ApiError:
    """Return the error that *status* and *body*, the answer to *request*, stand for.

    *retry_after* is the header of that name; empty where there is none.
    """
    answer = _read_status(body)
    message = f"{request}: {f'{status} {answer.reason}'.rstrip()}: {answer.message}"
    if status == 429:
        return Throttled(message, retry_after_seconds=_retry_after(retry_after, answer))
    if status >= 500:
        return Unreachable(message, status=status, reason=answer.reason)
    return _ERRORS.get(status, Rejected)(message, status=status, reason=answer.reason)


def _read_status(body: bytes) -> _Status:
    """Read the Status object in *body*; a proxy in between may have written anything else."""
    try:
        return _decode_status(body)
    except msgspec.DecodeError:
        text = " ".join(body[:1000].decode(errors="replace").split())
        return _Status(message=text[:200])


def _retry_after(header: str, answer: _Status) -> float:
    hints = (header, answer.details.retry_after_seconds if answer.details else 0)
    for hint in hints:
        try:
            if (seconds := float(hint)) > 0:
                return seconds
        except ValueError:  # a date is allowed too, but the API server never sends one
            continue
    return 1.0


def _cause(problem: Exception) -> str:
    """Say in one line what went wrong on the wire."""
    match problem:
        case aiohttp.ClientConnectorCertificateError(certificate_error=inner):
            problem = inner
        case aiohttp.ClientConnectorError(os_error=inner):
            problem = inner
        case TimeoutError():
            return "it took too long"
    return " ".join(str(problem).split()) or type(problem).__name__
