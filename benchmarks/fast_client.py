"""HTTP/1.1 over kept connections with as little CPU as Python can do with.

Writers and the null scheduler share the machine with what is measured, so a request costs them as
little as possible: one write of bytes, one search for the end of the answer. There is no retry: on
a control plane without flow control every failure is one of the benchmark.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final, Self, TypeVar
from urllib.parse import urlsplit

from hack.api import ApiError
from hack.kubeconfig import read_kubeconfig
from hack.workers import act_on_all

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine, Iterable
    from pathlib import Path

    from hack.kubeconfig import Access

JSON: Final = "application/json"
_END: Final = b"\r\n\r\n"
_LINE_BYTES: Final = 8 << 20
_Item = TypeVar("_Item")


class FastClient:
    """A fixed number of connections; more requests than that wait in line.

    Args:
        kubeconfig: Where the API server is, and as whom to ask it.
        connections: How many requests may be under way at once.
    """

    def __init__(self, kubeconfig: Path, connections: int) -> None:
        assert connections > 0
        self._access = read_kubeconfig(kubeconfig)
        server = urlsplit(self._access.url)
        self._host, self._port = server.hostname or "", server.port or 443
        self._free: asyncio.LifoQueue[_Connection | None] = asyncio.LifoQueue()
        for _ in range(connections):
            self._free.put_nowait(None)  # connected when it is first needed
        self._connections = connections
        self._headers = _headers(self._access, server.netloc)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        while not self._free.empty():
            connection = self._free.get_nowait()
            if connection is not None:
                connection.close()

    async def connect(self) -> None:
        """Open all connections that are not open yet."""
        free = [self._free.get_nowait() for _ in range(self._free.qsize())]
        for connection in free:
            self._free.put_nowait(connection or await self._connect())

    async def request(
        self, method: str, path: str, body: bytes = b"", content_type: str = JSON
    ) -> bytes:
        """Send one request and return the body of its answer.

        Raises:
            ApiError: The answer is not 2xx.
            ConnectionError: The connection broke before the answer was complete.
        """
        head = (
            f"{method} {path} HTTP/1.1\r\n{self._headers}"
            f"Content-Type: {content_type}\r\nContent-Length: {len(body)}\r\n\r\n"
        )
        connection = await self._free.get()
        try:
            if connection is None or connection.closed:
                connection = await self._connect()
            status, answer = await connection.ask(head.encode() + body)
        except BaseException:
            # An answer may still come; nobody may take it for the next one's.
            if connection is not None:
                connection.close()
            self._free.put_nowait(None)
            raise
        self._free.put_nowait(connection)
        if status >= 300:
            raise ApiError.of(status, answer.decode(errors="replace"))
        return answer

    async def gather(
        self, act: Callable[[_Item], Coroutine[None, None, None]], items: Iterable[_Item]
    ) -> None:
        """Act on every item, as many at a time as there are connections."""
        await act_on_all(act, items, self._connections)

    async def watch(self, path: str) -> AsyncGenerator[bytes, None]:
        """Yield the lines of a watch, undecoded, until the server ends it."""
        reader, writer = await asyncio.open_connection(
            self._host, self._port, ssl=self._access.context, limit=_LINE_BYTES
        )
        try:
            writer.write(f"GET {path} HTTP/1.1\r\n{self._headers}\r\n".encode())
            head = await reader.readuntil(_END)
            if status_of(head) >= 300:
                raise ApiError.of(status_of(head), (await reader.read(4096)).decode())
            async for line in _lines(reader):
                yield line
        finally:
            writer.close()

    async def _connect(self) -> _Connection:
        _, connection = await asyncio.get_running_loop().create_connection(
            _Connection, self._host, self._port, ssl=self._access.context
        )
        return connection


async def _lines(reader: asyncio.StreamReader) -> AsyncIterator[bytes]:
    """Yield lines from a chunked body; a line may be in several chunks."""
    rest = b""
    while size := int(await reader.readuntil(b"\r\n"), 16):
        rest += await reader.readexactly(size)
        await reader.readexactly(2)
        *whole, rest = rest.split(b"\n")
        for line in whole:
            yield line


def _headers(access: Access, host: str) -> str:
    fixed = {"Host": host, "Accept": JSON, "Accept-Encoding": "identity", **access.headers}
    return "".join(f"{name}: {value}\r\n" for name, value in fixed.items())


class _Connection(asyncio.Protocol):
    """One connection, which carries one request at a time."""

    def __init__(self) -> None:
        self._transport: asyncio.Transport | None = None
        self._received = bytearray()
        self._answer: asyncio.Future[tuple[int, bytes]] | None = None

    @property
    def closed(self) -> bool:
        """Whether the connection cannot carry another request."""
        return self._transport is None or self._transport.is_closing()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport."""
        assert isinstance(transport, asyncio.Transport) or hasattr(transport, "write")
        self._transport = transport  # type: ignore[assignment] # uvloop's is no subclass

    def data_received(self, data: bytes) -> None:
        """Complete the answer, once all of it is there."""
        self._received += data
        answer = parse_answer(self._received)
        if answer is not None and self._answer is not None and not self._answer.done():
            self._received.clear()
            self._answer.set_result(answer)

    def connection_lost(self, error: Exception | None) -> None:
        """Fail the request that waits."""
        self._transport = None
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(error or ConnectionError("closed before the answer came"))

    async def ask(self, request: bytes) -> tuple[int, bytes]:
        """Send a request and wait for its answer."""
        assert self._transport is not None
        self._answer = asyncio.get_running_loop().create_future()
        self._transport.write(request)
        return await self._answer

    def close(self) -> None:
        """Close the connection."""
        if self._transport is not None:
            self._transport.close()


def status_of(head: bytes | bytearray) -> int:
    """Return the status of an answer that begins like this."""
    return int(head[9:12])


def parse_answer(received: bytes | bytearray) -> tuple[int, bytes] | None:
    """Return status and body of an answer; None while a part of it is missing.

    The API server gives either a length or chunks.
    """
    end = received.find(_END)
    if end < 0:
        return None
    head, begin = bytes(received[:end]).lower(), end + len(_END)
    _, length_found, rest = head.partition(b"\r\ncontent-length:")
    if length_found:
        length = int(rest.partition(b"\r\n")[0])
        if len(received) < begin + length:
            return None
        return status_of(head), bytes(received[begin : begin + length])
    if b"\r\ntransfer-encoding: chunked" in head:
        body = _unchunk(received, begin)
        return None if body is None else (status_of(head), body)
    return status_of(head), b""


def _unchunk(received: bytes | bytearray, at: int) -> bytes | None:
    parts: list[bytes] = []
    while (end := received.find(b"\r\n", at)) >= 0:
        size = int(bytes(received[at:end]), 16)
        if len(received) < end + 2 + size + 2:
            return None
        if not size:
            return b"".join(parts)
        parts.append(bytes(received[end + 2 : end + 2 + size]))
        at = end + 2 + size + 2
    return None
