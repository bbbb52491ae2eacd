"""Computes the status of a SchedulerConfiguration; nothing is written here.

=============  =======  ==========================  ================================================
condition      status   reason                      when
=============  =======  ==========================  ================================================
Valid          True     Accepted                    it can be read, and needs no restart
Valid          False    Invalid, NeedsRestart       it cannot; the message names field and remedy
Active         True     Applied                     it is in force
Active         False    Invalid, NeedsRestart,      it is not; the message says what is
                        Forbidden, Unwatched,
                        Unanswered
=============  =======  ==========================  ================================================
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from scheduler.config.change import Outcome, Result

VALID: Final = "Valid"
ACTIVE: Final = "Active"

_REASONS: Final[Mapping[Result, str]] = {
    Result.APPLIED: "Applied",
    Result.UNCHANGED: "Applied",
    Result.INVALID: "Invalid",
    Result.NEEDS_RESTART: "NeedsRestart",
    Result.FORBIDDEN: "Forbidden",
    Result.UNWATCHED: "Unwatched",
    Result.UNANSWERED: "Unanswered",
}
_NOT_VALID: Final = frozenset({Result.INVALID, Result.NEEDS_RESTART})
_MESSAGE_MAXIMUM: Final = 32768
"""The limit of ``metav1.Condition``, in the generated schema of a CRD."""

Status = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Seen:
    """An object as the watch showed it last.

    Args:
        uid: Distinguishes it from another of the same name.
        generation: Grows with every change of its spec.
        text: The document that it holds, as JSON.
        status: Its status, as on the server.
    """

    uid: str
    generation: int
    text: str
    status: Mapping[str, Any]


def status_after(seen: Seen, outcome: Outcome, active_generation: int | None, now: str) -> Status:
    """Return the status of *seen* after *outcome*.

    Args:
        seen: The object that was considered.
        outcome: What became of it.
        active_generation: The generation of this object that is in force now; None for none.
        now: RFC 3339, for a condition that changes.
    """
    before = {each.get("type"): each for each in _conditions_of(seen)}
    valid = outcome.result not in _NOT_VALID
    reason = _REASONS[outcome.result]
    wanted = (
        (VALID, valid, "Accepted" if valid else reason, "" if valid else outcome.message),
        (ACTIVE, outcome.good, reason, _active_message(outcome, active_generation)),
    )
    return {
        "observedGeneration": seen.generation,
        "activeGeneration": active_generation,
        "fingerprint": outcome.fingerprint if outcome.profiles else None,
        "profiles": list(outcome.profiles),
        "conditions": [
            _condition(kind, holds, why, text, seen.generation, before.get(kind), now)
            for kind, holds, why, text in wanted
        ],
    }


def _conditions_of(seen: Seen) -> Sequence[Mapping[str, Any]]:
    found: Sequence[Mapping[str, Any]] = seen.status.get("conditions") or ()
    return found


def _active_message(outcome: Outcome, active_generation: int | None) -> str:
    if outcome.good:
        return f"serves {', '.join(outcome.profiles)}"
    if active_generation is not None:
        stays = f"generation {active_generation} stays in force"
    elif outcome.profiles:
        stays = "the configuration of another object, which is gone, stays in force"
    else:
        stays = "no configuration is in force yet, and no pod is scheduled"
    return f"{stays}: {outcome.message}"


def _condition(
    kind: str,
    holds: bool,
    reason: str,
    message: str,
    generation: int,
    before: Mapping[str, Any] | None,
    now: str,
) -> dict[str, Any]:
    status = "True" if holds else "False"
    since = now
    if before is not None and before.get("status") == status:
        since = before.get("lastTransitionTime", now)
    return {
        "type": kind,
        "status": status,
        "reason": reason,
        "message": message[:_MESSAGE_MAXIMUM],
        "observedGeneration": generation,
        "lastTransitionTime": since,
    }


def contains(status: Mapping[str, Any], wanted: Status) -> bool:
    """Tell whether all fields of *wanted* are in *status*, with the same values."""
    return all(status.get(name) == value for name, value in wanted.items())
