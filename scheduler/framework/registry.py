"""The plugin classes of this process, and profiles built from them."""

import re
from collections.abc import Mapping
from typing import Any, Final

from scheduler.config.configuration import ProfileSpec
from scheduler.config.extension_point import Point
from scheduler.errors import ConfigurationError
from scheduler.framework.profile import Profile, Weighted

_METHODS: Final[Mapping[Point, str]] = {
    Point.PRE_ENQUEUE: "pre_enqueue",
    Point.QUEUE_SORT: "sort_key",
    Point.PRE_FILTER: "pre_filter",
    Point.FILTER: "filter",
    Point.POST_FILTER: "post_filter",
    # Upstream prepares scores in a point of its own; here a score plugin prepares itself.
    Point.PRE_SCORE: "score",
    Point.SCORE: "score",
    Point.RESERVE: "reserve",
    Point.PERMIT: "permit",
    Point.PRE_BIND: "pre_bind",
    Point.BIND: "bind",
}

_FIELD: Final = re.compile(r"[A-Za-z_][\w.\[\]]*: ", re.ASCII)


METHODS: Final = (*dict.fromkeys(_METHODS.values()), "unreserve", "normalize")
"""Every method of the plugin contract."""


def points_of(plugin: type) -> frozenset[Point]:
    """Return the extension points that a plugin class serves."""
    return frozenset(point for point, method in _METHODS.items() if hasattr(plugin, method))


class Registry:
    """Plugin classes by name."""

    def __init__(self, plugins: Mapping[str, type]) -> None:
        self._plugins = dict(plugins)

    @property
    def available(self) -> Mapping[str, frozenset[Point]]:
        """The extension points of every plugin."""
        return {name: points_of(plugin) for name, plugin in self._plugins.items()}

    def with_plugins(self, plugins: Mapping[str, type]) -> "Registry":
        """Return a registry with *plugins* as well.

        Raises:
            ConfigurationError: If a name is taken.
        """
        for name in plugins:
            if name in self._plugins:
                raise ConfigurationError(f"plugin {name}: a plugin named {name} already exists")
        return Registry({**self._plugins, **plugins})

    def build(self, spec: ProfileSpec, generation: int = 0) -> Profile:
        """Build the profile that *spec* describes; each plugin is one object at all its points.

        Raises:
            ConfigurationError: If a plugin does not take its arguments.
        """
        built = {name: self._make(name, spec) for name in spec.plugin_names}
        at = {point: tuple(built[ref.name] for ref in refs) for point, refs in spec.plugins.items()}
        # `config` has checked both.
        assert len(at[Point.QUEUE_SORT]) == 1, spec
        assert all(ref.weight >= 0 for ref in spec.plugins.get(Point.SCORE, ())), spec
        return Profile(
            scheduler_name=spec.scheduler_name,
            queue_sort=at[Point.QUEUE_SORT][0],
            pre_enqueue=at.get(Point.PRE_ENQUEUE, ()),
            pre_filter=at.get(Point.PRE_FILTER, ()),
            filter=at.get(Point.FILTER, ()),
            post_filter=at.get(Point.POST_FILTER, ()),
            score=tuple(
                Weighted(built[ref.name], ref.weight or 1)
                for ref in spec.plugins.get(Point.SCORE, ())
            ),
            reserve=at.get(Point.RESERVE, ()),
            permit=at.get(Point.PERMIT, ()),
            pre_bind=at.get(Point.PRE_BIND, ()),
            percentage_of_nodes_to_score=spec.percentage_of_nodes_to_score,
            generation=generation,
        )

    def _make(self, name: str, spec: ProfileSpec) -> Any:
        plugin, args = self._plugins[name], spec.args.get(name)
        more = {"schedulers": spec.schedulers} if getattr(plugin, "knows_schedulers", False) else {}
        try:
            if args is None:
                return plugin(**more)
            return plugin(**args, **more) if isinstance(args, Mapping) else plugin(args, **more)
        except ConfigurationError as problem:
            raise ConfigurationError(
                *(_located(line, name, spec) for line in problem.problems)
            ) from problem
        # A constructor may raise anything, and a library in it may try to end the process.
        except (Exception, SystemExit) as problem:
            where = spec.paths.get(name, f"profile {spec.scheduler_name}")
            text = str(problem) or type(problem).__name__
            raise ConfigurationError(f"{where}: initializing plugin {name!r}: {text}") from problem


def _located(line: str, name: str, spec: ProfileSpec) -> str:
    """Prefix *line*, which begins with the wrong argument, with its path in the document."""
    where = spec.paths.get(name)
    if where is None:
        return f"profile {spec.scheduler_name}: {line}"
    return f"{where}.{line}" if _FIELD.match(line) else f"{where}: {line}"
