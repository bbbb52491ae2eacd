"""The NodeTable: all nodes at one instant, one row each, as plugins see them.

It replaces upstream's list of NodeInfo (``kube-scheduler/framework/types.go``). A what-if table
replaces the copies of NodeInfo that a dry run changes with AddPod and RemovePod.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from scheduler.model.csi_migration import UniqueVolume
from scheduler.model.host_ports import HostPort
from scheduler.model.node import Node
from scheduler.model.pod import Pod
from scheduler.model.resources import PODS
from scheduler.model.selectors import IN, Requirement
from scheduler.model.taints import DO_NOT_SCHEDULE, Taint, Toleration, first_of, tolerated_by
from scheduler.snapshot import pod_contribution
from scheduler.snapshot.arrays import Int64s, Mask, Rows, T, read_only
from scheduler.snapshot.disks import DiskUse, disks_of
from scheduler.snapshot.domain_view import DomainView
from scheduler.snapshot.objects import ClusterObjects
from scheduler.snapshot.potential_victims import PotentialVictims, potential_victims
from scheduler.snapshot.volume_use import RowVolumes, UnresolvedVolumes
from scheduler.snapshot.what_if import RowChanges


class NodeTable(DomainView):
    """All nodes or some of them, as they are or in a what-if: everything that a plugin may read.

    It is valid until the loop next applies facts, and raises StaleView afterwards. The order of the
    rows has no meaning. Every array that it returns has one value a row, is read-only, and must not
    be kept.
    """

    __slots__ = ()

    # Other views: fewer rows, what-if changes.

    @property
    def cluster(self) -> "NodeTable":
        """The whole, true cluster, whatever part or what-if this view shows.

        A view that comes from `cluster_of` shows the changes of that one row here too.
        """
        self._check()
        return NodeTable(self._columns, None, self._shared, self._shared, asked=False)

    def select(self, which: Mask | Rows) -> "NodeTable":
        """Return a view of some rows: a mask, or row numbers within this view."""
        self._check()
        chosen = which.nonzero()[0] if which.dtype == np.bool_ else which.astype(np.intp)
        changes = self._changes.select(chosen)
        rows = chosen if self._rows is None else self._rows[chosen]
        return NodeTable(self._columns, rows, changes, self._shared)

    def alone(self, row: int) -> "NodeTable":
        """Return a view of one row."""
        return self.select(np.array([row], dtype=np.intp))

    def each(
        self,
        *,
        adding: Mapping[int, Sequence[Pod]] | None = None,
        removing: Mapping[int, Sequence[Pod]] | None = None,
    ) -> "NodeTable":
        """Return a what-if table: each row shows the cluster with changes on its own node alone.

        Row *i* shows the cluster in which the pods ``adding[i]`` are on node *i*, the pods
        ``removing[i]`` are not, and all other nodes are as they are. Rows are numbered as in this
        view; changes to a what-if table add up.
        """
        self._check()
        changes = self._changes.and_also(len(self), adding or {}, removing or {})
        return NodeTable(self._columns, self._rows, changes, self._shared)

    @property
    def unchanged(self) -> "NodeTable":
        """The same rows without what-if changes."""
        self._check()
        return NodeTable(self._columns, self._rows)

    def cluster_of(self, row: int) -> "NodeTable":
        """Return the whole cluster with the changes of *row* alone, the same for all its rows.

        A filter that compares nodes and was not written for what-if tables can judge this view
        like a true cluster.
        """
        self._check()
        change = self._changes.get(row)
        if change is None:
            return NodeTable(self._columns)
        base = self._column_row(row)
        shared = RowChanges(self._column_rows, {base: change.added}, {base: change.removed})
        return NodeTable(self._columns, None, shared, shared)

    def prepare(self, pod: Pod) -> Iterator[None]:
        """Compute, with pauses, the columns that filters of *pod* would otherwise build in one go.

        Volumes are counted only when a pod has some. The first such pod after a start finds every
        row uncounted, which takes longer than sockets can wait; so the cycle pauses between rows.
        Pods are compared with the affinity terms of the first pod that has these.
        """
        self._check()
        if pod.storage:
            yield from self._columns.volumes.count_by_rows()
        if pod.spec.affinity is not None:
            for counted in pod.affinity_terms.counted:
                yield from self._columns.pod_sets.build(counted, self._column_rows)

    # Single rows.

    def node(self, row: int) -> Node:
        """Return the node in *row*."""
        self._check()
        self._read(self._columns.changes.nodes)
        return self._columns.nodes[self._column_row(row)]

    def pods_on(self, row: int) -> Sequence[Pod]:
        """Return the pods on the node in *row*, assumed ones and what-if changes included."""
        self._check()
        self._read(self._columns.changes.pods)
        pods = self._columns.pods[self._column_row(row)].values()
        change = self._changes.get(row)
        if change is None:
            return list(pods)
        removed = {pod.uid for pod in change.removed}
        return [pod for pod in pods if pod.uid not in removed] + list(change.added)

    def potential_victims(
        self, rows: Rows, priority: int, among: frozenset[str] | None = None
    ) -> list[PotentialVictims]:
        """Return, for each of *rows*, the pods there that a pod of *priority* may preempt.

        The most important come first. Mirror pods are left out, and so are pods of schedulers other
        than *among*, unless that is None. Their sums are cached for when `each` removes them all.
        """
        self._check()
        self._read(self._columns.changes.pods)
        if self._changes:
            return [potential_victims(self.pods_on(row), priority, among) for row in rows.tolist()]
        bases = rows if self._rows is None else self._rows[rows]
        victims_column = self._columns.victims_column
        return [victims_column.potential_victims(row, priority, among) for row in bases.tolist()]

    @property
    def objects(self) -> ClusterObjects:
        """The other objects: services, owners, namespaces, budgets, volumes, custom resources."""
        self._check()
        return self._columns.objects

    # Columns about nodes.

    @property
    def name_hashes(self) -> NDArray[np.uint64]:
        """A 64-bit hash of each node's name, for breaking ties."""
        self._check()
        self._read(self._columns.changes.rows)
        return self._gather(self._columns.name_hashes[: self._column_rows])

    @property
    def unschedulable(self) -> Mask:
        """Whether the node is cordoned."""
        self._check()
        self._read(self._columns.unschedulable.changes)
        return self._gather(self._columns.unschedulable.where(self._column_rows))

    @property
    def allowed_pods(self) -> Int64s:
        """How many pods the kubelet admits."""
        return self.allocatable(PODS)

    def allocatable(self, resource: str) -> Int64s:
        """How much of *resource* pods may request in total; cpu in milli."""
        return self._counts(self._columns.allocatable.get(resource))

    def labelled(self, key: str, value: str) -> Mask:
        """Whether the node has the label *key* with *value*."""
        return self.matching(Requirement(key, IN, frozenset((value,))))

    def matching(self, requirement: Requirement) -> Mask:
        """Whether the node's labels satisfy *requirement*."""
        self._check()
        self._read_label(requirement.key)
        return self._gather(self._columns.labels.where(requirement, self._column_rows))

    def by_taints(self, answer: Callable[[tuple[Taint, ...]], int]) -> Int64s:
        """Call *answer* once for each distinct list of taints; return each row's result."""
        return self._by_taints(answer, np.int64)

    def untolerated(self, tolerations: Sequence[Toleration]) -> Mask:
        """Whether a NoSchedule or NoExecute taint of the node is covered by no toleration."""
        is_tolerated = tolerated_by(tolerations)

        def repels(taints: tuple[Taint, ...]) -> bool:
            return first_of(taints, is_tolerated, DO_NOT_SCHEDULE) is not None

        return self._by_taints(repels, np.bool_)

    def _by_taints(self, answer: Callable[[tuple[Taint, ...]], int], kind: type[T]) -> NDArray[T]:
        self._check()
        self._read(self._columns.taints.changes)
        taints = self._columns.taints
        answers = np.array([answer(each) for each in taints.sets], dtype=kind)
        return read_only(answers[self._gather(taints.ids[: self._column_rows])])

    def image(self, name: str) -> tuple[int, int, Mask] | None:
        """Return an image's size in bytes, the number of nodes with it, and which rows have it."""
        self._check()
        self._read(self._columns.changes.images)
        found = self._columns.image(name)
        if found is None:
            return None
        size_bytes, nodes, count_column = found
        return size_bytes, nodes, self._gather(count_column.where(self._column_rows))

    def declaring(self, feature: str) -> Mask:
        """Whether the kubelet declares that it has *feature*."""
        return self._where(self._columns.declaring(feature))

    @property
    def closed(self) -> Mapping[int, str]:
        """Rows closed to all pods, since the node or a pod on it is malformed; with the reason."""
        self._check()
        self._read(self._columns.changes.closed)
        if self._rows is None or not self._columns.closed:
            return self._columns.closed
        where = {row: index for index, row in enumerate(self._rows.tolist())}
        return {where[row]: why for row, why in self._columns.closed.items() if row in where}

    # Columns about the pods on nodes.

    @property
    def pod_count(self) -> Int64s:
        """How many pods are on the node."""
        return self._with_changes(self._counts(self._columns.pod_counts), pod_contribution.ONE_EACH)

    def requested(self, resource: str) -> Int64s:
        """How much of *resource* the node's pods request; cpu in milli."""
        column = self._counts(self._columns.requested.get(resource))
        return self._with_changes(column, pod_contribution.requested(resource))

    def nonzero_requested(self, resource: str) -> Int64s:
        """How much cpu or memory the node's pods count for in scores, with defaults.

        Upstream's NonZeroRequested: a container without a request still counts for something.
        """
        column = self._counts(self._columns.nonzero_requested[resource])
        return self._with_changes(column, pod_contribution.nonzero_requested(resource))

    def port_conflicts(self, wanted: Sequence[HostPort]) -> Mask:
        """Whether any of *wanted* is in use on the node."""
        self._check()
        self._read(self._columns.changes.ports)
        taken = np.zeros(self._column_rows, dtype=np.int64)
        for port in wanted:
            for count_column in self._columns.ports_in_use(port):
                taken += count_column.dense(self._column_rows)
        conflicts = self._with_changes(self._gather(taken), pod_contribution.conflicting(wanted))
        return read_only(conflicts > 0)

    # Columns about volumes.

    def claim_users(self, claim: str) -> Int64s:
        """How many pod volumes on all nodes together use the claim ``namespace/name``."""
        self._check()
        self._read(self._columns.changes.untracked)
        everywhere = np.full(len(self), self._columns.volumes.users(claim), dtype=np.int64)
        return self._with_changes(read_only(everywhere), pod_contribution.mounting(claim))

    def disks_taken(self, wanted: Sequence[DiskUse]) -> Mask:
        """Whether a pod on the node uses a disk in a way that excludes one of *wanted*."""
        self._check()
        self._read(self._columns.changes.untracked)
        taken = np.zeros(self._column_rows, dtype=np.bool_)
        for use in wanted:
            for other, count_column in self._columns.disks.uses_of(use.disk).items():
                if use.conflicts(other):
                    taken |= count_column.where(self._column_rows)
        return self._with_changed_rows(
            self._gather(taken), lambda row: self._takes_disk(row, wanted)
        )

    def volumes_of(
        self, pod: Pod, *, drivers: bool = True
    ) -> frozenset[UniqueVolume] | UnresolvedVolumes:
        """Return the volumes of an incoming *pod* as CSI drivers count them.

        Without *drivers*, disks that the pod names directly are left out: on a node without a
        CSINode no driver limits them.
        """
        self._check()
        self._read(self._columns.changes.untracked)
        return self._columns.volumes.of(pod, incoming=True, drivers=drivers)

    def volume_limit(self, driver: str) -> Int64s:
        """How many volumes of *driver* may be attached to the node; -1 for any number."""
        self._read(self._columns.changes.untracked)
        return read_only(self._counts(self._columns.volumes.limit(driver)) - 1)

    def volumes_in_use(self, driver: str) -> Int64s:
        """How many volumes of *driver* are attached to the node or used by its pods."""
        self._read(self._columns.changes.untracked)
        column = self._counts(self._columns.volumes.in_use(driver))
        if self._changes:
            column = column.copy()
            for row in self._changes.rows:
                column[row] = sum(volume[0] == driver for volume in self._volumes_on(row).all)
        return read_only(column)

    def mounting(self, volume: UniqueVolume) -> Mask:
        """Whether a pod on the node uses *volume*."""
        self._read(self._columns.changes.untracked)
        mask = self._where(self._columns.volumes.mounts(volume))
        return self._with_changed_rows(mask, lambda row: volume in self._volumes_on(row).mounted)

    @property
    def volume_problems(self) -> Mapping[int, str]:
        """Rows with volume limits and a pod whose volumes cannot be resolved, with the reason."""
        self._check()
        self._read(self._columns.changes.untracked)
        uses = self._columns.volumes
        suspects = set(self._changes.rows)
        if problems := uses.problems:
            suspects |= {row for row in range(len(self)) if self._column_row(row) in problems}
        found = {row: self._volumes_on(row).problem for row in sorted(suspects)}
        return {
            row: why for row, why in found.items() if why and uses.limited(self._column_row(row))
        }

    def _volumes_on(self, row: int) -> RowVolumes:
        base, change = self._column_row(row), self._changes.get(row)
        if change is None:
            return self._columns.volumes.on(base)
        return self._columns.volumes.after(base, change, self.pods_on(row))

    def _takes_disk(self, row: int, wanted: Sequence[DiskUse]) -> bool:
        return any(
            use.conflicts(other)
            for pod in self.pods_on(row)
            for other in disks_of(pod)
            for use in wanted
        )
