"""The rules of a document beyond the type of each value.

The first words of each message are upstream's, so that they can be searched for.

Source: ``pkg/scheduler/apis/config/validation/validation.go``.
"""

import re
from typing import Final

from scheduler.config.default_plugins import REMOVED, removed
from scheduler.config.document import (
    API_VERSION,
    KIND,
    ClientConnection,
    Extender,
    KubeSchedulerConfiguration,
    KubeSchedulerProfile,
    LeaderElection,
)
from scheduler.config.problems import Problems, child

RESERVED_PROFILE: Final = "default-scheduler"
RESERVED_LEASE: Final = "kube-scheduler"
_CONSENT: Final = "or pass --replace-default-scheduler once that one is switched off for good"
_DOMAIN: Final = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*"
_WORD: Final = r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_QUALIFIED: Final = re.compile(rf"(?P<domain>{_DOMAIN}/)?(?P<word>{_WORD})", re.ASCII)


def is_label_name(name: str) -> bool:
    """Tell whether *name* has the syntax of a label's name, as in ``example.com/gpu``."""
    match = _QUALIFIED.fullmatch(name)
    return match is not None and len(match["word"]) <= 63 and len(match["domain"] or "") <= 254


def check(document: KubeSchedulerConfiguration, problems: Problems) -> None:
    """Add every broken rule of *document* to *problems*."""
    _check_type(document, problems)
    _check_connection(document.client_connection, problems)
    if document.leader_election.leader_elect:
        _check_leader_election(document.leader_election, problems)
    _check_numbers(document, problems)
    for index, profile in enumerate(document.profiles):
        _check_profile(profile, f"profiles[{index}]", problems)
    _check_across_profiles(document.profiles, problems)
    _check_extenders(document.extenders, problems)


def check_reserved(document: KubeSchedulerConfiguration, problems: Problems) -> None:
    """Add every name that belongs to the cluster's own scheduler to *problems*."""
    for index, profile in enumerate(document.profiles):
        if profile.scheduler_name == RESERVED_PROFILE:
            text = f"{RESERVED_PROFILE} belongs to the cluster's own scheduler; choose another"
            problems.add(f"profiles[{index}].schedulerName", f"{text} name, {_CONSENT}")
    election = document.leader_election
    if election.leader_elect and election.resource_name == RESERVED_LEASE:
        text = f"{RESERVED_LEASE} is the lease of the cluster's own scheduler; choose another"
        problems.add("leaderElection.resourceName", f"{text} name, {_CONSENT}")


def _check_type(document: KubeSchedulerConfiguration, problems: Problems) -> None:
    if document.kind != KIND:
        text = f"couldn't decode as {KIND}, got {document.kind!r}"
        problems.add("kind", f"{text}; write kind: {KIND}")
    if document.api_version != API_VERSION:
        text = f"no such version, {document.api_version!r}"
        problems.add("apiVersion", f"{text}; write apiVersion: {API_VERSION}")


def _check_connection(connection: ClientConnection, problems: Problems) -> None:
    if connection.burst < 0:
        text = f"must be non-negative, got {connection.burst}"
        problems.add("clientConnection.burst", text)


def _check_leader_election(election: LeaderElection, problems: Problems) -> None:
    durations = {
        "leaseDuration": election.lease_duration_seconds,
        "renewDeadline": election.renew_deadline_seconds,
        "retryPeriod": election.retry_period_seconds,
    }
    for name, seconds in durations.items():
        if seconds <= 0:
            problems.add(f"leaderElection.{name}", f"must be greater than zero, got {seconds:g}s")
    _check_order(election, problems)
    if election.resource_lock != "leases":
        text = f'resourceLock value must be "leases", got {election.resource_lock!r}'
        problems.add("leaderElection.resourceLock", text)


def _check_order(election: LeaderElection, problems: Problems) -> None:
    lease, renew = election.lease_duration_seconds, election.renew_deadline_seconds
    if lease <= renew:
        text = f"must be greater than `RenewDeadline` ({renew:g}s), got {lease:g}s"
        problems.add("leaderElection.leaseDuration", text)
    # Upstream checks this rule only when the election starts, and exits then (client-go:
    # NewLeaderElector, JitterFactor).
    jittered = election.retry_period_seconds * 1.2
    if renew <= jittered:
        text = f"must be greater than retryPeriod * 1.2 ({jittered:g}s), got {renew:g}s"
        problems.add("leaderElection.renewDeadline", text)


def _check_numbers(document: KubeSchedulerConfiguration, problems: Problems) -> None:
    if document.parallelism <= 0:
        text = f"should be an integer value greater than zero, got {document.parallelism}"
        problems.add("parallelism", text)
    _check_percentage(document.percentage_of_nodes_to_score, "", problems)
    initial, maximum = document.pod_initial_backoff_seconds, document.pod_max_backoff_seconds
    if initial <= 0:
        problems.add("podInitialBackoffSeconds", f"must be greater than 0, got {initial}")
    if maximum < initial:
        text = "must be greater than or equal to PodInitialBackoffSeconds"
        problems.add("podMaxBackoffSeconds", f"{text} ({initial}), got {maximum}")


def _check_percentage(percentage: int | None, path: str, problems: Problems) -> None:
    if percentage is not None and not 0 <= percentage <= 100:
        text = f"not in valid range [0-100], got {percentage}"
        problems.add(child(path, "percentageOfNodesToScore"), text)


def _check_profile(profile: KubeSchedulerProfile, path: str, problems: Problems) -> None:
    if not profile.scheduler_name:
        text = "must be given: pods choose a profile by it"
        problems.add(child(path, "schedulerName"), text)
    _check_percentage(profile.percentage_of_nodes_to_score, path, problems)
    seen: set[str] = set()
    for index, config in enumerate(profile.plugin_config):
        where = f"{path}.pluginConfig[{index}].name"
        if not config.name:
            problems.add(where, "must be given")
        elif config.name in REMOVED:
            problems.add(where, removed(config.name))
        elif config.name in seen:
            problems.add(where, f"repeated config for plugin {config.name}; keep one of them")
        seen.add(config.name)


def _check_across_profiles(profiles: tuple[KubeSchedulerProfile, ...], problems: Problems) -> None:
    names: set[str] = set()
    for index, profile in enumerate(profiles):
        name = profile.scheduler_name
        if name and name in names:
            text = f"duplicate profile with scheduler name {name!r}; choose another name"
            problems.add(f"profiles[{index}].schedulerName", text)
        names.add(name)
        if profile.plugins.queue_sort != profiles[0].plugins.queue_sort:
            text = "must be the same for all profiles: they share one queue"
            problems.add(f"profiles[{index}].plugins.queueSort", text)
    if len(profiles[0].plugins.queue_sort.enabled) > 1:
        text = "only one queue sort plugin can be enabled"
        problems.add("profiles[0].plugins.queueSort.enabled", text)


def _check_extenders(extenders: tuple[Extender, ...], problems: Problems) -> None:
    managed: set[str] = set()
    binders = 0
    for index, extender in enumerate(extenders):
        path = f"extenders[{index}]"
        if extender.prioritize_verb and extender.weight <= 0:
            text = "must have a positive weight applied to it, since it has a prioritizeVerb"
            problems.add(f"{path}.weight", f"{text}; got {extender.weight}")
        binders += bool(extender.bind_verb)
        if extender.bind_verb and binders > 1:
            problems.add(f"{path}.bindVerb", "only one extender can implement bind")
        _check_managed(extender, path, managed, problems)


def _check_managed(extender: Extender, path: str, seen: set[str], problems: Problems) -> None:
    for index, resource in enumerate(extender.managed_resources):
        where = f"{path}.managedResources[{index}].name"
        if not _is_extended(resource.name):
            text = f"{resource.name!r} is an invalid extended resource name"
            problems.add(where, f"{text}; it looks like example.com/gpu")
        elif resource.name in seen:
            text = f"duplicate extender managed resource name {resource.name}"
            problems.add(where, f"{text}; one extender may manage it")
        seen.add(resource.name)


def _is_extended(name: str) -> bool:
    """Tell whether *name* is an extended resource; native ones stay with the scheduler."""
    native = "/" not in name or "kubernetes.io/" in name or name.startswith("requests.")
    return not native and is_label_name(f"requests.{name}")
