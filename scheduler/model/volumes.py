"""Volumes of pods: the sources that scheduling reads."""

from dataclasses import dataclass
from operator import attrgetter
from typing import Final

import msgspec

from scheduler.model.meta import Struct


class ImageVolumeSource(Struct, frozen=True):
    """An image mounted as a volume."""

    reference: str = ""


class ClaimVolumeSource(Struct, frozen=True):
    """A PersistentVolumeClaim mounted as a volume."""

    claim_name: str = ""
    read_only: bool = False


class GcePersistentDiskSource(Struct, frozen=True):
    """A disk of Google Compute Engine."""

    pd_name: str = ""
    read_only: bool = False


class ElasticBlockStoreSource(Struct, frozen=True):
    """A disk of Amazon's Elastic Block Store."""

    volume_id: str = msgspec.field(default="", name="volumeID")


class AzureDiskSource(Struct, frozen=True):
    """A disk of Azure."""

    disk_uri: str = msgspec.field(default="", name="diskURI")
    kind: str | None = None


class CinderSource(Struct, frozen=True):
    """A disk of OpenStack."""

    volume_id: str = msgspec.field(default="", name="volumeID")


class PortworxSource(Struct, frozen=True):
    """A volume of Portworx."""

    volume_id: str = msgspec.field(default="", name="volumeID")


class IscsiSource(Struct, frozen=True):
    """A disk behind iSCSI."""

    iqn: str = ""
    read_only: bool = False


class RbdSource(Struct, frozen=True):
    """A block device of Ceph."""

    monitors: tuple[str, ...] = ()
    image: str = ""
    pool: str = ""
    read_only: bool = False


class InlineCsiSource(Struct, frozen=True):
    """A CSI volume that is created with the pod and deleted with it."""

    driver: str = ""


class EphemeralVolumeSource(Struct, frozen=True):
    """A claim that is created from a template in the pod; the template is not read."""


class Volume(Struct, frozen=True):
    """A volume of a pod."""

    name: str = ""
    persistent_volume_claim: ClaimVolumeSource | None = None
    image: ImageVolumeSource | None = None
    ephemeral: EphemeralVolumeSource | None = None
    csi: InlineCsiSource | None = None
    gce_persistent_disk: GcePersistentDiskSource | None = None
    aws_elastic_block_store: ElasticBlockStoreSource | None = None
    azure_disk: AzureDiskSource | None = None
    cinder: CinderSource | None = None
    portworx_volume: PortworxSource | None = None
    iscsi: IscsiSource | None = None
    rbd: RbdSource | None = None

    @property
    def is_read(self) -> bool:
        """Whether it has a source that scheduling reads: an image, a claim, a disk or CSI."""
        return _sources(self) != _NO_SOURCES

    @property
    def is_storage(self) -> bool:
        """Whether some plugin reads it: it is a claim, a disk or a CSI volume."""
        return msgspec.structs.replace(self, image=None).is_read


_SOURCES: Final = tuple(name for name in Volume.__struct_fields__ if name != "name")
_NO_SOURCES: Final = (None,) * len(_SOURCES)
_sources = attrgetter(*_SOURCES)


@dataclass(frozen=True, slots=True)
class PodClaim:
    """A claim that a pod uses.

    Args:
        namespace: The pod's namespace.
        name: The claim's name.
        generated: Whether it is created from a template in the pod, and deleted with the pod.
    """

    namespace: str
    name: str
    generated: bool = False

    @property
    def key(self) -> str:
        """``namespace/name``."""
        return f"{self.namespace}/{self.name}"
