"""Listens for connections to the endpoint, and never has more than so many of them.

Anybody in the cluster can connect. A server that keeps every connection runs out of file
descriptors, and then cannot reach the API server either. One that turns new connections away can be
filled with silent ones, and then its probes fail and a healthy process is restarted. So the oldest
connection is closed for a new one: a probe is answered in milliseconds, long before it is the
oldest.
"""

import asyncio
import contextlib
import socket
import ssl
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Final, cast

from aiohttp import web

CONNECTIONS_MAXIMUM: Final = 100
HANDSHAKE_SECONDS: Final = 5.0
_BACKLOG: Final = 128
_PAUSE_SECONDS: Final = 0.1
"""After an error of accept: there are no descriptors, or no memory, and trying again would spin."""


class Listener:
    """Accepts connections for a web application until closed.

    Args:
        runner: The application's runner, which is set up; closed with the listener.
        listening: Sockets that listen; closed with the listener.
        tls: Serve HTTPS with it; without one, plain HTTP.
        connections_maximum: How many connections may be open, handshakes included.
    """

    def __init__(
        self,
        runner: web.AppRunner,
        listening: Sequence[socket.socket],
        tls: ssl.SSLContext | None,
        *,
        connections_maximum: int = CONNECTIONS_MAXIMUM,
    ) -> None:
        assert runner.server is not None, "the runner is not set up"
        self._runner = runner
        self._server = runner.server
        self._listening = listening
        self._tls = tls
        self._connections_maximum = connections_maximum
        self._connections: OrderedDict[_Connection, None] = OrderedDict()
        self._accepting = [asyncio.create_task(self._accept(each)) for each in listening]

    @property
    def addresses(self) -> list[tuple[str, int]]:
        """Where it listens: host and port of each socket."""
        return [each.getsockname()[:2] for each in self._listening]

    def __len__(self) -> int:
        """Return how many connections are open."""
        return len(self._connections)

    async def cleanup(self) -> None:
        """Listen no more, and give requests that are under way a moment to end."""
        for task in self._accepting:
            task.cancel()
        await asyncio.gather(*self._accepting, return_exceptions=True)
        for each in self._listening:
            each.close()
        await self._runner.cleanup()
        for connection in tuple(self._connections):
            connection.close()
        await asyncio.gather(*(connection.done for connection in tuple(self._connections)))

    async def _accept(self, listening: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                accepted, _ = await loop.sock_accept(listening)
            except OSError:
                await asyncio.sleep(_PAUSE_SECONDS)
                continue
            if len(self._connections) >= self._connections_maximum:
                oldest, _ = self._connections.popitem(last=False)
                oldest.close()
            connection = _Connection(accepted, cast("asyncio.Protocol", self._server()))
            self._connections[connection] = None
            connection.serve(self._tls, self._forget)

    def _forget(self, connection: "_Connection") -> None:
        self._connections.pop(connection, None)


class _Connection(asyncio.Protocol):
    """One connection, from its acceptance on; passes what comes on to *handler*."""

    def __init__(self, accepted: socket.socket, handler: asyncio.Protocol) -> None:
        self._accepted = accepted
        self._handler = handler
        self._transport: asyncio.BaseTransport | None = None
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def serve(self, tls: ssl.SSLContext | None, ended: Callable[["_Connection"], None]) -> None:
        """Shake hands, serve until one of both sides closes, and call *ended*."""
        self.done.add_done_callback(lambda _: ended(self))
        self._opening = asyncio.create_task(self._open(tls))

    def close(self) -> None:
        """Close at once, whatever is under way."""
        self._opening.cancel()
        if isinstance(self._transport, asyncio.WriteTransport):
            self._transport.abort()

    async def _open(self, tls: ssl.SSLContext | None) -> None:
        loop = asyncio.get_running_loop()
        try:
            await loop.connect_accepted_socket(
                lambda: self,
                self._accepted,
                ssl=tls,
                ssl_handshake_timeout=None if tls is None else HANDSHAKE_SECONDS,
            )
        except BaseException as problem:
            self._accepted.close()
            self._end()
            if not isinstance(problem, OSError | asyncio.CancelledError):
                raise

    def _end(self) -> None:
        if not self.done.done():
            self.done.set_result(None)

    # What the event loop calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport
        self._handler.connection_made(transport)

    def data_received(self, data: bytes) -> None:
        self._handler.data_received(data)

    def eof_received(self) -> bool | None:
        return self._handler.eof_received()

    def pause_writing(self) -> None:
        self._handler.pause_writing()

    def resume_writing(self) -> None:
        self._handler.resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        self._handler.connection_lost(exc)
        self._end()


async def listen(address: str, port: int) -> list[socket.socket]:
    """Return a listening socket for each address that *address* stands for; empty is any.

    Raises:
        OSError: If it is no address of this machine, or in use.
    """
    found = await asyncio.get_running_loop().getaddrinfo(
        address or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )
    with contextlib.ExitStack() as opened:
        listening = []
        for family, kind, protocol, _, place in dict.fromkeys(found):
            each = opened.enter_context(socket.socket(family, kind, protocol))
            each.setblocking(False)
            each.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                # The IPv4 address of the same name has a socket of its own.
                each.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            each.bind(place)
            each.listen(_BACKLOG)
            listening.append(each)
        opened.pop_all()
    return listening
