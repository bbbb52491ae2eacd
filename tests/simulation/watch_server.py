"""Lists and watches of a simulated API server, for the real reflectors to read.

It keeps what happened since it was last compacted and serves it as the real one does: as a stream
that begins with all there is, as a stream from a version on, or as a list. A watch keeps its order;
of two watches, or of the watches of two resources, either may be far behind the other.
"""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from scheduler.errors import Rejected, Throttled, Unreachable
from scheduler.kube.requests import Params
from scheduler.kube.watched import WATCHED
from scheduler.model.fact import Resource
from scheduler.testing.documents import Document, encode, is_of, selects
from scheduler.testing.simulated_api import SimulatedApi

BOOKMARK_SECONDS: Final = 60.0
_INITIAL_EVENTS_END: Final = {"annotations": {"k8s.io/initial-events-end": "true"}}


@dataclass(slots=True)
class _History:
    """The changes of one resource: version and line of each one after *compacted*."""

    resource: Resource
    lines: deque[tuple[int, bytes]] = field(default_factory=deque)
    compacted: int = 0
    open: "list[_Stream]" = field(default_factory=list)

    def since(self, version: int) -> Iterable[bytes]:
        return [line for at, line in self.lines if at > version]

    def add(self, version: int, line: bytes) -> None:
        self.lines.append((version, line))
        for stream in self.open:
            stream.push(line)


class _Stream:
    """One watch, as long as its connection holds."""

    def __init__(self, lag: Callable[[], float]) -> None:
        self._lag = lag
        self._lines: deque[tuple[float, bytes]] = deque()
        self._woken: asyncio.Future[None] | None = None
        self._due = 0.0
        self._silent = False
        self._broken: str | None = None

    def push(self, line: bytes) -> None:
        if self._silent:
            return  # the reader's silence timer goes on
        self._due = max(self._due, asyncio.get_running_loop().time() + self._lag())
        self._lines.append((self._due, line))
        self._wake()

    def hold(self, seconds: float) -> None:
        """Delay all lines for *seconds*."""
        self._due = max(self._due, asyncio.get_running_loop().time() + seconds)

    def hang(self) -> None:
        """Send nothing more, like a connection whose peer vanished without a reset."""
        self._silent = True
        self._wake()

    def cut(self, why: str) -> None:
        """End the stream; *why* is empty where the server closes it cleanly."""
        self._broken = why
        self._wake()

    async def next(self, silence_seconds: float) -> bytes | None:
        """Return the next line; None where the server closes the watch, b"" for a bookmark."""
        loop = asyncio.get_running_loop()
        while self._broken is None:
            if self._silent:
                until = loop.time() + silence_seconds
                await self._wait(until)
                if loop.time() >= until:
                    self._broken = f"nothing came for {silence_seconds:g} s"
            elif not self._lines:
                until = loop.time() + BOOKMARK_SECONDS
                await self._wait(until)
                if loop.time() >= until and self._is_idle():
                    return b""
            elif self._lines[0][0] > loop.time():
                await self._wait(self._lines[0][0])
            else:
                return self._lines.popleft()[1]
        if self._broken:
            raise Unreachable(self._broken)
        return None

    def _is_idle(self) -> bool:
        """Return whether everything was sent, which a bookmark promises."""
        return not self._silent and not self._lines

    async def _wait(self, until: float) -> None:
        loop = asyncio.get_running_loop()
        self._woken = loop.create_future()
        timer = loop.call_at(until, self._wake)
        try:
            await self._woken
        finally:
            timer.cancel()

    def _wake(self) -> None:
        if self._woken is not None and not self._woken.done():
            self._woken.set_result(None)


class WatchServer:
    """Implements ``scheduler.kube.reflector.ReflectorClient`` before the documents of *api*.

    Args:
        api: Where the documents are.
        resources: What can be watched.
        latency: Returns how long the next answer takes.
        lag: Returns how much later than a change its line is sent.
        choose_error: Returns the error of a request for a resource; None for none.
        streams_lists: Whether the server knows lists that are streams.
    """

    def __init__(
        self,
        api: SimulatedApi,
        resources: Iterable[Resource],
        *,
        latency: Callable[[], float],
        lag: Callable[[], float],
        choose_error: Callable[[Resource], Throttled | Unreachable | None],
        streams_lists: bool = True,
    ) -> None:
        self._api = api
        self._latency = latency
        self._lag = lag
        self._choose_error = choose_error
        self._streams_lists = streams_lists
        self._histories = {resource: _History(resource) for resource in resources}
        api.listen(self._note)

    # Faults.

    def hold(self, resource: Resource, seconds: float) -> None:
        """Send nothing about *resource* for *seconds*, then everything."""
        for stream in self._histories[resource].open:
            stream.hold(seconds)

    def cut(self, resource: Resource, why: str = "connection reset by peer") -> None:
        """Break the watches of *resource*; *why* is empty where they end cleanly."""
        for stream in self._histories[resource].open:
            stream.cut(why)

    def hang(self, resource: Resource) -> None:
        """Let the open watches of *resource* send nothing more."""
        for stream in self._histories[resource].open:
            stream.hang()

    def compact(self, resource: Resource) -> None:
        """Forget the changes of *resource*: a watch from an older version expires (410)."""
        history = self._histories[resource]
        history.lines.clear()
        history.compacted = self._api.version

    # Requests.

    async def get(self, path: str, params: Params | None = None) -> bytes:
        """List all there is."""
        resource = self._resource(path, params or {})
        await self._maybe_fail(resource)
        items = list(self._documents(resource))
        return encode({"metadata": {"resourceVersion": str(self._api.version)}, "items": items})

    async def watch(
        self, path: str, params: Mapping[str, str], *, silence_seconds: float
    ) -> AsyncGenerator[bytes]:
        """Yield the lines of a watch."""
        resource = self._resource(path, params)
        await self._maybe_fail(resource)
        history = self._histories[resource]
        stream = _Stream(self._lag)
        if "sendInitialEvents" in params:
            if not self._streams_lists:
                raise Rejected("sendInitialEvents is forbidden for watch", status=422)
            lines = [_line("ADDED", each) for each in self._documents(resource)]
            lines.append(self._bookmark(_INITIAL_EVENTS_END))
        else:
            since = int(params["resourceVersion"])
            if since < history.compacted:
                yield _expired(since, history.compacted)
                return
            lines = list(history.since(since))
        for line in lines:
            stream.push(line)
        history.open.append(stream)
        try:
            while (following := await stream.next(silence_seconds)) is not None:
                yield following or self._bookmark({})
        finally:
            history.open.remove(stream)

    async def _maybe_fail(self, resource: Resource) -> None:
        await asyncio.sleep(self._latency())
        if problem := self._choose_error(resource):
            raise problem

    def _resource(self, path: str, params: Mapping[str, str]) -> Resource:
        """Return the resource that a path and its selector name."""
        selector = params.get("fieldSelector", "")
        return next(
            resource
            for resource in self._histories
            if (WATCHED[resource].path, WATCHED[resource].field_selector) == (path, selector)
        )

    def _documents(self, resource: Resource) -> Iterable[Document]:
        return (
            document
            for path, document in self._api.documents.items()
            if is_of(resource, path) and selects(resource, document)
        )

    def _bookmark(self, metadata: Document) -> bytes:
        version = {"resourceVersion": str(self._api.version)}
        return _line("BOOKMARK", {"metadata": metadata | version})

    def _note(self, path: str, old: Document | None, new: Document | None) -> None:
        version = self._api.version
        for resource, history in self._histories.items():
            if not is_of(resource, path):
                continue
            was = old is not None and selects(resource, old)
            if new is not None and selects(resource, new):
                history.add(version, _line("MODIFIED" if was else "ADDED", new))
            elif old is not None and was:
                # As in the real API server: an object that leaves the selection is sent as it was
                # before, with the resource version of the change.
                metadata = old["metadata"] | {"resourceVersion": str(version)}
                history.add(version, _line("DELETED", old | {"metadata": metadata}))


def _line(kind: str, item: Document) -> bytes:
    return encode({"type": kind, "object": item})


def _expired(since: int, compacted: int) -> bytes:
    message = f"too old resource version: {since} ({compacted})"
    return _line("ERROR", {"code": 410, "reason": "Expired", "message": message})
