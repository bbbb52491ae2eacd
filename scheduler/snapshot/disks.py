"""Disks that pods name directly in their volumes, and the rows on which they are in use.

Source: ``plugins/volumerestrictions/volume_restrictions.go`` (isVolumeConflict).
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from scheduler.model.pod import Pod
from scheduler.model.volumes import Volume
from scheduler.snapshot.count_column import CountColumn, add_under


class DiskUse(NamedTuple):
    """A pod's use of a disk that its volume names directly.

    Args:
        disk: The disk's identity.
        shareable: Whether other pods may use the disk on the same node, if they only read it too.
        monitors: For Ceph: two images of one name are the same disk if they share a monitor.
    """

    disk: tuple[str, ...]
    shareable: bool
    monitors: frozenset[str] | None = None

    def conflicts(self, other: "DiskUse") -> bool:
        """Tell whether the two uses exclude each other on one node."""
        if self.disk != other.disk or (self.shareable and other.shareable):
            return False
        if self.monitors is None or other.monitors is None:
            return True
        return bool(self.monitors & other.monitors)


def disks_of(pod: Pod) -> tuple[DiskUse, ...]:
    """Return the disks that *pod* names directly and that pods cannot share freely."""
    return tuple(_disks(pod.storage)) if pod.storage else ()


def _disks(volumes: Iterable[Volume]) -> Iterator[DiskUse]:
    for volume in volumes:
        if (gce := volume.gce_persistent_disk) is not None:
            yield DiskUse(("gce", gce.pd_name), gce.read_only)
        if (aws := volume.aws_elastic_block_store) is not None:
            # "AWS EBS forbids any two pods mounting the same volume ID", says upstream: no readers.
            yield DiskUse(("aws", aws.volume_id), shareable=False)
        if (iscsi := volume.iscsi) is not None:
            yield DiskUse(("iscsi", iscsi.iqn), iscsi.read_only)
        if (rbd := volume.rbd) is not None:
            disk = ("rbd", rbd.pool, rbd.image)
            yield DiskUse(disk, rbd.read_only, frozenset(rbd.monitors))


class DisksInUse:
    """The disks in use, by identity and kind of use, with counts by row."""

    def __init__(self) -> None:
        self._disks: dict[tuple[str, ...], dict[DiskUse, CountColumn]] = {}

    def uses_of(self, disk: tuple[str, ...]) -> Mapping[DiskUse, CountColumn]:
        """Return the uses of one disk, each with the number of pods by row."""
        return self._disks.get(disk, {})

    def add_pod(self, row: int, pod: Pod, sign: int) -> None:
        """Add the disks of *pod* to *row*, or with a *sign* of -1 remove them."""
        for use in disks_of(pod):
            uses = self._disks.setdefault(use.disk, {})
            add_under(uses, use, row, sign)
            if not uses:
                del self._disks[use.disk]

    def move(self, source: int, target: int, pods: Iterable[Pod]) -> None:
        """Move the counts of row *source*, whose pods are *pods*, to row *target*."""
        for use in {use for pod in pods for use in disks_of(pod)}:
            self._disks[use.disk][use].move(source, target)
