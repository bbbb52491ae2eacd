"""Prefer nodes that are idle in fact, whatever their pods have requested.

What a node is doing stands in its NodeMetrics (``kubectl top nodes`` shows the same): written by
metrics-server, named after the node. That resource can only be listed, not watched; the scheduler
lists it every fifteen seconds, since the plugin needs it, and nobody else has to know.
"""

import numpy as np

from scheduler import MAX_NODE_SCORE, NodeTable, Pod, Scores

# Plural, version and group, as the API server lists it; the kind is NodeMetrics.
METRICS = "nodes.v1beta1.metrics.k8s.io"
_MILLI_IN = {"n": 1_000_000, "u": 1_000, "m": 1}


def parse_milli_cpu(quantity: str) -> int:
    """Read what metrics-server writes: ``250m``, ``17261527n`` or ``2``."""
    unit = quantity[-1]
    return int(quantity[:-1]) // _MILLI_IN[unit] if unit in _MILLI_IN else int(quantity) * 1000


class LoadAware:
    """Scores the share of cpu that is idle.

    Args:
        unknown: The score of a node without metrics: by default as good as one half busy.
    """

    name = "LoadAware"
    needs = (METRICS,)

    def __init__(self, unknown: int = 50) -> None:
        self.unknown = unknown

    def score(self, pod: Pod, nodes: NodeTable) -> Scores:
        metrics = nodes.objects.custom(METRICS)
        capacity = np.maximum(nodes.allocatable("cpu"), 1)
        used = np.array(
            [
                parse_milli_cpu(metrics[name].content["usage"]["cpu"]) if name in metrics else -1
                for name in nodes.names
            ],
            dtype=np.int64,
        )
        idle = np.clip(MAX_NODE_SCORE - MAX_NODE_SCORE * used // capacity, 0, MAX_NODE_SCORE)
        return np.where(used < 0, self.unknown, idle)
