"""One HTTP/1.1 connection: a request goes out as bytes, and its response comes back."""

import asyncio
from typing import cast

from scheduler.kube.http_response import MalformedResponse, Response, ResponseReader


class Disconnected(ConnectionError):  # noqa: N818 - named for what happened
    """The connection was closed or broken before the response was complete.

    Args:
        unanswered: Whether not a single byte of it had come.
    """

    def __init__(self, message: str, *, unanswered: bool) -> None:
        super().__init__(message)
        self.unanswered = unanswered


class HttpConnection(asyncio.Protocol):
    """One connection, which carries one request at a time.

    Attributes:
        closed: Done once the connection is closed.
        is_reusable: Whether it may carry another request.
        idle_since: When its last response was complete, by the clock of the event loop.
    """

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport
        self._pending: asyncio.Future[Response] | None = None
        self._reader = ResponseReader()
        self.closed: asyncio.Future[None] = self._loop.create_future()
        self.is_reusable = True
        self.idle_since = 0.0

    def send(self, request: bytes) -> "asyncio.Future[Response]":
        """Send a whole *request*; return its response, which is to come.

        A caller that stops waiting for it must `abort`: it may still come, and would be taken for
        the response to the next request.
        """
        assert self._pending is None, "a second request before the response to the first"
        assert self.is_reusable, "a request on a connection that is closed"
        pending = self._pending = self._loop.create_future()
        self._reader = ResponseReader()
        self._transport.write(request)
        return pending

    def expire(self) -> None:
        """Give the request up, because it took too long."""
        self._fail(TimeoutError())

    def abort(self) -> None:
        """Close the connection at once; a request that is under way fails."""
        self._fail(Disconnected("the connection was closed", unanswered=not self._reader.began))

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport; the event loop calls this."""
        self._transport = cast("asyncio.Transport", transport)  # uvloop's is of no such class

    def data_received(self, data: bytes) -> None:
        """Read the response, or the next part of it; the event loop calls this."""
        if self._pending is None:
            # A server may say 408 before it closes an idle connection. That answers no request.
            self.abort()
            return
        try:
            response = self._reader.read(data)
        except MalformedResponse as problem:
            self._fail(ConnectionError(str(problem)))
            return
        if response is not None:
            self._complete(response)

    def connection_lost(self, error: Exception | None) -> None:
        """Fail the request that is under way, if any; the event loop calls this."""
        self.is_reusable = False
        if self._pending is not None:
            response = None if error else self._reader.end()
            if response is not None:
                self._complete(response)
            else:
                why = f"Server disconnected: {error}" if error else "Server disconnected"
                self._fail(Disconnected(why, unanswered=not self._reader.began))
        if not self.closed.done():
            self.closed.set_result(None)

    def _complete(self, response: Response) -> None:
        pending, self._pending = self._pending, None
        self.is_reusable = self.is_reusable and self._reader.keeps_alive
        assert pending is not None, "a response to no request"
        if not pending.done():
            pending.set_result(response)

    def _fail(self, problem: Exception) -> None:
        pending, self._pending = self._pending, None
        self.is_reusable = False
        self._transport.abort()
        if pending is not None and not pending.done():
            pending.set_exception(problem)
