"""Plugins that judge one node at a time, for authors who do not want to work with arrays.

::

    @per_node
    class Quiet:
        name = "Quiet"

        def filter_node(self, pod, node):
            return "node(s) were crowded" if len(node.pods) > 50 else None

        def score_node(self, pod, node):
            return 100 - 2 * len(node.pods)

The runner still calls the plugin once for all nodes; the loop over nodes is here. It costs a few
microseconds a node: some milliseconds a pod at a thousand nodes, a hundred times an array's cost.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, TypeVar

import numpy as np

from scheduler.framework.rejection import NodeMask, Refused, Rejection, Scores
from scheduler.model.node import Node
from scheduler.model.pod import Pod
from scheduler.model.resources import PODS
from scheduler.model.taints import Taint
from scheduler.snapshot.node_table import NodeTable
from scheduler.snapshot.objects import ClusterObjects

C = TypeVar("C", bound=type)

Reading = Callable[[str, int], int]
"""Returns the amount of a resource in a row."""


class _Columns:
    """Columns of one table as lists. Each is converted once: single elements of arrays are slow."""

    def __init__(self, nodes: NodeTable) -> None:
        self.nodes = nodes
        self._allocatable: dict[str, list[int]] = {}
        self._requested: dict[str, list[int]] = {}

    def allocatable(self, resource: str, row: int) -> int:
        if resource not in self._allocatable:
            self._allocatable[resource] = self.nodes.allocatable(resource).tolist()
        return self._allocatable[resource][row]

    def requested(self, resource: str, row: int) -> int:
        if resource not in self._requested:
            column = self.nodes.pod_count if resource == PODS else self.nodes.requested(resource)
            self._requested[resource] = column.tolist()
        return self._requested[resource][row]

    def free(self, resource: str, row: int) -> int:
        return self.allocatable(resource, row) - self.requested(resource, row)


class NodeAmounts(Mapping[str, int]):
    """Amounts of one node by resource: cpu in milli, the rest in units; 0 for other resources.

    Iterating yields the names of the node's allocatable resources.
    """

    __slots__ = ("_names", "_read", "_row")

    def __init__(self, read: Reading, row: int, names: Callable[[], Sequence[str]]) -> None:
        self._read = read
        self._row = row
        self._names = names

    def __getitem__(self, resource: str) -> int:
        return self._read(resource, self._row)

    def __iter__(self) -> Iterator[str]:
        return iter(self._names())

    def __len__(self) -> int:
        return len(self._names())

    def __repr__(self) -> str:
        return repr(dict(self))


class NodeRow:
    """One node and its pods, read-only; valid during the call that receives it."""

    __slots__ = ("_columns", "_row")

    def __init__(self, columns: _Columns, row: int) -> None:
        self._columns = columns
        self._row = row

    def __repr__(self) -> str:
        return f"NodeRow({self.name!r})"

    @property
    def object(self) -> Node:
        """The node itself: spec, conditions, images."""
        return self._columns.nodes.node(self._row)

    @property
    def name(self) -> str:
        """The node's name."""
        return self.object.name

    @property
    def labels(self) -> Mapping[str, str]:
        """Its labels."""
        return self.object.metadata.labels

    @property
    def annotations(self) -> Mapping[str, str]:
        """Its annotations; empty unless some plugin has ``node.annotations`` in its ``needs``."""
        return self.object.metadata.annotations

    @property
    def taints(self) -> Sequence[Taint]:
        """Its taints."""
        return self.object.spec.taints

    @property
    def unschedulable(self) -> bool:
        """Whether it is cordoned."""
        return self.object.spec.unschedulable

    @property
    def pods(self) -> Sequence[Pod]:
        """The pods on it, assumed ones included."""
        return self._columns.nodes.pods_on(self._row)

    @property
    def allocatable(self) -> NodeAmounts:
        """The total that its pods may request."""
        return NodeAmounts(self._columns.allocatable, self._row, self._resources)

    @property
    def requested(self) -> NodeAmounts:
        """What its pods request; of ``pods``, how many there are."""
        return NodeAmounts(self._columns.requested, self._row, self._resources)

    @property
    def free(self) -> NodeAmounts:
        """What is left; negative on an overcommitted node."""
        return NodeAmounts(self._columns.free, self._row, self._resources)

    @property
    def objects(self) -> ClusterObjects:
        """Other objects of the cluster, such as custom resources that the plugin ``needs``."""
        return self._columns.nodes.objects

    def _resources(self) -> Sequence[str]:
        node = self.object
        return () if node.malformed else tuple(node.allocatable)


_ADAPTED: Final = ("filter_node", "score_node")


def per_node(plugin: C) -> C:
    """Make a plugin of a class with ``filter_node``, ``score_node``, or both.

    ``filter_node(pod, node)`` returns None where *node* can take *pod*; else the reason, or
    ``Refused(reason, resolvable=False)`` where evicting pods could not help.
    ``score_node(pod, node)`` returns a whole number: from 0 to 100, or of any size if the class
    names how to ``normalize`` it. ``node`` is a NodeRow.

    Raises:
        TypeError: If the class has neither method.
    """
    if not any(hasattr(plugin, method) for method in _ADAPTED):
        raise TypeError(f"per_node: {plugin.__name__} has neither {' nor '.join(_ADAPTED)}")
    adapted: Any = plugin
    if not hasattr(plugin, "name"):
        adapted.name = plugin.__name__
    if hasattr(plugin, "filter_node"):
        adapted.filter = _filter
    if hasattr(plugin, "score_node"):
        adapted.score = _score
    return plugin


def _rows(nodes: NodeTable) -> Iterator[NodeRow]:
    columns = _Columns(nodes)
    return (NodeRow(columns, row) for row in range(len(nodes)))


def _filter(self: Any, pod: Pod, nodes: NodeTable) -> Iterator[Rejection]:
    """Call ``filter_node`` for each node, and yield one rejection for each reason."""
    refused: dict[Refused, NodeMask] = {}
    for row, node in enumerate(_rows(nodes)):
        answer = self.filter_node(pod, node)
        if answer is None:
            continue
        if isinstance(answer, str):
            answer = Refused(answer)
        if not isinstance(answer, Refused):
            raise TypeError(f"filter_node({node.name}) returned {answer!r}, not None or a reason")
        if answer not in refused:
            refused[answer] = np.zeros(len(nodes), dtype=np.bool_)
        refused[answer][row] = True
    for answer, mask in refused.items():
        yield Rejection(mask, answer.reason, answer.resolvable)


def _score(self: Any, pod: Pod, nodes: NodeTable) -> Scores:
    """Call ``score_node`` for each node."""
    scores = np.zeros(len(nodes), dtype=np.int64)
    for row, node in enumerate(_rows(nodes)):
        answer = self.score_node(pod, node)
        if not isinstance(answer, int | np.integer):
            raise TypeError(f"score_node({node.name}) returned {answer!r}, not a whole number")
        scores[row] = answer
    return scores
