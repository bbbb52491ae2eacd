"""The columns: written by the cache alone, read through a NodeTable.

They hold what upstream keeps in one NodeInfo for each node (``kube-scheduler/framework/types.go``):
allocatable and requested amounts, host ports, images, pods with affinity. By columns, one NumPy
operation answers for all nodes.
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import blake2b

import numpy as np

from scheduler.model.affinity_terms import TermKind
from scheduler.model.host_ports import HostPort
from scheduler.model.node import Node
from scheduler.model.pod import Pod
from scheduler.model.resources import CPU, MEMORY
from scheduler.snapshot.change_log import ChangeLog, Reads
from scheduler.snapshot.count_column import CountColumn
from scheduler.snapshot.disks import DisksInUse
from scheduler.snapshot.domain_totals import DomainTotals
from scheduler.snapshot.labels import LabelIndex
from scheduler.snapshot.objects import ClusterObjects
from scheduler.snapshot.pod_sets import PodSetColumns
from scheduler.snapshot.potential_victims import PotentialVictimsColumn
from scheduler.snapshot.taint_sets import TaintSets
from scheduler.snapshot.term_index import TermIndex
from scheduler.snapshot.volume_use import VolumeUse

WILDCARD = "0.0.0.0"  # noqa: S104 - the host port address that stands for all addresses


@dataclass(slots=True, eq=False)
class _Image:
    """An image that is present on some nodes.

    Nodes may report different sizes. The first report counts, and a node that alone has the image
    may correct it: upstream removes a node's images before it adds those of the new version
    (``pkg/scheduler/backend/cache/cache.go``, addNodeImageStates).
    """

    size_bytes: int
    nodes: CountColumn


class ChangeLogs:
    """The logs of what is not a CountColumn, or not one alone, and can be read through a NodeTable.

    Labels, taints, affinity terms and the other objects have theirs beside the data.
    """

    __slots__ = (
        "closed",
        "directory",
        "images",
        "nodes",
        "pods",
        "ports",
        "rows",
        "size",
        "untracked",
    )

    def __init__(self) -> None:
        self.rows = ChangeLog()
        """Which node is in which row."""
        # No row depends on it, so rows with the same numbers are still alike.
        self.size = ChangeLog(lambda _: 0)
        """How many rows there are."""
        self.nodes = ChangeLog()
        """Node objects, whatever changed in them."""
        self.pods = ChangeLog()
        """Pod objects on the nodes."""
        self.closed = ChangeLog()
        self.images = ChangeLog()
        self.ports = ChangeLog()
        self.directory = ChangeLog()
        """Which resources and features have a column at all."""
        self.untracked = ChangeLog()
        """Stands for all that has no log: an answer that read it is not kept."""


class ClusterColumns:
    """Everything known about nodes and the pods on them, by row.

    ``generation`` grows with every change; a NodeTable of an older generation raises StaleView.
    """

    def __init__(self) -> None:
        self.generation = 0
        self.changes = ChangeLogs()
        self.reads: Reads | None = None
        self.nodes: list[Node] = []
        self.names: list[str] = []
        self.rows: dict[str, int] = {}
        self.pods: list[dict[str, Pod]] = []
        self.victims_column = PotentialVictimsColumn(self.pods)
        self.objects = ClusterObjects()
        self.allocatable: dict[str, CountColumn] = {}
        self.requested: dict[str, CountColumn] = {}
        # These two are never dropped: scores read them for every pod.
        self.nonzero_requested = {CPU: CountColumn(), MEMORY: CountColumn()}
        self.pod_counts = CountColumn()
        self.unschedulable = CountColumn()
        self.labels = LabelIndex(self.nodes)
        self.taints = TaintSets()
        self.totals = DomainTotals(self.labels)
        self.pod_sets = PodSetColumns(self.objects.namespace_labels, self.totals.forget)
        self.objects.on_change(self.pod_sets.namespace_changed)
        self.terms = {kind: TermIndex(kind, self.labels) for kind in TermKind}
        self.closed: dict[int, str] = {}
        self.name_hashes = np.zeros(64, dtype=np.uint64)
        self._ports: dict[tuple[str, int], dict[str, CountColumn]] = {}
        self._images: dict[str, _Image] = {}
        self._features: dict[str, CountColumn] = {}
        self.disks = DisksInUse()
        self.volumes = VolumeUse(self.objects, self.names, self.rows, self.pods)

    def __len__(self) -> int:
        return len(self.nodes)

    @contextmanager
    def recording(self) -> Iterator[Reads]:
        """Record what is read through any NodeTable of these columns in the block."""
        assert self.reads is None, "a plugin's answer is recorded within another's"
        reads = Reads()
        self.reads = self.objects.reads = reads
        try:
            yield reads
        finally:
            self.reads = self.objects.reads = None

    def add_node(self, node: Node) -> int:
        """Append *node* as a new row without pods, and return the row."""
        assert node.name not in self.rows, f"node {node.name} has a row already"
        self.generation += 1
        row = len(self.nodes)
        self.changes.rows.note(row)
        self.changes.size.note(row)
        self.nodes.append(node)
        self.names.append(node.name)
        self.pods.append({})
        self.rows[node.name] = row
        self._hash_name(row, node.name)
        self._describe(row, None, node)
        self.volumes.add_node(row)
        return row

    def update_node(self, node: Node) -> None:
        """Replace a node that has a row by its new version."""
        self.generation += 1
        row = self.rows[node.name]
        self.changes.nodes.note(row)
        old, self.nodes[row] = self.nodes[row], node
        self._describe(row, old, node)

    def remove_node(self, name: str) -> None:
        """Remove a node's row, which must be without pods; the last row moves to its number."""
        self.generation += 1
        row = self.rows.pop(name)
        assert not self.pods[row], f"node {name} is removed with pods in its row"
        self._erase(row, self.nodes[row])
        self.volumes.remove_node(row)
        self.victims_column.forget(row)
        # Rows stay dense, so that no operation over all rows needs a mask of those in use.
        last = len(self.nodes) - 1
        self.changes.rows.note(last)
        self.changes.size.note(last)
        if row != last:
            self.changes.rows.note(row)
            self._move(last, row)
        del self.nodes[last], self.names[last], self.pods[last]
        self.labels.truncate()
        assert len(self.nodes) == len(self.names) == len(self.pods) == len(self.rows), (
            f"rows no longer match nodes after {name} was removed"
        )

    def add_pod(self, row: int, pod: Pod) -> None:
        """Add *pod* to *row* and to every column."""
        assert pod.uid not in self.pods[row], f"{pod.key} is on its node already"
        self.generation += 1
        self._put_pod(row, pod)
        self._account(row, pod, 1)

    def replace_pod(self, row: int, pod: Pod) -> None:
        """Replace the version of *pod* on *row*; both count alike in every column."""
        assert pod.uid in self.pods[row], f"{pod.key} is not on its node"
        self.generation += 1
        self._put_pod(row, pod)

    def remove_pod(self, row: int, uid: str) -> Pod:
        """Remove the pod with *uid* from *row* and from every column, and return it."""
        self.generation += 1
        self.changes.pods.note(row)
        pod = self.pods[row].pop(uid)
        self.victims_column.forget(row)
        self._account(row, pod, -1)
        assert self.pod_counts[row] == len(self.pods[row]), f"{pod.key} was counted otherwise"
        # Columns are never recounted: a wrong sum would stay until the process ends. An empty row
        # shows it, and costs nothing to check.
        assert self.pods[row] or not any(
            column[row] for column in self.nonzero_requested.values()
        ), f"row {row} has no pods after {pod.key}, and requests still"
        return pod

    def set_closed(self, row: int, reason: str) -> None:
        """Close *row* to all pods for *reason*; an empty reason opens it."""
        # The next node to be added would otherwise get a row that is closed already.
        assert row < len(self.nodes), f"row {row} of {len(self.nodes)} is closed or opened"
        self.generation += 1
        self.changes.closed.note(row)
        if reason:
            self.closed[row] = reason
        else:
            self.closed.pop(row, None)

    def image(self, name: str) -> tuple[int, int, CountColumn] | None:
        """Return an image's size in bytes, number of nodes, and rows."""
        image = self._images.get(name)
        return None if image is None else (image.size_bytes, image.nodes.nonzero_rows, image.nodes)

    def declaring(self, feature: str) -> CountColumn | None:
        """Return the rows that declare *feature*; None if none does."""
        return self._features.get(feature)

    def ports_in_use(self, wanted: HostPort) -> Iterable[CountColumn]:
        """Yield the columns of the host ports in use that conflict with *wanted*."""
        in_use = self._ports.get((wanted.protocol, wanted.port), {})
        if wanted.ip == WILDCARD:
            yield from in_use.values()
        else:
            yield from (
                count_column for ip, count_column in in_use.items() if ip in {WILDCARD, wanted.ip}
            )

    def _put_pod(self, row: int, pod: Pod) -> None:
        self.changes.pods.note(row)
        self.pods[row][pod.uid] = pod
        self.victims_column.forget(row)

    def _hash_name(self, row: int, name: str) -> None:
        if row >= len(self.name_hashes):
            self.name_hashes = np.concatenate([self.name_hashes, np.zeros_like(self.name_hashes)])
        self.name_hashes[row] = hash_name(name)

    def _describe(self, row: int, old: Node | None, new: Node) -> None:
        """Update the columns about the node itself."""
        # A malformed node has no allocatable amounts, and its row is closed: the pods on it still
        # count, and it must not attract others.
        before = {} if old is None or old.malformed else old.allocatable
        after = {} if new.malformed else new.allocatable
        self._set_allocatable(row, before, after)
        if self.unschedulable[row] != new.spec.unschedulable:
            self.unschedulable[row] = int(new.spec.unschedulable)
        if old is None or old.spec.taints != new.spec.taints:
            if old is not None:
                self.taints.remove(row)
            self.taints.set(row, new.spec.taints)
        if old is None:
            self.labels.set(row, new)
        elif old.metadata.labels != new.metadata.labels:
            self._account_terms(row, old, -1)
            self.labels.set(row, new)
            self._account_terms(row, new, 1)
        if old is None or old.status.images != new.status.images:
            self._set_images(row, old, new)
        features = () if old is None else old.status.declared_features
        if features != new.status.declared_features:
            self._set_features(row, features, 0)
            self._set_features(row, new.status.declared_features, 1)

    def _set_allocatable(self, row: int, before: dict[str, int], after: dict[str, int]) -> None:
        for name in before.keys() | after.keys():
            amount = after.get(name, 0)
            if amount != before.get(name, 0):
                self._column_of(self.allocatable, name)[row] = amount
                if not amount:
                    self._drop_if_empty(self.allocatable, name)

    def _set_images(self, row: int, old: Node | None, new: Node) -> None:
        self.changes.images.note_all()
        gone = {} if old is None else _images_of(old)
        come = _images_of(new)
        for name in gone.keys() - come.keys():
            self._images[name].nodes[row] = 0
            if not self._images[name].nodes:
                del self._images[name]
        for name in come.keys() - gone.keys():
            self._images.setdefault(name, _Image(come[name], CountColumn())).nodes[row] = 1
        for name in come.keys() & gone.keys():
            image = self._images[name]
            if come[name] != gone[name] and image.nodes.nonzero_rows == 1:
                image.size_bytes = come[name]

    def _set_features(self, row: int, features: Iterable[str], declared: int) -> None:
        for name in features:
            self._column_of(self._features, name)[row] = declared
            self._drop_if_empty(self._features, name)

    def _account(self, row: int, pod: Pod, sign: int) -> None:
        self.pod_counts.add(row, sign)
        # How much a malformed pod requests is unknown; the cache closes its row instead.
        if not pod.malformed:
            # Not `requests`: until a resize in place is done, the kubelet keeps what it allocated
            # before (KEP-1287).
            for name, amount in pod.placed_requests.items():
                self._column_of(self.requested, name).add(row, sign * amount)
                if sign < 0 and name not in self.nonzero_requested:
                    self._drop_if_empty(self.requested, name)
            nonzero = pod.nonzero_requests
            for name, count_column in self.nonzero_requested.items():
                count_column.add(row, sign * nonzero.get(name, 0))
            for port in pod.host_ports:
                self._account_port(row, port, sign)
        self.pod_sets.add(row, pod, sign)
        if pod.spec.affinity is not None:
            for index in self.terms.values():
                index.add(pod.affinity_terms, self.nodes[row].metadata.labels, sign)
        self.disks.add_pod(row, pod, sign)
        self.volumes.add_pod(row, pod, sign)

    def _account_terms(self, row: int, node: Node, sign: int) -> None:
        """Add the affinity terms of all pods on *row*, or remove them, by the labels of *node*."""
        for pod in self.pods[row].values():
            if pod.spec.affinity is not None:
                for index in self.terms.values():
                    index.add(pod.affinity_terms, node.metadata.labels, sign)

    def _account_port(self, row: int, port: HostPort, sign: int) -> None:
        self.changes.ports.note(row)
        addresses = self._ports.setdefault((port.protocol, port.port), {})
        addresses.setdefault(port.ip, CountColumn()).add(row, sign)
        if not addresses[port.ip]:
            del addresses[port.ip]
        if not addresses:
            del self._ports[port.protocol, port.port]

    def _column_of(self, count_columns: dict[str, CountColumn], name: str) -> CountColumn:
        count_column = count_columns.get(name)
        if count_column is None:
            self.changes.directory.note_all()
            count_column = count_columns[name] = CountColumn()
        return count_column

    def _drop_if_empty(self, count_columns: dict[str, CountColumn], name: str) -> None:
        if not count_columns[name]:
            count_columns.pop(name).abandon()

    def _erase(self, row: int, node: Node) -> None:
        self._set_allocatable(row, {} if node.malformed else node.allocatable, {})
        self._set_images(row, node, Node(metadata=node.metadata))
        self._set_features(row, node.status.declared_features, 0)
        self.taints.remove(row)
        self.unschedulable[row] = 0
        self.closed.pop(row, None)

    def _move(self, source: int, target: int) -> None:
        """Move the node in row *source* to row *target*, which was erased."""
        assert not self.unschedulable[target], f"row {target} was not erased"
        assert not self.pod_counts[target], f"row {target} was not erased"
        node = self.nodes[target] = self.nodes[source]
        self.victims_column.forget(source)
        self.names[target] = self.names[source]
        self.name_hashes[target] = self.name_hashes[source]
        self.pods[target] = self.pods[source]
        self.rows[node.name] = target
        for count_column in self._count_columns():
            count_column.move(source, target)
        for name in _images_of(node):
            self._images[name].nodes.move(source, target)
        pods = self.pods[target].values()
        self._move_ports(source, target, pods)
        self.pod_sets.move(source, target, pods)
        self.disks.move(source, target, pods)
        self.volumes.move(source, target)
        self.taints.move(source, target)
        self.labels.set(target, node)
        if source in self.closed:
            self.closed[target] = self.closed.pop(source)

    def _move_ports(self, source: int, target: int, pods: Iterable[Pod]) -> None:
        for port in {port for pod in pods if not pod.malformed for port in pod.host_ports}:
            self._ports[port.protocol, port.port][port.ip].move(source, target)

    def _count_columns(self) -> Iterable[CountColumn]:
        """Yield the columns that are few enough to visit one by one.

        There may be thousands of images, ports and PodSets. Those of the moved row are found by its
        node and pods instead.
        """
        yield from self.allocatable.values()
        yield from self.requested.values()
        yield from self.nonzero_requested.values()
        yield self.pod_counts
        yield self.unschedulable
        yield from self._features.values()


def hash_name(name: str) -> int:
    """Return 64 evenly distributed bits that depend on *name* alone.

    Python's own hash differs between processes: a replayed decision would break ties otherwise.
    """
    return int.from_bytes(blake2b(name.encode(), digest_size=8).digest(), "little")


def _images_of(node: Node) -> dict[str, int]:
    return {name: image.size_bytes for image in node.status.images for name in image.names}
