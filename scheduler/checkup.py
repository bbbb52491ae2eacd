"""Checks what running requires: the API server's version and resources, and our permissions.

Nothing is changed. An access review answers for each verb that `kube.permissions` lists for the
profiles of the configuration; no verb is tried.
"""

import asyncio
import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from enum import Enum
from itertools import starmap
from typing import Any, Final

import msgspec

from scheduler.config.configuration import SchedulerConfiguration
from scheduler.config.run_settings import RunSettings
from scheduler.errors import ApiError, NotFound
from scheduler.framework.profile import Profile
from scheduler.kube.client import ApiClient
from scheduler.kube.credentials import load_credentials, own_namespace
from scheduler.kube.extender_client import ExtenderClient
from scheduler.kube.permissions import (
    Permission,
    cluster_permissions,
    lease_permissions,
    resource_permissions,
    review_permissions,
)
from scheduler.kube.rate_limit import RateLimiter
from scheduler.kube.requests import Requests
from scheduler.kube.self_access_review import granted
from scheduler.out_of_tree.loading import build_profiles
from scheduler.version import __version__

OLDEST_MINOR: Final = 33
NEWEST_MINOR: Final = 36
USER_AGENT: Final = f"py-scheduler/{__version__} check"
_WHO: Final = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
_MAJOR_SUPPORTED: Final = "1"
_TIMEOUT_SECONDS: Final = 10.0


class Mark(Enum):
    """The result of a check."""

    OK = "ok"
    WARNING = "warning"
    """Pods are scheduled, with fewer features."""
    FAILED = "FAILED"


@dataclass(frozen=True, slots=True)
class Finding:
    """One row of the table."""

    what: str
    mark: Mark
    detail: str


def check(settings: RunSettings) -> list[Finding]:
    """Check everything that running with *settings* needs.

    Raises:
        ConfigurationError: If the configuration or the credentials cannot be used.
    """
    configuration, profiles = _built(settings)
    ExtenderClient(configuration.extenders)  # raises if their certificates cannot be used
    needed = _cluster_wide(settings, profiles.values())
    election = configuration.leader_election
    if election.leader_elect:
        namespace = election.resource_namespace or own_namespace()
        needed += lease_permissions(namespace, election.resource_name)
    return asyncio.run(_examine(settings, configuration.client_connection.kubeconfig, needed))


def rules(settings: RunSettings) -> tuple[Permission, ...]:
    """Return what a ClusterRole has to grant for *settings*; nothing is requested.

    Raises:
        ConfigurationError: If the configuration cannot be used.
    """
    _, profiles = _built(settings)
    return _cluster_wide(settings, profiles.values())


def _built(settings: RunSettings) -> tuple[SchedulerConfiguration, dict[str, Profile]]:
    return build_profiles(
        settings.draft(), replace_default_scheduler=settings.replace_default_scheduler
    )


def _cluster_wide(settings: RunSettings, profiles: Collection[Profile]) -> tuple[Permission, ...]:
    needed = cluster_permissions(profiles)
    if settings.config_resource:
        needed += resource_permissions(settings.config_resource)
    if settings.port and not settings.insecure_metrics:
        needed += review_permissions()
    return needed


def passed(findings: Iterable[Finding]) -> bool:
    """Tell whether nothing failed."""
    return all(each.mark is not Mark.FAILED for each in findings)


def table(findings: Collection[Finding]) -> str:
    """Return *findings* as text."""
    width = max(len(each.what) for each in findings)
    rows = (f"{each.what:<{width}}  {each.mark.value:<7}  {each.detail}" for each in findings)
    return "".join(f"{row.rstrip()}\n" for row in rows)


async def _examine(
    settings: RunSettings, kubeconfig: str, needed: Collection[Permission]
) -> list[Finding]:
    credentials = await load_credentials(
        kubeconfig or None, context=settings.context or None, master=settings.master or None
    )
    client = ApiClient(
        credentials,
        limiter=RateLimiter(-1),
        user_agent=USER_AGENT,
        timeout_seconds=_TIMEOUT_SECONDS,
    )
    async with client as requests:
        try:
            version = await _get(requests, "/version")
            who = await _who(requests)
        except ApiError as error:
            return [Finding("connection", Mark.FAILED, str(error))]
        found = [
            Finding("connection", Mark.OK, f"{credentials.access.server} as {who}"),
            judge_version(version),
        ]
        offered = await _offered(requests, needed)
        found += (judge_resource(each, offered) for each in _one_per_resource(needed))
        answers = await asyncio.gather(*(granted(requests, each) for each in needed))
        return [*found, *starmap(judge_permission, zip(needed, answers, strict=True))]


async def _get(requests: Requests, path: str) -> dict[str, Any]:
    answer: dict[str, Any] = msgspec.json.decode(await requests.get(path))
    return answer


async def _who(requests: Requests) -> str:
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
    answer = msgspec.json.decode(await requests.post(_WHO, msgspec.json.encode(body)))
    name: str = answer["status"]["userInfo"]["username"]
    return name


async def _offered(requests: Requests, needed: Iterable[Permission]) -> set[tuple[str, str, str]]:
    """Return the resources that the server has, as (group, version, resource)."""
    offered: set[tuple[str, str, str]] = set()
    for group, version in dict.fromkeys((each.group, each.version) for each in needed):
        path = f"/apis/{group}/{version}" if group else f"/api/{version}"
        try:
            listed = await _get(requests, path)
        except NotFound:
            continue
        offered |= {(group, version, each["name"]) for each in listed["resources"]}
    return offered


def _one_per_resource(needed: Iterable[Permission]) -> Iterable[Permission]:
    """Return the first permission of each resource."""
    return {(each.group, each.resource): each for each in reversed([*needed])}.values()


def judge_version(answer: dict[str, Any]) -> Finding:
    """Return whether *answer*, that of ``/version``, is a supported version."""
    minor = re.match(r"\d+", answer["minor"])  # a provider may write 33+
    number = int(minor[0]) if minor else -1
    supported = f"1.{OLDEST_MINOR} to 1.{NEWEST_MINOR}"
    version = answer["gitVersion"]
    if answer["major"] != _MAJOR_SUPPORTED or number < OLDEST_MINOR:
        return Finding("version", Mark.FAILED, f"{version} is too old: {supported} are supported")
    if number > NEWEST_MINOR:
        return Finding("version", Mark.WARNING, f"{version} is newer than what is known to work")
    return Finding("version", Mark.OK, f"{version} ({supported} are supported)")


def judge_resource(needed: Permission, offered: Collection[tuple[str, str, str]]) -> Finding:
    """Return whether the server has the resource of *needed* in the version that we use."""
    what = f"serves {needed.kubectl_name}"
    if (needed.group, needed.version, needed.resource) in offered:
        return Finding(what, Mark.OK, needed.version)
    if needed.optional:
        return Finding(what, Mark.WARNING, f"no {needed.version}; scheduling goes on without")
    return Finding(what, Mark.FAILED, f"no {needed.version}")


def judge_permission(needed: Permission, granted: Collection[str]) -> Finding:
    """Return whether *granted* is all of *needed*."""
    where = f" in {needed.namespace}" if needed.namespace else ""
    what = f"may {','.join(needed.verbs)} {needed.kubectl_name}{where}"
    if needed.name:
        what += f" ({needed.name})"
    missing = [verb for verb in needed.verbs if verb not in granted]
    if not missing:
        return Finding(what, Mark.OK, needed.why)
    return Finding(what, Mark.FAILED, f"missing: {','.join(missing)}. {needed.why}")
