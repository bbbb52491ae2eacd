"""Applies for a Lease and renews it, in a separate thread.

A busy event loop must not delay a renewal, so the keeper has its own thread, event loop and
connections. ``Election`` decides what the keeper does next; a standby watches the leader's
renewals.
"""

import asyncio
import contextlib
import random
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import AbstractAsyncContextManager
from datetime import UTC, datetime
from typing import Final

import msgspec

from scheduler.errors import ApiError, Conflict, NotFound, SchedulerError, Unreachable
from scheduler.kube.election import (
    NEVER,
    Create,
    Election,
    Lease,
    LeaseSettings,
    Read,
    Replace,
    Resign,
    Standing,
    Wait,
    decode_lease,
    encode_lease,
)
from scheduler.kube.lease_watch import LeaseRequests, LeaseWatch
from scheduler.kube.requests import Requests

_CLOCK: Final[int | None] = getattr(time, "CLOCK_BOOTTIME", None)


def suspend_aware_seconds() -> float:
    """Return a clock that counts while the machine sleeps, where the system has one."""
    return time.monotonic() if _CLOCK is None else time.clock_gettime(_CLOCK)


class LeaseObserver:
    """Receives what happens in the election, in the keeper's thread; methods do nothing here."""

    def holder_changed(self, holder: str) -> None:
        """Another holder has the lease now; empty for nobody."""

    def request_failed(self, error: ApiError) -> None:
        """One request of the keeper failed."""

    def watch_refused(self, error: ApiError) -> None:
        """We may not watch the lease, and therefore read it now and then."""


Connect = Callable[[], AbstractAsyncContextManager[LeaseRequests]]


class LeaseKeeper:
    """Applies for a lease and keeps it, in a thread with an event loop and connection of its own.

    Args:
        connect: Opens a connection; entered in the keeper's own event loop.
        on_lost: Called with the reason, once, when a lease that was held is lost, or when the
            keeper breaks and nobody applies any more. It runs in the keeper's thread, so that it
            can end even a process whose event loop is blocked.
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
        self._rng = rng or random.Random()  # noqa: S311 - no secret
        self._election = Election(settings, rng=self._rng)
        # Written by the keeper's thread alone, read by all: one float, so no lock is needed.
        self._leading_until = NEVER
        self._giving_up = False
        self._led: Future[bool] = Future()
        self._loop: asyncio.AbstractEventLoop
        self._task: asyncio.Task[None]
        self._thread = threading.Thread(target=self._run, name="lease", daemon=True)

    @property
    def is_leading(self) -> bool:
        """Whether we lead at this moment; it ends by time, even if the keeper stalls."""
        return not self._giving_up and self._clock() < self._leading_until

    def start(self) -> None:
        """Begin to apply for the lease."""
        assert self._thread.ident is None, "the keeper was started before"
        self._loop = asyncio.new_event_loop()
        self._task = self._loop.create_task(self._keep())
        self._thread.start()

    async def wait_until_leading(self) -> bool:
        """Return True once we lead; False if the keeper ends without."""
        return await asyncio.shield(asyncio.wrap_future(self._led))

    async def release(self, timeout_seconds: float = 5.0) -> bool:
        """Stop leading, release the lease and end the keeper; return whether it ended in time.

        The leader's requests must have ended before: another process may lead from here on.
        """
        already_releasing, self._giving_up = self._giving_up, True
        if self._thread.ident is not None:
            if not already_releasing:
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
            self._leading_until = NEVER
            self._loop.close()
            if not self._led.done():
                self._led.set_result(False)

    def _fail(self, problem: Exception) -> None:
        """Report what ended the keeper: a process that cannot lead must not look like a standby."""
        if not self._led.done():
            self._led.set_exception(problem)
        self._lose(f"the keeper failed: {problem!r}")

    def _lose(self, why: str) -> None:
        self._leading_until = NEVER
        self._on_lost(why)

    async def _keep(self) -> None:
        async with self._connect() as requests:
            try:
                await self._apply(requests)
            except asyncio.CancelledError:
                self._leading_until = NEVER
                await self._give_up(requests)

    async def _apply(self, requests: LeaseRequests) -> None:
        watch = LeaseWatch(
            requests, self._settings, on_refused=self._observer.watch_refused, rng=self._rng
        )
        try:
            await self._act_until_lost(requests, watch)
        finally:
            await watch.close()

    async def _act_until_lost(self, requests: Requests, watch: LeaseWatch) -> None:
        while True:
            action = self._election.next_action(self._clock(), datetime.now(UTC))
            match action:
                case Resign(why):
                    return self._lose(why)
                case Wait(seconds) if self._election.standing is Standing.LEADING:
                    await watch.close()
                    await asyncio.sleep(seconds)
                case Wait(seconds):
                    self._note(await watch.wait(self._election.version, seconds))
                case _:
                    await self._try(requests, action)
                    self._publish()

    def _note(self, changes: Sequence[Lease | None]) -> None:
        holder = self._election.holder
        for lease in changes:
            self._election.note_watched(lease, self._clock())
        self._report_change_of(holder)

    async def _try(self, requests: Requests, action: Read | Create | Replace) -> None:
        holder = self._election.holder
        try:
            async with asyncio.timeout(action.timeout_seconds):
                await self._carry_out(requests, action)
        except (SchedulerError, msgspec.DecodeError, TimeoutError) as problem:
            error = _as_api_error(problem)
            self._election.note_failed(error, self._clock())
            self._observer.request_failed(error)
        self._report_change_of(holder)

    def _report_change_of(self, holder: str) -> None:
        if self._election.holder != holder:
            self._observer.holder_changed(self._election.holder)

    async def _carry_out(self, requests: Requests, action: Read | Create | Replace) -> None:
        path, election = self._settings.path, self._election
        match action:
            case Read():
                try:
                    body = await requests.get(path)
                except NotFound:
                    election.note_absent(self._clock())
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
        # A renewal may have been cut off under way, so the lease is read rather than assumed. The
        # renewal may even land between our read and our write: a conflict, and one more round.
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
