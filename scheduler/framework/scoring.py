"""Asks the score plugins of a profile, and adds up what they say.

Source: ``framework/runtime/framework.go`` (RunScorePlugins).
"""

from dataclasses import dataclass

import numpy as np

from scheduler.errors import PluginError
from scheduler.framework.invoke import call_plugin
from scheduler.framework.observer import Observer
from scheduler.framework.plugin import ScorePlugin
from scheduler.framework.profile import Profile
from scheduler.framework.rejection import MAX_NODE_SCORE, Scores
from scheduler.model.pod import Pod
from scheduler.snapshot.node_table import NodeTable


@dataclass(frozen=True, slots=True, eq=False)
class PluginScores:
    """One plugin's scores: as it gave them, from 0 to 100, and with its weight."""

    plugin: str
    raw: Scores
    normalized: Scores
    weighted: Scores


@dataclass(frozen=True, slots=True, eq=False)
class Scored:
    """Every plugin's scores and their sum, one value a row."""

    totals: Scores
    by_plugin: tuple[PluginScores, ...]


def score_nodes(profile: Profile, pod: Pod, nodes: NodeTable, observer: Observer) -> Scored:
    """Score every row of *nodes*; without score plugins all rows are worth 1.

    Raises:
        PluginError: If a plugin fails, or scores outside 0 to 100.
    """
    if not profile.score:
        return Scored(np.ones(len(nodes), dtype=np.int64), ())
    totals = np.zeros(len(nodes), dtype=np.int64)
    found = []
    with observer.extension_point("Score"):
        for each in profile.score:
            scores = _scores_of(each.plugin, each.weight, pod, nodes, observer)
            if scores is not None:
                totals += scores.weighted
                found.append(scores)
    return Scored(totals, tuple(found))


def _scores_of(
    plugin: ScorePlugin, weight: int, pod: Pod, nodes: NodeTable, observer: Observer
) -> PluginScores | None:
    found = call_plugin("Score", plugin.name, observer, _raw_and_normalized, plugin, pod, nodes)
    if found is None:
        return None
    observer.asked("Score", plugin.name, len(nodes))
    raw, normalized = found
    return PluginScores(
        plugin.name, raw, normalized, normalized * weight if weight != 1 else normalized
    )


def _raw_and_normalized(
    plugin: ScorePlugin, pod: Pod, nodes: NodeTable
) -> tuple[Scores, Scores] | None:
    """Return what *plugin* says; it is checked while it is the plugin's turn."""
    raw = plugin.score(pod, nodes)
    if raw is None:
        return None
    _check_shape(plugin.name, raw, len(nodes))
    normalize = getattr(plugin, "normalize", None)
    normalized = raw if normalize is None else normalize(raw, pod, nodes)
    _check_shape(plugin.name, normalized, len(nodes))
    _check_range(plugin.name, normalized)
    return raw, normalized


def _check_shape(plugin: str, scores: object, rows: int) -> None:
    if not isinstance(scores, np.ndarray) or scores.shape != (rows,):
        raise PluginError(plugin, f"did not answer with one score for each of {rows} rows")
    if scores.dtype != np.int64:
        raise PluginError(plugin, f"scored in {scores.dtype}, not in int64")


def _check_range(plugin: str, scores: Scores) -> None:
    if not len(scores):
        return
    low, high = int(scores.min()), int(scores.max())
    if low < 0 or high > MAX_NODE_SCORE:
        bad = low if low < 0 else high
        raise PluginError(
            plugin,
            f"returns an invalid score {bad}, it should in the range of [0, {MAX_NODE_SCORE}] "
            "after normalizing",
        )
