"""Asks every filter about every node, whatever the others said: for explanations, not for speed.

The runner blames a node on the first plugin that refuses it, as upstream does. Who wants to know
what has to change before a node can take a pod needs to hear all of them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from scheduler.errors import PluginError
from scheduler.framework.diagnosis import Filtered, Verdict
from scheduler.framework.filtering import (
    PreFilterResult,
    filter_nodes,
    outside,
    run_pre_filters,
)
from scheduler.framework.observer import Observer
from scheduler.framework.plugin import FilterPlugin, PreFilterPlugin
from scheduler.framework.profile import Profile
from scheduler.framework.rejection import NodeMask
from scheduler.model.pod import Pod
from scheduler.snapshot.node_table import NodeTable


@dataclass(slots=True, eq=False)
class Objections:
    """What every plugin has against every node.

    Args:
        feasible: Rows that nobody objects to.
        verdicts: In the order of the plugins; several may be about one row.
        failed: What went wrong with plugins that could not be heard, by their names.
    """

    feasible: NodeMask
    verdicts: list[Verdict] = field(default_factory=list)
    failed: dict[str, str] = field(default_factory=dict)

    def take(self, verdict: Verdict) -> None:
        """Write *verdict* down, if it is about any row at all."""
        if verdict.nodes.any():
            self.verdicts.append(verdict)
            self.feasible = self.feasible & ~verdict.nodes


def ask_everyone(
    profile: Profile,
    pod: Pod,
    nodes: NodeTable,
    nominated: Mapping[int, Sequence[Pod]],
    observer: Observer,
) -> Objections:
    """Ask each plugin of *profile* by itself, so that none hides behind another."""
    found = Objections(np.ones(len(nodes), dtype=np.bool_))
    for verdict in _filter(profile, pod, nodes, nominated, observer, only=()).verdicts:
        found.take(verdict)  # nodes that are closed, whatever the plugins say
    heard: set[str] = set()
    for plugin in profile.pre_filter:
        if _take_pre_filter(found, plugin, pod, nodes, observer):
            heard.add(plugin.name)
    for filtering in profile.filter:
        if filtering.name in heard:
            continue
        try:
            filtered = _filter(profile, pod, nodes, nominated, observer, only=(filtering,))
        except PluginError as error:
            found.failed[filtering.name] = str(error)
            continue
        for verdict in filtered.verdicts:
            if verdict.plugin:
                found.take(verdict)
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


def _take_pre_filter(
    found: Objections, plugin: PreFilterPlugin, pod: Pod, nodes: NodeTable, observer: Observer
) -> bool:
    """Hear what *plugin* says before nodes are judged; tell whether that is all it has to say."""
    try:
        pre_filtered = run_pre_filters((plugin,), pod, nodes, observer)
    except PluginError as error:
        found.failed[plugin.name] = str(error)
        return True
    if pre_filtered.refused is not None:
        everywhere = np.ones(len(nodes), dtype=np.bool_)
        resolvable = everywhere & pre_filtered.refused.resolvable
        found.take(Verdict(plugin.name, pre_filtered.refused.reason, everywhere, resolvable))
    elif pre_filtered.only is not None:
        nowhere = np.zeros(len(nodes), dtype=np.bool_)
        found.take(Verdict(plugin.name, outside(pre_filtered), ~pre_filtered.only, nowhere))
    return pre_filtered.refused is not None or plugin.name in pre_filtered.skipped
