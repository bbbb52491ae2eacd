"""Which changes of the configuration can be applied while the scheduler runs.

Profiles, plugins, backoffs and extenders are replaced between two scheduling attempts. The
connection to the API server and the leader election are set once, at the start: a document that
changes them is rejected as a whole, so that no operator has to find out which half of it is in
force.
"""

from collections.abc import Container
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from msgspec.structs import replace

from scheduler.config.document import KubeSchedulerConfiguration
from scheduler.config.fields import encode, shown

RESTART_ONLY: Final = (
    "leaderElection.leaderElect",
    "leaderElection.leaseDuration",
    "leaderElection.renewDeadline",
    "leaderElection.retryPeriod",
    "leaderElection.resourceLock",
    "leaderElection.resourceNamespace",
    "leaderElection.resourceName",
    "clientConnection.kubeconfig",
    "clientConnection.qps",
    "clientConnection.burst",
    "delayCacheUntilActive",
)
"""Fields that are read at the start of the process only."""

LIVE: Final = (
    "percentageOfNodesToScore",
    "podInitialBackoffSeconds",
    "podMaxBackoffSeconds",
    "profiles",
    "extenders",
)
"""Fields that can be changed while the scheduler runs."""


class Result(StrEnum):
    """The result of an attempt to apply a configuration."""

    APPLIED = "applied"
    UNCHANGED = "unchanged"
    INVALID = "invalid"
    NEEDS_RESTART = "needs_restart"
    FORBIDDEN = "forbidden"
    """The scheduler's account lacks a permission that a new plugin needs."""
    UNWATCHED = "unwatched"
    """A resource that a new plugin reads could not be listed in time."""
    UNANSWERED = "unanswered"
    """The API server did not say whether the permissions are there."""

    @property
    def is_transient(self) -> bool:
        """Whether the same configuration may be applied later, without a change to it."""
        return self in _TRANSIENT


_GOOD: Final = frozenset({Result.APPLIED, Result.UNCHANGED})
_TRANSIENT: Final = frozenset({Result.FORBIDDEN, Result.UNWATCHED, Result.UNANSWERED})
RETRY_SECONDS: Final = 10.0
"""The pause before a configuration with a transient problem is tried again."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of an attempt to apply a configuration, and why.

    Args:
        problems: One line each; empty if it was applied.
        fingerprint: That of the configuration in force now; empty if there is none yet.
        profiles: The scheduler names served now.
    """

    result: Result
    problems: tuple[str, ...] = ()
    fingerprint: str = ""
    profiles: tuple[str, ...] = ()

    @property
    def good(self) -> bool:
        """Whether the configuration is in force."""
        return self.result in _GOOD

    @property
    def message(self) -> str:
        """The problems, in one text."""
        return "; ".join(self.problems)


def restart_only_changes(
    running: KubeSchedulerConfiguration,
    wanted: KubeSchedulerConfiguration,
    written: Container[str] | None = None,
) -> tuple[str, ...]:
    """Return a line for each field of *wanted* that differs and is read at the start only.

    Args:
        running: The document that the process was started with.
        wanted: The new document.
        written: The paths that *wanted* contains; None for all.
    """
    problems = []
    for path in RESTART_ONLY:
        if written is not None and path not in written:
            continue
        old, new = _value_at(running, path), _value_at(wanted, path)
        if old != new:
            problems.append(
                f"{path}: needs a restart: {shown(old)} is in force and {shown(new)} is asked for; "
                f"write it into --config and restart the scheduler"
            )
    return tuple(problems)


def _value_at(document: KubeSchedulerConfiguration, path: str) -> object:
    """Return the value at *path*, as in a document."""
    found = encode(document)
    for name in path.split("."):
        found = found[name]
    return found


def with_the_rest_of(
    live: KubeSchedulerConfiguration, running: KubeSchedulerConfiguration
) -> KubeSchedulerConfiguration:
    """Return *live* with the fields that need a restart as they are in *running*."""
    return replace(
        live,
        leader_election=running.leader_election,
        client_connection=running.client_connection,
        delay_cache_until_active=running.delay_cache_until_active,
    )


def misplaced(written: Container[str]) -> tuple[str, ...]:
    """Return a line for each field that a document beside ``--config-resource`` must not have."""
    return tuple(
        f"{path}: is set by the object that --config-resource names; remove it from --config"
        for path in LIVE
        if path in written
    )
