"""Prefers nodes that have the pod's images already, since they start it sooner.

Source: ``plugins/imagelocality/image_locality.go``.
"""

from collections import Counter
from typing import Final

import numpy as np

from scheduler.framework.rejection import MAX_NODE_SCORE, Scores
from scheduler.model.pod import Pod
from scheduler.snapshot.node_table import NodeTable

_MIB: Final = 1024 * 1024
# Upstream's minThreshold and maxContainerThreshold: what is pulled quickly does not count, and one
# huge image does not outweigh all others.
_BYTES_MIN: Final = 23 * _MIB
_BYTES_MAX_PER_CONTAINER: Final = 1000 * _MIB


class ImageLocality:
    """Scores nodes by the size of the pod's images that they have."""

    name = "ImageLocality"
    scores_by_row = True

    def score(self, pod: Pod, nodes: NodeTable) -> Scores:
        """Scale the size of the images present from 23 MiB to 1000 MiB for each container."""
        present = _bytes_present(pod, nodes)
        containers = len(pod.spec.init_containers) + len(pod.spec.containers)
        limit = max(_BYTES_MAX_PER_CONTAINER * containers, _BYTES_MIN + 1)
        np.clip(present, _BYTES_MIN, limit, out=present)
        return MAX_NODE_SCORE * (present - _BYTES_MIN) // (limit - _BYTES_MIN)


def _bytes_present(pod: Pod, nodes: NodeTable) -> Scores:
    """Sum the sizes of the pod's images on each node, scaled by the share of nodes with the image.

    An image on few nodes counts less, so that pods do not all go to those (upstream's
    scaledImageScore, "node heating problem").
    """
    present = np.zeros(len(nodes), dtype=np.int64)
    # The share is of all nodes: filters must not change the scores of the nodes they leave.
    all_nodes = len(nodes.cluster)
    for name, references in Counter(map(_normalized, pod.images)).items():
        image = nodes.image(name)
        if image is not None:
            size_bytes, count, rows = image
            # In floating point and in this order, as upstream, since the result is truncated.
            scaled = int(float(size_bytes) * (float(count) / float(all_nodes)))
            present += references * scaled * rows
    return present


def _normalized(image: str) -> str:
    """Add the default tag: kubelets report images with one."""
    return image if image.rfind(":") > image.rfind("/") else f"{image}:latest"
