"""The thinnest client that will do: JSON in, JSON out, one synchronous and one asynchronous.

It is a peer's client, not the scheduler's: simple first, though quick enough to create thousands of
nodes.
"""

from __future__ import annotations

import http.client
import json
from typing import TYPE_CHECKING, Any, Self, TypeVar
from urllib.parse import urlencode, urlsplit

import aiohttp

from hack.kubeconfig import Access, read_kubeconfig
from hack.workers import act_on_all

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
    from pathlib import Path
    from types import TracebackType

_T = TypeVar("_T")

Json = dict[str, Any]

MERGE_PATCH = "application/merge-patch+json"
STRATEGIC_PATCH = "application/strategic-merge-patch+json"

_WATCH_LINE_BYTES = 8 << 20


class ApiError(RuntimeError):
    """An answer that is not 2xx."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(f"{status}: {message}")
        self.status = status

    @classmethod
    def of(cls, status: int, message: str) -> ApiError:
        """Return the error that *status* means."""
        return (NotFoundError if status == 404 else cls)(status, message)


class NotFoundError(ApiError):
    """There is no such object, or no such resource."""


def request(
    access: Access,
    method: str,
    path: str,
    body: Json | None = None,
    *,
    content_type: str = "application/json",
    timeout_seconds: float = 30.0,
) -> Json:
    """Ask once, over a connection of its own."""
    status, text = request_text(
        access, method, path, body, content_type=content_type, timeout_seconds=timeout_seconds
    )
    if status >= 300:
        raise ApiError.of(status, text)
    answer: Json = json.loads(text)
    return answer


def request_text(
    access: Access,
    method: str,
    path: str,
    body: Json | None = None,
    *,
    content_type: str = "application/json",
    timeout_seconds: float = 30.0,
) -> tuple[int, str]:
    """Ask once; return status and body, whatever they are."""
    connection = _connection(access, timeout_seconds)
    try:
        content = None if body is None else json.dumps(body)
        headers = {**access.headers, "Content-Type": content_type, "Accept": "*/*"}
        connection.request(method, path, content, headers)
        response = connection.getresponse()
        return response.status, response.read().decode()
    finally:
        connection.close()


def _connection(access: Access, timeout_seconds: float) -> http.client.HTTPConnection:
    url = urlsplit(access.url)
    host = url.hostname or ""
    if access.context is None:
        return http.client.HTTPConnection(host, url.port, timeout=timeout_seconds)
    return http.client.HTTPSConnection(
        host, url.port, context=access.context, timeout=timeout_seconds
    )


class AsyncApi:
    """A pooled client for many requests at once, and for watches."""

    def __init__(self, kubeconfig: Path, *, connections: int = 32) -> None:
        self._access = read_kubeconfig(kubeconfig)
        self._connections = connections
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Self:
        # Watches hold connections of their own, so the pool itself is unlimited and `gather`
        # bounds what is in flight.
        connector = aiohttp.TCPConnector(ssl=self._access.context or True, limit=0)
        self._session = aiohttp.ClientSession(
            self._access.url,
            connector=connector,
            headers=self._access.headers,
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=10),
            read_bufsize=_WATCH_LINE_BYTES,
        )
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        assert self._session is not None
        await self._session.close()

    async def request(
        self, method: str, path: str, body: Json | None = None, *, content_type: str | None = None
    ) -> Json:
        """Ask once."""
        assert self._session is not None, "use `async with`"
        headers = {"Content-Type": content_type or "application/json"}
        data = None if body is None else json.dumps(body)
        async with self._session.request(method, path, data=data, headers=headers) as response:
            text = await response.text()
        if response.status >= 300:
            raise ApiError.of(response.status, text)
        answer: Json = json.loads(text)
        return answer

    async def watch(self, path: str, query: Mapping[str, str]) -> AsyncIterator[Json]:
        """Yield watch events until the server ends the stream."""
        async for line in self.watch_lines(path, query):
            yield json.loads(line)

    async def watch_lines(self, path: str, query: Mapping[str, str]) -> AsyncIterator[bytes]:
        """Yield the undecoded lines of a watch, for callers that decode a part of each."""
        assert self._session is not None, "use `async with`"
        url = f"{path}?{urlencode({**query, 'watch': '1'})}"
        async with self._session.get(url) as response:
            if response.status >= 300:
                raise ApiError.of(response.status, await response.text())
            async for line in response.content:
                yield line

    async def gather(self, act: Callable[[_T], Awaitable[None]], items: Iterable[_T]) -> None:
        """Act on every item, as many at a time as there are connections."""
        await act_on_all(act, items, self._connections)
