"""Decides what a changed configuration requires; nothing is applied here, and nothing requested."""

import dataclasses
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import msgspec

from scheduler.config.change import (
    RETRY_SECONDS,
    Outcome,
    Result,
    misplaced,
    restart_only_changes,
    with_the_rest_of,
)
from scheduler.config.configuration import Draft, SchedulerConfiguration, read
from scheduler.config.document import Extender
from scheduler.config.run_settings import RunSettings
from scheduler.errors import ConfigurationError
from scheduler.framework.profile import Profile, needs_of_all
from scheduler.kube.permissions import Permission, cluster_permissions
from scheduler.kube.watched import Watched, watched_for
from scheduler.model.fact import Resource
from scheduler.model.pod import Pod
from scheduler.out_of_tree.loading import build_profiles, out_of_tree_plugins
from scheduler.plugins.priority_sort import PrioritySort
from scheduler.queue.hints import rules_for


class Source(StrEnum):
    """Where a configuration comes from."""

    FILE = "file"
    """The file that ``--config`` names."""

    RESOURCE = "resource"
    """The object that ``--config-resource`` names."""


@dataclass(frozen=True, slots=True)
class Plan:
    """A configuration that can be used, with its profiles and resources to watch.

    Args:
        profiles: By scheduler name, built.
        out_of_tree: By scheduler name, the plugins that did not come with the scheduler.
        watched: The resources to watch.
        generation: That of the profiles.
    """

    configuration: SchedulerConfiguration
    profiles: Mapping[str, Profile]
    out_of_tree: Mapping[str, Collection[str]]
    watched: tuple[Watched[Any], ...]
    generation: int = 0

    def outcome(self, result: Result, *problems: str) -> Outcome:
        """Return *result* as an outcome while this configuration is in force."""
        return Outcome(result, problems, self.configuration.fingerprint, self.configuration.names)


def plan_of(settings: RunSettings) -> Plan:
    """Return the plan that the process starts with.

    Raises:
        ConfigurationError: If the configuration or a plugin cannot be used.
    """
    draft = settings.draft()
    if not settings.config_resource:
        return plan_for(settings, draft)
    check_beside_the_resource(draft)
    return _without_profiles(plan_for(settings, draft))


def _without_profiles(planned: Plan) -> Plan:
    """Return *planned* without its profiles: no pod is scheduled until an object has some."""
    configuration = planned.configuration
    document = msgspec.structs.replace(configuration.document, profiles=())
    profiles = {"": Profile("", PrioritySort())}
    return Plan(
        dataclasses.replace(configuration, profiles=(), document=document),
        profiles,
        {},
        watched_for(needs_of_all(profiles.values())),
    )


def plan(settings: RunSettings, running: Plan, text: str, source: Source) -> Plan | Outcome:
    """Return the plan for the document *text*, or why there is none.

    Args:
        settings: The settings of the command line.
        running: The plan in force.
        text: The document.
        source: Its source; fields that an object does not have keep their values, those that a file
            does not have get their defaults.
    """
    try:
        return _plan(settings, running, text, source)
    except ConfigurationError as problem:
        return running.outcome(Result.INVALID, *problem.problems)
    except (Exception, SystemExit) as bug:  # noqa: BLE001 - plugins were imported and built
        return running.outcome(Result.INVALID, f"a plugin raised {type(bug).__name__}: {bug}")


def _plan(settings: RunSettings, running: Plan, text: str, source: Source) -> Plan | Outcome:
    started_with = running.configuration.document
    if source is Source.RESOURCE:
        draft = read(text)
        changes = restart_only_changes(started_with, draft.document, draft.decoder.written)
        whole = with_the_rest_of(draft.document, started_with)
        draft = dataclasses.replace(draft, document=whole)
    else:
        draft = dataclasses.replace(settings, config_text=text).draft()
        changes = restart_only_changes(started_with, draft.document)
    if source is Source.FILE and settings.config_resource:
        return _beside_the_resource(draft, running, changes)
    planned = plan_for(settings, draft, running.generation + 1)
    _try_out(planned)
    if changes:
        return running.outcome(Result.NEEDS_RESTART, *changes)
    if planned.configuration.fingerprint == running.configuration.fingerprint:
        return running.outcome(Result.UNCHANGED)
    return planned


def _beside_the_resource(draft: Draft, running: Plan, changes: tuple[str, ...]) -> Outcome:
    """Return the outcome of a changed file beside an object: any change needs a restart."""
    check_beside_the_resource(draft)
    if changes:
        return running.outcome(Result.NEEDS_RESTART, *changes)
    return running.outcome(Result.UNCHANGED)


def check_beside_the_resource(draft: Draft) -> None:
    """Check a file of a process with --config-resource: the object's fields must not be in it.

    Raises:
        ConfigurationError: If one is.
    """
    draft.decoder.problems.raise_if_any()
    if problems := misplaced(draft.decoder.written):
        raise ConfigurationError(*problems)


def plan_for(settings: RunSettings, draft: Draft, generation: int = 0) -> Plan:
    """Return the plan to run with *draft*.

    Raises:
        ConfigurationError: With one line for each problem.
    """
    configuration, profiles = build_profiles(
        draft,
        replace_default_scheduler=settings.replace_default_scheduler,
        generation=generation,
    )
    return Plan(
        configuration,
        profiles,
        {name: out_of_tree_plugins(profile) for name, profile in profiles.items()},
        _with_raw(watched_for(needs_of_all(profiles.values())), configuration.extenders),
        generation,
    )


def _try_out(planned: Plan) -> None:
    """Call the plugins that the loop calls while it exchanges configurations.

    The exchange cannot be reverted halfway, so an exception has to show here.
    """
    for name, profile in planned.profiles.items():
        try:
            rules_for(profile.plugins)
            profile.queue_sort.sort_key(Pod())
        except Exception as bug:
            raise ConfigurationError(
                f"profile {name}: a plugin raised {type(bug).__name__} when asked for its requeue "
                f"rules or its sort key: {bug}"
            ) from bug


def _with_raw(
    watched: Iterable[Watched[Any]], extenders: Iterable[Extender]
) -> tuple[Watched[Any], ...]:
    """Keep the undecoded objects of resources that are sent to extenders."""
    wanted: set[Resource] = set()
    for extender in extenders:
        wanted.add(Resource.POD)
        if not extender.node_cache_capable:
            wanted.add(Resource.NODE)
    return tuple(each.with_raw() if each.resource in wanted else each for each in watched)


def further_permissions(running: Plan, planned: Plan) -> tuple[Permission, ...]:
    """Return the permissions that *planned* needs and *running* does not."""
    known = {
        (each.group, each.resource): each for each in cluster_permissions(running.profiles.values())
    }
    further = []
    for each in cluster_permissions(planned.profiles.values()):
        before = known.get((each.group, each.resource))
        verbs = tuple(v for v in each.verbs if before is None or v not in before.verbs)
        if verbs:
            further.append(dataclasses.replace(each, verbs=verbs))
    return tuple(further)


def refusal(needed: Permission, granted: Collection[str]) -> str:
    """Return which verbs of *needed* are not *granted*, and what to do; empty if all are."""
    missing = [verb for verb in needed.verbs if verb not in granted]
    if not missing:
        return ""
    return (
        f"the scheduler's account may not {','.join(missing)} {needed.kubectl_name}. {needed.why} "
        f"Grant it, as `py-scheduler check --rules` prints it; it is checked again every "
        f"{RETRY_SECONDS:g} seconds"
    )
