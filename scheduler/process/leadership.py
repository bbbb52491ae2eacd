"""Whether this process may act: while it holds the lease, or always where it needs none."""

import os
import socket
import uuid
from collections.abc import Callable
from typing import Final

from scheduler.config.document import LeaderElection
from scheduler.kube.client import ApiClient
from scheduler.kube.credentials import own_namespace
from scheduler.kube.election import LeaseSettings
from scheduler.kube.lease import LeaseKeeper
from scheduler.observe import event_names
from scheduler.observe.logs import get_logger
from scheduler.reporting.telemetry import Telemetry

LOST_LEASE_EXIT_CODE: Final = 1

log = get_logger()


class Leadership:
    """This process's part in the election; without an election it always leads.

    Args:
        election: What the configuration says of it.
        connect: Opens a connection whose requests may take so many seconds each.
        telemetry: Hears of the election.
    """

    def __init__(
        self,
        election: LeaderElection,
        connect: Callable[[float], ApiClient],
        telemetry: Telemetry,
    ) -> None:
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
            on_lost=_die,
            observer=telemetry,
        )

    def may_act(self) -> bool:
        """Tell whether this process leads at this moment, or need not."""
        return self._keeper is None or self._keeper.is_leading

    def apply(self) -> None:
        """Begin to apply for the lease; from then on, losing it ends the process at once."""
        if self._keeper is not None:
            self._keeper.start()

    async def wait(self) -> None:
        """Return once this process leads, or will not."""
        if self._keeper is not None:
            await self._keeper.wait_until_leading()

    async def announce(self, stir: Callable[[], None]) -> None:
        """Tell when the lease is ours, and wake who waits for that by *stir*."""
        if self._keeper is not None and await self._keeper.wait_until_leading():
            log.info(event_names.LEASE_ACQUIRED)
            stir()

    async def release(self) -> None:
        """Lead no more; whatever a leader does must be done before."""
        if self._keeper is not None:
            led = self._keeper.is_leading
            await self._keeper.release()
            if led:
                log.info(event_names.LEASE_RELEASED)


def _die(why: str) -> None:
    """End the process at once: somebody else may lead now, and no request may begin any more.

    It runs in the lease's own thread, since the event loop may be what is stuck.
    """
    log.error(event_names.LEASE_LOST, why=why)
    os._exit(LOST_LEASE_EXIT_CODE)
