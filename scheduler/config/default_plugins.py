"""The plugins that are enabled by default: those of kube-scheduler 1.36, and two of ours.

Source: ``pkg/scheduler/apis/config/v1/default_plugins.go``.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from scheduler.config.document import API_VERSION, PluginEntry, PluginSet
from scheduler.config.extension_point import Point

ALL: Final = "*"

Available = Mapping[str, frozenset[Point]]
"""The points that each plugin of this build serves, by plugin name."""


@dataclass(frozen=True, slots=True)
class DefaultPlugin:
    """A plugin that is enabled by default, and the extension points that it serves upstream."""

    name: str
    weight: int
    points: frozenset[Point]


def _default(name: str, points: str, weight: int = 0) -> DefaultPlugin:
    return DefaultPlugin(name, weight, frozenset(Point(point) for point in points.split()))


DEFAULT_PLUGINS: Final = (
    _default("SchedulingGates", "pre_enqueue"),
    _default("PrioritySort", "queue_sort"),
    _default("NodeUnschedulable", "filter"),
    _default("NodeName", "filter"),
    _default("TaintToleration", "filter pre_score score", weight=3),
    _default("NodeAffinity", "pre_filter filter pre_score score", weight=2),
    _default("NodePorts", "pre_filter filter"),
    _default("NodeResourcesFit", "pre_filter filter pre_score score placement_score", weight=1),
    _default("VolumeRestrictions", "pre_filter filter"),
    _default("NodeVolumeLimits", "pre_filter filter"),
    _default("VolumeBinding", "pre_filter filter pre_score score reserve pre_bind"),
    _default("VolumeZone", "pre_filter filter"),
    _default("PodTopologySpread", "pre_filter filter pre_score score", weight=2),
    _default("InterPodAffinity", "pre_filter filter pre_score score", weight=2),
    _default(
        "DynamicResources",
        "pre_enqueue pre_filter filter post_filter score reserve pre_bind",
        weight=2,
    ),
    _default("DefaultPreemption", "pre_enqueue post_filter"),
    _default("NodeResourcesBalancedAllocation", "pre_score score", weight=1),
    _default("ImageLocality", "score", weight=1),
    _default("DefaultBinder", "bind"),
    _default("NodeDeclaredFeatures", "pre_filter filter"),
)

OWN_PLUGINS: Final = (
    _default("UnsupportedFeatures", "pre_filter"),
    _default("NodeTrust", "pre_filter filter"),
)
"""Plugins that kube-scheduler does not have.

They run first: what one of them rejects, no eviction can help, so no other plugin needs to judge
it.
"""

UPSTREAM_POINTS: Final[Available] = MappingProxyType(
    {plugin.name: plugin.points for plugin in DEFAULT_PLUGINS}
)
"""The extension points that the plugins serve in kube-scheduler; here some need fewer."""

BUILT_IN: Final[Available] = MappingProxyType({"DefaultBinder": frozenset({Point.BIND})})
"""The scheduler binds without a plugin, but documents may still name DefaultBinder."""

REMOVED: Final = frozenset({"AzureDiskLimits", "CinderLimits", "EBSLimits", "GCEPDLimits"})
"""Plugins of older versions that NodeVolumeLimits replaces."""


def removed(name: str) -> str:
    """Return the message about the plugin *name* of older versions."""
    reason = f'was invalid in version "{API_VERSION}" (KubeSchedulerConfiguration is version'
    return f'{name} {reason} "{API_VERSION}"); remove it, NodeVolumeLimits does its work'


def merge(defaults: tuple[PluginEntry, ...], custom: PluginSet) -> tuple[PluginEntry, ...]:
    """Merge the multiPoint plugins of a profile into the *defaults*, as upstream.

    A default that is enabled again keeps its position and takes the new weight, even 0; other
    entries follow in order. One that is both disabled and enabled goes to the end. Duplicates
    remain, and the expansion rejects them.
    """
    disabled = {entry.name for entry in custom.disabled}
    again = {entry.name: index for index, entry in enumerate(custom.enabled)}
    kept = [] if ALL in disabled else [e for e in defaults if e.name not in disabled]
    merged = [custom.enabled[again[e.name]] if e.name in again else e for e in kept]
    replaced = {again[entry.name] for entry in kept if entry.name in again}
    rest = [entry for index, entry in enumerate(custom.enabled) if index not in replaced]
    return (*merged, *rest)


def defaults_among(available: Available) -> tuple[PluginEntry, ...]:
    """Return the default plugins that this build has, in order."""
    plugins = (*OWN_PLUGINS, *DEFAULT_PLUGINS)
    return tuple(PluginEntry(p.name, p.weight) for p in plugins if p.name in available)


def missing_among(available: Available) -> tuple[str, ...]:
    """Return the default plugins that this build does not have, in order."""
    return tuple(plugin.name for plugin in DEFAULT_PLUGINS if plugin.name not in available)
