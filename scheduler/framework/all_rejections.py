"""Runs every filter on every node, for explanations: all reasons against a node, not the first one.

`filtering` blames a node on the first plugin that rejects it, as upstream does. To see what has to
change before a node can take a pod, an operator needs the reasons of all plugins.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from scheduler.errors import PluginError
from scheduler.framework.diagnosis import Filtered, Verdict
from scheduler.framework.filtering import PreFilterResult, filter_nodes, outside, run_pre_filters
from scheduler.framework.observer import Observer
from scheduler.framework.plugin import FilterPlugin, PreFilterPlugin
from scheduler.framework.profile import Profile
from scheduler.framework.rejection import NodeMask
from scheduler.model.pod import Pod
from scheduler.snapshot.node_table import NodeTable


@dataclass(slots=True, eq=False)
class AllRejections:
    """Every plugin's reasons against every node.

    Args:
        feasible: Rows that no plugin rejects.
        verdicts: In the order of the plugins; several may be about one row.
        failed: The errors of plugins that failed, by plugin name.
    """

    feasible: NodeMask
    verdicts: list[Verdict] = field(default_factory=list)
    failed: dict[str, str] = field(default_factory=dict)

    def add(self, verdict: Verdict) -> None:
        """Add *verdict*, unless it concerns no row."""
        assert verdict.nodes.shape == self.feasible.shape, "a verdict about another table"
        if verdict.nodes.any():
            self.verdicts.append(verdict)
            self.feasible = self.feasible & ~verdict.nodes


def find_all_rejections(
    profile: Profile,
    pod: Pod,
    nodes: NodeTable,
    nominated: Mapping[int, Sequence[Pod]],
    observer: Observer,
) -> AllRejections:
    """Run each plugin of *profile* by itself, so that no rejection hides another."""
    found = AllRejections(np.ones(len(nodes), dtype=np.bool_))
    for verdict in _filter(profile, pod, nodes, nominated, observer, only=()).verdicts:
        found.add(verdict)  # the closed rows: their node, or a pod on it, is malformed
    done: set[str] = set()
    for plugin in profile.pre_filter:
        if _add_pre_filter(found, plugin, pod, nodes, observer):
            done.add(plugin.name)
    for filtering in profile.filter:
        if filtering.name in done:
            continue
        try:
            filtered = _filter(profile, pod, nodes, nominated, observer, only=(filtering,))
        except PluginError as error:
            found.failed[filtering.name] = str(error)
            continue
        for verdict in filtered.verdicts:
            if verdict.plugin:
                found.add(verdict)
    return found


def _filter(
    profile: Profile,
    pod: Pod,
    nodes: NodeTable,
    nominated: Mapping[int, Sequence[Pod]],
    observer: Observer,
    *,
    only: tuple[FilterPlugin, ...],
) -> Filtered:
    alone = replace(profile, filter=only)
    return filter_nodes(alone, PreFilterResult(), pod, nodes, nominated, observer)


def _add_pre_filter(
    found: AllRejections, plugin: PreFilterPlugin, pod: Pod, nodes: NodeTable, observer: Observer
) -> bool:
    """Add the rejections of *plugin*'s pre-filter; return whether its filter is skipped."""
    try:
        pre_filtered = run_pre_filters((plugin,), pod, nodes, observer)
    except PluginError as error:
        found.failed[plugin.name] = str(error)
        return True
    if pre_filtered.refused is not None:
        everywhere = np.ones(len(nodes), dtype=np.bool_)
        resolvable = everywhere & pre_filtered.refused.resolvable
        found.add(Verdict(plugin.name, pre_filtered.refused.reason, everywhere, resolvable))
    elif pre_filtered.only is not None:
        nowhere = np.zeros(len(nodes), dtype=np.bool_)
        found.add(Verdict(plugin.name, outside(pre_filtered), ~pre_filtered.only, nowhere))
    return pre_filtered.refused is not None or plugin.name in pre_filtered.skipped
