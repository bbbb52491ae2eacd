"""Runs the score plugins of a profile, and adds up their scores.

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
    """Score every row of *nodes*; without score plugins every row scores 1, as upstream.

    Raises:
        PluginError: If a plugin fails, or scores outside 0 to 100.
    """
    if not profile.score:
        return Scored(np.ones(len(nodes), dtype=np.int64), ())
    totals = np.zeros(len(nodes), dtype=np.int64)
    by_plugin = []
    with observer.extension_point("Score"):
        for each in profile.score:
            name, weight = each.plugin.name, each.weight
            scores = call_plugin("Score", name, observer, _scores_of, each.plugin, pod, nodes)
            if scores is None:
                continue
            observer.evaluated("Score", name, len(nodes))
            raw, normalized = scores
            # No copy for weight 1, the usual one: it costs as much as a small plugin.
            weighted = normalized * weight if weight != 1 else normalized
            totals += weighted
            by_plugin.append(PluginScores(name, raw, normalized, weighted))
    return Scored(totals, tuple(by_plugin))


def _scores_of(plugin: ScorePlugin, pod: Pod, nodes: NodeTable) -> tuple[Scores, Scores] | None:
    """Return the scores of *plugin*, raw and normalized; None if it skips the pod.

    They are checked within the plugin's call, so that it is blamed for wrong ones.
    """
    raw = plugin.score(pod, nodes)
    if raw is None:
        return None
    check_scores(plugin.name, raw, len(nodes))
    return raw, normalized_scores_of(plugin, raw, pod, nodes)


def normalized_scores_of(plugin: ScorePlugin, raw: Scores, pod: Pod, nodes: NodeTable) -> Scores:
    """Return *raw* scores as *plugin* normalizes them, if it does, checked to be 0 to 100."""
    normalized = raw
    normalize = getattr(plugin, "normalize", None)
    if normalize is not None:
        normalized = normalize(raw, pod, nodes)
        check_scores(plugin.name, normalized, len(raw))
    if len(normalized):
        low, high = int(normalized.min()), int(normalized.max())
        if low < 0 or high > MAX_NODE_SCORE:
            raise PluginError(
                plugin.name,
                f"returns an invalid score {low if low < 0 else high}, it should in the range of "
                f"[0, {MAX_NODE_SCORE}] after normalizing",
            )
    return normalized


def check_scores(plugin: str, scores: object, rows: int) -> None:
    """Raise PluginError unless *scores* is one whole number a row."""
    if not isinstance(scores, np.ndarray) or scores.shape != (rows,):
        raise PluginError(plugin, f"did not answer with one score for each of {rows} rows")
    if scores.dtype != np.int64:
        raise PluginError(plugin, f"scored in {scores.dtype}, not in int64")
