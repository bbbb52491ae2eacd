"""Disks that were part of Kubernetes once: named by pods in place, and behind volumes."""

from __future__ import annotations

from typing import Final

from hack.fidelity.words import Dice, Json, without_empty

MIGRATED: Final = {
    "kubernetes.io/aws-ebs": "ebs.csi.aws.com",
    "kubernetes.io/gce-pd": "pd.csi.storage.gke.io",
    "kubernetes.io/azure-disk": "disk.csi.azure.com",
    "kubernetes.io/cinder": "cinder.csi.openstack.org",
    "kubernetes.io/portworx-volume": "pxd.portworx.com",
}
"""The drivers that took over, by the name of the plugin."""
_UNKNOWN: Final = "disk"  # the driver's disks are called vol-
DRIVER_ZONES: Final = (
    "topology.ebs.csi.aws.com/zone",
    "topology.gke.io/zone",
    "topology.cinder.csi.openstack.org/zone",
)
"""Labels under which nodes tell their zone once more."""


def disk_in_place(dice: Dice) -> Json:
    """Make a disk that a pod names: pods may be in each other's way."""
    number, read_only = dice.number(1, 2), dice.chance(0.4)
    if dice.chance(0.1):
        return _migrated_disk(dice, number)
    return dice.one(
        (
            {"gcePersistentDisk": {"pdName": f"disk-{number}", "readOnly": read_only}},
            {"awsElasticBlockStore": {"volumeID": _aws_name(dice, number)}},
            {"iscsi": _iscsi(number, read_only=read_only)},
            {"rbd": _rbd(dice, number, read_only=read_only)},
        )
    )


def disk_behind(dice: Dice, number: int) -> Json:
    """Make the source of a PersistentVolume: a disk that a driver took over, mostly."""
    match dice.weighted({"aws": 5, "gce": 3, "migrated": 3, "strange": 4, "other": 2}):
        case "aws":
            return {"awsElasticBlockStore": {"volumeID": _aws_name(dice, number)}}
        case "gce":
            return {"gcePersistentDisk": {"pdName": f"disk-{number}"}}
        case "migrated":
            return _migrated_disk(dice, number)
        case "strange":
            return {"awsElasticBlockStore": {"volumeID": f"aws://a/{_UNKNOWN}-{number}"}}
        case _:
            return _disk_of_no_driver(dice, number)


def _disk_of_no_driver(dice: Dice, number: int) -> Json:
    return dice.one(
        (
            {"nfs": {"server": "files.example", "path": f"/{number}"}},
            {"hostPath": {"path": f"/mnt/{number}"}},
            {"iscsi": _iscsi(number, read_only=False)},
            {"azureFile": {"secretName": "key", "shareName": f"share-{number}"}},
            {"vsphereVolume": {"volumePath": f"[store] disk-{number}.vmdk"}},
        )
    )


def _migrated_disk(dice: Dice, number: int) -> Json:
    kind = dice.weighted({None: 5, "Managed": 3, "Dedicated": 3})
    uri = f"/subscriptions/s/disks/disk-{number}"
    return dice.one(
        (
            {"azureDisk": without_empty({"diskName": "d", "diskURI": uri, "kind": kind})},
            {"cinder": {"volumeID": f"disk-{number}"}},
            {"portworxVolume": {"volumeID": f"disk-{number}"}},
        )
    )


def _aws_name(dice: Dice, number: int) -> str:
    """Name a disk in one of the ways there are; now and then in one that nobody understands."""
    return dice.weighted(
        {
            f"aws://a/vol-{number}": 4,
            f"aws:///vol-{number}": 2,
            f"vol-{number}": 2,
            f"aws://a/{_UNKNOWN}-{number}": 0.5,
        }
    )


def _iscsi(number: int, *, read_only: bool) -> Json:
    return {
        "targetPortal": "10.0.0.1",
        "iqn": f"iqn.2026-01.example:{number}",
        "lun": 0,
        "readOnly": read_only,
    }


def _rbd(dice: Dice, number: int, *, read_only: bool) -> Json:
    return {
        "monitors": dice.some(("m1", "m2", "m3"), 1, 2),
        "image": f"image-{number}",
        "pool": dice.one(("rbd", "rbd", "other")),
        "readOnly": read_only,
    }
