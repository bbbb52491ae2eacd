"""Finds out-of-tree plugins by the names that a configuration gives them.

A name is either one that an installed package declares in the entry-point group
``scheduler.plugins``, or a class itself, as ``module:Class``. Only what
a profile enables is imported: an import runs code.
"""

import inspect
from collections.abc import Collection, Iterable, Mapping
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from typing import Any, Final

from scheduler.config.configuration import Draft, SchedulerConfiguration
from scheduler.errors import ConfigurationError
from scheduler.framework.cluster_event import Requeue
from scheduler.framework.plugin import Plugin, needs_of
from scheduler.framework.profile import Profile
from scheduler.framework.registry import METHODS, Registry, points_of
from scheduler.kube.watched import is_known
from scheduler.plugins import IN_TREE

GROUP: Final = "scheduler.plugins"


def build_profiles(
    draft: Draft, *, replace_default_scheduler: bool = False, generation: int = 0
) -> tuple[SchedulerConfiguration, dict[str, Profile]]:
    """Complete *draft* with the plugins that it names, and build its profiles by scheduler name.

    Raises:
        ConfigurationError: With one line for each problem.
    """
    registry = Registry(IN_TREE).with_plugins(load(draft.plugin_names))
    configuration = draft.resolve(
        registry.available, replace_default_scheduler=replace_default_scheduler
    )
    profiles = {
        spec.scheduler_name: registry.build(spec, generation) for spec in configuration.profiles
    }
    _check(profiles.values())
    return configuration, profiles


def out_of_tree_plugins(profile: Profile) -> frozenset[str]:
    """Return the names of the plugins of *profile* that did not come with the scheduler.

    The class decides, and not its module or its name: a user's subclass of an in-tree plugin is
    out-of-tree as well.
    """
    return frozenset(p.name for p in profile.plugins if IN_TREE.get(p.name) is not type(p))


def load(names: Collection[str]) -> dict[str, type]:
    """Import the plugins among *names* that did not come with the scheduler.

    A name without a plugin is skipped here: `Draft.resolve` rejects it, with its path.

    Raises:
        ConfigurationError: With one line for each plugin that cannot be used.
    """
    problems: list[str] = []
    found: dict[str, type] = {}
    offered = _offered()
    for name in names:
        if name in IN_TREE:
            continue
        try:
            plugin = _import(name) if ":" in name else _from_package(name, offered.get(name, []))
            if plugin is not None:
                found[name] = plugin
        except ConfigurationError as problem:
            problems += problem.problems
    if problems:
        raise ConfigurationError(*problems)
    return found


def _offered() -> Mapping[str, list[EntryPoint]]:
    """Return the entry points of installed packages, by name; none of them is imported."""
    offered: dict[str, list[EntryPoint]] = {}
    for entry in entry_points(group=GROUP):
        offered.setdefault(entry.name, []).append(entry)
    return offered


def _from_package(name: str, entries: Iterable[EntryPoint]) -> type | None:
    targets = {entry.value: entry for entry in entries}
    if len(targets) > 1:
        raise ConfigurationError(
            f"plugin {name}: {' and '.join(sorted(targets))} both claim the name; "
            f"write the one you want as module:Class, or uninstall the other"
        )
    for target in targets:
        return _import(target, name)
    return None


def _import(target: str, name: str = "") -> type:
    """Import ``module:Class``; *name* is what the configuration calls it."""
    module, _, attribute = target.replace(" ", "").partition(":")
    who = f"plugin {name} ({target})" if name else f"plugin {target}"
    found: Any
    try:
        found = import_module(module)
    except ModuleNotFoundError as problem:
        # The module may be there and lack another one; both remedies are an installation.
        raise ConfigurationError(
            f"{who}: there is no module {problem.name}; "
            f"install it beside the scheduler, or put its folder into PYTHONPATH"
        ) from problem
    except (Exception, SystemExit) as problem:
        raise ConfigurationError(
            f"{who}: importing module {module} raised {_in_one_line(problem)}; "
            f'correct it until `python -c "import {module}"` is silent'
        ) from problem
    for part in attribute.split("."):
        found = getattr(found, part, None)
    return _checked(found, who, module, attribute)


def _checked(found: object, who: str, module: str, attribute: str) -> type:
    """Check what every plugin class must be, so that a mistake shows before the first pod."""
    if not isinstance(found, type):
        what = "has no" if found is None else "holds no class"
        raise ConfigurationError(
            f"{who}: module {module} {what} {attribute or '(nothing after the colon)'}; "
            f"name a class as module:Class"
        )
    if not isinstance(getattr(found, "name", ""), str):
        raise ConfigurationError(f'{who}: its name must be text; write name = "{attribute}"')
    if not points_of(found):
        remedy = (
            "decorate it with @scheduler.per_node"
            if hasattr(found, "filter_node") or hasattr(found, "score_node")
            else "give it filter, score or another method of scheduler.framework.plugin"
        )
        raise ConfigurationError(f"{who}: class {attribute} serves no extension point; {remedy}")
    for method in ("bind", "post_bind"):
        if hasattr(found, method):
            raise ConfigurationError(
                f"{who}: {method} would never be called: the scheduler binds, or an extender does; "
                f"do in pre_bind what has to be done before"
            )
    if hasattr(found, "reserve") and not hasattr(found, "unreserve"):
        raise ConfigurationError(
            f"{who}: class {attribute} has reserve and no unreserve; write one, even an empty one"
        )
    for method in METHODS:
        if method == "pre_bind" and inspect.iscoroutinefunction(getattr(found, method, None)):
            continue  # the one method that may act
        if inspect.iscoroutinefunction(
            answered := getattr(found, method, None)
        ) or inspect.isasyncgenfunction(answered):
            raise ConfigurationError(
                f"{who}: {method} is async; plugins decide in plain functions: drop the word async"
            )
    return found


def _check(profiles: Iterable[Profile]) -> None:
    """Check the plugins once they are made: their name and needs may depend on arguments."""
    problems: list[str] = []
    for profile in profiles:
        taken: dict[str, type] = {}
        for plugin in profile.plugins:
            kind = f"{type(plugin).__module__}:{type(plugin).__qualname__}"
            name = getattr(plugin, "name", None)
            if not isinstance(name, str) or not name:
                problems.append(f'plugin {kind}: has no name; write name = "…" into its class')
            elif name in taken or IN_TREE.get(name, type(plugin)) is not type(plugin):
                problems.append(
                    f"plugin {kind}: another plugin is named {name}; give it a name of its own"
                )
            else:
                taken[name] = type(plugin)
                problems += _declaration_problems(f"plugin {name} ({kind})", plugin)
    if problems:
        raise ConfigurationError(*dict.fromkeys(problems))


def _declaration_problems(who: str, plugin: Plugin) -> list[str]:
    """Return what is wrong with the needs and requeue rules that *plugin* declares."""
    if isinstance(getattr(plugin, "needs", ()), str):
        return [f"{who}: needs is one text; write a list of them"]
    rules = getattr(plugin, "requeue_on", None)
    if rules is not None and not (
        isinstance(rules, Collection) and all(isinstance(each, Requeue) for each in rules)
    ):
        return [f"{who}: requeue_on must hold nothing but Requeue(ClusterEvent(...))"]
    return _unknown_needs(who, needs_of(plugin))


def _unknown_needs(who: str, needs: Iterable[str]) -> list[str]:
    return [
        f"{who}: needs {need!r}, which is unknown; write node.annotations, pod.annotations, a "
        f"kind such as Namespace, or a custom resource as <plural>.<version>.<group>"
        for need in sorted(needs)
        if not is_known(need)
    ]


def _in_one_line(problem: BaseException) -> str:
    text = " ".join(str(problem).split())
    frame = inspect.trace()[-1]
    return f"{type(problem).__name__}: {text} ({frame.filename}:{frame.lineno})"
