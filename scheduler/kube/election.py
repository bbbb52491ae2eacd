"""The election of a leader by a Lease, as a state machine without I/O.

``Election.next_action`` returns what to do *now*; the caller does it and records the outcome, and
in between what a watch shows. The fields of the Lease are used as client-go uses them.
`TRANSITIONS` has the states, what changes them, and what is done next.

Four rules keep two leaders apart, whatever clocks, networks and watches do:

* Another's lease expires by our own clock, counted from when its record was last *seen to change*,
  by a read or by a watch; the stamps in the record are never compared. A lease that was deleted
  still expires at that time: until then its holder may believe that it leads.
* What is replaced is the version that was seen, so a renewal that we have not seen is a conflict.
* We lead until the renew deadline after the *start* of the last renewal that succeeded, by a clock
  that counts while the machine is suspended; nothing is requested later than that.
* A lost lease stays lost. The process ends, and another one applies anew.
"""

import random
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import Final

import msgspec

from scheduler.errors import ApiError, Conflict, Throttled
from scheduler.model.meta import Struct
from scheduler.model.state_machine import Row, Transitions

JITTER: Final = 1.2
NEVER: Final = float("-inf")
"""Before every moment of the clock."""

_EARLY: Final = 0.1
# client-go writes the same when it releases: the API server accepts no duration of 0.
_RELEASED_SECONDS: Final = 1


@dataclass(frozen=True, slots=True)
class LeaseSettings:
    """Which Lease, who we are in it, and its times; the defaults are kube-scheduler's.

    Args:
        identity: Unique to this process, as in ``<hostname>_<uuid>``.
        lease_seconds: How long others wait after our last renewal before they take over.
        renew_deadline_seconds: How long we lead on after the last renewal that succeeded.
        retry_seconds: How long to wait between tries. A leader waits up to a tenth less. A standby
            adds up to 1.2 times as much, but tries at the latest when the lease expires.
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


class Standing(StrEnum):
    """The state of a candidate."""

    STANDBY = "standby"
    LEADING = "leading"
    LOST = "lost"


class Cause(StrEnum):
    """What can change a candidate's state; "read" includes what a watch shows."""

    HELD = "read: another's, alive"
    FREE = "read: released, or expired"
    OURS = "read: ours"
    ABSENT = "read: there is none"
    WRITTEN = "written"
    CONFLICT = "conflict"
    FAILED = "no answer"
    DEADLINE = "the renew deadline passed"
    ACTION_CHOSEN = "next action chosen"


TRANSITIONS: Final = Transitions(
    Row(
        Standing.STANDBY,
        Cause.HELD,
        Standing.STANDBY,
        note="read again after the retry time, or write in the moment it expires before that",
    ),
    Row(Standing.STANDBY, Cause.FREE, Standing.STANDBY, note="write"),
    Row(Standing.STANDBY, Cause.OURS, Standing.STANDBY, note="write"),
    Row(
        Standing.STANDBY,
        Cause.ABSENT,
        Standing.STANDBY,
        note="write; but as if it were held while the last record is alive",
    ),
    Row(
        Standing.STANDBY,
        Cause.WRITTEN,
        Standing.LEADING,
        Standing.STANDBY,
        note="write again after the retry time; standby if the answer took too long to lead on",
    ),
    Row(Standing.STANDBY, Cause.CONFLICT, Standing.STANDBY, note="read at once, the first time"),
    Row(Standing.STANDBY, Cause.FAILED, Standing.STANDBY, note="read after the retry time"),
    Row(
        Standing.LEADING,
        Cause.WRITTEN,
        Standing.LEADING,
        note="write again after the retry time",
    ),
    Row(Standing.LEADING, Cause.CONFLICT, Standing.LEADING, note="read at once, the first time"),
    Row(Standing.LEADING, Cause.FAILED, Standing.LEADING, note="read after the retry time"),
    Row(Standing.LEADING, Cause.OURS, Standing.LEADING, note="write at once"),
    Row(Standing.LEADING, Cause.ABSENT, Standing.LEADING, note="write at once"),
    Row(Standing.LEADING, Cause.HELD, Standing.LOST),
    Row(Standing.LEADING, Cause.FREE, Standing.LOST, note="somebody released it in our name"),
    Row(Standing.LEADING, Cause.DEADLINE, Standing.LOST),
    Row(Standing.LOST, Cause.WRITTEN, Standing.LOST, note="a late answer changes nothing"),
    Row(Standing.LOST, Cause.ACTION_CHOSEN, Standing.LOST, note="stop for good"),
)


class Election:
    """One candidate's view of one Lease. Times come in; *now* never goes back.

    Carry out ``next_action``, record the outcome by one of the ``note_`` methods, and go on with
    the next action. What a watch shows cuts a ``Wait`` short: record it by ``note_watched``.
    """

    def __init__(self, settings: LeaseSettings, *, rng: random.Random) -> None:
        self.settings = settings
        self.standing = Standing.STANDBY
        self.why_lost = ""
        self._rng = rng
        self._lease: Lease | None = None
        self._alive_until = NEVER
        self._writes_next = False
        self._not_before = NEVER
        self._throttled_until = NEVER
        self._requested_at = NEVER
        self._renewed_at = NEVER
        self._conflicts = 0

    @property
    def leading_until(self) -> float:
        """The moment until which we lead, if nothing more happens; the past if we do not lead."""
        if self.standing is not Standing.LEADING:
            return NEVER
        return self._renewed_at + self.settings.renew_deadline_seconds

    @property
    def holder(self) -> str:
        """The holder that was seen last; empty for none."""
        return (self._lease.spec.holder_identity or "") if self._lease else ""

    @property
    def version(self) -> str:
        """The version in which the Lease was seen last; empty where none was."""
        return _version_of(self._lease) if self._lease else ""

    def next_action(self, now: float, wall: datetime) -> Action:
        """Return what to do at *now*; *wall* is the time to write into the record."""
        if self.standing is Standing.LEADING and now >= self.leading_until:
            self._lose(Cause.DEADLINE, "the renew deadline passed")
        if self.standing is Standing.LOST:
            self._move(Cause.ACTION_CHOSEN, Standing.LOST)
            return Resign(self.why_lost)
        due = max(self._not_before, self._throttled_until)
        if now < due:
            return Wait(due - now)
        self._requested_at = now
        return self._write(wall) if self._writes_next else Read(self._timeout_seconds())

    def note_read(self, lease: Lease, now: float) -> None:
        """Record that the Lease was read."""
        if self._lease is None or self._lease.spec != lease.spec:
            self._alive_until = now + self._seconds_of(lease)
        self._lease = lease
        if self.holder == self.settings.identity:
            cause = Cause.OURS
        else:
            cause = Cause.HELD if self.holder and now < self._alive_until else Cause.FREE
        if self.standing is Standing.LEADING and cause is not Cause.OURS:
            self._lose(cause, f"held by {self.holder or 'nobody'}")
        else:
            self._move(cause, self.standing)
            self._consider(now)

    def note_absent(self, now: float) -> None:
        """Record that there is no Lease."""
        self._lease = None
        self._move(Cause.ABSENT, self.standing)
        self._consider(now)

    def note_watched(self, lease: Lease | None, now: float) -> None:
        """Record what a watch shows: the Lease, or None if it was deleted; a leader ignores it."""
        if self.standing is not Standing.STANDBY:
            return
        if lease is not None and _is_older(_version_of(lease), self.version):
            return  # the watch is behind a read: counted as a change, it would revive a dead lease
        self._not_before = now
        if lease is None:
            self.note_absent(now)
        else:
            self.note_read(lease, now)

    def note_written(self, lease: Lease, now: float) -> None:
        """Record that the last write succeeded; *lease* is what the server holds since."""
        assert self._requested_at <= now, "the answer came before the request"
        self._lease = lease
        self._alive_until = NEVER
        self._conflicts = 0
        deadline = self._requested_at + self.settings.renew_deadline_seconds
        if self.standing is Standing.LOST:
            self._move(Cause.WRITTEN, Standing.LOST)
        elif self.standing is Standing.LEADING and now >= self.leading_until:
            self._lose(Cause.DEADLINE, "the renewal came after the renew deadline")
        elif now < deadline:
            self._move(Cause.WRITTEN, Standing.LEADING)
            self._renewed_at = self._requested_at
            # Leaders that were elected together must not renew together for ever.
            early = _EARLY * self._rng.random()
            self._not_before = now + self.settings.retry_seconds * (1 - early)
        else:
            # It took too long to begin to lead; the record is ours, so it is written once more.
            self._move(Cause.WRITTEN, Standing.STANDBY)

    def note_failed(self, error: ApiError, now: float) -> None:
        """Record that the last request failed, or that its answer was lost."""
        self._writes_next = False
        if isinstance(error, Conflict):
            self._move(Cause.CONFLICT, self.standing)
            if not self._conflicts:
                self._conflicts += 1
                return  # a write came in between, perhaps our own with its answer lost: read now
        else:
            self._move(Cause.FAILED, self.standing)
        self._retry(now)
        if isinstance(error, Throttled):
            self._throttled_until = now + error.retry_after_seconds

    def released(self, seen: Lease, wall: datetime) -> Lease | None:
        """Return *seen* without a holder; None if another process holds it."""
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

    def _consider(self, now: float) -> None:
        """Choose whether the next action is a write or another read, and when."""
        self._writes_next = self.standing is Standing.LEADING or now >= self._alive_until
        if not self._writes_next:
            self._retry(now)

    def _seconds_of(self, lease: Lease) -> float:
        """How long the record of *lease* counts from when it was seen to change."""
        if lease.spec.holder_identity in {None, "", self.settings.identity}:
            return NEVER
        # A record without a duration gets ours, not client-go's zero: nobody's lease is that short.
        return lease.spec.lease_duration_seconds or self.settings.lease_seconds

    def _write(self, wall: datetime) -> Create | Replace:
        record = self._record(micro_time(wall))
        if self._lease is None:
            meta: dict[str, object] = {
                "namespace": self.settings.namespace,
                "name": self.settings.name,
            }
            return Create(Lease(metadata=meta, spec=record), self._timeout_seconds())
        return Replace(msgspec.structs.replace(self._lease, spec=record), self._timeout_seconds())

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

    def _timeout_seconds(self) -> float:
        """How long the next request may take: no answer counts after the renew deadline."""
        if self.standing is not Standing.LEADING:
            return self.settings.request_seconds
        return min(self.settings.request_seconds, self.leading_until - self._requested_at)

    def _retry(self, now: float) -> None:
        self._conflicts = 0
        seconds = self.settings.retry_seconds
        if self.standing is Standing.STANDBY:
            # Standbys must not all write at one moment.
            self._not_before = now + seconds * (1 + JITTER * self._rng.random())
            if now < self._alive_until < self._not_before:
                # No standby may write before the lease expires. If several write in that moment,
                # all but one get a 409.
                self._not_before = self._alive_until
                self._writes_next = True
        else:
            # A leader whose request hung has waited already: its deadline is near.
            self._not_before = max(now, self._requested_at + seconds)

    def _lose(self, cause: Cause, why: str) -> None:
        self._move(cause, Standing.LOST)
        self.why_lost = why

    def _move(self, cause: Cause, to: Standing) -> None:
        self.standing = TRANSITIONS.move(self.standing, cause, to, self.settings.identity)


def _version_of(lease: Lease) -> str:
    return str(lease.metadata.get("resourceVersion", ""))


def _is_older(version: str, than: str) -> bool:
    """Tell whether a resource version is older than another: they are numbers (KEP-5504)."""
    return version.isdigit() and than.isdigit() and int(version) < int(than)


def micro_time(wall: datetime) -> str:
    """Return *wall* as Kubernetes' MicroTime."""
    return f"{wall.astimezone(UTC):%Y-%m-%dT%H:%M:%S.%f}Z"
