"""Disks that pods name themselves, and who uses them where."""

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from scheduler.model.pod import Pod
from scheduler.model.volumes import Volume
from scheduler.snapshot.count_column import CountColumn, count_under


class DiskUse(NamedTuple):
    """A pod's use of a disk that it names itself.

    Args:
        disk: What makes the disk the same one.
        shareable: Whether others may use it, as long as they only read as well.
        monitors: Ceph's monitors: of two disks alike, only those with one in common are the same.
    """

    disk: tuple[str, ...]
    shareable: bool
    monitors: frozenset[str] | None = None

    def conflicts(self, other: "DiskUse") -> bool:
        """Tell whether both uses cannot be on one node."""
        if self.disk != other.disk or (self.shareable and other.shareable):
            return False
        if self.monitors is None or other.monitors is None:
            return True
        return bool(self.monitors & other.monitors)


def disks_of(pod: Pod) -> tuple[DiskUse, ...]:
    """Return the disks that *pod* names itself and that cannot be shared freely."""
    return tuple(_disks(pod.storage)) if pod.storage else ()


def _disks(volumes: Iterable[Volume]) -> Iterator[DiskUse]:
    for volume in volumes:
        if (gce := volume.gce_persistent_disk) is not None:
            yield DiskUse(("gce", gce.pd_name), gce.read_only)
        if (aws := volume.aws_elastic_block_store) is not None:
            yield DiskUse(("aws", aws.volume_id), shareable=False)
        if (iscsi := volume.iscsi) is not None:
            yield DiskUse(("iscsi", iscsi.iqn), iscsi.read_only)
        if (rbd := volume.rbd) is not None:
            disk = ("rbd", rbd.pool, rbd.image)
            yield DiskUse(disk, rbd.read_only, frozenset(rbd.monitors))


class DisksInUse:
    """Disks in use, by name and by how they are used, with the rows."""

    def __init__(self) -> None:
        self._disks: dict[tuple[str, ...], dict[DiskUse, CountColumn]] = {}

    def uses_of(self, disk: tuple[str, ...]) -> Mapping[DiskUse, CountColumn]:
        """Return who uses disks of one name, and where."""
        return self._disks.get(disk, {})

    def add_pod(self, row: int, pod: Pod, sign: int) -> None:
        """Count *pod* on *row*, or with a *sign* of -1 no longer."""
        for use in disks_of(pod):
            uses = self._disks.setdefault(use.disk, {})
            count_under(uses, use, row, sign)
            if not uses:
                del self._disks[use.disk]

    def move(self, source: int, target: int, pods: Iterable[Pod]) -> None:
        """Carry what *source* counts, which holds *pods*, over to *target*."""
        for use in {use for pod in pods for use in disks_of(pod)}:
            self._disks[use.disk][use].move(source, target)
