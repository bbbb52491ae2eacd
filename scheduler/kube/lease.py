"""Leader election by a Lease, in client-go's records: one of several replicas leads.

Theory of operation. ``Election`` is a state machine without I/O: it is asked what to do *now*, and
told how that went. ``LeaseKeeper`` carries it out in a thread of its own, so that a busy event loop
cannot delay a renewal.

=========  ==================================  ==========================================
state      heard                               becomes, and does next
=========  ==================================  ==========================================
standby    held by another, record alive       standby; read again after the retry time
standby    absent, released, expired or ours   standby; write
standby    written                             leading; write again after the retry time
leading    written                             leading; write again after the retry time
leading    conflict                            leading; read at once
leading    no answer                           leading; read after the retry time
leading    read: ours, or absent               leading; write at once
leading    read: another's                     lost
leading    the renew deadline passed           lost
lost       anything                            lost
=========  ==================================  ==========================================

Three rules keep two leaders apart, whatever clocks and networks do:

* Another's lease expires by our own clock, counted from when its record was last *seen to change*;
  the stamps in the record are never compared.
* We lead until the renew deadline after the *start* of the last renewal that succeeded, by a clock
  that counts while the machine is suspended; nothing is requested later than that.
* A lost lease stays lost. The process ends, and another one applies anew.
"""

import asyncio
import contextlib
import random
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import Enum
from typing import Final

import msgspec

from scheduler.errors import ApiError, Conflict, NotFound, SchedulerError, Throttled, Unreachable
from scheduler.kube.requests import Requests
from scheduler.model.meta import Struct

JITTER: Final = 1.2
_RELEASED_SECONDS: Final = 1
_NEVER: Final = float("-inf")


@dataclass(frozen=True, slots=True)
class LeaseSettings:
    """Which Lease, who we are in it, and its times; the defaults are kube-scheduler's.

    Args:
        identity: Unique to this process, as in ``<hostname>_<uuid>``.
        lease_seconds: How long others wait after our last renewal before they take over.
        renew_deadline_seconds: How long we lead on after the last renewal that succeeded.
        retry_seconds: How long to wait between tries; standbys add up to 1.2 times as much.
    """

    namespace: str
    name: str
    identity: str
    lease_seconds: int = 15
    renew_deadline_seconds: float = 10.0
    retry_seconds: float = 2.0

    def __post_init__(self) -> None:
        assert self.identity, "an empty identity means that nobody holds the lease"
        assert self.lease_seconds > self.renew_deadline_seconds > self.retry_seconds * JITTER > 0

    @property
    def request_seconds(self) -> float:
        """How long one request may take, so that a second fits before the deadline."""
        return max(self.renew_deadline_seconds / 2, 1.0)

    @property
    def collection(self) -> str:
        """The path that leases of the namespace are created under."""
        return f"/apis/coordination.k8s.io/v1/namespaces/{self.namespace}/leases"

    @property
    def path(self) -> str:
        """The path of the Lease."""
        return f"{self.collection}/{self.name}"


class LeaseRecord(Struct, frozen=True):
    """Who leads, as client-go writes it; a Lease made by hand may leave anything out."""

    holder_identity: str | None = None
    lease_duration_seconds: int | None = None
    acquire_time: str | None = None
    renew_time: str | None = None
    lease_transitions: int | None = None


class Lease(Struct, frozen=True):
    """A Lease. *metadata* is kept whole: a PUT that left out labels would remove them."""

    metadata: dict[str, object] = msgspec.field(default_factory=dict)
    spec: LeaseRecord = LeaseRecord()
    api_version: str = "coordination.k8s.io/v1"
    kind: str = "Lease"


encode_lease = msgspec.json.Encoder().encode
decode_lease = msgspec.json.Decoder(Lease).decode


@dataclass(frozen=True, slots=True)
class Wait:
    """Do nothing for *seconds*."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Read:
    """Read the Lease, within *timeout_seconds*."""

    timeout_seconds: float


@dataclass(frozen=True, slots=True)
class Create:
    """Create the Lease, within *timeout_seconds*; it was absent."""

    lease: Lease
    timeout_seconds: float


@dataclass(frozen=True, slots=True)
class Replace:
    """Replace the Lease at the version it names, within *timeout_seconds*."""

    lease: Lease
    timeout_seconds: float


@dataclass(frozen=True, slots=True)
class Resign:
    """Stop for good: the lease is lost."""

    why: str


Action = Wait | Read | Create | Replace | Resign


class Standing(Enum):
    """Where a candidate stands."""

    STANDBY = "standby"
    LEADING = "leading"
    LOST = "lost"


class Election:
    """One candidate's view of one Lease. Times come in; *now* never goes back.

    Ask ``next_action``, carry it out, and tell the outcome by one of the ``note_`` methods.
    """

    def __init__(self, settings: LeaseSettings, *, rng: random.Random) -> None:
        self.settings = settings
        self.standing = Standing.STANDBY
        self.why_lost = ""
        self._rng = rng
        self._lease: Lease | None = None
        self._record_changed_at = _NEVER
        self._writes_next = False
        self._not_before = _NEVER
        self._asked_at = _NEVER
        self._renewed_at = _NEVER
        self._conflicts = 0

    @property
    def leading_until(self) -> float:
        """The moment until which we lead, if nothing more is heard; the past if we do not."""
        if self.standing is not Standing.LEADING:
            return _NEVER
        return self._renewed_at + self.settings.renew_deadline_seconds

    @property
    def holder(self) -> str:
        """Who was last seen to hold the lease; empty for nobody."""
        return (self._lease.spec.holder_identity or "") if self._lease else ""

    def next_action(self, now: float, wall: datetime) -> Action:
        """Return what to do at *now*; *wall* is the time to write into the record."""
        if self.standing is Standing.LEADING and now >= self.leading_until:
            self._lose("the renew deadline passed")
        if self.standing is Standing.LOST:
            return Resign(self.why_lost)
        if now < self._not_before:
            return Wait(self._not_before - now)
        self._asked_at = now
        return self._write(wall) if self._writes_next else Read(self._patience())

    def note_read(self, lease: Lease, now: float) -> None:
        """Hear that the Lease was read."""
        if self._lease is None or self._lease.spec != lease.spec:
            self._record_changed_at = now
        self._lease = lease
        if self.standing is Standing.LEADING and self.holder != self.settings.identity:
            self._lose(f"held by {self.holder or 'nobody'}")
        elif self._may_take(now):
            self._writes_next = True
        else:
            self._retry(now)

    def note_absent(self) -> None:
        """Hear that there is no Lease."""
        self._lease = None
        self._writes_next = True

    def note_written(self, lease: Lease, now: float) -> None:
        """Hear that what was asked for last was written, and how the server holds it."""
        self._lease = lease
        self._record_changed_at = now
        self._conflicts = 0
        deadline = self._asked_at + self.settings.renew_deadline_seconds
        if self.standing is Standing.LEADING and now >= self.leading_until:
            self._lose("the renewal came after the renew deadline")
        elif now < deadline:
            self.standing = Standing.LEADING
            self._renewed_at = self._asked_at
            self._not_before = now + self.settings.retry_seconds
        # Otherwise it took too long to begin to lead on; the record is ours, write it once more.

    def note_failed(self, error: ApiError, now: float) -> None:
        """Hear that what was asked for last failed, or that its answer was lost."""
        self._writes_next = False
        if isinstance(error, Conflict) and not self._conflicts:
            self._conflicts += 1
            return  # somebody wrote in between, perhaps ourselves in a lost answer: look at once
        self._retry(now)
        if isinstance(error, Throttled):
            self._not_before = max(self._not_before, now + error.retry_after_seconds)

    def released(self, seen: Lease, wall: datetime) -> Lease | None:
        """Return *seen* with nobody in it, or None where it is not ours to give up."""
        if seen.spec.holder_identity != self.settings.identity:
            return None
        stamp = micro_time(wall)
        record = msgspec.structs.replace(
            seen.spec,
            holder_identity="",
            lease_duration_seconds=_RELEASED_SECONDS,
            acquire_time=stamp,
            renew_time=stamp,
        )
        return msgspec.structs.replace(seen, spec=record)

    def _may_take(self, now: float) -> bool:
        return self.holder in {"", self.settings.identity} or now >= self._expires_at()

    def _expires_at(self) -> float:
        assert self._lease is not None
        # A record without a duration gets ours, not client-go's zero: nobody's lease is that short.
        seconds = self._lease.spec.lease_duration_seconds or self.settings.lease_seconds
        return self._record_changed_at + seconds

    def _write(self, wall: datetime) -> Create | Replace:
        record = self._record(micro_time(wall))
        if self._lease is None:
            meta: dict[str, object] = {
                "namespace": self.settings.namespace,
                "name": self.settings.name,
            }
            return Create(Lease(metadata=meta, spec=record), self._patience())
        return Replace(msgspec.structs.replace(self._lease, spec=record), self._patience())

    def _record(self, stamp: str) -> LeaseRecord:
        seen = self._lease.spec if self._lease else None
        transitions = (seen.lease_transitions or 0) if seen else 0
        ours = self.holder == self.settings.identity
        return LeaseRecord(
            holder_identity=self.settings.identity,
            lease_duration_seconds=self.settings.lease_seconds,
            acquire_time=(seen.acquire_time or stamp) if seen and ours else stamp,
            renew_time=stamp,
            lease_transitions=transitions if ours or seen is None else transitions + 1,
        )

    def _patience(self) -> float:
        """How long the next request may take: no answer counts after the renew deadline."""
        if self.standing is not Standing.LEADING:
            return self.settings.request_seconds
        return min(self.settings.request_seconds, self.leading_until - self._asked_at)

    def _retry(self, now: float) -> None:
        self._conflicts = 0
        seconds = self.settings.retry_seconds
        if self.standing is Standing.STANDBY:
            # Standbys must not all write at one moment.
            self._not_before = now + seconds * (1 + JITTER * self._rng.random())
        else:
            # A leader whose request hung has waited already: its deadline is near.
            self._not_before = max(now, self._asked_at + seconds)

    def _lose(self, why: str) -> None:
        self.standing = Standing.LOST
        self.why_lost = why


def micro_time(wall: datetime) -> str:
    """Return *wall* as Kubernetes' MicroTime."""
    return f"{wall.astimezone(UTC):%Y-%m-%dT%H:%M:%S.%f}Z"


_CLOCK: Final[int | None] = getattr(time, "CLOCK_BOOTTIME", None)


def suspend_aware_seconds() -> float:
    """Return a clock that counts while the machine sleeps, where the system has one."""
    return time.monotonic() if _CLOCK is None else time.clock_gettime(_CLOCK)


class LeaseObserver:
    """Hears of the election, in the keeper's thread; every method may be left silent."""

    def holder_changed(self, holder: str) -> None:
        """Hear who holds the lease now; empty for nobody."""

    def request_failed(self, error: ApiError) -> None:
        """Hear that one try failed."""


Connect = Callable[[], AbstractAsyncContextManager[Requests]]


class LeaseKeeper:
    """Applies for a lease and keeps it, in a thread with an event loop and connection of its own.

    Args:
        connect: Opens a connection; entered in the keeper's own event loop.
        on_lost: Told why, once, when a lease that was held is lost. It runs in the keeper's thread,
            so that even a blocked event loop can be ended by it.
        clock: Seconds that never go back and count a suspended machine's time.
    """

    def __init__(
        self,
        settings: LeaseSettings,
        connect: Connect,
        *,
        on_lost: Callable[[str], None],
        observer: LeaseObserver | None = None,
        clock: Callable[[], float] = suspend_aware_seconds,
        rng: random.Random | None = None,
    ) -> None:
        self._settings = settings
        self._connect = connect
        self._on_lost = on_lost
        self._observer = observer or LeaseObserver()
        self._clock = clock
        self._election = Election(settings, rng=rng or random.Random())  # noqa: S311 - no secret
        # Written by the keeper's thread alone, read by all: one float, so no lock is needed.
        self._leading_until = _NEVER
        self._giving_up = False
        self._led: Future[bool] = Future()
        self._loop: asyncio.AbstractEventLoop
        self._task: asyncio.Task[None]
        self._thread = threading.Thread(target=self._run, name="lease", daemon=True)

    @property
    def is_leading(self) -> bool:
        """Whether we lead at this moment. Judged by time, so a stalled keeper does not lead on."""
        return not self._giving_up and self._clock() < self._leading_until

    def start(self) -> None:
        """Begin to apply for the lease."""
        self._loop = asyncio.new_event_loop()
        self._task = self._loop.create_task(self._keep())
        self._thread.start()

    async def wait_until_leading(self) -> bool:
        """Return True once we lead; False if the keeper ends without."""
        return await asyncio.shield(asyncio.wrap_future(self._led))

    async def release(self, timeout_seconds: float = 5.0) -> bool:
        """Lead no more, give the lease up and end the keeper; tell whether it ended in time.

        Finish or abandon what a leader does before: from here on another may lead.
        """
        started, again, self._giving_up = self._thread.ident is not None, self._giving_up, True
        if started:
            if not again:
                with contextlib.suppress(RuntimeError):  # it ended before, and closed its loop
                    self._loop.call_soon_threadsafe(self._task.cancel)
            await asyncio.to_thread(self._thread.join, timeout_seconds)
        return not self._thread.is_alive()

    def _run(self) -> None:
        try:
            self._loop.run_until_complete(self._task)
        except asyncio.CancelledError:
            pass
        except Exception as problem:  # noqa: BLE001 - whatever it is, nobody renews any more
            self._fail(problem)
        finally:
            self._leading_until = _NEVER
            self._loop.close()
            if not self._led.done():
                self._led.set_result(False)

    def _fail(self, problem: Exception) -> None:
        """Pass on what ended the keeper to whoever counts on it."""
        if self._led.done():
            self._lose(f"the keeper failed: {problem!r}")
        else:
            self._led.set_exception(problem)

    def _lose(self, why: str) -> None:
        self._leading_until = _NEVER
        self._on_lost(why)

    async def _keep(self) -> None:
        async with self._connect() as requests:
            try:
                await self._apply(requests)
            except asyncio.CancelledError:
                self._leading_until = _NEVER
                await self._give_up(requests)

    async def _apply(self, requests: Requests) -> None:
        while True:
            action = self._election.next_action(self._clock(), datetime.now(UTC))
            match action:
                case Resign(why):
                    return self._lose(why)
                case Wait(seconds):
                    await asyncio.sleep(seconds)
                case _:
                    await self._ask(requests, action)
                    self._publish()

    async def _ask(self, requests: Requests, action: Read | Create | Replace) -> None:
        holder = self._election.holder
        try:
            async with asyncio.timeout(action.timeout_seconds):
                await self._carry_out(requests, action)
        except (SchedulerError, msgspec.DecodeError, TimeoutError) as problem:
            error = _as_api_error(problem)
            self._election.note_failed(error, self._clock())
            self._observer.request_failed(error)
        if self._election.holder != holder:
            self._observer.holder_changed(self._election.holder)

    async def _carry_out(self, requests: Requests, action: Read | Create | Replace) -> None:
        path, election = self._settings.path, self._election
        match action:
            case Read():
                try:
                    body = await requests.get(path)
                except NotFound:
                    election.note_absent()
                else:
                    election.note_read(decode_lease(body), self._clock())
            case Create(lease):
                body = await requests.post(self._settings.collection, encode_lease(lease))
                election.note_written(decode_lease(body), self._clock())
            case Replace(lease):
                body = await requests.put(path, encode_lease(lease))
                election.note_written(decode_lease(body), self._clock())

    def _publish(self) -> None:
        self._leading_until = self._election.leading_until
        if self._leading_until > self._clock() and not self._led.done():
            self._led.set_result(True)

    async def _give_up(self, requests: Requests) -> None:
        """Write that nobody holds the lease; where that fails, it expires by itself."""
        try:
            async with asyncio.timeout(self._settings.request_seconds):
                await self._write_released(requests)
        except (SchedulerError, msgspec.DecodeError, TimeoutError) as problem:
            self._observer.request_failed(_as_api_error(problem))

    async def _write_released(self, requests: Requests) -> None:
        # A renewal may have been cut off on its way, so its outcome is read rather than assumed; it
        # may even land between our read and our write, but then it is over.
        for _ in range(2):
            seen = decode_lease(await requests.get(self._settings.path))
            lease = self._election.released(seen, datetime.now(UTC))
            with contextlib.suppress(Conflict):
                if lease is not None:
                    await requests.put(self._settings.path, encode_lease(lease))
                return


def _as_api_error(problem: Exception) -> ApiError:
    if isinstance(problem, ApiError):
        return problem
    return Unreachable(f"the lease: {str(problem) or 'no answer in time'}")
