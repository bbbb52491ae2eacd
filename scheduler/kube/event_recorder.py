"""Writes events in the background, so that no binding ever waits for one.

Recording appends to a bounded queue and returns; when the queue is full the event is dropped and
counted. A few workers deliver to events.k8s.io/v1 under a rate limit for event writes alone.

Repeated events form a *series*: one object that carries a count. The first repeat is written at
once, later ones are counted in memory and written every half hour, or when the series has been idle
for six minutes, which also ends it (as in client-go ``tools/events``). What makes two events one:

* kube-scheduler compares the pod's resourceVersion and not the note. If the note changes while the
  pod does not, the series keeps showing the old note; and each patch of a pod's status begins a new
  series for the very same note.
* Here it is the other way round: the note counts, the resourceVersion does not. Then ``kubectl
  describe`` shows every reason that was given, and how recently, and fewer objects are written.
"""

import asyncio
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from enum import Enum, StrEnum
from typing import Final, Protocol

from scheduler.errors import ApiError, Conflict, NotFound, Throttled, Unauthorized, Unreachable
from scheduler.kube.event_series import Series
from scheduler.kube.events import Event, truncate_note
from scheduler.kube.requests import STRATEGIC_MERGE_PATCH, Requests
from scheduler.kube.retry import Backoff, RetrySettings, retry


class DropReason(StrEnum):
    """Why an event was never written; the values are labels of a metric."""

    QUEUE_FULL = "queue_full"
    REFUSED = "refused"
    UNDELIVERED = "undelivered"
    SHUT_DOWN = "shut_down"


class EventObserver:
    """Receives what becomes of events; every method does nothing here."""

    def delivered(self) -> None:
        """An event or a count was written."""

    def dropped(self, reason: DropReason) -> None:
        """An event or a count will not be written."""


class Limiter(Protocol):
    """Limits the rate of requests."""

    async def acquire(self) -> None:
        """Wait until the next request may be sent."""
        ...


EVENT_RETRIES: Final = RetrySettings(
    Backoff(seconds_initial=0.5, seconds_maximum=10.0, spread=(1.0, 1.25)),
    tries_maximum=12,  # client-go's maxTriesPerEvent
    throttled_is_try=True,
)


@dataclass(frozen=True, slots=True)
class RecorderSettings:
    """Bounds of memory and concurrency, and when counts are written.

    Args:
        queued_maximum: How many deliveries may wait; events beyond are dropped.
        series_maximum: How many series are remembered.
        workers: How many deliveries may be under way at once.
        idle_seconds: A series without a repeat for so long ends (client-go's).
        refresh_seconds: How often the count of a living series is written (client-go's).
        sweep_seconds: How often due series are looked for.
        retries: How often a delivery is tried.
        wall_nanoseconds: The wall clock, for the stamps in events.
        sleep: How to wait between sweeps.
    """

    queued_maximum: int = 1000
    series_maximum: int = 4096
    workers: int = 8
    idle_seconds: float = 360.0
    refresh_seconds: float = 1800.0
    sweep_seconds: float = 30.0
    retries: RetrySettings = EVENT_RETRIES
    wall_nanoseconds: Callable[[], int] = time.time_ns
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep


DEFAULT_SETTINGS: Final = RecorderSettings()
UNOBSERVED: Final = EventObserver()


class EventRecorder:
    """Records events from the loop and delivers them in the background.

    Args:
        requests: Where events are written; without a rate limit, since *limiter* is one.
        host: This process's host name, part of ``reportingInstance``.
        limiter: The rate limit of events.
    """

    def __init__(
        self,
        requests: Requests,
        *,
        host: str,
        limiter: Limiter,
        settings: RecorderSettings = DEFAULT_SETTINGS,
        observer: EventObserver = UNOBSERVED,
    ) -> None:
        self._requests = requests
        self._host = host
        self._limiter = limiter
        self._settings = settings
        self._observer = observer
        self._queue: asyncio.Queue[Series] = asyncio.Queue(settings.queued_maximum)
        self._series: OrderedDict[tuple[object, ...], Series] = OrderedDict()
        self._closed = asyncio.Event()
        self._closing = False
        self._last_nanoseconds = 0

    def record(self, event: Event) -> None:
        """Queue *event* for delivery, or drop and count it; never waits."""
        now = self._next_nanoseconds()
        if (note := truncate_note(event.note)) is not event.note:
            event = replace(event, note=note)
        known = self._series.get(event.key) if event.repeats else None
        if known is None:
            self._begin(event, now)
        else:
            self._repeat(known, event, now)

    async def run(self) -> None:
        """Deliver until closed."""
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(self._work()) for _ in range(self._settings.workers)]
            tasks.append(group.create_task(self._sweep_regularly()))
            await self._closed.wait()
            for task in tasks:
                task.cancel()

    async def close(self, timeout_seconds: float) -> None:
        """Accept no more, write for up to *timeout_seconds*, and end ``run``."""
        for series in self._series.values():
            if series.behind:
                self._enqueue(series)
        self._closing = True
        try:
            await asyncio.wait_for(self._queue.join(), timeout_seconds)
        except TimeoutError:
            self._drop_backlog()
        self._closed.set()

    def sweep(self) -> None:
        """Write counts that are due, and forget series that went idle."""
        now = self._settings.wall_nanoseconds()
        for key, series in list(self._series.items()):
            idle = _seconds(now - series.observed_nanoseconds) >= self._settings.idle_seconds
            stale = _seconds(now - series.written_nanoseconds) >= self._settings.refresh_seconds
            written = not (series.behind and (idle or stale)) or self._enqueue(series)
            if idle and written:
                del self._series[key]

    def _begin(self, event: Event, now: int) -> None:
        series = Series(event, self._host, now)
        if not self._enqueue(series):
            self._count_drop()
        elif event.repeats:
            assert event.key not in self._series, "a series is repeated, and not begun again"
            self._series[event.key] = series
            if len(self._series) > self._settings.series_maximum:
                self._forget_oldest()

    def _repeat(self, series: Series, event: Event, now: int) -> None:
        series.repeat(now)
        assert series.count > 1, "a repeat is at least the second occurrence"
        self._series.move_to_end(event.key)
        if series.count == 2:
            self._enqueue(series)

    def _forget_oldest(self) -> None:
        """End the series that was idle longest: a further repeat begins a new one."""
        _, series = self._series.popitem(last=False)
        if series.behind and not self._enqueue(series):
            self._count_drop()

    def _forget_unwritten(self, series: Series) -> None:
        """Forget a series that was never written: the next repeat begins another."""
        key = series.event.key
        if not series.written and self._series.get(key) is series:
            del self._series[key]

    def _enqueue(self, series: Series) -> bool:
        """Queue *series* unless it is queued already; return whether it is queued now."""
        if not series.queued and not self._closing and not self._queue.full():
            self._queue.put_nowait(series)
            series.queued = True
        return series.queued

    def _count_drop(self) -> None:
        reason = DropReason.SHUT_DOWN if self._closing else DropReason.QUEUE_FULL
        self._observer.dropped(reason)

    def _drop_backlog(self) -> None:
        while not self._queue.empty():
            self._queue.get_nowait()
            self._observer.dropped(DropReason.SHUT_DOWN)

    def _next_nanoseconds(self) -> int:
        """Return the wall clock, always larger than before: it makes the names of events unique."""
        self._last_nanoseconds = max(self._last_nanoseconds + 1, self._settings.wall_nanoseconds())
        return self._last_nanoseconds

    async def _sweep_regularly(self) -> None:
        while True:
            await self._settings.sleep(self._settings.sweep_seconds)
            self.sweep()

    async def _work(self) -> None:
        while True:
            series = await self._queue.get()
            try:
                await self._bring_up_to_date(series)
            except asyncio.CancelledError:
                self._observer.dropped(DropReason.SHUT_DOWN)
                raise
            finally:
                series.queued = False
                self._queue.task_done()

    async def _bring_up_to_date(self, series: Series) -> None:
        """Write *series*, and again if its first repeat came while it was being created."""
        drop = await self._write(series)
        if drop is None and series.written == 1 and series.behind:
            drop = await self._write(series)
        if drop is not None:
            self._observer.dropped(drop)
            self._forget_unwritten(series)

    async def _write(self, series: Series) -> DropReason | None:
        """Write *series*; return why that is given up."""

        def failure(error: ApiError) -> Remedy | DropReason:
            return judge_failure(error, creating=not series.written)

        try:
            count = await retry(
                lambda: self._send(series),
                self._settings.retries,
                repeats=lambda error: failure(error) is Remedy.REPEAT,
            )
        except ApiError as error:
            drop = failure(error)
            return drop if isinstance(drop, DropReason) else DropReason.UNDELIVERED
        self._note_written(series, count)
        return None

    def _note_written(self, series: Series, count: int) -> None:
        assert 0 < count <= series.count, "the server counts more than was recorded"
        series.written = count
        series.written_nanoseconds = self._settings.wall_nanoseconds()
        self._observer.delivered()

    async def _send(self, series: Series) -> int:
        """Make one request; return the count that the server holds by then."""
        await self._limiter.acquire()
        count, creating = series.count, not series.written
        path = f"/apis/events.k8s.io/v1/namespaces/{series.namespace}/events"
        try:
            if creating:
                await self._requests.post(path, series.create_body())
            else:
                patch = series.patch_body()
                await self._requests.patch(f"{path}/{series.name}", patch, STRATEGIC_MERGE_PATCH)
        except ApiError as error:
            match judge_failure(error, creating=creating):
                case Remedy.COUNT_AS_CREATED:
                    return 1
                case Remedy.CREATE:
                    series.written = 0
                    return await self._send(series)
                case _:
                    raise
        return count


class Remedy(Enum):
    """What to do about an event after a failed request."""

    REPEAT = "repeat"
    CREATE = "create"
    COUNT_AS_CREATED = "count as created"


def judge_failure(error: ApiError, *, creating: bool) -> Remedy | DropReason:
    """Return what to do after *error*; it differs for creating and for patching a count."""
    match error:
        case Unreachable() | Throttled() | Unauthorized():
            return Remedy.REPEAT
        case Conflict():
            # The name has our clock's nanoseconds in it, so nobody else chose it: the event exists
            # because it was created by a request whose answer was lost.
            return Remedy.COUNT_AS_CREATED if creating else Remedy.REPEAT
        case NotFound() if not creating:
            return Remedy.CREATE  # events live for an hour, unless somebody deletes them
        case _:
            return DropReason.REFUSED  # malformed, not permitted, or the namespace is terminating


def _seconds(nanoseconds: int) -> float:
    return nanoseconds / 1e9
