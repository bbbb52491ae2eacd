"""The volumes in use on each row, in columns.

Claims are counted by row with every pod that is added or removed. Which *volumes* those are, as CSI
drivers count them, depends on claims, volumes and classes too: a row whose pods or claims changed
is stale, and is counted again when a column is next read.

Source: ``plugins/nodevolumelimits/csi.go``, which resolves the volumes of all pods on a node for
every incoming pod with volumes.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from scheduler.model.csi_migration import (
    UniqueVolume,
    Untranslated,
    driver_for,
    volume_behind,
    volume_of,
)
from scheduler.model.fact import KubeObject, Resource, ResourceName
from scheduler.model.pod import Pod
from scheduler.model.storage import (
    CsiNode,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
    VolumeAttachment,
)
from scheduler.model.volumes import PodClaim, Volume
from scheduler.snapshot.count_column import CountColumn, add_under
from scheduler.snapshot.objects import ClusterObjects
from scheduler.snapshot.what_if import RowChange

# Begins the handle of a volume that has still to be provisioned. No driver returns a handle with a
# NUL, so it never equals that of an existing volume.
_TO_BE_PROVISIONED: Final = "\0to be provisioned"


@dataclass(frozen=True, slots=True)
class UnresolvedVolumes:
    """The volumes of a pod cannot be resolved.

    Args:
        why: A claim does not exist or belongs to another pod, or a disk cannot be translated.
        not_found: Whether a claim does not exist.
        by_drivers: Whether a disk is the cause, which concerns only nodes with CSI drivers.
    """

    why: str
    not_found: bool = False
    by_drivers: bool = False


@dataclass(slots=True, eq=False)
class RowVolumes:
    """The volumes of one node.

    Args:
        mounted: How many pods use each volume.
        attached: Volumes that are attached, whether or not a pod uses them.
        problem: Why the volumes of the first unresolved pod cannot be resolved; mostly empty.
    """

    mounted: Counter[UniqueVolume] = field(default_factory=Counter)
    attached: frozenset[UniqueVolume] = frozenset()
    problem: str = ""

    @property
    def all(self) -> set[UniqueVolume]:
        """Every volume once."""
        return {*self.mounted, *self.attached}


_NO_VOLUMES: Final = RowVolumes()


class VolumeUse:
    """Claims and volumes in use, by row.

    Args:
        objects: Where claims, volumes and classes are found.
        names: The rows' node names.
        rows: The rows by name.
        pods: The rows' pods.
    """

    def __init__(
        self,
        objects: ClusterObjects,
        names: Sequence[str],
        rows: Mapping[str, int],
        pods: Sequence[Mapping[str, Pod]],
    ) -> None:
        self._objects = objects
        self._names = names
        self._rows = rows
        self._pods = pods
        self._claims: dict[str, CountColumn] = {}
        self._generated: dict[str, CountColumn] = {}
        self._claims_on: dict[str, set[str]] = {}
        self._attachments: dict[str, dict[str, VolumeAttachment]] = {}
        self._attached_to: dict[str, set[str]] = {}
        self._limits: dict[str, CountColumn] = {}
        self._counted: dict[int, RowVolumes] = {}
        self._stale: set[int] = set()
        self._mounts: dict[UniqueVolume, CountColumn] = {}
        self._in_use: dict[str, CountColumn] = {}
        self._problems: dict[int, str] = {}
        objects.on_change(self._changed)

    # Columns.

    def users(self, claim: str) -> int:
        """Return how many pod volumes on all nodes use the claim ``namespace/name``."""
        count_column = self._claims.get(claim)
        return 0 if count_column is None else count_column.total

    @property
    def problems(self) -> Mapping[int, str]:
        """Rows with a pod whose volumes cannot be resolved, with the reason."""
        self.count()
        return self._problems

    def limited(self, row: int) -> bool:
        """Tell whether *row* limits the volumes of some driver."""
        return any(count_column[row] for count_column in self._limits.values())

    def limit(self, driver: str) -> CountColumn | None:
        """Return how many volumes of *driver* may be attached to each row, plus one.

        A limit of 0 is possible, and a column holds 0 where nothing was set: hence the plus one.
        """
        return self._limits.get(driver)

    def in_use(self, driver: str) -> CountColumn | None:
        """Return how many volumes of *driver* are mounted or attached on each row."""
        self.count()
        return self._in_use.get(driver)

    def mounts(self, volume: UniqueVolume) -> CountColumn | None:
        """Return on which rows pods use *volume*."""
        self.count()
        return self._mounts.get(volume)

    def on(self, row: int) -> RowVolumes:
        """Return the volumes of one row."""
        self.count()
        return self._counted.get(row, _NO_VOLUMES)

    def after(self, row: int, change: RowChange, pods: Iterable[Pod]) -> RowVolumes:
        """Return the volumes of one row after *change*, which leaves *pods* on it."""
        before = self.on(row)
        if not any(pod.storage for pod in (*change.added, *change.removed)):
            return before
        found = RowVolumes(attached=before.attached)
        # The change may remove the pod whose volumes are unresolved, so the row is counted anew.
        if before.problem:
            self._mount(found, pods)
            return found
        self._mount(found, change.removed)
        left = RowVolumes(before.mounted - found.mounted, before.attached)
        self._mount(left, change.added)
        return left

    def of(
        self, pod: Pod, *, incoming: bool = False, drivers: bool = True
    ) -> frozenset[UniqueVolume] | UnresolvedVolumes:
        """Return the volumes of *pod*, as CSI drivers count them.

        A claim that does not exist is no volume, unless the pod is *incoming* and needs it to run.
        Without *drivers*, disks that the pod names directly are left out.
        """
        if not pod.storage:
            return frozenset()
        found: set[UniqueVolume | None] = set()
        # `Pod.claims` has one entry for each such volume, in the order of the volumes.
        claims = iter(pod.claims)
        for source in pod.storage:
            if source.persistent_volume_claim is not None or source.ephemeral is not None:
                volume = self._of_claim(next(claims), pod, incoming=incoming)
            else:
                volume = _of_disk(source) if drivers else None
            if isinstance(volume, UnresolvedVolumes):
                return volume
            found.add(volume)
        return frozenset(volume for volume in found if volume is not None)

    def _of_claim(
        self, wanted: PodClaim, pod: Pod, *, incoming: bool
    ) -> UniqueVolume | UnresolvedVolumes | None:
        if not wanted.name:
            return UnresolvedVolumes("PersistentVolumeClaim had no name")
        claim = self._objects.claim(wanted.namespace, wanted.name)
        if claim is None:
            if not incoming:
                return None
            why = f"looking up PVC {wanted.key}: {claim_not_found(wanted.name)}"
            return UnresolvedVolumes(why, not_found=True)
        if wanted.generated and not owned_by(claim, pod):
            return UnresolvedVolumes(not_owned(claim, pod))
        return self._volume_of(claim)

    def count(self) -> None:
        """Count all stale rows again."""
        for _ in self.count_by_rows():
            pass

    def count_by_rows(self) -> Iterator[None]:
        """Count all stale rows again, with a pause after each."""
        while self._stale:
            row = self._stale.pop()
            self._replace(row, self._volumes_on(row) if row < len(self._names) else RowVolumes())
            yield

    # Updates.

    def add_pod(self, row: int, pod: Pod, sign: int) -> None:
        """Add the claims of *pod* to *row*, or with a *sign* of -1 remove them."""
        if not pod.storage:
            return
        for claim in pod.claims:
            add_under(self._generated if claim.generated else self._claims, claim.key, row, sign)
        self._stale.add(row)

    def add_node(self, row: int) -> None:
        """Add a row without pods."""
        name = self._names[row]
        self._set_limits(row, self._objects.csi_node(name), 1)
        if name in self._attachments:
            self._stale.add(row)

    def remove_node(self, row: int) -> None:
        """Clear a row without pods."""
        self._set_limits(row, self._objects.csi_node(self._names[row]), 0)
        self._replace(row, RowVolumes())
        self._stale.discard(row)

    def move(self, source: int, target: int) -> None:
        """Move the counts of row *source* to row *target*, which has its pods already."""
        moved = {
            (claim.generated, claim.key)
            for pod in self._pods[target].values()
            for claim in pod.claims
        }
        for generated, key in moved:
            (self._generated if generated else self._claims)[key].move(source, target)
        for count_column in self._limits.values():
            count_column.move(source, target)
        self._replace(source, RowVolumes())
        self._stale.discard(source)
        self._stale.add(target)

    def _changed(
        self, resource: ResourceName, old: KubeObject | None, new: KubeObject | None
    ) -> None:
        """Mark the rows stale whose volumes depend on the changed object."""
        match resource:
            case Resource.PERSISTENT_VOLUME_CLAIM:
                self._claim_changed(old, new)
            case Resource.PERSISTENT_VOLUME:
                self._volume_changed(old, new)
            case Resource.STORAGE_CLASS:
                if _provisioner(old) != _provisioner(new):
                    # A class's provisioner names the volumes of unbound claims. Classes change
                    # so rarely that every row with a claim may as well be counted again.
                    self._mark_claims_stale()
            case Resource.VOLUME_ATTACHMENT:
                self._attachment_changed(old, -1)
                self._attachment_changed(new, 1)
            case Resource.CSI_NODE:
                self._csi_node_changed(old, new)
            case _:
                pass

    def _mark_claims_stale(self) -> None:
        for count_columns in (self._claims, self._generated):
            for count_column in count_columns.values():
                self._stale.update(count_column.rows)

    def _claim_changed(self, old: KubeObject | None, new: KubeObject | None) -> None:
        for claim in (old, new):
            if isinstance(claim, PersistentVolumeClaim):
                self._stale.update(self._rows_with(claim.key))
        if isinstance(old, PersistentVolumeClaim) and old.spec.volume_name:
            claims = self._claims_on[old.spec.volume_name]
            claims.discard(old.key)
            if not claims:
                del self._claims_on[old.spec.volume_name]
        if isinstance(new, PersistentVolumeClaim) and new.spec.volume_name:
            self._claims_on.setdefault(new.spec.volume_name, set()).add(new.key)

    def _volume_changed(self, old: KubeObject | None, new: KubeObject | None) -> None:
        before = volume_behind(old) if isinstance(old, PersistentVolume) else None
        after = volume_behind(new) if isinstance(new, PersistentVolume) else None
        item = new or old
        if before == after and (old is None) == (new is None):
            return
        assert item is not None, "a change without an old or a new volume"
        for claim in self._claims_on.get(item.metadata.name, ()):
            self._stale.update(self._rows_with(claim))
        for node in self._attached_to.get(item.metadata.name, ()):
            self._stale.update(self._row_of(node))

    def _attachment_changed(self, item: KubeObject | None, sign: int) -> None:
        if not isinstance(item, VolumeAttachment):
            return
        node, volume = item.spec.node_name, item.spec.source.persistent_volume_name
        here = self._attachments.setdefault(node, {})
        if sign > 0:
            here[item.metadata.name] = item
        else:
            here.pop(item.metadata.name, None)
            if not here:
                del self._attachments[node]
        if volume:
            there = self._attached_to.setdefault(volume, set())
            if any(each.spec.source.persistent_volume_name == volume for each in here.values()):
                there.add(node)
            else:
                there.discard(node)
            if not there:
                del self._attached_to[volume]
        self._stale.update(self._row_of(node))

    def _csi_node_changed(self, old: KubeObject | None, new: KubeObject | None) -> None:
        item = new or old
        assert item is not None, "a change without an old or a new CSINode"
        for row in self._row_of(item.metadata.name):
            self._set_limits(row, old, 0)
            self._set_limits(row, new, 1)

    def _set_limits(self, row: int, item: KubeObject | None, factor: int) -> None:
        """Set the limits of *item* on *row*, or with a *factor* of 0 clear them."""
        if not isinstance(item, CsiNode):
            return
        for driver in item.spec.drivers:
            if driver.limit is not None:
                limits = self._limits.setdefault(driver.name, CountColumn())
                limits[row] = factor * (driver.limit + 1)
                if not limits:
                    del self._limits[driver.name]

    # Counting a row.

    def _volumes_on(self, row: int) -> RowVolumes:
        found = RowVolumes(attached=frozenset(self._attached(self._names[row])))
        self._mount(found, self._pods[row].values())
        return found

    def _mount(self, found: RowVolumes, pods: Iterable[Pod]) -> None:
        """Add the volumes of *pods* to *found*."""
        for pod in pods:
            if pod.storage:
                volumes = self.of(pod)
                if isinstance(volumes, UnresolvedVolumes):
                    found.problem = found.problem or volumes.why
                else:
                    found.mounted.update(volumes)

    def _attached(self, node: str) -> Iterator[UniqueVolume]:
        for item in self._attachments.get(node, {}).values():
            name = item.spec.source.persistent_volume_name
            volume = self._objects.volume(name) if name else None
            if item.spec.attacher and volume is not None and volume.spec.csi is not None:
                yield item.spec.attacher, volume.spec.csi.volume_handle

    def _replace(self, row: int, new: RowVolumes) -> None:
        """Replace what is counted on *row* by *new*; columns change by the difference."""
        old = self._counted.pop(row, _NO_VOLUMES)
        if new.mounted or new.attached or new.problem:
            self._counted[row] = new
        for volume in old.mounted.keys() - new.mounted.keys():
            add_under(self._mounts, volume, row, -1)
        for volume in new.mounted.keys() - old.mounted.keys():
            add_under(self._mounts, volume, row, 1)
        # Limits count a volume once a node, however many of its pods use it.
        before, after = old.all, new.all
        for driver, _ in before - after:
            self._in_use[driver].add(row, -1)
        for driver, _ in after - before:
            self._in_use.setdefault(driver, CountColumn()).add(row, 1)
        self._problems.pop(row, None)
        if new.problem:
            self._problems[row] = new.problem

    def _volume_of(self, claim: PersistentVolumeClaim) -> UniqueVolume | None:
        """Return the volume of *claim*: an existing one, or the one that will be provisioned."""
        volume = self._objects.volume(claim.spec.volume_name) if claim.spec.volume_name else None
        if volume is not None:
            return volume_behind(volume)
        storage_class = self._objects.storage_class(claim.class_name) if claim.class_name else None
        if storage_class is None or not storage_class.provisioner:
            return None
        return driver_for(storage_class.provisioner), f"{_TO_BE_PROVISIONED}-{claim.key}"

    def _rows_with(self, claim: str) -> Iterator[int]:
        for count_columns in (self._claims, self._generated):
            if claim in count_columns:
                yield from count_columns[claim].rows

    def _row_of(self, node: str) -> Iterator[int]:
        if node in self._rows:
            yield self._rows[node]


def _of_disk(source: Volume) -> UniqueVolume | UnresolvedVolumes | None:
    found = volume_of(source)
    if isinstance(found, Untranslated):
        why = f"converting volume({source.name}) from inline to csi: {found.why}"
        return UnresolvedVolumes(why, by_drivers=True)
    return found


def _provisioner(item: KubeObject | None) -> str | None:
    return item.provisioner if isinstance(item, StorageClass) else None


def claim_not_found(name: str) -> str:
    """Return the text of the API's error for a claim that does not exist."""
    return f'persistentvolumeclaim "{name}" not found'


def owned_by(claim: PersistentVolumeClaim, pod: Pod) -> bool:
    """Tell whether *claim* was created from an ephemeral volume of *pod*."""
    controller = claim.metadata.controller
    return controller is not None and controller.uid == pod.uid


def not_owned(claim: PersistentVolumeClaim, pod: Pod) -> str:
    """Return why *claim* has the name of an ephemeral volume's claim of *pod*, and is not it."""
    return f"PVC {claim.key} was not created for pod {pod.key} (pod is not owner)"


def mounts(pod: Pod, claim: object, *, generated: bool = True) -> bool:
    """Tell whether *pod* uses *claim*; claims of ephemeral volumes count if *generated*."""
    return isinstance(claim, PersistentVolumeClaim) and any(
        wanted.key == claim.key for wanted in pod.claims if generated or not wanted.generated
    )
