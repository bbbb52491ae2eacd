"""Expands the plugins of a profile into one ordered list for each extension point.

Source: ``pkg/scheduler/framework/runtime/framework.go``, expandMultiPointPlugins and
getScoreWeights.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from scheduler.config.default_plugins import (
    ALL,
    REMOVED,
    UPSTREAM_POINTS,
    Available,
    defaults_among,
    merge,
    removed,
)
from scheduler.config.document import PluginEntry, Plugins, PluginSet
from scheduler.config.extension_point import Point
from scheduler.config.problems import Problems, child


@dataclass(frozen=True, slots=True)
class PluginRef:
    """A plugin at an extension point; the weight is 0 at points without scores."""

    name: str
    weight: int = 0


Lists = Mapping[Point, tuple[PluginRef, ...]]
"""The plugins of a profile by extension point, in the order of their calls."""


@dataclass(frozen=True, slots=True)
class Expansion:
    """Expands the plugins of one profile.

    Args:
        plugins: The ``plugins`` field of the profile.
        available: The extension points that each plugin of this build serves.
        path: The path of *plugins* in the document.
        problems: Receives what is wrong.
    """

    plugins: Plugins
    available: Available
    path: str
    problems: Problems

    def lists(self) -> Lists:
        """Return the plugins of every extension point; incomplete where there are problems."""
        everywhere = merge(defaults_among(self.available), self.plugins.multi_point)
        self._check_names()
        lists = {point: self._at(point, everywhere) for point in Point}
        weighted = tuple(self._weigh(name, everywhere) for name in lists.pop(Point.SCORE))
        assert {*lists, Point.SCORE} == {*Point}
        return {
            point: weighted if point is Point.SCORE else tuple(map(PluginRef, lists[point]))
            for point in Point
        }

    def unserved(self) -> list[str]:
        """Return the paths of entries at a point that the plugin serves upstream and not here."""
        return [
            f"{self._entry(point.field, index)} ({entry.name})"
            for point in Point
            for index, entry in enumerate(self.plugins.at(point).enabled)
            if self._served_elsewhere(entry.name, point)
        ]

    def _at(self, point: Point, everywhere: tuple[PluginEntry, ...]) -> list[str]:
        entries = self.plugins.at(point)
        explicit = self._explicit(point, entries)
        disabled = {entry.name for entry in entries.disabled}
        if ALL in disabled:
            return explicit
        here = [
            entry.name
            for entry in everywhere
            if point in self._points(entry.name) and entry.name not in disabled
        ]
        overridden = [name for name in explicit if name in here]
        inherited = [name for name in here if name not in explicit]
        self._check_unique(inherited, point)
        others = [name for name in explicit if name not in here]
        return [*overridden, *dict.fromkeys(inherited), *others]

    def _explicit(self, point: Point, entries: PluginSet) -> list[str]:
        names: list[str] = []
        for index, entry in enumerate(entries.enabled):
            where = self._entry(point.field, index)
            if not self._known(entry.name) or self._served_elsewhere(entry.name, point):
                continue
            if point not in self._points(entry.name):
                text = f"plugin {entry.name!r} does not extend {point.plugin_type} plugin"
                self.problems.add(where, f"{text}; list it where it works, or under multiPoint")
            elif entry.name in names:
                self.problems.add(where, _twice(entry.name, point))
            else:
                names.append(entry.name)
        return names

    def _weigh(self, name: str, everywhere: tuple[PluginEntry, ...]) -> PluginRef:
        """Return *name* with its weight; the one under score has precedence over multiPoint's."""
        entries = (*self.plugins.score.enabled, *everywhere)
        return PluginRef(name, next(e.weight for e in entries if e.name == name) or 1)

    def _check_names(self) -> None:
        for field, point in (("multiPoint", None), *((p.field, p) for p in Point)):
            entries = self.plugins.multi_point if point is None else self.plugins.at(point)
            for index, entry in enumerate(entries.enabled):
                self._check_entry(entry, self._entry(field, index), point)

    def _check_entry(self, entry: PluginEntry, where: str, point: Point | None) -> None:
        kind = point.plugin_type if point else "Plugin"
        if not entry.name:
            self.problems.add(child(where, "name"), "must be given")
        elif entry.name in REMOVED:
            self.problems.add(where, removed(entry.name))
        elif not self._known(entry.name):
            self.problems.add(where, f'{kind} "{entry.name}" does not exist{_hint(entry.name)}')
        if entry.weight < 0:
            self.problems.add(child(where, "weight"), f"must not be negative, got {entry.weight}")

    def _check_unique(self, names: list[str], point: Point) -> None:
        for name in {name for name in names if names.count(name) > 1}:
            indexes = [i for i, e in enumerate(self.plugins.multi_point.enabled) if e.name == name]
            self.problems.add(self._entry("multiPoint", indexes[-1]), _twice(name, point))

    def _known(self, name: str) -> bool:
        return name in self.available

    def _points(self, name: str) -> frozenset[Point]:
        return self.available.get(name, frozenset())

    def _served_elsewhere(self, name: str, point: Point) -> bool:
        """Tell whether upstream's plugin serves *point* while ours does that work elsewhere."""
        return (
            self._known(name)
            and point not in self._points(name)
            and point in UPSTREAM_POINTS.get(name, frozenset())
        )

    def _entry(self, field: str, index: int) -> str:
        return f"{child(self.path, field)}.enabled[{index}]"


def _twice(name: str, point: Point) -> str:
    return f'plugin "{name}" already registered as "{point.plugin_type}"; list it once'


def _hint(name: str) -> str:
    if name in UPSTREAM_POINTS:
        return "; kube-scheduler has it, this build does not: remove it"
    if ":" in name:
        return "; is the module installed beside the scheduler, and does it hold that class?"
    return "; check the spelling, or install what brings it"
