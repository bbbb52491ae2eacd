"""Whether this process may act: while it holds the lease, or always if it needs none."""

import os
import socket
import uuid
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from enum import StrEnum
from typing import Final

from scheduler.config.document import LeaderElection
from scheduler.kube.credentials import own_namespace
from scheduler.kube.election import LeaseSettings
from scheduler.kube.lease import LeaseKeeper
from scheduler.kube.lease_watch import LeaseRequests
from scheduler.model.state_machine import Row, Transitions
from scheduler.observe import event_names
from scheduler.observe.logs import get_logger
from scheduler.reporting.telemetry import Telemetry

LOST_LEASE_EXIT_CODE: Final = 1

log = get_logger()


class Standing(StrEnum):
    """The state of this process in the election, once it applies for the lease."""

    STANDBY = "standby"
    LEADING = "leading"


class Cause(StrEnum):
    """What changes it."""

    STARTED = "started"
    ACQUIRED = "acquired"
    RELEASED = "released"
    LOST = "lost"


_EITHER: Final = (Standing.STANDBY, Standing.LEADING)

TRANSITIONS: Final = Transitions(
    Row(None, Cause.STARTED, Standing.STANDBY),
    Row(Standing.STANDBY, Cause.ACQUIRED, Standing.LEADING, note="the loop takes its first pod"),
    Row(_EITHER, Cause.RELEASED, None, note="after the last request of a leader; the process ends"),
    Row(_EITHER, Cause.LOST, None, note="the process ends at once"),
)
"""There is no way back to standby: a leader's cache and requests under way must not outlive its
lease. kube-scheduler ends its process as well, and applies anew in another one."""


class Leadership:
    """This process's part in the election; without an election it always leads.

    Args:
        election: What the configuration says about it.
        connect: Opens a connection; its argument is the timeout of each request in seconds.
        telemetry: Observes the election.
    """

    def __init__(
        self,
        election: LeaderElection,
        connect: Callable[[float], AbstractAsyncContextManager[LeaseRequests]],
        telemetry: Telemetry,
    ) -> None:
        self._standing: Standing | None = None
        self._keeper: LeaseKeeper | None = None
        if not election.leader_elect:
            return
        settings = LeaseSettings(
            namespace=election.resource_namespace or own_namespace(),
            name=election.resource_name,
            identity=f"{socket.gethostname()}_{uuid.uuid4()}",
            lease_seconds=int(election.lease_duration_seconds),
            renew_deadline_seconds=election.renew_deadline_seconds,
            retry_seconds=election.retry_period_seconds,
        )
        telemetry.identity = settings.identity
        self._keeper = LeaseKeeper(
            settings,
            lambda: connect(settings.request_seconds),
            on_lost=self._on_lost,
            observer=telemetry,
        )

    def may_act(self) -> bool:
        """Tell whether this process leads at this moment, or needs no lease.

        The clock decides, and not the state: a lease that is not renewed ends by time, also while a
        blocked event loop delays the transition.
        """
        return self._keeper is None or self._keeper.is_leading

    def start(self) -> None:
        """Start to apply for the lease; from then on, losing it ends the process at once."""
        if self._keeper is not None:
            self._move(Cause.STARTED, Standing.STANDBY)
            self._keeper.start()

    async def wait(self) -> None:
        """Return once this process leads, or the keeper has ended."""
        if self._keeper is not None:
            await self._keeper.wait_until_leading()

    async def announce(self, wake_loop: Callable[[], None]) -> None:
        """Wait for the lease, then log it and wake the loop, which may decide from now on."""
        if self._keeper is not None and await self._keeper.wait_until_leading():
            self._move(Cause.ACQUIRED, Standing.LEADING)
            log.info(event_names.LEASE_ACQUIRED)
            wake_loop()

    async def release(self) -> None:
        """Give up the lease, so that another replica need not wait until it expires.

        All requests of a leader must have ended before: another one may lead from here on.
        """
        if self._keeper is not None:
            led = self._keeper.is_leading
            await self._keeper.release()
            self._move(Cause.RELEASED, None)
            assert not self.may_act(), "a released lease permits nothing"
            if led:
                log.info(event_names.LEASE_RELEASED)

    def _on_lost(self, why: str) -> None:
        """End the process at once: another one may lead now, and no further request may begin.

        This runs in the keeper's own thread, since a blocked event loop may be the reason.
        """
        try:
            self._move(Cause.LOST, None)
            log.error(event_names.LEASE_LOST, why=why)
        finally:
            # In `finally`, since two schedulers at once are worse than a missing log line.
            # os._exit, since sys.exit would end only this thread.
            os._exit(LOST_LEASE_EXIT_CODE)

    def _move(self, cause: Cause, new: Standing | None) -> None:
        self._standing = TRANSITIONS.move(self._standing, cause, new, "this process")
