"""Volumes and the claims on them: bound, waiting, meant for each other, broken."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from hack.fidelity.disks import DRIVER_ZONES, disk_behind
from hack.fidelity.words import (
    BETA_REGION,
    BETA_ZONE,
    HOSTNAME,
    REGION,
    ZONE,
    Dice,
    Json,
    without_empty,
)

CSI: Final = ("csi.example.com", "other-csi.example.com")
GIBIBYTES: Final = ("1Gi", "5Gi", "10Gi", "50Gi")
BETA_CLASS: Final = "volume.beta.kubernetes.io/storage-class"
_BOUND: Final = "pv.kubernetes.io/bind-completed"
_SELECTED: Final = "volume.kubernetes.io/selected-node"
_PURPOSES: Final = ("gold", "iron")
# Who stands twice is drawn twice as often.
_CLASSES: Final = (
    "late",
    "late",
    "other-late",
    "local",
    "now",
    "cloud",
    "disks",
    "",
    "unknown",
    "modeless",
)
_ACCESS_MODES: Final = (
    ("ReadWriteOnce",),
    ("ReadWriteOnce",),
    ("ReadWriteOnce", "ReadOnlyMany"),
    ("ReadWriteOncePod",),
    ("ReadWriteOncePod",),
)
_DELETED: Final = {"deletionTimestamp": "2026-01-01T00:00:00Z", "deletionGracePeriodSeconds": 0}


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


def free_volume(dice: Dice, index: int, nodes: list[Json]) -> Json:
    """Make a volume that nobody has yet."""
    storage_class = dice.one(("late", "local", "local", "cloud"))
    made = _volume(dice, f"free-{index}", storage_class, nodes)
    # Sizes differ, since upstream takes any of the smallest volumes.
    made["spec"]["capacity"]["storage"] = f"{index * 4 + 1}Gi"
    if dice.chance(0.1):
        made["status"]["phase"] = dice.one(("Released", "Pending"))
    if dice.chance(0.05):
        made["spec"]["claimRef"] = {"namespace": "default", "name": "claim-of-another"}
    return made


def add_claim(dice: Dice, storage: Storage, index: int, nodes: list[Json]) -> None:
    """Add a claim: bound, waiting, broken, or meant for a volume."""
    name, namespace = f"claim-{index}", dice.one(("default", "default", "team-a"))
    storage_class = dice.one(_CLASSES)
    state = dice.weighted({"bound": 6, "waiting": 6, "lost": 0.7, "going": 0.7, "half": 0.3})
    metadata: Json = {"name": name, "namespace": namespace, "uid": f"uid-{name}", "annotations": {}}
    spec: Json = {
        "accessModes": list(dice.one(_ACCESS_MODES)),
        "resources": {"requests": {"storage": dice.one(GIBIBYTES)}},
    }
    if dice.chance(0.06):
        metadata["annotations"][BETA_CLASS] = storage_class
        spec["storageClassName"] = dice.one(("late", "unknown", ""))
    elif storage_class or dice.chance(0.5):
        spec["storageClassName"] = storage_class
    phase = "Pending"
    if state in {"bound", "half", "going"}:
        spec["volumeName"] = f"volume-{index}"
        if state != "half":
            metadata["annotations"][_BOUND] = "yes"
            phase = "Bound"
        if dice.chance(0.85):
            storage.objects.append(
                _meant_for(_volume(dice, f"volume-{index}", storage_class, nodes), metadata)
            )
    if state == "lost":
        phase, spec["volumeName"] = "Lost", f"volume-{index}"
    if state == "going":
        metadata |= _DELETED
    if state == "waiting":
        _say_more(dice, metadata, spec, nodes)
        if dice.chance(0.12):
            storage.objects.append(_reserved(dice, index, storage_class, metadata, nodes))
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


def own_claim(dice: Dice, pod: Json) -> Json:
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
                    "controller": dice.chance(0.95),
                }
            ],
        },
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": dice.one(GIBIBYTES)}},
            "storageClassName": dice.one(("late", "late", "local", "now")),
        },
        "status": {"phase": "Pending"},
    }


def _say_more(dice: Dice, metadata: Json, spec: Json, nodes: list[Json]) -> None:
    """Let a waiting claim be choosy, or be chosen for already."""
    if dice.chance(0.1):
        metadata["annotations"][_SELECTED] = dice.one(nodes)["metadata"]["name"]
    if dice.chance(0.02):
        metadata["annotations"][_BOUND] = "yes"
    if dice.chance(0.2):
        spec["selector"] = dice.one(
            (
                {},
                {"matchLabels": {"tier": dice.one(_PURPOSES)}},
                {"matchExpressions": [{"key": "tier", "operator": "Exists"}]},
                {"matchExpressions": [{"key": "tier", "operator": "NotIn", "values": ["iron"]}]},
            )
        )
    if dice.chance(0.05):
        spec["volumeMode"] = "Block"
    if dice.chance(0.05):
        spec["volumeAttributesClassName"] = dice.one(("fast", ""))
    if dice.chance(0.05):
        spec["resources"] = {}


def _reserved(dice: Dice, index: int, storage_class: str, claim: Json, nodes: list[Json]) -> Json:
    """Make the volume that somebody means for a waiting claim, or for one that had its name."""
    made = _meant_for(_volume(dice, f"reserved-{index}", storage_class, nodes), claim)
    made["spec"]["capacity"]["storage"] = dice.one(("50Gi", "50Gi", "5Gi"))
    reference = made["spec"]["claimRef"]
    made["status"]["phase"] = dice.one(("Available", "Bound"))
    match dice.weighted({"by name": 3, "exactly": 2, "former": 1}):
        case "by name":
            del reference["uid"]
        case "former":
            reference["uid"] = "uid-former"
    return made


def _meant_for(volume: Json, claim: Json) -> Json:
    volume["spec"]["claimRef"] = {
        "kind": "PersistentVolumeClaim",
        **{each: claim[each] for each in ("namespace", "name", "uid")},
    }
    volume["status"]["phase"] = "Bound"
    return volume


def _volume(dice: Dice, name: str, storage_class: str, nodes: list[Json]) -> Json:
    """Make a volume, reachable from one node, one zone or everywhere."""
    metadata: Json = {"name": name, "uid": f"uid-{name}", "labels": _labels(dice, nodes)}
    spec: Json = {
        "capacity": {"storage": dice.one(GIBIBYTES)},
        "accessModes": dice.one((["ReadWriteOnce"], ["ReadWriteOnce", "ReadOnlyMany"])),
        "storageClassName": storage_class,
        "persistentVolumeReclaimPolicy": "Delete",
    }
    if dice.chance(0.06):
        metadata["annotations"] = {BETA_CLASS: storage_class}
        spec["storageClassName"] = dice.one(("late", "unknown", ""))
    if dice.chance(0.4):
        spec |= disk_behind(dice, dice.number(1, 3))
    else:
        spec["csi"] = {"driver": dice.one(CSI), "volumeHandle": f"handle-{name}"}
    if dice.chance(0.65):
        spec["nodeAffinity"] = {"required": {"nodeSelectorTerms": _reach(dice, nodes)}}
    if dice.chance(0.1):
        spec["volumeMode"] = dice.one(("Block", "Filesystem"))
    if dice.chance(0.04):
        spec["volumeAttributesClassName"] = dice.one(("fast", ""))
    if dice.chance(0.03):
        metadata |= _DELETED
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": metadata,
        "spec": spec,
        "status": {"phase": "Available"},
    }


def _zone(dice: Dice, nodes: list[Json]) -> str:
    """Choose a zone: of one of the nodes, mostly."""
    zone: str = dice.one(nodes)["metadata"]["labels"].get(ZONE, "a")
    return zone if dice.chance(0.8) else dice.one("abcd")


def _labels(dice: Dice, nodes: list[Json]) -> Json:
    labels = {}
    if dice.chance(0.5):
        key = dice.one((ZONE, ZONE, BETA_ZONE))
        labels[key] = dice.weighted(
            {
                _zone(dice, nodes): 10,
                "a__b": 4,
                "us-east1-a__us-east1-b": 0.5,
                "": 0.3,
                "__": 0.1,
            }
        )
    if dice.chance(0.1):
        labels[dice.one((REGION, BETA_REGION))] = dice.one(("r1", "r2", "r1__r2"))
    if dice.chance(0.3):
        labels["tier"] = dice.one(_PURPOSES)
    return labels


def _reach(dice: Dice, nodes: list[Json]) -> list[Json]:
    """Make the terms that tell from where a volume can be reached: one plain one, mostly."""
    name = dice.one(nodes)["metadata"]["name"]
    if dice.chance(0.75):
        key, value = dice.one(
            ((HOSTNAME, name), (ZONE, _zone(dice, nodes)), (ZONE, _zone(dice, nodes)))
        )
        return [{"matchExpressions": [{"key": key, "operator": "In", "values": [value]}]}]
    if dice.chance(0.15):
        names = [name, dice.one(nodes)["metadata"]["name"]] if dice.chance(0.3) else [name]
        field_of = {"key": "metadata.name", "operator": "In", "values": names}
        return [{"matchFields": [field_of]}]
    return [
        without_empty(
            {
                "matchExpressions": [_requirement(dice) for _ in range(dice.number(1, 2))]
                if dice.chance(0.95)
                else None
            }
        )
        for _ in range(dice.number(1, 2))
    ]


def _requirement(dice: Dice) -> Json:
    key = dice.one((ZONE, BETA_ZONE, BETA_REGION, REGION, "disk", *DRIVER_ZONES[:2]))
    operator = dice.weighted({"In": 6, "NotIn": 1, "Exists": 1, "DoesNotExist": 0.5})
    if operator in {"Exists", "DoesNotExist"}:
        return {"key": key, "operator": operator}
    known = {"disk": ("ssd", "hdd"), BETA_REGION: ("r1", "r2"), REGION: ("r1", "r2")}
    values = known.get(key, ("a", "b", "c", "d"))
    return {"key": key, "operator": operator, "values": dice.some(values, 1, 2)}
