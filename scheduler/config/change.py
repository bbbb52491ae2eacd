"""What a change of the configuration means while the scheduler runs.

Profiles, plugins, backoffs and extenders are exchanged between two pods. How the API server is
reached and who leads is settled once, at the start: a document that says otherwise is refused as a
whole, so that nobody has to wonder which half of it counts.
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
"""Fields that count at the start of the process and never again."""

LIVE: Final = (
    "percentageOfNodesToScore",
    "podInitialBackoffSeconds",
    "podMaxBackoffSeconds",
    "profiles",
    "extenders",
)
"""Fields that can be exchanged while the scheduler runs."""


class Result(StrEnum):
    """What became of a configuration."""

    APPLIED = "applied"
    UNCHANGED = "unchanged"
    INVALID = "invalid"
    NEEDS_RESTART = "needs_restart"
    FORBIDDEN = "forbidden"
    """The scheduler's account lacks a permission that a new plugin needs."""
    UNWATCHED = "unwatched"
    """What a new plugin reads could not be listed in time."""
    UNANSWERED = "unanswered"
    """The API server did not say whether the permissions are there."""

    @property
    def may_pass(self) -> bool:
        """Whether the same configuration may be good a little later, though nobody touches it."""
        return self in _PASSING


_GOOD: Final = frozenset({Result.APPLIED, Result.UNCHANGED})
_PASSING: Final = frozenset({Result.FORBIDDEN, Result.UNWATCHED, Result.UNANSWERED})
RETRY_SECONDS: Final = 10.0
"""How long to wait before what may pass is tried again."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a configuration, and why.

    Args:
        problems: One line each; empty where all is well.
        fingerprint: Of the configuration in force now, short; empty where there is none yet.
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
    """Return a line for each field of *wanted* that would have to be another at the start.

    Args:
        running: What the process was started with.
        wanted: What it is to go on with.
        written: The paths that *wanted* says something about; None for all.
    """
    problems = []
    for path in RESTART_ONLY:
        if written is not None and path not in written:
            continue
        old, new = _at(running, path), _at(wanted, path)
        if old != new:
            problems.append(
                f"{path}: needs a restart: {shown(old)} is in force and {shown(new)} is asked for; "
                f"write it into --config and restart the scheduler"
            )
    return tuple(problems)


def _at(document: KubeSchedulerConfiguration, path: str) -> object:
    """Return what stands under *path*, as a document would write it."""
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
        f"{path}: is told by the object that --config-resource names; remove it from --config"
        for path in LIVE
        if path in written
    )
