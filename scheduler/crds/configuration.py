"""Follows one SchedulerConfiguration: offers its document, writes the outcome into its status."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import UTC, datetime
from typing import Final

import msgspec

from scheduler.config.change import RETRY_SECONDS, Outcome
from scheduler.config.resource import GROUP, KIND, PATH, VERSION
from scheduler.crds.status import Seen, Status, contains, status_after
from scheduler.errors import ApiError, Conflict, NotFound
from scheduler.kube.events import Event, Reference, configuration_deleted, configuration_judged
from scheduler.kube.requests import MERGE_PATCH, Requests
from scheduler.observe import event_names
from scheduler.observe.logs import get_logger

_RECHECK_SECONDS: Final = 1.0
_PAUSE_SECONDS: Final = 5.0

log = get_logger()


class ConfigurationResource:
    """The object that ``--config-resource`` names.

    Args:
        name: Its name.
        offer: Tries to apply a document, and returns the outcome.
        requests: Where the status is written.
        record: Records an event.
        forget: Called when the object with the document offered last was deleted.
        leads: Whether this replica is the one that writes.
    """

    def __init__(
        self,
        name: str,
        offer: Callable[[str], Awaitable[Outcome]],
        requests: Requests,
        record: Callable[[Event], None],
        forget: Callable[[], None],
        leads: Callable[[], bool],
    ) -> None:
        self._name = name
        self._offer = offer
        self._requests = requests
        self._record = record
        self._forget = forget
        self._leads = leads
        self._seen: Seen | None = None
        self._changed = asyncio.Event()
        self._written = asyncio.Event()
        self._considered: tuple[str, int] | None = None
        self._in_force: tuple[str, int] | None = None
        self._outcome: Outcome | None = None
        self._judgement: tuple[tuple[str, int], Outcome] | None = None
        self._wanted: tuple[str, Status] | None = None

    def check(self) -> str | None:
        """Say why no configuration is in force yet; None where one is."""
        if self._outcome is not None and self._outcome.profiles:
            return None
        if self._outcome is not None:
            return f"{KIND} {self._name} cannot be used: {self._outcome.message}"
        return f"{KIND} {self._name} does not exist yet, and no pod is scheduled: create it"

    # Called by the watch.

    def on_changed(self, seen: Seen) -> None:
        """Record the object as it is now."""
        self._seen = seen
        self._changed.set()
        self._written.set()

    def on_deleted(self, uid: str) -> None:
        """Record that the object was deleted: what was in force stays in force."""
        if self._seen is None or self._seen.uid != uid:
            return
        self._seen = self._wanted = None
        self._forget_object()
        log.warning(
            event_names.CONFIGURATION_DELETED,
            name=self._name,
            remedy="create it again; what was in force stays so until the process ends",
        )
        if self._leads():
            self._record(configuration_deleted(_reference(self._name, uid)))

    # Offering.

    async def consider(self) -> None:
        """Offer each new generation until cancelled; of several at once only the newest.

        After a failure it is started again, and offers the newest generation again.
        """
        self._considered = None
        self._changed.set()
        while True:
            await self._changed.wait()
            self._changed.clear()
            seen = self._seen
            if seen is None or self._considered == (seen.uid, seen.generation):
                continue
            self._judged(seen, await self._offer(seen.text))
            if self._seen is None:
                self._forget_object()

    def _forget_object(self) -> None:
        """Drop the refusal of an object that is deleted: it cannot be corrected any more."""
        self._forget()
        if self._outcome is not None and not self._outcome.profiles:
            self._outcome = None

    def _judged(self, seen: Seen, outcome: Outcome) -> None:
        version = seen.uid, seen.generation
        is_new = (version, outcome) != self._judgement
        self._judgement = version, outcome
        self._outcome, self._considered = outcome, version
        if outcome.good:
            self._in_force = version
        elif outcome.result.is_transient:
            self._considered = None
            asyncio.get_running_loop().call_later(RETRY_SECONDS, self._changed.set)
        uid, generation = self._in_force or ("", 0)
        active = generation if uid == seen.uid else None
        self._wanted = seen.uid, status_after(seen, outcome, active, _now())
        self._written.set()
        if is_new and self._leads():
            self._record(configuration_judged(_reference(self._name, seen.uid), outcome))

    # Writing the status.

    async def write(self) -> None:
        """Keep the object's status up to date while this replica leads, until cancelled."""
        while True:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._written.wait(), _RECHECK_SECONDS)
            self._written.clear()
            if not self._leads() or self._wanted is None or self._is_written():
                continue
            try:
                await self._write(*self._wanted)
            except (NotFound, Conflict):
                # The object was deleted, perhaps created again: the watch shows the new one.
                self._wanted = None
            except ApiError as error:
                log.warning(event_names.CONFIGURATION_STATUS_FAILED, error=str(error))
                await asyncio.sleep(_PAUSE_SECONDS)

    def _is_written(self) -> bool:
        seen, wanted = self._seen, self._wanted
        return (
            seen is not None
            and wanted is not None
            and seen.uid == wanted[0]
            and contains(seen.status, wanted[1])
        )

    async def _write(self, uid: str, status: Status) -> None:
        # With the UID, so that a successor of the same name does not get its predecessor's status.
        body = msgspec.json.encode({"metadata": {"uid": uid}, "status": status})
        await self._requests.patch(f"{PATH}/{self._name}/status", body, MERGE_PATCH)
        if self._seen is not None and self._seen.uid == uid:
            self._seen = replace(self._seen, status=status)


def _reference(name: str, uid: str) -> Reference:
    return Reference(kind=KIND, api_version=f"{GROUP}/{VERSION}", name=name, uid=uid)


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
