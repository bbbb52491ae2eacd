"""Storage: classes, volumes, claims bound and unbound, drivers with limits and capacities.

Claims of a cluster are few and pods take any of them, so that two pods meet at one claim.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from hack.fidelity.words import HOSTNAME, REGION, ZONE, Dice, Json, without_empty

_OLD_ZONE: Final = "failure-domain.beta.kubernetes.io/zone"
_CSI: Final = ("csi.example.com", "other-csi.example.com")
_EBS: Final = "kubernetes.io/aws-ebs"
_EBS_CSI: Final = "ebs.csi.aws.com"
_GIBIBYTES: Final = ("1Gi", "5Gi", "10Gi", "50Gi")

# Name, provisioner, binding mode.
_CLASSES: Final = (
    ("late", _CSI[0], "WaitForFirstConsumer"),
    ("other-late", _CSI[1], "WaitForFirstConsumer"),
    ("local", "kubernetes.io/no-provisioner", "WaitForFirstConsumer"),
    ("now", _CSI[0], "Immediate"),
    ("cloud", _EBS, "WaitForFirstConsumer"),
    ("modeless", _CSI[0], None),
)


@dataclass
class Storage:
    """The storage objects of a cluster.

    Args:
        objects: Everything but what pods say.
        claims: Names of claims by namespace.
        private: Claims that one pod may use.
        in_use: Those of them that a pod of the cluster uses already.
    """

    objects: list[Json] = field(default_factory=list)
    claims: dict[str, list[str]] = field(default_factory=dict)
    private: set[str] = field(default_factory=set)
    in_use: set[str] = field(default_factory=set)


def make_storage(dice: Dice, nodes: list[Json]) -> Storage:
    """Make the storage of a cluster: in one of three clusters there is none."""
    storage = Storage()
    if dice.chance(0.25):
        return storage
    storage.objects += _classes(dice)
    for node in nodes:
        if dice.chance(0.8):
            storage.objects.append(_csi_node(dice, node["metadata"]["name"]))
    storage.objects += _drivers(dice)
    storage.objects += [_capacity(dice, index) for index in range(dice.number(0, 5))]
    storage.objects += [_free_volume(dice, index, nodes) for index in range(dice.number(0, 6))]
    for index in range(dice.number(3, 12)):
        _add_claim(dice, storage, index, nodes)
    storage.objects += _attachments(dice, storage.objects, nodes)
    return storage


def add_volumes(dice: Dice, storage: Storage, pod: Json, *, placed: bool) -> list[Json]:
    """Give *pod* volumes, and return the objects that come with them.

    Of the pods that are *placed*, at most one has a claim that one pod may use: kubelets see to
    that, and upstream, which counts names, is easily misled where two have one.
    """
    names = storage.claims.get(pod["metadata"]["namespace"], [])
    if placed:
        names = [name for name in names if name not in storage.in_use]
    volumes = _choose(dice, names)
    if placed:
        used = {each.get("persistentVolumeClaim", {}).get("claimName") for each in volumes}
        storage.in_use |= used & storage.private
    pod["spec"].setdefault("volumes", []).extend(volumes)
    scratch = any("ephemeral" in volume for volume in volumes)
    return [_scratch_claim(dice, pod)] if scratch and dice.chance(0.7) else []


def _scratch_claim(dice: Dice, pod: Json) -> Json:
    """Make the claim of a pod's own volume; now and then it is somebody else's."""
    owner = pod["metadata"]["uid"] if dice.chance(0.6) else "uid-somebody"
    name = f"{pod['metadata']['name']}-scratch"
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {
            "name": name,
            "namespace": pod["metadata"]["namespace"],
            "uid": f"uid-{name}",
            "ownerReferences": [
                {
                    "apiVersion": "v1",
                    "kind": "Pod",
                    "name": pod["metadata"]["name"],
                    "uid": owner,
                    "controller": True,
                }
            ],
        },
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": dice.one(_GIBIBYTES)}},
            "storageClassName": dice.one(("late", "late", "local", "now")),
        },
        "status": {"phase": "Pending"},
    }


def _choose(dice: Dice, names: list[str]) -> list[Json]:
    """Choose claims, volumes of the pod's own, and disks named in place."""
    made: list[Json] = []
    for index, name in enumerate(dice.some(names, 0, 2)):
        claim = {"claimName": name if dice.chance(0.92) else dice.one(("no-such-claim", ""))}
        made.append({"name": f"claim-{index}", "persistentVolumeClaim": claim})
    if dice.chance(0.25):
        made.append(_disk(dice))
    if dice.chance(0.12):
        spec = {
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": dice.one(_GIBIBYTES)}},
        }
        made.append({"name": "scratch", "ephemeral": {"volumeClaimTemplate": {"spec": spec}}})
    if dice.chance(0.2):
        made.append({"name": "settings", "configMap": {"name": "settings"}})
    return made


def _classes(dice: Dice) -> list[Json]:
    made = []
    for name, provisioner, mode in _CLASSES:
        topologies = None
        if dice.chance(0.2):
            values = dice.some("abcd", 1, 2)
            topologies = [{"matchLabelExpressions": [{"key": ZONE, "values": values}]}]
        if dice.chance(0.95):
            made.append(
                without_empty(
                    {
                        "apiVersion": "storage.k8s.io/v1",
                        "kind": "StorageClass",
                        "metadata": {"name": name},
                        "provisioner": provisioner,
                        "volumeBindingMode": mode,
                        "allowedTopologies": topologies,
                    }
                )
            )
    return made


def _csi_node(dice: Dice, name: str) -> Json:
    drivers = []
    for driver in (*_CSI, _EBS_CSI):
        if dice.chance(0.7):
            allocatable = {"count": dice.one((0, 1, 2, 3, 20))} if dice.chance(0.7) else None
            drivers.append(
                without_empty(
                    {"name": driver, "nodeID": name, "topologyKeys": [], "allocatable": allocatable}
                )
            )
    metadata: Json = {"name": name}
    if dice.chance(0.6):
        migrated = f"{_EBS},kubernetes.io/gce-pd"
        metadata["annotations"] = {"storage.alpha.kubernetes.io/migrated-plugins": migrated}
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "CSINode",
        "metadata": metadata,
        "spec": {"drivers": drivers},
    }


def _drivers(dice: Dice) -> list[Json]:
    return [
        {
            "apiVersion": "storage.k8s.io/v1",
            "kind": "CSIDriver",
            "metadata": {"name": name},
            "spec": {"storageCapacity": dice.chance(0.6)},
        }
        for name in dice.some(_CSI, 1, 2)
    ]


def _capacity(dice: Dice, index: int) -> Json:
    topology = dice.one((None, {}, {"matchLabels": {ZONE: dice.one("abcd")}}))
    return without_empty(
        {
            "apiVersion": "storage.k8s.io/v1",
            "kind": "CSIStorageCapacity",
            "metadata": {"name": f"capacity-{index}", "namespace": "default"},
            "storageClassName": dice.one(("late", "other-late")),
            "nodeTopology": topology,
            "capacity": dice.one((None, "1Gi", "20Gi", "100Gi")),
            "maximumVolumeSize": dice.one((None, None, "5Gi")),
        }
    )


def _volume(dice: Dice, name: str, storage_class: str, nodes: list[Json]) -> Json:
    """Make a volume, reachable from one node, one zone or everywhere."""
    spec: Json = {
        "capacity": {"storage": dice.one(_GIBIBYTES)},
        "accessModes": dice.one((["ReadWriteOnce"], ["ReadWriteOnce", "ReadOnlyMany"])),
        "storageClassName": storage_class,
        "persistentVolumeReclaimPolicy": "Delete",
    }
    if dice.chance(0.25):
        spec["awsElasticBlockStore"] = {"volumeID": f"aws://a/vol-{name}"}
    else:
        spec["csi"] = {"driver": dice.one(_CSI), "volumeHandle": f"handle-{name}"}
    if dice.chance(0.6):
        key, value = dice.one(
            (
                (HOSTNAME, dice.one(nodes)["metadata"]["name"]),
                (ZONE, dice.one("abcd")),
                (ZONE, dice.one("abcd")),
            )
        )
        requirement = {"key": key, "operator": "In", "values": [value]}
        spec["nodeAffinity"] = {
            "required": {"nodeSelectorTerms": [{"matchExpressions": [requirement]}]}
        }
    if dice.chance(0.1):
        spec["volumeMode"] = dice.one(("Block", "Filesystem"))
    labels = {}
    if dice.chance(0.35):
        key = dice.one((ZONE, ZONE, _OLD_ZONE, REGION))
        labels[key] = dice.one(("a", "b", "a__b", "r1"))
    if dice.chance(0.3):
        labels["tier"] = dice.one(("gold", "iron"))
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name, "uid": f"uid-{name}", "labels": labels},
        "spec": spec,
        "status": {"phase": "Available"},
    }


def _free_volume(dice: Dice, index: int, nodes: list[Json]) -> Json:
    storage_class = dice.one(("late", "local", "local", "cloud"))
    made = _volume(dice, f"free-{index}", storage_class, nodes)
    # Sizes differ, since upstream takes any of the smallest volumes.
    made["spec"]["capacity"]["storage"] = f"{index * 4 + 1}Gi"
    if dice.chance(0.1):
        made["status"]["phase"] = dice.one(("Released", "Pending"))
    return made


def _add_claim(dice: Dice, storage: Storage, index: int, nodes: list[Json]) -> None:
    """Add a claim: bound, waiting, broken, or the one of a pod's own volume."""
    name, namespace = f"claim-{index}", dice.one(("default", "default", "team-a"))
    storage_class = dice.one(
        ("late", "late", "other-late", "local", "now", "cloud", "", "unknown", "modeless")
    )
    state = dice.weighted({"bound": 6, "waiting": 6, "lost": 0.4, "going": 0.7, "half": 0.3})
    metadata: Json = {"name": name, "namespace": namespace, "uid": f"uid-{name}"}
    spec: Json = {
        "accessModes": dice.one((["ReadWriteOnce"], ["ReadWriteOnce"], ["ReadWriteOncePod"])),
        "resources": {"requests": {"storage": dice.one(_GIBIBYTES)}},
        "storageClassName": storage_class,
    }
    phase = "Pending"
    if state in {"bound", "half", "going"}:
        volume = f"volume-{index}"
        spec["volumeName"] = volume
        if state != "half":
            metadata["annotations"] = {"pv.kubernetes.io/bind-completed": "yes"}
            phase = "Bound"
        if dice.chance(0.85):
            made = _volume(dice, volume, storage_class, nodes)
            made["spec"]["claimRef"] = {
                "kind": "PersistentVolumeClaim",
                "namespace": namespace,
                "name": name,
                "uid": f"uid-{name}",
            }
            made["status"]["phase"] = "Bound"
            storage.objects.append(made)
    if state == "lost":
        phase, spec["volumeName"] = "Lost", f"volume-{index}"
    if state == "going":
        metadata |= {"deletionTimestamp": "2026-01-01T00:00:00Z", "deletionGracePeriodSeconds": 0}
    if state == "waiting":
        _say_more(dice, metadata, spec, nodes)
    storage.claims.setdefault(namespace, []).append(name)
    if spec["accessModes"] == ["ReadWriteOncePod"]:
        storage.private.add(name)
    storage.objects.append(
        {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": metadata,
            "spec": spec,
            "status": {"phase": phase},
        }
    )


def _say_more(dice: Dice, metadata: Json, spec: Json, nodes: list[Json]) -> None:
    """Let a waiting claim be choosy, or be chosen for already."""
    if dice.chance(0.1):
        node = dice.one(nodes)["metadata"]["name"]
        metadata["annotations"] = {"volume.kubernetes.io/selected-node": node}
    if dice.chance(0.15):
        spec["selector"] = {"matchLabels": {"tier": dice.one(("gold", "iron"))}}
    if dice.chance(0.05):
        spec["volumeMode"] = "Block"


def _attachments(dice: Dice, objects: list[Json], nodes: list[Json]) -> list[Json]:
    made = []
    for each in objects:
        if each["kind"] == "PersistentVolume" and "csi" in each["spec"] and dice.chance(0.25):
            name = each["metadata"]["name"]
            made.append(
                {
                    "apiVersion": "storage.k8s.io/v1",
                    "kind": "VolumeAttachment",
                    "metadata": {"name": f"attachment-{name}"},
                    "spec": {
                        "attacher": each["spec"]["csi"]["driver"],
                        "nodeName": dice.one(nodes)["metadata"]["name"],
                        "source": {"persistentVolumeName": name},
                    },
                }
            )
    return made


def _disk(dice: Dice) -> Json:
    """Make a volume that names a disk: pods may be in each other's way."""
    number, read_only = dice.number(1, 2), dice.chance(0.4)
    return {
        "name": "disk",
        **dice.one(
            (
                {"gcePersistentDisk": {"pdName": f"disk-{number}", "readOnly": read_only}},
                {"awsElasticBlockStore": {"volumeID": f"aws://a/vol-{number}"}},
                {
                    "iscsi": {
                        "targetPortal": "10.0.0.1",
                        "iqn": f"iqn.2026-01.example:{number}",
                        "lun": 0,
                        "readOnly": read_only,
                    }
                },
                {
                    "rbd": {
                        "monitors": dice.some(("m1", "m2", "m3"), 1, 2),
                        "image": f"image-{number}",
                        "pool": "rbd",
                        "readOnly": read_only,
                    }
                },
            )
        ),
    }
