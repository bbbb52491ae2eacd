"""Which owners' pods keep away from which nodes, and for how long.

A node that looked free and did not take a pod after all would look as free to the owner's next pod.
Upstream tries such a node again and again. Here the owner's pods are banned from it for a while,
then try it one at a time.

Each entry is about one owner and one node. The ledger has no clock and does not write to the cache:
it returns changes as facts about a `Distrust`, and the caller applies them like any other fact.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from scheduler.model.fact import Added, Deleted, Updated
from scheduler.model.state_machine import Row, Transitions
from scheduler.model.trust import NODE_DISTRUST, Distrust, distrust

BAN_SECONDS: Final = (60.0, 120.0, 300.0)
"""How long pods of the owner keep away, at the first, the second and every further conflict."""

TRIAL_SECONDS: Final = 600.0
_ENTRIES_MAXIMUM: Final = 4096

Key = tuple[str, str]
"""Owner and node."""

Change = Added | Updated | Deleted


class State(StrEnum):
    """How an owner's pods treat a node; one that they trust has no state."""

    BANNED = "banned"
    ON_TRIAL = "on trial"


class Cause(StrEnum):
    """What changes that."""

    CONFLICT = "the node does not take a pod"
    EXPIRED = "the time is over"
    NODE_REMOVED = "the node is removed"
    LEDGER_FULL = "the ledger is full"


TRANSITIONS: Final = Transitions(
    Row(None, Cause.CONFLICT, State.BANNED, note="for a minute"),
    Row(
        State.BANNED,
        Cause.CONFLICT,
        State.BANNED,
        note="no longer: the binding had begun before the ban",
    ),
    Row(
        State.ON_TRIAL,
        Cause.CONFLICT,
        State.BANNED,
        note="for two minutes; from the third time on for five",
    ),
    Row(State.BANNED, Cause.EXPIRED, State.ON_TRIAL, note="one pod of the owner at a time"),
    Row(State.ON_TRIAL, Cause.EXPIRED, None, note="ten minutes after the ban"),
    Row(
        (State.BANNED, State.ON_TRIAL),
        Cause.NODE_REMOVED,
        None,
        note="a node of the same name is another node",
    ),
    Row((State.BANNED, State.ON_TRIAL), Cause.LEDGER_FULL, None),
)


@dataclass(frozen=True, slots=True)
class _Entry:
    """Why and how long an owner's pods keep away from a node.

    Args:
        strikes: How many conflicts there were; pods that fail together are one conflict.
        until: When the state ends by itself.
    """

    distrust: Distrust
    strikes: int
    until: float

    @property
    def state(self) -> State:
        return State.ON_TRIAL if self.distrust.on_trial else State.BANNED


class TrustLedger:
    """Which owners' pods keep away from which nodes.

    Args:
        maximum: The ledger is full with so many entries; a new one replaces the one that would end
            first.
    """

    def __init__(self, maximum: int = _ENTRIES_MAXIMUM) -> None:
        assert maximum > 0, "a ledger that may have no entry bans nothing"
        self._maximum = maximum
        self._entries: dict[Key, _Entry] = {}
        self._next: float | None = None

    def __len__(self) -> int:
        return len(self._entries)

    def until(self, owner: str, node: str) -> float | None:
        """Return when a ban ends; None where there is none."""
        entry = self._entries.get((owner, node))
        return None if entry is None or entry.state is not State.BANNED else entry.until

    def on_trial(self, owner: str, node: str) -> Distrust | None:
        """Return the distrust of a node that is on trial; None where it is not."""
        entry = self._entries.get((owner, node))
        return None if entry is None or entry.state is not State.ON_TRIAL else entry.distrust

    def next_expiry(self) -> float | None:
        """Return when the next ban or trial ends."""
        return self._next

    def ban(self, owner: str, node: str, why: str, now: float) -> list[Change]:
        """Ban pods of *owner* from *node*, which did not take one of them; return the changes.

        A node that is banned already stays so until the same time: several pods may have been on
        their way to it when the conflict began.
        """
        key = (owner, node)
        entry = self._entries.get(key)
        if entry is not None and entry.state is State.BANNED:
            self._move(key, Cause.CONFLICT, entry)
            return []
        strikes = 1 if entry is None else entry.strikes + 1
        seconds = BAN_SECONDS[min(strikes, len(BAN_SECONDS)) - 1]
        changes: list[Change] = []
        if entry is None and len(self._entries) >= self._maximum:
            # Before the new entry comes: it must not be the one that is dropped.
            first = min(self._entries, key=lambda each: self._entries[each].until)
            changes.append(self._move(first, Cause.LEDGER_FULL, None))
        banned = _Entry(distrust(owner, node, why), strikes, now + seconds)
        changes.append(self._move(key, Cause.CONFLICT, banned))
        self._schedule()
        return changes

    def expire(self, now: float) -> list[Change]:
        """End bans and trials whose time is over, and return the changes."""
        if self._next is None or now < self._next:
            return []
        changes: list[Change] = []
        for key, entry in tuple(self._entries.items()):
            ending = entry
            if ending.state is State.BANNED and ending.until <= now:
                tried = distrust(*key, entry.distrust.why, on_trial=True)
                ending = _Entry(tried, entry.strikes, entry.until + TRIAL_SECONDS)
                changes.append(self._move(key, Cause.EXPIRED, ending))
            if ending.until <= now:
                # `expire` was not called for so long that the trial is over as well.
                changes.append(self._move(key, Cause.EXPIRED, None))
        self._schedule()
        return changes

    def forget_node(self, node: str) -> list[Change]:
        """Forget a node that was removed, and return the changes."""
        keys = [key for key in self._entries if key[1] == node]
        changes = [self._move(key, Cause.NODE_REMOVED, None) for key in keys]
        self._schedule()
        return changes

    def _move(self, key: Key, cause: Cause, new: _Entry | None) -> Change:
        """Carry out one row of the transition table, and return it as a fact."""
        old = self._entries.get(key)
        TRANSITIONS.move(old.state if old else None, cause, new.state if new else None, key)
        if new is None:
            assert old is not None, f"{key} had no entry"
            del self._entries[key]
            return Deleted(NODE_DISTRUST, old.distrust)
        self._entries[key] = new
        if old is None:
            assert len(self._entries) <= self._maximum, f"more than {self._maximum} entries"
            return Added(NODE_DISTRUST, new.distrust)
        return Updated(NODE_DISTRUST, old.distrust, new.distrust)

    def _schedule(self) -> None:
        self._next = min((entry.until for entry in self._entries.values()), default=None)
