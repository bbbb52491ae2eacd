"""From a document to the configuration that the scheduler runs with, in two steps.

``read`` decodes text into a draft, which names plugins; ``Draft.resolve`` receives the plugins that
exist, and returns the result or raises all problems at once. Two steps, because out-of-tree plugins
are imported in between.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any

import msgspec
from msgspec.structs import replace

from scheduler.config.args_validation import PluginArgs, decode_args
from scheduler.config.default_plugins import BUILT_IN, Available, missing_among
from scheduler.config.document import (
    DEFAULT_BURST,
    DEFAULT_EXTENDER_SECONDS,
    DEFAULT_LEASE_SECONDS,
    DEFAULT_QPS,
    DEFAULT_RENEW_SECONDS,
    DEFAULT_RETRY_SECONDS,
    OWN_NAME,
    WITHOUT_MEANING,
    ClientConnection,
    Extender,
    KubeSchedulerConfiguration,
    KubeSchedulerProfile,
    LeaderElection,
)
from scheduler.config.expansion import Expansion, Lists
from scheduler.config.extension_point import Point
from scheduler.config.fields import StructDecoder, encode
from scheduler.config.plugin_args import TYPED, NodeResourcesFitArgs
from scheduler.config.problems import Problems
from scheduler.config.text import plain
from scheduler.config.validation import check, check_reserved


@dataclass(frozen=True, slots=True)
class ProfileSpec:
    """One profile, ready to be built.

    Args:
        scheduler_name: The ``spec.schedulerName`` that chooses it.
        plugins: Plugin names and weights by extension point, in the order of their calls.
        args: Arguments by plugin name: a struct of scheduler.config.plugin_args for each plugin
            that has one, and the plain mapping for any other that was configured.
        percentage_of_nodes_to_score: 0 means every node.
        schedulers: The scheduler names of all profiles.
        paths: The path of the arguments in the document, by plugin name; for messages only.
    """

    scheduler_name: str
    plugins: Lists
    args: Mapping[str, PluginArgs]
    percentage_of_nodes_to_score: int = 0
    schedulers: frozenset[str] = frozenset()
    paths: Mapping[str, str] = field(default_factory=dict, compare=False)

    @property
    def plugin_names(self) -> tuple[str, ...]:
        """Every plugin of the profile once; each is to be built once."""
        names = [ref.name for refs in self.plugins.values() for ref in refs]
        return tuple(dict.fromkeys(names))


@dataclass(frozen=True, slots=True)
class SchedulerConfiguration:
    """What the scheduler runs with; every default is filled in.

    Args:
        profiles: In the order of the document.
        backoff_seconds_initial: How long a pod waits after its first failed attempt.
        backoff_seconds_maximum: The longest a pod waits.
        ignored_fields: Fields that were written and have no effect; logged as one warning.
        missing_defaults: Default plugins of kube-scheduler that this build does not have.
        document: The document with all defaults filled in.
    """

    profiles: tuple[ProfileSpec, ...]
    leader_election: LeaderElection
    client_connection: ClientConnection
    extenders: tuple[Extender, ...]
    backoff_seconds_initial: float
    backoff_seconds_maximum: float
    delay_cache_until_active: bool
    ignored_fields: tuple[str, ...]
    missing_defaults: tuple[str, ...]
    document: KubeSchedulerConfiguration

    @property
    def fingerprint(self) -> str:
        """A hash of this configuration, short enough for a label."""
        return sha256(msgspec.json.encode(self.document)).hexdigest()[:12]

    @property
    def names(self) -> tuple[str, ...]:
        """The scheduler names of its profiles."""
        return tuple(spec.scheduler_name for spec in self.profiles)

    def written(self) -> dict[str, Any]:
        """Return the effective document, JSON-encodable; secrets are withheld."""
        document: dict[str, Any] = encode(self.document)
        document["profiles"] = [_written_profile(spec) for spec in self.profiles]
        return document


@dataclass(frozen=True, slots=True)
class Draft:
    """A document that was read, with its problems; its plugins are not yet known to exist."""

    document: KubeSchedulerConfiguration
    decoder: StructDecoder
    ignored: tuple[str, ...] = ()

    @property
    def plugin_names(self) -> tuple[str, ...]:
        """Every plugin that the document enables somewhere; ``module:Class`` are out-of-tree."""
        sets = [
            plugins
            for profile in self.document.profiles
            for plugins in (profile.plugins.multi_point, *map(profile.plugins.at, Point))
        ]
        return tuple(dict.fromkeys(entry.name for each in sets for entry in each.enabled))

    def resolve(
        self, available: Available, *, replace_default_scheduler: bool = False
    ) -> SchedulerConfiguration:
        """Check the document against the plugins that are *available*, and fill in defaults.

        Args:
            available: The extension points that each plugin of this build serves.
            replace_default_scheduler: Whether names of the cluster's own scheduler may be used.

        Raises:
            ConfigurationError: With one line for each problem.
        """
        problems = self.decoder.problems
        check(self.document, problems)
        if not replace_default_scheduler:
            check_reserved(self.document, problems)
        configuration = _resolve(self, {**BUILT_IN, **available})
        _check_queue_sort(configuration.profiles, problems)
        problems.raise_if_any()
        return configuration


def read(text: str | None = None) -> Draft:
    """Read the document *text*; without one, everything is default."""
    decoder = StructDecoder(Problems())
    if text is None:
        return Draft(_complete(KubeSchedulerConfiguration()), decoder)
    given = plain(text, decoder.problems)
    if given is None:
        decoder.problems.add("", f"is empty; begin with {' and '.join(_types().values())}")
    elif isinstance(given, dict):
        for name in ("apiVersion", "kind"):
            if not given.get(name):
                decoder.problems.add(name, f"must be given: write {_types()[name]}")
    document = decoder.struct(KubeSchedulerConfiguration, given, "")
    ignored = tuple(path for path in WITHOUT_MEANING if path in decoder.written)
    return Draft(_complete(document), decoder, ignored)


def _types() -> dict[str, str]:
    default = KubeSchedulerConfiguration()
    return {
        "apiVersion": f"apiVersion: {default.api_version}",
        "kind": f"kind: {default.kind}",
    }


def _complete(document: KubeSchedulerConfiguration) -> KubeSchedulerConfiguration:
    """Fill in the defaults that stand for an empty value as well as for an absent one."""
    connection, election = document.client_connection, document.leader_election
    return replace(
        document,
        client_connection=replace(
            connection,
            content_type=connection.content_type or ClientConnection().content_type,
            qps=connection.qps or DEFAULT_QPS,
            burst=connection.burst or DEFAULT_BURST,
        ),
        leader_election=replace(
            election,
            lease_duration_seconds=election.lease_duration_seconds or DEFAULT_LEASE_SECONDS,
            renew_deadline_seconds=election.renew_deadline_seconds or DEFAULT_RENEW_SECONDS,
            retry_period_seconds=election.retry_period_seconds or DEFAULT_RETRY_SECONDS,
            resource_lock=election.resource_lock or "leases",
            resource_name=election.resource_name or OWN_NAME,
        ),
        profiles=_with_name(document.profiles or (KubeSchedulerProfile(),)),
        extenders=tuple(
            replace(
                each, http_timeout_seconds=each.http_timeout_seconds or DEFAULT_EXTENDER_SECONDS
            )
            for each in document.extenders
        ),
    )


def _with_name(profiles: tuple[KubeSchedulerProfile, ...]) -> tuple[KubeSchedulerProfile, ...]:
    if len(profiles) == 1 and not profiles[0].scheduler_name:
        return (replace(profiles[0], scheduler_name=OWN_NAME),)
    return profiles


def _resolve(draft: Draft, available: Available) -> SchedulerConfiguration:
    document = draft.document
    ignored = list(draft.ignored)
    specs = []
    schedulers = frozenset(profile.scheduler_name for profile in document.profiles)
    for index, profile in enumerate(document.profiles):
        path = f"profiles[{index}]"
        expansion = Expansion(profile.plugins, available, f"{path}.plugins", draft.decoder.problems)
        ignored += expansion.unserved()
        lists = expansion.lists()
        _check_counts(profile.scheduler_name, lists, f"{path}.plugins", draft.decoder.problems)
        specs.append(
            ProfileSpec(
                profile.scheduler_name,
                lists,
                _with_ignored_resources(
                    _args(profile, lists, path, draft.decoder), document.extenders
                ),
                _percentage(document, profile),
                schedulers,
                _paths(profile, path),
            )
        )
    assert specs, "a document without profiles gets the default one"
    return SchedulerConfiguration(
        profiles=tuple(specs),
        leader_election=document.leader_election,
        client_connection=document.client_connection,
        extenders=document.extenders,
        backoff_seconds_initial=float(document.pod_initial_backoff_seconds),
        backoff_seconds_maximum=float(document.pod_max_backoff_seconds),
        delay_cache_until_active=document.delay_cache_until_active,
        ignored_fields=tuple(ignored),
        missing_defaults=_missing(document, available),
        document=document,
    )


def _percentage(document: KubeSchedulerConfiguration, profile: KubeSchedulerProfile) -> int:
    own = profile.percentage_of_nodes_to_score
    return (document.percentage_of_nodes_to_score if own is None else own) or 0


def _args(
    profile: KubeSchedulerProfile, lists: Lists, path: str, decoder: StructDecoder
) -> Mapping[str, PluginArgs]:
    """Return the configured arguments, and defaults for every other plugin in *lists*."""
    enabled = {ref.name for refs in lists.values() for ref in refs}
    given: dict[str, PluginArgs] = {
        config.name: decode_args(config, _args_path(path, index), decoder)
        for index, config in enumerate(profile.plugin_config)
    }
    return {name: TYPED[name]() for name in sorted(enabled & TYPED.keys())} | given


def _paths(profile: KubeSchedulerProfile, path: str) -> Mapping[str, str]:
    return {
        config.name: _args_path(path, index) for index, config in enumerate(profile.plugin_config)
    }


def _args_path(path: str, index: int) -> str:
    return f"{path}.pluginConfig[{index}].args"


def _with_ignored_resources(
    args: Mapping[str, PluginArgs], extenders: Sequence[Extender]
) -> Mapping[str, PluginArgs]:
    """Let NodeResourcesFit ignore the resources that an extender manages and wants ignored.

    They replace the ``ignoredResources`` of the document, as upstream.
    """
    ignored = tuple(
        resource.name
        for extender in extenders
        for resource in extender.managed_resources
        if resource.ignored_by_scheduler
    )
    fit = args.get("NodeResourcesFit")
    if not ignored or not isinstance(fit, NodeResourcesFitArgs):
        return args
    return {**args, "NodeResourcesFit": replace(fit, ignored_resources=ignored)}


def _missing(document: KubeSchedulerConfiguration, available: Available) -> tuple[str, ...]:
    """Return the default plugins that this build lacks and some profile did not disable."""
    disabled = [
        {entry.name for entry in profile.plugins.multi_point.disabled}
        for profile in document.profiles
    ]
    return tuple(
        name
        for name in missing_among(available)
        if any(name not in names and "*" not in names for names in disabled)
    )


def _check_counts(name: str, lists: Lists, path: str, problems: Problems) -> None:
    if (count := len(lists[Point.QUEUE_SORT])) != 1:
        text = f"only one queue sort plugin required for profile with scheduler name {name!r}"
        problems.add(f"{path}.queueSort", f"{text}, but got {count}")
    if not lists[Point.BIND]:
        text = f"at least one bind plugin is needed for profile with scheduler name {name!r}"
        problems.add(f"{path}.bind", f"{text}; DefaultBinder is one")
    if len(lists[Point.PLACEMENT_GENERATE]) > 1:
        text = "at most one placement generate plugin is allowed for profile with scheduler name"
        problems.add(f"{path}.placementGenerate", f"{text} {name!r}")


def _check_queue_sort(profiles: tuple[ProfileSpec, ...], problems: Problems) -> None:
    """All profiles share one queue, so they must have the same order."""
    first = profiles[0]
    for index, profile in enumerate(profiles[1:], 1):
        name = profile.scheduler_name
        if profile.plugins[Point.QUEUE_SORT] != first.plugins[Point.QUEUE_SORT]:
            text = f"different queue sort plugins for profile {name!r}; make them the same"
            problems.add(f"profiles[{index}].plugins.queueSort", text)
        elif any(
            profile.args.get(ref.name) != first.args.get(ref.name)
            for ref in first.plugins[Point.QUEUE_SORT]
        ):
            text = f"different queue sort plugin args for profile {name!r}; make them the same"
            problems.add(f"profiles[{index}].pluginConfig", text)


def _written_profile(spec: ProfileSpec) -> dict[str, Any]:
    return {
        "schedulerName": spec.scheduler_name,
        "percentageOfNodesToScore": spec.percentage_of_nodes_to_score,
        "plugins": {
            point.field: {
                "enabled": [
                    {"name": ref.name} | ({"weight": ref.weight} if ref.weight else {})
                    for ref in refs
                ]
            }
            for point, refs in spec.plugins.items()
            if refs
        },
        "pluginConfig": [{"name": name, "args": encode(args)} for name, args in spec.args.items()],
    }
