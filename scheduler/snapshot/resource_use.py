"""How much of a resource is in use on each node, as scores see it.

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
        allocatable: What pods may request in all; a node with 0 does not count for the resource.
        requested: What the node's pods request.
        incoming: What the incoming pod would add.
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
    """Return the use of *resource*; None where it does not count for a pod with *requests*.

    Only pods that ask for a scalar resource, a device mostly, are scored by it.

    Args:
        nodes: The nodes.
        resource: The resource's name.
        requests: What the incoming pod requests.
        with_defaults: Whether pods without a request for cpu or memory are taken to use some.
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
