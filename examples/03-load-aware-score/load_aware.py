"""Prefer nodes with low CPU usage, whatever their pods request.

metrics-server writes each node's usage into a NodeMetrics of the same name; ``kubectl top nodes``
shows it. NodeMetrics can be listed but not watched. The scheduler lists them every fifteen seconds,
because the plugin's ``needs`` names them.
"""

import numpy as np

from scheduler import MAX_NODE_SCORE, NodeTable, Pod, Scores

# Plural, version and group; the kind is NodeMetrics.
METRICS = "nodes.v1beta1.metrics.k8s.io"
_MILLI_IN = {"n": 1_000_000, "u": 1_000, "m": 1}


def parse_milli_cpu(quantity: str) -> int:
    """Parse what metrics-server writes: ``250m``, ``17261527n`` or ``2``."""
    unit = quantity[-1]
    return int(quantity[:-1]) // _MILLI_IN[unit] if unit in _MILLI_IN else int(quantity) * 1000


class LoadAware:
    """Scores the share of CPU that is idle.

    Args:
        unknown: The score of a node without metrics; the default is that of a node at half load.
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
