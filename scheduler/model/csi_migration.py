"""CSI migration: volumes of in-tree plugins, as the CSI drivers know them that replaced those.

Source: ``csi-translation-lib/plugins/`` (in_tree_volume.go and one file for each plugin).
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

import msgspec

from scheduler.model.affinity import NodeSelector, NodeSelectorTerm
from scheduler.model.meta import LabelSelectorRequirement, kept_in_argument
from scheduler.model.selectors import IN
from scheduler.model.storage import PersistentVolume, PersistentVolumeSpec, VolumeNodeAffinity
from scheduler.model.volumes import (
    AzureDiskSource,
    CinderSource,
    ElasticBlockStoreSource,
    GcePersistentDiskSource,
    PortworxSource,
    Volume,
)

ZONE: Final = "topology.kubernetes.io/zone"
REGION: Final = "topology.kubernetes.io/region"
BETA_ZONE: Final = "failure-domain.beta.kubernetes.io/zone"
BETA_REGION: Final = "failure-domain.beta.kubernetes.io/region"

UniqueVolume = tuple[str, str]
"""A CSI driver, and its handle for the volume."""

_Disk = (
    GcePersistentDiskSource
    | ElasticBlockStoreSource
    | AzureDiskSource
    | CinderSource
    | PortworxSource
)

_AWS_ID = re.compile(r"aws://[^/]*/+(vol-[^/]*)/*")
_ZONES_BETWEEN: Final = "__"
_UNSPECIFIED: Final = "UNSPECIFIED"


@dataclass(frozen=True, slots=True)
class Successor:
    """The CSI driver that replaced an in-tree plugin, with its node label for zones if any."""

    driver: str
    zone_key: str = ""


SUCCESSORS: Final[Mapping[str, Successor]] = MappingProxyType(
    {
        "kubernetes.io/aws-ebs": Successor("ebs.csi.aws.com", "topology.ebs.csi.aws.com/zone"),
        "kubernetes.io/gce-pd": Successor("pd.csi.storage.gke.io", "topology.gke.io/zone"),
        "kubernetes.io/azure-disk": Successor("disk.csi.azure.com"),
        "kubernetes.io/cinder": Successor(
            "cinder.csi.openstack.org", "topology.cinder.csi.openstack.org/zone"
        ),
        "kubernetes.io/portworx-volume": Successor("pxd.portworx.com"),
    }
)
"""By the name of the in-tree plugin."""


def plugin_of(source: Volume | PersistentVolumeSpec) -> str:
    """Return the in-tree plugin of a volume; empty if it has none."""
    match _disk_of(source):
        case GcePersistentDiskSource():
            return "kubernetes.io/gce-pd"
        case ElasticBlockStoreSource():
            return "kubernetes.io/aws-ebs"
        case AzureDiskSource():
            return "kubernetes.io/azure-disk"
        case CinderSource():
            return "kubernetes.io/cinder"
        case PortworxSource():
            return "kubernetes.io/portworx-volume"
        case _:
            return ""


@dataclass(frozen=True, slots=True)
class Untranslated:
    """A disk that cannot be translated for the driver that replaced its plugin."""

    why: str


def volume_of(
    source: Volume | PersistentVolumeSpec, zones: str = ""
) -> UniqueVolume | Untranslated | None:
    """Translate an in-tree disk to the volume of a CSI driver; None if *source* is no such disk.

    Args:
        source: The volume of a pod, or the spec of a PersistentVolume.
        zones: The value of the zone label of a PersistentVolume.
    """
    match _disk_of(source):
        case GcePersistentDiskSource(pd_name=name):
            handle = _gce_handle(name, zones)
        case ElasticBlockStoreSource(volume_id=identity):
            handle = _aws_handle(identity)
        case AzureDiskSource(disk_uri=handle, kind=kind):
            if kind is not None and kind.lower() != "managed":
                return Untranslated(f"kind({kind}) is not supported in csi migration")
        case CinderSource(volume_id=handle) | PortworxSource(volume_id=handle):
            pass
        case None:
            return None
    if isinstance(handle, Untranslated):
        return handle
    return SUCCESSORS[plugin_of(source)].driver, handle


def volume_behind(volume: PersistentVolume) -> UniqueVolume | None:
    """Return a PersistentVolume as its CSI driver knows it; None if no driver attaches it."""
    csi = volume.spec.csi
    found = _translated_disk(volume) if csi is None else (csi.driver, csi.volume_handle)
    if found is None or isinstance(found, Untranslated):
        return None
    return found if all(found) else None


def why_untranslated(volume: PersistentVolume) -> str:
    """Return why an in-tree volume cannot be translated; empty if it can, or is no such volume."""
    found = _translated_disk(volume)
    return found.why if isinstance(found, Untranslated) else ""


def _translated_disk(volume: PersistentVolume) -> UniqueVolume | Untranslated | None:
    labels = volume.metadata.labels
    return volume_of(volume.spec, labels.get(BETA_ZONE) or labels.get(ZONE, ""))


def driver_for(provisioner: str) -> str:
    """Return the CSI driver for *provisioner*, which may be the name of an in-tree plugin."""
    successor = SUCCESSORS.get(provisioner)
    return provisioner if successor is None else successor.driver


@kept_in_argument
def translated_affinity(volume: PersistentVolume) -> VolumeNodeAffinity | None:
    """Return the node affinity of an in-tree volume with the label keys of its CSI driver.

    Zones in the affinity take precedence over the zones in the volume's label.
    """
    key = SUCCESSORS[plugin_of(volume.spec)].zone_key
    if not key:
        return volume.spec.node_affinity
    labels = volume.metadata.labels
    return _translated(volume.spec.node_affinity, key, labels.get(ZONE), labels.get(BETA_ZONE))


def _translated(
    affinity: VolumeNodeAffinity | None, key: str, zone: str | None, beta_zone: str | None
) -> VolumeNodeAffinity | None:
    required = affinity.required if affinity else None
    terms = (required.node_selector_terms or ()) if required else ()
    keys = {each.key for term in terms for each in term.match_expressions}
    if ZONE in keys or (BETA_ZONE not in keys and zone is not None):
        old, label, renamed = ZONE, zone, {ZONE: key}
    elif BETA_ZONE in keys or beta_zone is not None:
        old, label, renamed = BETA_ZONE, beta_zone, {BETA_ZONE: key, BETA_REGION: REGION}
    else:
        return affinity
    named = {each.key for term in terms for each in term.match_expressions if each.values}
    zones = sorted({each.strip() for each in (label or "").split(_ZONES_BETWEEN)} - {""})
    renamed = {each: new for each, new in renamed.items() if each in named}
    if not renamed and not zones:
        return affinity
    terms = tuple(_renamed(term, renamed) for term in terms)
    if old not in named and zones:
        terms = tuple(_and_zones(term, key, zones) for term in terms or (NodeSelectorTerm(),))
    return VolumeNodeAffinity(required=NodeSelector(node_selector_terms=terms))


def _renamed(term: NodeSelectorTerm, names: Mapping[str, str]) -> NodeSelectorTerm:
    expressions = tuple(
        msgspec.structs.replace(each, key=names.get(each.key, each.key))
        for each in term.match_expressions
    )
    return msgspec.structs.replace(term, match_expressions=expressions)


def _and_zones(term: NodeSelectorTerm, key: str, zones: Iterable[str]) -> NodeSelectorTerm:
    within = LabelSelectorRequirement(key=key, operator=IN, values=tuple(zones))
    return msgspec.structs.replace(term, match_expressions=(*term.match_expressions, within))


def _disk_of(source: Volume | PersistentVolumeSpec) -> _Disk | None:
    return (
        source.gce_persistent_disk
        or source.aws_elastic_block_store
        or source.azure_disk
        or source.cinder
        or source.portworx_volume
    )


def _gce_handle(name: str, label: str) -> str | Untranslated:
    zones = label.split(_ZONES_BETWEEN)
    if len(zones) == 1:
        return f"projects/{_UNSPECIFIED}/zones/{zones[0] or _UNSPECIFIED}/disks/{name}"
    regions = set()
    for zone in zones:
        locale_region, dash, _ = zone.rpartition("-")
        if not dash or locale_region.count("-") != 1:
            return Untranslated(
                "failed to get region from zones: zone in unexpected format,"
                f" expected: {{locale}}-{{region}}-{{zone}}, got: {zone}"
            )
        regions.add(locale_region)
    if len(regions) > 1:
        return Untranslated(f"failed to get region from zones: several regions: {sorted(regions)}")
    return f"projects/{_UNSPECIFIED}/regions/{regions.pop()}/disks/{name}"


def _aws_handle(identity: str) -> str | Untranslated:
    if not identity.startswith("aws://"):
        return identity
    if found := _AWS_ID.fullmatch(identity):
        return found.group(1)
    return Untranslated(
        f"failed to translate Kubernetes ID to EBS Volume ID Invalid format for AWS volume"
        f" ({identity})"
    )
