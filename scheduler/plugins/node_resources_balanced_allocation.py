"""Prefers nodes whose resources are used evenly.

Source: ``plugins/noderesources/balanced_allocation.go``. The order of the floating point operations
is upstream's: scores are truncated, so another order would give other scores.
"""

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from scheduler.config.plugin_args import NodeResourcesBalancedAllocationArgs, ResourceSpec
from scheduler.errors import ConfigurationError
from scheduler.framework.rejection import MAX_NODE_SCORE, Scores
from scheduler.model.pod import Pod
from scheduler.snapshot.node_table import NodeTable
from scheduler.snapshot.resource_use import ResourceUse, use_of

Floats = NDArray[np.float64]


class NodeResourcesBalancedAllocation:
    """Scores nodes by how much more evenly their resources are used with the pod.

    Args:
        args: The resources that count; all have the same weight.
    """

    name = "NodeResourcesBalancedAllocation"
    node_local = True

    def __init__(
        self,
        args: NodeResourcesBalancedAllocationArgs = NodeResourcesBalancedAllocationArgs(),  # noqa: B008 - frozen
    ) -> None:
        if problems := tuple(_problems(args.resources)):
            raise ConfigurationError(*problems)
        self._resources = tuple(resource.name for resource in args.resources)

    def score(self, pod: Pod, nodes: NodeTable) -> Scores | None:
        """Compare each node with and without *pod*; 75 if nothing changes.

        Pods that request none of the resources are skipped (upstream: isBestEffortPod): they would
        score 75 everywhere.
        """
        requests = pod.placed_requests
        if not any(requests.get(name, 0) for name in self._resources):
            return None
        found = (use_of(nodes, name, requests, with_defaults=False) for name in self._resources)
        uses = [use for use in found if use is not None]
        has = [use.allocatable != 0 for use in uses]
        if all(mask.all() for mask in has):
            return _improvement(uses, len(nodes))
        return _by_resources_had(uses, has, len(nodes))


def _by_resources_had(
    uses: Sequence[ResourceUse], has: Sequence[NDArray[np.bool_]], rows: int
) -> Scores:
    """Score nodes with different resources separately: a resource that a node lacks is left out."""
    # One bit for each resource: nodes of one kind have the same resources.
    kind = np.zeros(rows, dtype=np.int64)
    for bit, mask in enumerate(has):
        kind |= mask.astype(np.int64) << bit
    scores = np.zeros(rows, dtype=np.int64)
    for number in np.unique(kind).tolist():
        alike = kind == number
        had = [use.at(alike) for bit, use in enumerate(uses) if number >> bit & 1]
        scores[alike] = _improvement(had, int(alike.sum()))
    return scores


def _improvement(uses: Sequence[ResourceUse], rows: int) -> Scores:
    """Turn the change in evenness, from -100 to 100, into a score; no change is 75."""
    after = _evenness([(use.requested + use.incoming) / use.allocatable for use in uses], rows)
    before = _evenness([use.requested / use.allocatable for use in uses], rows)
    return 50 + (50 + after - before) // 2


def _evenness(fractions: Sequence[Floats], rows: int) -> Scores:
    """Return 100 if all *fractions* are equal, and less the more they deviate."""
    # In place: the arrays were computed for this call, and a cluster has many nodes.
    for fraction in fractions:
        np.minimum(fraction, 1.0, out=fraction)
    if len(fractions) < 2:
        return np.full(rows, MAX_NODE_SCORE, dtype=np.int64)
    even = 1 - _deviation(fractions)
    return (even * MAX_NODE_SCORE).astype(np.int64)


def _deviation(fractions: Sequence[Floats]) -> Floats:
    if len(fractions) == 2:
        # Upstream takes this short way for two resources; the general one rounds differently.
        return np.abs((fractions[0] - fractions[1]) / 2)
    mean = _sum(fractions) / len(fractions)
    squares = _sum([(fraction - mean) * (fraction - mean) for fraction in fractions])
    return np.sqrt(squares / len(fractions))


def _sum(terms: Sequence[Floats]) -> Floats:
    """Add from the first to the last: the order decides how the result is rounded."""
    total = terms[0].copy()
    for term in terms[1:]:
        total += term
    return total


def _problems(resources: Sequence[ResourceSpec]) -> Iterator[str]:
    if not resources:
        yield "resources: must name at least one resource"
    names = [resource.name for resource in resources]
    for index, resource in enumerate(resources):
        if resource.weight not in {0, 1}:
            yield f"resources[{index}].weight: must be 1, got {resource.weight}"
        if resource.name in names[:index]:
            yield f"resources[{index}].name: {resource.name} is listed twice"
