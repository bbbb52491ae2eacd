"""The object that is written for an event, with the count of its repeats.

A *series* is an event that carries a count; the first time it is written without one.
"""

import re
import uuid
from datetime import UTC, datetime
from functools import lru_cache
from typing import Final

import msgspec

from scheduler.kube.events import Event, EventType, Reference, clip
from scheduler.model.meta import Struct

INSTANCE_BYTES_MAXIMUM: Final = 128
_NAME_MAXIMUM: Final = 253
_LABEL: Final = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_DNS_SUBDOMAIN: Final = re.compile(rf"{_LABEL}(\.{_LABEL})*")

_encode: Final = msgspec.json.Encoder().encode


class _Meta(Struct, frozen=True):
    name: str
    namespace: str


class _Repeats(Struct, frozen=True):
    count: int
    last_observed_time: str


class _EventObject(Struct, frozen=True, omit_defaults=True):
    metadata: _Meta
    event_time: str
    reporting_controller: str
    reporting_instance: str
    action: str
    reason: str
    regarding: Reference
    note: str
    type: EventType
    related: Reference | None = None
    series: _Repeats | None = None


class _RepeatsPatch(Struct, frozen=True):
    series: _Repeats


class Series:
    """One event object, its count, and the count that the server has.

    *count* is how often the event was recorded; *written* is the count that was written last, 0
    where the object is not on the server.
    """

    __slots__ = (
        "began_nanoseconds",
        "count",
        "event",
        "host",
        "name",
        "observed_nanoseconds",
        "queued",
        "written",
        "written_nanoseconds",
    )

    def __init__(self, event: Event, host: str, now: int) -> None:
        self.event = event
        self.host = host
        self.name = event_name(event.regarding.name, now)
        self.began_nanoseconds = self.observed_nanoseconds = now
        self.written_nanoseconds = 0
        self.count = 1
        self.written = 0
        self.queued = False

    @property
    def namespace(self) -> str:
        """The namespace of the event; that of cluster-wide objects' events is ``default``."""
        return self.event.regarding.namespace or "default"

    @property
    def behind(self) -> bool:
        """Whether the server's count is lower than ours."""
        return self.written < self.count

    def repeat(self, now: int) -> None:
        """Count the same event again."""
        self.count += 1
        self.observed_nanoseconds = now

    def create_body(self) -> bytes:
        """Return the event as JSON, with its count where it was repeated already."""
        event = self.event
        return _encode(
            _EventObject(
                metadata=_Meta(name=self.name, namespace=self.namespace),
                event_time=micro_time(self.began_nanoseconds),
                reporting_controller=event.controller,
                reporting_instance=clip(f"{event.controller}-{self.host}", INSTANCE_BYTES_MAXIMUM),
                action=event.action,
                reason=event.reason,
                regarding=event.regarding,
                note=event.note,
                type=event.type,
                related=event.related,
                series=self._repeats() if self.count > 1 else None,
            )
        )

    def patch_body(self) -> bytes:
        """Return the count as a patch."""
        return _encode(_RepeatsPatch(series=self._repeats()))

    def _repeats(self) -> _Repeats:
        seen = micro_time(self.observed_nanoseconds)
        return _Repeats(count=self.count, last_observed_time=seen)


def event_name(regarding: str, nanoseconds: int) -> str:
    """Return the name of an event about *regarding*; a UUID where the usual one is not allowed."""
    name = f"{regarding}.{nanoseconds:x}"
    allowed = len(name) <= _NAME_MAXIMUM and _DNS_SUBDOMAIN.fullmatch(name)
    return name if allowed else str(uuid.uuid4())


def micro_time(nanoseconds: int) -> str:
    """Return Unix *nanoseconds* as RFC 3339 with microseconds, as Kubernetes' MicroTime."""
    seconds, rest = divmod(nanoseconds, 1_000_000_000)
    return f"{_whole_second(seconds)}.{rest // 1000:06d}Z"


@lru_cache(maxsize=1)
def _whole_second(seconds: int) -> str:
    """Return Unix *seconds* as RFC 3339 without a zone; a thousand events may share one."""
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S}"
