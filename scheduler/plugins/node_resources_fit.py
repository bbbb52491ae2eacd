"""Nodes need enough unrequested resources for a pod, and are scored by what is left.

Source: ``plugins/noderesources/`` (fit.go, least_allocated.go, most_allocated.go,
requested_to_capacity_ratio.go) and ``plugins/helper/shape_score.go``. Extended resources that the
DRA API backs with devices are compared like any other.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from typing import Final

import numpy as np

from scheduler.config.plugin_args import (
    LEAST_ALLOCATED,
    MOST_ALLOCATED,
    REQUESTED_TO_CAPACITY_RATIO,
    NodeResourcesFitArgs,
    ScoringStrategy,
    ShapePoint,
)
from scheduler.errors import ConfigurationError
from scheduler.framework.cluster_event import NODE, POD, Action, Change, ClusterEvent, Requeue
from scheduler.framework.rejection import MAX_NODE_SCORE, Rejection, Scores
from scheduler.model.node import Node
from scheduler.model.pod import Pod
from scheduler.model.resources import CPU, EPHEMERAL_STORAGE, MEMORY, Amounts, is_extended
from scheduler.snapshot.arrays import Int64s
from scheduler.snapshot.node_table import NodeTable
from scheduler.snapshot.resource_use import use_of

# Upstream compares these first (fitsRequest): reasons appear in that order.
_FIRST: Final = (CPU, MEMORY, EPHEMERAL_STORAGE)
_STRATEGIES: Final = (LEAST_ALLOCATED, MOST_ALLOCATED, REQUESTED_TO_CAPACITY_RATIO)
_TOP_SHAPE_SCORE: Final = 10
_MULTIPLIED_MAXIMUM: Final = (2**63 - 1) // MAX_NODE_SCORE
"""The largest amount that fits int64 when multiplied by MAX_NODE_SCORE."""

Rate = Callable[[Int64s, Int64s], Scores]
"""Turns the requested and the allocatable amount of one resource into a score of 0 to 100."""

Rated = tuple[Scores, Int64s | int]
"""The scores for one resource, and their weight: one for all rows, or one for each."""


class NodeResourcesFit:
    """Rejects nodes with too little left for the pod, and scores the others by what is left.

    Args:
        args: Resources to ignore, and the scoring strategy.
    """

    name = "NodeResourcesFit"
    node_local = True

    def __init__(self, args: NodeResourcesFitArgs = NodeResourcesFitArgs()) -> None:  # noqa: B008 - frozen
        if problems := tuple(_problems(args)):
            raise ConfigurationError(*problems)
        self._ignored = frozenset(args.ignored_resources)
        self._ignored_groups = frozenset(args.ignored_resource_groups)
        strategy = args.scoring_strategy
        self._resources = strategy.resources
        self._by_shape = strategy.type == REQUESTED_TO_CAPACITY_RATIO
        self._rate = _rating(strategy)
        self.requeue_on = (
            Requeue(ClusterEvent(POD, Action.DELETE | Action.UPDATE_POD_SCALE_DOWN), _pod_freed),
            Requeue(ClusterEvent(NODE, Action.ADD | Action.UPDATE_NODE_ALLOCATABLE), _node_grew),
        )

    def filter(self, pod: Pod, nodes: NodeTable) -> Iterator[Rejection]:
        """Reject nodes with too many pods, then nodes that lack a resource, by resource.

        Preemption cannot help where even the allocatable amount is too small. A resource that *pod*
        does not request never rejects, however overcommitted the node is.
        """
        full = nodes.pod_count >= nodes.allowed_pods
        if full.any():
            yield Rejection(full, "Too many pods")
        for resource, request in self._compared(pod.requests):
            allocatable = nodes.allocatable(resource)
            short = request > allocatable - nodes.requested(resource)
            if short.any():
                large_enough = request <= allocatable
                yield Rejection(short, f"Insufficient {resource}", resolvable=large_enough)

    def score(self, pod: Pod, nodes: NodeTable) -> Scores:
        """Score the use of each resource with *pod* on the node, and return the weighted mean."""
        mean = _rounded_mean_of_nonzero if self._by_shape else _mean
        return mean(list(self._rated(pod, nodes)), len(nodes))

    def _rated(self, pod: Pod, nodes: NodeTable) -> Iterator[Rated]:
        """Score each resource that counts for *pod*; on a node without it, its weight is 0."""
        for resource in self._resources:
            use = use_of(nodes, resource.name, pod.scored_requests, with_defaults=True)
            if use is None:
                continue
            # Upstream's defaulting turns a weight of 0 into 1.
            weight = resource.weight or 1
            requested = use.requested + use.incoming
            has = use.allocatable > 0
            if has.all():
                yield self._rate(requested, use.allocatable), weight
            else:
                yield self._rate(requested, np.where(has, use.allocatable, 1)), weight * has

    def _compared(self, requests: Amounts) -> Iterator[tuple[str, int]]:
        """Yield the requests to compare with the nodes, in the order of upstream's reasons."""
        for name in _FIRST:
            if requests.get(name, 0) > 0:
                yield name, requests[name]
        for name, amount in requests.items():
            if amount > 0 and name not in _FIRST and not self._is_ignored(name):
                yield name, amount

    def _is_ignored(self, name: str) -> bool:
        group = name.partition("/")[0]
        return is_extended(name) and (name in self._ignored or group in self._ignored_groups)


# Scoring strategies.


def _rate_least(requested: Int64s, allocatable: Int64s) -> Scores:
    """Return the free share; 0 if more is requested than allocatable."""
    free = allocatable - requested
    np.maximum(free, 0, out=free)
    return _percentage(free, allocatable)


def _rate_most(requested: Int64s, allocatable: Int64s) -> Scores:
    """Return the used share; 100 if more is requested than allocatable."""
    return _percentage(np.minimum(requested, allocatable), allocatable)


def _percentage(part: Int64s, whole: Int64s) -> Scores:
    """Return *part* of *whole* in percent, truncated; *part* is overwritten.

    Upstream multiplies in int64 and wraps around if the amount is too large; here such amounts are
    computed exactly, in Python's integers.
    """
    assert part.dtype == whole.dtype == np.int64, f"{part.dtype} of {whole.dtype}"
    assert part.shape == whole.shape, f"{part.shape} amounts of {whole.shape}"
    large = (part > _MULTIPLIED_MAXIMUM).nonzero()[0]
    exact = [
        MAX_NODE_SCORE * some // all_of_it
        for some, all_of_it in zip(part[large].tolist(), whole[large].tolist(), strict=True)
    ]
    part *= MAX_NODE_SCORE
    part //= whole
    part[large] = exact
    return part


def _rating(strategy: ScoringStrategy) -> Rate:
    if strategy.type == REQUESTED_TO_CAPACITY_RATIO:
        return _rate_by(_shape_of(strategy))
    return _rate_least if strategy.type == LEAST_ALLOCATED else _rate_most


def _rate_by(shape: Sequence[ShapePoint]) -> Rate:
    """Return a function that scores by *shape*, which is tabulated for 0 to 100 percent."""
    curve = np.array([_score_on(shape, percent) for percent in range(101)], dtype=np.int64)

    def rate(requested: Int64s, allocatable: Int64s) -> Scores:
        return curve[_rate_most(requested, allocatable)]

    return rate


def _score_on(shape: Sequence[ShapePoint], percent: int) -> int:
    """Interpolate between the points of *shape*; division truncates as Go's does."""
    scale = MAX_NODE_SCORE // _TOP_SHAPE_SCORE
    index = bisect_left(shape, percent, key=lambda point: point.utilization)
    if index in {0, len(shape)}:
        return shape[min(index, len(shape) - 1)].score * scale
    left, right = shape[index - 1], shape[index]
    rise = (right.score - left.score) * scale * (percent - left.utilization)
    width = right.utilization - left.utilization
    return left.score * scale + (rise // width if rise >= 0 else -(-rise // width))


def _mean(rated: Sequence[Rated], rows: int) -> Scores:
    """Return the weighted mean, truncated; 0 if no resource counts."""
    weights: Int64s | int = sum(weight for _, weight in rated)
    total = np.zeros(rows, dtype=np.int64)
    for scores, weight in rated:
        total += scores if isinstance(weight, int) and weight == 1 else scores * weight
    if isinstance(weights, int):
        return total // max(weights, 1)
    return total // np.maximum(weights, 1)


def _rounded_mean_of_nonzero(rated: Sequence[Rated], rows: int) -> Scores:
    """Return the weighted mean of the scores above 0, rounded; 0 if there is none.

    Only this strategy leaves out scores of 0 and rounds (buildRequestedToCapacityRatioScorer).
    """
    total, weights = np.zeros(rows, dtype=np.int64), np.zeros(rows, dtype=np.int64)
    for scores, weight in rated:
        total += scores * weight
        weights += (scores > 0) * weight
    return np.floor(total / np.maximum(weights, 1) + 0.5).astype(np.int64)


# Queueing hints.


def _pod_freed(pod: Pod, change: Change) -> bool:
    """Tell whether a pod was removed from its node, or requests less of what *pod* requests."""
    old, new = change.old, change.new
    if not isinstance(new, Pod):
        return not isinstance(old, Pod) or bool(old.node_name or old.nominated_node)
    if new.uid == pod.uid:
        return True
    if not new.node_name:
        return False
    if not isinstance(old, Pod) or old.malformed or new.malformed:
        return True
    before, after = old.placed_requests, new.placed_requests
    return any(
        amount and before.get(name, 0) > after.get(name, 0)
        for name, amount in pod.placed_requests.items()
    )


def _node_grew(pod: Pod, change: Change) -> bool:
    """Tell whether *pod* would fit the node if it were empty, and the node grew."""
    old, new = change.old, change.new
    if not isinstance(new, Node):
        return True
    if new.malformed or not _fits_empty(pod, new):
        return False
    if not isinstance(old, Node) or old.malformed:
        return True
    return new.allowed_pods > old.allowed_pods or any(
        amount and new.allocatable.get(name, 0) > old.allocatable.get(name, 0)
        for name, amount in pod.requests.items()
    )


def _fits_empty(pod: Pod, node: Node) -> bool:
    # Resources that the filter ignores count here, as they do upstream.
    return node.allowed_pods > 0 and all(
        amount <= node.allocatable.get(name, 0) for name, amount in pod.requests.items() if amount
    )


# Validation of the arguments.


def _problems(args: NodeResourcesFitArgs) -> Iterator[str]:
    for index, group in enumerate(args.ignored_resource_groups):
        if "/" in group:
            yield f"ignoredResourceGroups[{index}]: must be what stands before the slash: {group}"
    strategy = args.scoring_strategy
    if strategy.type not in _STRATEGIES:
        yield f"scoringStrategy.type: must be one of {', '.join(_STRATEGIES)}: {strategy.type}"
    if not strategy.resources:
        yield "scoringStrategy.resources: must name at least one resource"
    for index, resource in enumerate(strategy.resources):
        if not 0 <= resource.weight <= 100:
            path = f"scoringStrategy.resources[{index}].weight"
            yield f"{path}: must be from 1 to 100, got {resource.weight}"
    if strategy.type == REQUESTED_TO_CAPACITY_RATIO:
        yield from _problems_of_shape(_shape_of(strategy))


def _problems_of_shape(shape: Sequence[ShapePoint]) -> Iterator[str]:
    path = "scoringStrategy.requestedToCapacityRatio.shape"
    if not shape:
        yield f"{path}: must have at least one point"
    for index, point in enumerate(shape):
        if not 0 <= point.utilization <= 100:
            yield f"{path}[{index}].utilization: must be from 0 to 100, got {point.utilization}"
        if not 0 <= point.score <= _TOP_SHAPE_SCORE:
            yield f"{path}[{index}].score: must be from 0 to 10, got {point.score}"
        if index and point.utilization <= shape[index - 1].utilization:
            yield f"{path}[{index}].utilization: must be larger than the one before"


def _shape_of(strategy: ScoringStrategy) -> Sequence[ShapePoint]:
    ratio = strategy.requested_to_capacity_ratio
    return ratio.shape if ratio else ()
