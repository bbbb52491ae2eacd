"""Nodes that hold the pod's images already start it sooner.

Source: ``plugins/imagelocality/image_locality.go``.
"""

from collections import Counter
from typing import Final

import numpy as np

from scheduler.framework.rejection import MAX_NODE_SCORE, Scores
from scheduler.model.pod import Pod
from scheduler.snapshot.node_table import NodeTable

_MIB: Final = 1024 * 1024
_BYTES_MIN: Final = 23 * _MIB
_BYTES_MAX_PER_CONTAINER: Final = 1000 * _MIB


class ImageLocality:
    """Ranks nodes by how many bytes of the pod's images they hold."""

    name = "ImageLocality"

    def score(self, pod: Pod, nodes: NodeTable) -> Scores:
        """Scale the bytes held, of rare images less, from 23 MiB up to 1000 MiB a container."""
        held = _bytes_held(pod, nodes)
        containers = len(pod.spec.init_containers) + len(pod.spec.containers)
        limit = max(_BYTES_MAX_PER_CONTAINER * containers, _BYTES_MIN + 1)
        np.clip(held, _BYTES_MIN, limit, out=held)
        return MAX_NODE_SCORE * (held - _BYTES_MIN) // (limit - _BYTES_MIN)


def _bytes_held(pod: Pod, nodes: NodeTable) -> Scores:
    """Sum the sizes of the images on each node, each scaled by the share of nodes that hold it.

    An image that few nodes hold counts less, so that pods do not all heap up on those.
    """
    held = np.zeros(len(nodes), dtype=np.int64)
    everywhere = len(nodes.cluster)
    for name, references in Counter(map(_normalized, pod.images)).items():
        image = nodes.image(name)
        if image is not None:
            size_bytes, holders, holding = image
            scaled = int(float(size_bytes) * (float(holders) / float(everywhere)))
            held += references * scaled * holding
    return held


def _normalized(image: str) -> str:
    """Add the tag that an image without one has."""
    return image if image.rfind(":") > image.rfind("/") else f"{image}:latest"
