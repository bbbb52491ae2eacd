"""Who keeps away from which node, and for how long.

=========  ===========================  ==========================================================
state      fact                         becomes
=========  ===========================  ==========================================================
trusted    the node breaks a promise    banned, for a minute
banned     it breaks another            banned; what was on its way belongs to the same conflict
banned     the time is over             on trial: one pod of the owner at a time
on trial   it breaks a promise          banned, for two minutes, and from the third time on for five
on trial   ten minutes pass             trusted
any        the node vanishes            trusted: a node of the same name is another node
=========  ===========================  ==========================================================

All of it is about one owner and one node. The ledger knows no clock and tells what changes as facts
about a `Distrust`; whoever keeps it applies them like any other.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from scheduler.model.fact import Added, Deleted, Updated
from scheduler.model.trust import NODE_DISTRUST, Distrust, distrust

BAN_SECONDS: Final = (60.0, 120.0, 300.0)
"""How long pods of the owner keep away, at the first, the second and every further time."""

TRIAL_SECONDS: Final = 600.0
_MOST: Final = 4096

Key = tuple[str, str]
"""Owner and node."""


@dataclass(slots=True)
class _Entry:
    """What is held against a node.

    Args:
        strikes: How often it broke a promise; conflicts are counted, not pods.
        until: When the state ends by itself.
    """

    told: Distrust
    strikes: int
    until: float


class TrustLedger:
    """What is held against which node, in the eyes of which owner.

    Args:
        most: At more entries than these, the one that would end first is dropped.
    """

    def __init__(self, most: int = _MOST) -> None:
        self._most = most
        self._entries: dict[Key, _Entry] = {}
        self._next: float | None = None

    def __len__(self) -> int:
        return len(self._entries)

    def until(self, owner: str, node: str) -> float | None:
        """Return when a ban ends; None where there is none."""
        entry = self._entries.get((owner, node))
        return None if entry is None or entry.told.on_trial else entry.until

    def on_trial(self, owner: str, node: str) -> Distrust | None:
        """Return what is held against a node that is on trial; None where it is not."""
        entry = self._entries.get((owner, node))
        return entry.told if entry is not None and entry.told.on_trial else None

    def next_change(self) -> float | None:
        """Return when time alone will change something."""
        return self._next

    def broken(
        self, owner: str, node: str, why: str, now: float
    ) -> list[Added | Updated | Deleted]:
        """Note that *node* broke its promise to a pod of *owner*, and return what that changes."""
        entry = self._entries.get((owner, node))
        if entry is not None and not entry.told.on_trial:
            return []
        strikes = 1 if entry is None else entry.strikes + 1
        seconds = BAN_SECONDS[min(strikes, len(BAN_SECONDS)) - 1]
        told = distrust(owner, node, why)
        self._entries[owner, node] = _Entry(told, strikes, now + seconds)
        dropped = list(self._drop_one()) if len(self._entries) > self._most else []
        self._schedule()
        fact = Added(NODE_DISTRUST, told) if entry is None else _updated(entry, told)
        return [*dropped, fact]

    def pass_time(self, now: float) -> list[Added | Updated | Deleted]:
        """Return what has changed by *now*."""
        if self._next is None or now < self._next:
            return []
        changes = [
            change
            for key, entry in tuple(self._entries.items())
            if entry.until <= now
            for change in self._end(key, entry, now)
        ]
        self._schedule()
        return changes

    def vanished(self, node: str) -> list[Added | Updated | Deleted]:
        """Forget what was held against a node that is no more, and return what that changes."""
        keys = [key for key in self._entries if key[1] == node]
        changes = [_deleted(self._entries.pop(key)) for key in keys]
        self._schedule()
        return [*changes]

    def _end(self, key: Key, entry: _Entry, now: float) -> Iterator[Added | Updated | Deleted]:
        if not entry.told.on_trial:
            tried = distrust(*key, entry.told.why, on_trial=True)
            yield _updated(entry, tried)
            entry.told, entry.until = tried, entry.until + TRIAL_SECONDS
        if entry.until <= now:
            yield _deleted(self._entries.pop(key))

    def _drop_one(self) -> Iterator[Deleted]:
        key = min(self._entries, key=lambda each: self._entries[each].until)
        yield _deleted(self._entries.pop(key))

    def _schedule(self) -> None:
        self._next = min((entry.until for entry in self._entries.values()), default=None)


def _updated(entry: _Entry, new: Distrust) -> Updated:
    return Updated(NODE_DISTRUST, entry.told, new)


def _deleted(entry: _Entry) -> Deleted:
    return Deleted(NODE_DISTRUST, entry.told)
