"""Reflectors: each lists and watches one resource, and turns what changes into facts.

A reflector is always in one of two states. It *lists*, by a stream or by pages, until it has every
object; then it *follows* the watch from there. Whatever happens leads to one of the two:

==================================  ===========================================================
what happens                        what follows
==================================  ===========================================================
the list is complete                follow; the first time, ``Listed`` is sent
the server ends the watch           follow from the last version, at once
the connection breaks or is silent  follow from the last version (or list anew), after a pause
the history is compacted (410)      list, and send the difference as facts
the server knows no streaming list  list by pages, from now on
the server ends a streaming list    list by pages, this time
the server is overloaded (429)      the same again, after the pause that it names
permission is missing (401, 403)    the same again, after a pause, for as long as it takes
the resource cannot be watched      list, and list again after a longer pause (aggregated APIs)
==================================  ===========================================================
"""

import asyncio
import random
import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Final, Generic, Protocol

from scheduler.errors import (
    ApiError,
    Forbidden,
    Gone,
    NotFound,
    Rejected,
    Throttled,
    Unauthorized,
    Unreachable,
)
from scheduler.kube.decode import (
    ADDED,
    MODIFIED,
    Bookmark,
    Key,
    ObjectChanged,
    ObjectDecoder,
    Unreadable,
    WatchError,
    WatchEvent,
    key_of,
)
from scheduler.kube.object_store import ObjectStore
from scheduler.kube.reflector_timeouts import ReflectorTimeouts, SharedBackoff
from scheduler.kube.relist import Relist
from scheduler.kube.slices import LARGE_BYTES, SLICE_OBJECTS, Slices
from scheduler.kube.watch_observer import SILENT_WATCHES, WatchObserver
from scheduler.kube.watched import T, Watched
from scheduler.model.fact import Fact, Listed

PAGE_OBJECTS: Final = 500
# A watch shorter than this, with nothing in it, is a failure in disguise: following at once would
# spin.
SHORTEST_WATCH_SECONDS: Final = 1.0


class ReflectorClient(Protocol):
    """What a reflector needs of a client."""

    async def get(self, path: str, params: Mapping[str, str] | None = None) -> bytes:
        """Read what is at *path*."""

    def watch(
        self, path: str, params: Mapping[str, str], *, silence_seconds: float
    ) -> AsyncGenerator[bytes]:
        """Yield the lines of a watch."""


class Reflector(Generic[T]):
    """Lists and watches one resource, and sends every change, in order, as a fact.

    Args:
        client: The API server.
        watched: The resource, and how its objects are read.
        sink: Takes the facts; must not block.
        observer: Receives restarts and malformed objects.
        timeouts: How long to wait.
        clock: A monotonic clock in seconds.
        sleep: How to wait.
        shared_backoff: Ends the wait when the server has answered another reflector.
        rng: Jitter, so that a thousand clients do not return at the same moment.
    """

    def __init__(
        self,
        client: ReflectorClient,
        watched: Watched[T],
        sink: Callable[[Fact], None],
        *,
        observer: WatchObserver = SILENT_WATCHES,
        timeouts: ReflectorTimeouts = ReflectorTimeouts(),  # noqa: B008 - frozen
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        shared_backoff: SharedBackoff | None = None,
        rng: random.Random | None = None,
    ) -> None:
        self._objects = ObjectStore(watched, sink, observer)
        self._last_line_at: float | None = None
        self.lists = 0  # how many lists were completed
        self.is_listing = False  # whether one is under way, or is to be begun again
        self.watched = watched
        self._client = client
        self._resource = watched.resource
        self._decoder = ObjectDecoder(watched)
        self._sink = sink
        self._observer = observer
        self._timeouts = timeouts
        self._clock = clock
        self._sleep = sleep
        self._shared_backoff = shared_backoff
        self._rng = rng or random.Random()  # noqa: S311 - jitter
        self._version = ""
        self._listed = False
        self._streaming = True
        self._pages_next = False
        self._denied = False
        self._failures = 0

    def reread(self, watched: Watched[T]) -> None:
        """Read objects as *watched* says from the next ``run`` on, which begins with a list.

        An object that differs when it is read in the new way becomes an ``Updated``.
        """
        self.watched = self._objects.watched = watched
        self._decoder = ObjectDecoder(watched)
        self._version = ""

    def retract(self) -> None:
        """Send ``Deleted`` for every object: the resource is not watched any more."""
        for key in tuple(self.store):
            self._objects.remove(key, seen=False)
        assert not self.store, f"objects of {self._resource} outlive their watch"

    @property
    def store(self) -> Mapping[Key, T]:
        """Every object in the version that was sent last."""
        return self._objects.objects

    @property
    def listed(self) -> bool:
        """Whether the first list is complete, or an optional resource is denied or absent."""
        return self._listed

    @property
    def silence_seconds(self) -> float | None:
        """For how long nothing came from the server; None where nothing can come.

        That is so before the first ``run``, and while the server lacks an optional resource.
        """
        return None if self._last_line_at is None else self._clock() - self._last_line_at

    async def run(self) -> None:
        """List and follow until cancelled."""
        if self._last_line_at is None:
            self._last_line_at = self._clock()
        while True:
            try:
                if self._version:
                    await self._follow()
                elif self._streaming and not self._pages_next:
                    await self._list_by_stream()
                else:
                    await self._list_by_pages()
                if not self._version:  # a list without a version leads nowhere: list again
                    await self._sleep(self._timeouts.poll)
            except ApiError as problem:
                await self._recover(problem)

    def correct(self, key: Key, found: T | None) -> None:
        """Send what a fresh list *found* under *key* and the watch missed; None for no object."""
        if found is None:
            self._objects.remove(key, seen=False)
        else:
            assert key_of(found) == key, "the list was compared under another name"
            self._objects.apply(ObjectChanged(MODIFIED, found))

    async def _recover(self, problem: ApiError) -> None:
        """Choose what follows *problem*, and wait until it is due."""
        match problem:
            case Rejected() if self._streaming and not self._version:
                # The server knows no streaming lists (WatchList is off), or forbids them.
                self._streaming = False
                return
            case Rejected(status=405):
                self._version = ""
                await self._sleep(self._timeouts.poll)
                return
            case Forbidden() | Unauthorized() | NotFound():
                self._report_denial(problem)
                if isinstance(problem, NotFound) and self.watched.optional:
                    self._last_line_at = None
            case _:
                self._observer.watch_restarted(self._resource, problem)
        pause = self._pause(problem)
        if isinstance(problem, Gone):
            self._version = ""
            # Compaction is no sign of overload: only a second one in a row has to wait.
            if self._failures == 1:
                return
        if self._shared_backoff and isinstance(problem, Unreachable):
            await self._shared_backoff.sleep(pause)
        else:
            await self._sleep(pause)

    def _report_denial(self, problem: ApiError) -> None:
        if self._denied:
            return
        self._denied = True
        self._observer.watch_denied(self._resource, str(problem))
        if self.watched.optional:
            self._send_listed()

    def _pause(self, problem: ApiError) -> float:
        """Count a failure; return its pause, or the time that a 429 names if that is longer."""
        pause = self._timeouts.backoff.seconds(self._failures, self._rng)
        self._failures += 1
        return max(pause, problem.retry_after_seconds) if isinstance(problem, Throttled) else pause

    def _succeed(self) -> None:
        if self._failures and self._shared_backoff:
            self._shared_backoff.wake()
        self._failures = 0
        self._denied = False

    async def _list_by_stream(self) -> None:
        """List by a stream of events, and follow the same watch afterwards."""
        params = {
            "sendInitialEvents": "true",
            "resourceVersionMatch": "NotOlderThan",
            "resourceVersion": "",
        }
        listing = self._new_listing()
        async with aclosing(self._watch(params)) as lines:
            async for line in lines:
                event = await self._decode(line)
                if isinstance(event, Bookmark) and event.initial_end:
                    await self._complete(listing, event.version)
                    break
                self._collect(listing, event)
                if listing.slices.is_full(len(line)):
                    await asyncio.sleep(0)
            else:
                # kube-apiserver ends a stream whose buffer is full, and while the list is sent that
                # buffer has room for ten changes of the cluster if the server has just started.
                # Under load the next stream would end like this one; pages do not.
                self._pages_next = True
                raise Unreachable(f"{self.watched.path}: the streaming list had no end")
            await self._apply_lines(lines)

    async def _list_by_pages(self) -> None:
        """List page by page, as of one moment."""
        # No resourceVersion: with 0 the server would answer from its cache, whole and at once,
        # whatever the limit.
        params = {**self.watched.params, "limit": str(PAGE_OBJECTS)}
        listing = self._new_listing()
        version = ""
        while True:
            page = self._decoder.page(await self._client.get(self.watched.path, params))
            version = version or page.metadata.resource_version
            for raw in page.items or ():
                found = self._decoder.item(raw)
                event: WatchEvent[T] = (
                    found if isinstance(found, Unreadable) else ObjectChanged(ADDED, found)
                )
                self._collect(listing, event)
                if listing.slices.is_full(len(raw)):
                    await asyncio.sleep(0)
            if not page.metadata.continue_:
                break
            params["continue"] = page.metadata.continue_
        await self._complete(listing, version)

    async def _follow(self) -> None:
        """Watch from the last version on, until the server ends the watch."""
        assert self._version, "a watch without a version misses what came before it"
        started = self._clock()
        async with aclosing(self._watch({"resourceVersion": self._version})) as lines:
            lines_seen = await self._apply_lines(lines)
        if not lines_seen and self._clock() - started < SHORTEST_WATCH_SECONDS:
            raise Unreachable(f"{self.watched.path}: the watch ended as soon as it began")
        self._succeed()

    def _watch(self, params: Mapping[str, str]) -> AsyncGenerator[bytes]:
        self._observer.watch_started(self._resource)
        seconds = self._rng.uniform(self._timeouts.watch_minimum, self._timeouts.watch_maximum)
        wanted = {
            **self.watched.params,
            **params,
            "allowWatchBookmarks": "true",
            "timeoutSeconds": str(round(seconds)),
        }
        return self._client.watch(self.watched.path, wanted, silence_seconds=self._timeouts.silence)

    async def _apply_lines(self, lines: AsyncIterator[bytes]) -> int:
        """Apply the events in *lines*, keep the last version, and return how many lines came."""
        count = 0
        async for line in lines:
            count += 1
            self._last_line_at = self._clock()
            match event := (
                # A coroutine for each line would cost more than all the rest of this loop.
                self._decoder.event(line) if len(line) < LARGE_BYTES else await self._decode(line)
            ):
                case ObjectChanged():
                    self._objects.apply(event)
                    self._version = event.object.metadata.resource_version or self._version
                case Bookmark():
                    self._version = event.version or self._version
                case Unreadable():
                    self._objects.report(event)
                    self._version = event.version or self._version
                case WatchError():
                    if self._failures:  # the same version fails again: list instead
                        self._version = ""
                    raise _error(self.watched.path, event)
            if self._failures or self._denied:
                self._succeed()
            # A connection that was behind delivers half a megabyte at once.
            if count % SLICE_OBJECTS == 0:
                await asyncio.sleep(0)
        return count

    async def _decode(self, line: bytes) -> WatchEvent[T]:
        """Decode a line; other tasks run between the pieces of a large one."""
        if len(line) < LARGE_BYTES:
            return self._decoder.event(line)
        pieces = self._decoder.event_in_pieces(line)
        while True:
            try:
                next(pieces)
            except StopIteration as end:
                event: WatchEvent[T] = end.value
                return event
            await asyncio.sleep(0)

    def _collect(self, listing: "_Listing[T]", event: WatchEvent[T]) -> None:
        """Apply an event of the first list at once; of a later list, hold what differs."""
        relist = listing.relist
        self._last_line_at = self._clock()
        match event:
            case ObjectChanged() if relist is not None:
                relist.add(event)
            case ObjectChanged():
                self._objects.apply(event)
            case Unreadable():
                if relist is not None:
                    relist.keep(event)
                self._objects.report(event)
            case WatchError():
                raise _error(self.watched.path, event)
            case Bookmark():
                pass

    async def _complete(self, listing: "_Listing[T]", version: str) -> None:
        """End a list: send how it differs from the store, and be ready to follow from *version*."""
        if listing.relist is not None:
            await listing.relist.apply()
        self._version = version
        self._last_line_at = self._clock()  # also where nothing is listed
        self._succeed()
        self._observer.list_done(
            self._resource, len(self.store), self._clock() - listing.started_at
        )
        self.lists += 1
        self.is_listing = False
        self._pages_next = False
        self._send_listed()

    def _send_listed(self) -> None:
        if not self._listed:
            self._listed = True
            self._sink(Listed(self._resource))

    def _new_listing(self) -> "_Listing[T]":
        """Begin a list. Nothing is held of the first one: there is nothing that it differs from."""
        self.is_listing = True
        return _Listing(self._clock(), Relist(self._objects) if self.store else None)


@dataclass(frozen=True, slots=True)
class _Listing(Generic[T]):
    """A list under way; *relist* is None where the store was empty, so that all is new."""

    started_at: float
    relist: Relist[T] | None
    slices: Slices = field(default_factory=Slices)


def _error(path: str, failure: WatchError) -> ApiError:
    """Return the error that ends a watch."""
    message = f"WATCH {path}: {failure.code}: {failure.message}"
    if failure.code == 410:
        return Gone(message, status=410, reason="Expired")
    if failure.code == 429:
        return Throttled(message)
    return Unreachable(message, status=failure.code)
