"""Connections to the API server that requests take turns on.

aiohttp's session costs each request more than TLS, sockets and JSON together: cookies, redirects,
traces, streams, and headers in dictionaries of their own. Requests to an API server need none of
these. Here a request is one write of bytes, most of which were put together once.

A proxy needs more (a tunnel, headers for the proxy alone, TLS within TLS): requests through one
still go through aiohttp, as watches do.
"""

import asyncio
import socket
import ssl
from typing import Final

from aiohappyeyeballs import start_connection
from yarl import URL

from scheduler.errors import Fenced, Rejected
from scheduler.kube.access import Access
from scheduler.kube.fence import Fence
from scheduler.kube.http_connection import Disconnected, HttpConnection
from scheduler.kube.http_response import Response

CONNECT_SECONDS: Final = 10.0
# The API server closes a connection that was idle for 90 s, many load balancers after 60 s. A
# request sent into that moment would be lost, so ours close first.
KEEPALIVE_SECONDS: Final = 45.0
# How long one address may be silent before the next is tried beside it (RFC 8305).
_HAPPY_EYEBALLS_SECONDS: Final = 0.25

_REPEATABLE: Final = frozenset({"GET", "PUT", "DELETE"})
"""Repeating these changes nothing, so they are repeated if their connection had been closed."""


class ConnectionPool:
    """Idle connections to one API server, and those that carry a request.

    Args:
        user_agent: The User-Agent header.
        accept: The Accept header.
        timeout_seconds: How long a request may take, connecting included.
        fence: Asked right before a request other than a GET is sent.
    """

    def __init__(
        self, *, user_agent: str, accept: str, timeout_seconds: float, fence: Fence
    ) -> None:
        self._user_agent = user_agent
        self._accept = accept
        self._timeout_seconds = timeout_seconds
        self._fence = fence
        self._loop = asyncio.get_running_loop()
        self._endpoint: _Endpoint | None = None
        self._idle: list[HttpConnection] = []
        self._open: set[HttpConnection] = set()
        self._sweep: asyncio.TimerHandle | None = None

    async def request(
        self, access: Access, method: str, target: str, body: bytes, content_type: str
    ) -> Response:
        """Send one request to the server of *access*, and return the response to it.

        Raises:
            OSError: If there is no connection, or it broke; TimeoutError if it took too long.
            Fenced: If this process may not write any more.
        """
        deadline = self._loop.time() + self._timeout_seconds
        endpoint = self._endpoint_of(access)
        request = endpoint.encode(method, target, body, content_type)
        if (idle := self._take_idle()) is not None:
            try:
                return await self._exchange(endpoint, idle, method, request, deadline)
            except Disconnected as closed:
                # The server may have closed it in the moment in which the request was sent.
                if not closed.unanswered or method not in _REPEATABLE:
                    raise
        async with asyncio.timeout_at(deadline):
            fresh = await self._connect(endpoint)
        return await self._exchange(endpoint, fresh, method, request, deadline)

    async def close(self) -> None:
        """Close all connections."""
        if self._sweep is not None:
            self._sweep.cancel()
        for connection in tuple(self._open):
            connection.abort()
        await asyncio.gather(*(connection.closed for connection in tuple(self._open)))

    async def _exchange(
        self,
        endpoint: "_Endpoint",
        connection: HttpConnection,
        method: str,
        request: bytes,
        deadline: float,
    ) -> Response:
        if method != "GET" and not self._fence.may_write():
            self._release(endpoint, connection)
            line = request.partition(b" HTTP/1.1")[0].decode()
            raise Fenced(f"{line}: not sent, since this process leads no more")
        pending = connection.send(request)
        timer = self._loop.call_at(deadline, connection.expire)
        try:
            response = await pending
        except BaseException:
            connection.abort()
            raise
        finally:
            timer.cancel()
        self._release(endpoint, connection)
        return response

    def _endpoint_of(self, access: Access) -> "_Endpoint":
        endpoint = self._endpoint
        if endpoint is None or endpoint.access is not access:
            endpoint = _Endpoint(access, self._user_agent, self._accept)
            # A connection keeps the client certificate with which it was opened.
            if self._endpoint is None or self._endpoint.place != endpoint.place:
                self._close_idle(len(self._idle))
            self._endpoint = endpoint
        return endpoint

    # Idle connections.

    def _take_idle(self) -> HttpConnection | None:
        """Take the connection that was used last: the others grow old, and are closed."""
        while self._idle:
            connection = self._idle.pop()
            if not connection.is_reusable:
                continue
            if self._loop.time() - connection.idle_since <= KEEPALIVE_SECONDS:
                return connection
            connection.abort()
        return None

    def _release(self, endpoint: "_Endpoint", connection: HttpConnection) -> None:
        current = self._endpoint
        if not connection.is_reusable or current is None or current.place != endpoint.place:
            connection.abort()
            return
        connection.idle_since = self._loop.time()
        self._idle.append(connection)
        if self._sweep is None:
            self._sweep = self._loop.call_later(KEEPALIVE_SECONDS, self._close_old)

    def _close_old(self) -> None:
        """Close what was idle for too long; those are at the front."""
        due = self._loop.time() - KEEPALIVE_SECONDS
        old = sum(1 for connection in self._idle if connection.idle_since <= due)
        self._close_idle(old)
        self._sweep = None
        if self._idle:
            wait = max(0.0, self._idle[0].idle_since - due)
            self._sweep = self._loop.call_later(wait, self._close_old)

    def _close_idle(self, count: int) -> None:
        for connection in self._idle[:count]:
            connection.abort()
        del self._idle[:count]

    # New connections.

    async def _connect(self, endpoint: "_Endpoint") -> HttpConnection:
        addresses = await self._loop.getaddrinfo(
            endpoint.host, endpoint.port, type=socket.SOCK_STREAM
        )
        async with asyncio.timeout(CONNECT_SECONDS):
            connected = await start_connection(
                addresses, happy_eyeballs_delay=_HAPPY_EYEBALLS_SECONDS
            )
            try:
                _, connection = await self._loop.create_connection(
                    HttpConnection,
                    sock=connected,
                    ssl=endpoint.tls,
                    server_hostname=endpoint.server_hostname,
                )
            except BaseException:
                connected.close()
                raise
        self._open.add(connection)
        connection.closed.add_done_callback(lambda _: self._open.discard(connection))
        return connection


class _Endpoint:
    """The API server as one access describes it, and the parts of requests that never change."""

    def __init__(self, access: Access, user_agent: str, accept: str) -> None:
        assert access.proxy is None, "a request through a proxy is not sent like this"
        url = URL(access.server)
        assert url.host is not None, f"not the address of a server: {access.server}"
        assert url.port is not None, f"no port is known for {access.server}"
        self.access = access
        self.host = url.host
        self.port = url.port
        self.place = (url.origin(), access.tls, access.server_hostname)
        """What a connection depends on: requests with another token may take the same one."""
        self.tls: ssl.SSLContext | None = None
        self.server_hostname: str | None = None
        if url.scheme == "https":
            trusted = access.tls if isinstance(access.tls, ssl.SSLContext) else None
            self.tls = trusted or ssl.create_default_context()
            self.server_hostname = access.server_hostname or url.host.rstrip(".")
        self._base = url.raw_path.rstrip("/")
        authorization = access.authorization
        self._common = (
            f" HTTP/1.1\r\nHost: {url.host_port_subcomponent}\r\nUser-Agent: {user_agent}\r\n"
            # No compression: bandwidth is not scarce, and decompressing would cost time of the one
            # thread in which pods are scheduled.
            f"Accept: {accept}\r\nAccept-Encoding: identity\r\n"
            + (f"Authorization: {authorization}\r\n" if authorization else "")
        )

    def encode(self, method: str, target: str, body: bytes, content_type: str) -> bytes:
        """Return a whole request.

        Raises:
            Rejected: If *target*, which a plugin may have written, would end the request line.
        """
        if not (target.isascii() and target.isprintable()) or " " in target:
            raise Rejected(f"{method} {target!r}: not a path that a request can have")
        line = f"{method} {self._base}{target}{self._common}"
        if not body:
            # A POST says so even if it has no body; a GET must not.
            length = "" if method == "GET" else "Content-Length: 0\r\n"
            return f"{line}{length}\r\n".encode()
        head = f"{line}Content-Type: {content_type}\r\nContent-Length: {len(body)}\r\n\r\n"
        return head.encode() + body
