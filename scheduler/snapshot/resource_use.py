"""How much of a resource is in use on each node, as resource scores count it.

Source: ``plugins/noderesources/resource_allocation.go``.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from scheduler.model.resources import CPU, EPHEMERAL_STORAGE, MEMORY, Amounts, is_scalar
from scheduler.snapshot.arrays import Int64s
from scheduler.snapshot.count_column import COUNT_MAXIMUM
from scheduler.snapshot.node_table import NodeTable

ALWAYS_COUNTED: Final = frozenset((CPU, MEMORY, EPHEMERAL_STORAGE))
_WITH_DEFAULTS: Final = frozenset((CPU, MEMORY))


@dataclass(frozen=True, slots=True, eq=False)
class ResourceUse:
    """One resource on every node.

    Args:
        allocatable: How much pods may request in total; a node with 0 lacks the resource.
        requested: How much the node's pods request.
        incoming: How much the incoming pod would add.
    """

    allocatable: Int64s
    requested: Int64s
    incoming: int

    def at(self, rows: NDArray[np.bool_]) -> "ResourceUse":
        """Return the same for some *rows*."""
        return ResourceUse(self.allocatable[rows], self.requested[rows], self.incoming)


def use_of(
    nodes: NodeTable, resource: str, requests: Amounts, *, with_defaults: bool
) -> ResourceUse | None:
    """Return the use of *resource*; None if it does not count for a pod with *requests*.

    A scalar resource, mostly a device, counts only for pods that request it: pods without a GPU
    would otherwise be scored by how free the GPUs are.

    Args:
        nodes: The nodes.
        resource: The resource's name.
        requests: What the incoming pod requests.
        with_defaults: Whether pods without a request for cpu or memory count with a default.
    """
    incoming = requests.get(resource, 0)
    if resource not in ALWAYS_COUNTED and not (incoming and is_scalar(resource)):
        return None
    requested = (
        nodes.nonzero_requested(resource)
        if with_defaults and resource in _WITH_DEFAULTS
        else nodes.requested(resource)
    )
    # No node has this much, and the sum of both stays within int64.
    return ResourceUse(nodes.allocatable(resource), requested, min(incoming, COUNT_MAXIMUM))
