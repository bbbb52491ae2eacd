"""Example clusters: nodes and pods of many kinds, with the labels that the plugin reads.

A `RecordingTable` records which node labels a plugin reads. The nodes that are made afterwards have
these labels, some with the values that the plugin compares with, some with others, and some not at
all: so a plugin is called for nodes that it rejects and for nodes that it prefers.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final

import numpy as np
from numpy.typing import NDArray

from scheduler.model.fact import KubeObject, ResourceName
from scheduler.model.node import Node
from scheduler.model.pod import Pod
from scheduler.model.selectors import Requirement
from scheduler.snapshot.columns import ClusterColumns
from scheduler.snapshot.node_table import NodeTable
from scheduler.testing.builders import make_node, make_pod

_CPUS: Final = (1, 4, 8, 64)
_TAINTS: Final = ("", "dedicated=ml:NoSchedule", "", "spot:PreferNoSchedule", "", "old:NoExecute")
_DOMAINS: Final = ("a", "b", "c")


@dataclass(frozen=True, slots=True)
class Cluster:
    """Nodes, and the pods on them."""

    nodes: tuple[Node, ...] = ()
    placed: tuple[Pod, ...] = ()

    def table(self, make: Callable[[ClusterColumns], NodeTable] = NodeTable) -> NodeTable:
        """Return a table of all nodes, in this order."""
        columns = ClusterColumns()
        for node in self.nodes:
            columns.add_node(node)
        for pod in self.placed:
            columns.add_pod(columns.rows[pod.node_name], pod)
        return make(columns)

    def shuffled(self) -> "Cluster":
        """Return the same cluster with its rows in another order, the same one every time."""
        order = np.random.default_rng(len(self.nodes)).permutation(len(self.nodes))
        return Cluster(tuple(self.nodes[row] for row in order), self.placed[::-1])

    def changed(self, coming: Sequence[Pod], gone: Sequence[Pod]) -> "Cluster":
        """Return this cluster without the pods *gone*, and with those *coming* on their nodes."""
        left = {pod.uid for pod in self.placed} - {pod.uid for pod in gone}
        return Cluster(self.nodes, (*(p for p in self.placed if p.uid in left), *coming))


@dataclass(slots=True)
class Interests:
    """The node labels that a plugin reads: candidate values by key."""

    values: dict[str, list[str]] = field(default_factory=dict)

    def note(self, key: str, values: Sequence[str] = _DOMAINS) -> None:
        """Remember that *key* is read, and which *values* may matter."""
        known = self.values.setdefault(key, [])
        known += [value for value in values if value not in known]

    def labels(self, index: int) -> Iterator[tuple[str, str]]:
        """Yield what node number *index* carries: each candidate in turn, another one, or none."""
        for key, values in self.values.items():
            candidates = [*values, "something-else", None]
            value = candidates[index % len(candidates)]
            if value is not None:
                yield key, value


class RecordingTable(NodeTable):
    """A table that records which labels are read."""

    __slots__ = ("_interests",)

    def __init__(self, columns: ClusterColumns, interests: Interests) -> None:
        super().__init__(columns)
        self._interests = interests

    def matching(self, requirement: Requirement) -> NDArray[np.bool_]:
        """Note the requirement, and answer."""
        self._interests.note(requirement.key, list(_candidates(requirement)))
        return super().matching(requirement)

    def domains(self, key: str) -> NDArray[np.int32]:
        """Note the key, and answer."""
        self._interests.note(key)
        return super().domains(key)


def _candidates(requirement: Requirement) -> Iterator[str]:
    for value in sorted(requirement.values):
        yield value
        if requirement.operator in {"Gt", "Lt"} and value.lstrip("-").isdigit():
            yield str(int(value) - 1)
            yield str(int(value) + 1)
    if not requirement.values:
        yield ""


def make_table(
    *nodes: Node,
    placed: Iterable[Pod] = (),
    objects: Mapping[ResourceName, Iterable[KubeObject]] = MappingProxyType({}),
) -> NodeTable:
    """Make a table of *nodes*, one row each in this order, with the pods *placed* on them.

    *objects* are the small objects by resource, or by the name of a custom one.
    """

    def make(columns: ClusterColumns) -> NodeTable:
        for resource, items in objects.items():
            for item in items:
                columns.objects.put(resource, item)
        return NodeTable(columns)

    return Cluster(nodes, tuple(placed)).table(make)


def make_cluster(count: int, interests: Interests, nodes: Sequence[Node] = ()) -> Cluster:
    """Make *count* nodes of all sorts with pods on them, and add the given *nodes*."""
    made = tuple(_node(index, interests) for index in range(count))
    placed = (pod for index in range(count) for pod in _pods_on(index))
    return Cluster((*made, *nodes), tuple(placed))


def _node(index: int, interests: Interests) -> Node:
    own = {"disk": "ssd" if index % 2 else "hdd", **dict(interests.labels(index))}
    return make_node(
        f"node-{index}",
        allocatable=f"{_CPUS[index % 4]} cpu, {8 << index % 3}Gi, {index % 3} example.com/gpu",
        zone=f"zone-{index % 3}" if index % 8 else "",
        labels=own,
        taints=_TAINTS[index % len(_TAINTS)],
        unschedulable=index % 9 == 4,
        images={"app": "150Mi"} if index % 2 else None,
        conditions="Ready=True",
    )


def _pods_on(index: int) -> Iterator[Pod]:
    for number in range(index % 4):
        yield make_pod(
            f"placed-{index}-{number}",
            requests="250m cpu, 512Mi",
            labels=f"app={('web', 'db')[number % 2]}",
            host_ports=(8080,) if number == 0 else (),
            node=f"node-{index}",
            terminating=number == 2,
        )


def make_pods() -> tuple[Pod, ...]:
    """Return pending pods of all sorts: plain ones, greedy ones, choosy ones."""
    selector = {"matchLabels": {"app": "web"}}
    term = {"matchExpressions": [{"key": "disk", "operator": "In", "values": ["ssd"]}]}
    return (
        make_pod("plain"),
        make_pod("small", requests="500m cpu, 1Gi", labels="app=web", priority=100),
        make_pod("huge", requests="500 cpu, 1Ti"),
        make_pod("gpu", requests="1 cpu, 1 example.com/gpu", tolerations="dedicated"),
        make_pod("choosy", node_selector="disk=ssd", tolerations="*"),
        make_pod("port", host_ports=(8080,)),
        make_pod(
            "affine",
            affinity={
                "nodeAffinity": {
                    "preferredDuringSchedulingIgnoredDuringExecution": [
                        {"weight": 10, "preference": term}
                    ]
                }
            },
        ),
        make_pod(
            "spread",
            labels="app=web",
            topology_spread_constraints=[
                {
                    "maxSkew": 1,
                    "topologyKey": "topology.kubernetes.io/zone",
                    "whenUnsatisfiable": "DoNotSchedule",
                    "labelSelector": selector,
                }
            ],
        ),
        make_pod("gated", gates=("example.com/wait",)),
    )
