"""Prefer spot capacity for pods that can live with interruption."""

from scheduler import MAX_NODE_SCORE, NodeTable, Pod, Scores


class PreferSpot:
    name = "PreferSpot"

    def score(self, pod: Pod, nodes: NodeTable) -> Scores:
        return MAX_NODE_SCORE * nodes.labelled("lifecycle", "spot")
