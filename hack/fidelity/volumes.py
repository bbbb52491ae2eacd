"""Storage: classes, drivers with limits and capacities, and the volumes that pods have.

Claims of a cluster are few and pods take any of them, so that two pods meet at one claim.
"""

from __future__ import annotations

from typing import Final

from hack.fidelity.claims import CSI, GIBIBYTES, Storage, add_claim, free_volume, own_claim
from hack.fidelity.disks import MIGRATED, disk_in_place
from hack.fidelity.words import HOSTNAME, ZONE, Dice, Json, without_empty

# Name, provisioner, binding mode.
_CLASSES: Final = (
    ("late", CSI[0], "WaitForFirstConsumer"),
    ("other-late", CSI[1], "WaitForFirstConsumer"),
    ("local", "kubernetes.io/no-provisioner", "WaitForFirstConsumer"),
    ("now", CSI[0], "Immediate"),
    ("cloud", "kubernetes.io/aws-ebs", "WaitForFirstConsumer"),
    ("disks", "kubernetes.io/gce-pd", "WaitForFirstConsumer"),
    ("modeless", CSI[0], None),
)


def make_storage(dice: Dice, nodes: list[Json]) -> Storage:
    """Make the storage of a cluster: in one of five clusters there is none."""
    storage = Storage()
    if dice.chance(0.2):
        return storage
    storage.objects += _classes(dice)
    for node in nodes:
        if dice.chance(0.8):
            storage.objects.append(_csi_node(dice, node["metadata"]["name"]))
    storage.objects += _drivers(dice)
    storage.objects += [_capacity(dice, index, nodes) for index in range(dice.number(0, 5))]
    storage.objects += [free_volume(dice, index, nodes) for index in range(dice.number(0, 6))]
    for index in range(dice.number(3, 12)):
        add_claim(dice, storage, index, nodes)
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
    elif dice.chance(0.03):
        again = [each for each in volumes if "persistentVolumeClaim" in each][:1]
        volumes += [{**each, "name": "once-more"} for each in again]
    pod["spec"].setdefault("volumes", []).extend(volumes)
    scratch = any("ephemeral" in volume for volume in volumes)
    return [own_claim(dice, pod)] if scratch and dice.chance(0.7) else []


def _choose(dice: Dice, names: list[str]) -> list[Json]:
    """Choose claims, volumes of the pod's own, and disks named in place."""
    made: list[Json] = []
    for index, name in enumerate(dice.some(names, 0, 2)):
        claim: Json = {"claimName": name if dice.chance(0.92) else dice.one(("no-such-claim", ""))}
        if dice.chance(0.1):
            claim["readOnly"] = True
        made.append({"name": f"claim-{index}", "persistentVolumeClaim": claim})
    if dice.chance(0.25):
        made.append({"name": "disk", **disk_in_place(dice)})
    if dice.chance(0.12):
        spec = {
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": dice.one(GIBIBYTES)}},
        }
        made.append({"name": "scratch", "ephemeral": {"volumeClaimTemplate": {"spec": spec}}})
    if dice.chance(0.2):
        made.append(
            {
                "name": "settings",
                **dice.one(
                    ({"configMap": {"name": "settings"}}, {"csi": {"driver": dice.one(CSI)}})
                ),
            }
        )
    return made


def _classes(dice: Dice) -> list[Json]:
    return [
        without_empty(
            {
                "apiVersion": "storage.k8s.io/v1",
                "kind": "StorageClass",
                "metadata": {"name": name},
                "provisioner": provisioner,
                "volumeBindingMode": mode,
                "allowedTopologies": _topologies(dice) if dice.chance(0.2) else None,
            }
        )
        for name, provisioner, mode in _CLASSES
        if dice.chance(0.95)
    ]


def _topologies(dice: Dice) -> list[Json]:
    """Make the places in which volumes of a class can be: zones, mostly."""
    zones = {"key": ZONE, "values": dice.some("abcd", 1, 2)}
    disks = {"key": "disk", "values": dice.some(("ssd", "hdd"), 1, 2)}
    return dice.one(
        (
            [{"matchLabelExpressions": [zones]}],
            [{"matchLabelExpressions": [zones]}],
            [{"matchLabelExpressions": [zones, disks]}],
            [{"matchLabelExpressions": [zones]}, {"matchLabelExpressions": [disks]}],
            [{}, {"matchLabelExpressions": [disks]}],
        )
    )


def _csi_node(dice: Dice, name: str) -> Json:
    drivers = []
    for driver in (*CSI, *MIGRATED.values()):
        if dice.chance(0.7):
            count = dice.one((0, 1, 2, 3, 20)) if dice.chance(0.7) else None
            allocatable = without_empty({"count": count})
            drivers.append(
                without_empty(
                    {
                        "name": driver,
                        "nodeID": name,
                        "topologyKeys": [],
                        "allocatable": allocatable if allocatable or dice.chance(0.3) else None,
                    }
                )
            )
    metadata: Json = {"name": name}
    if dice.chance(0.7):
        migrated = list(MIGRATED) if dice.chance(0.7) else dice.some(list(MIGRATED), 0, 3)
        metadata["annotations"] = {
            "storage.alpha.kubernetes.io/migrated-plugins": ",".join(migrated)
        }
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
            "spec": dice.one(
                (
                    {"storageCapacity": True},
                    {"storageCapacity": True},
                    {"storageCapacity": True},
                    {"storageCapacity": False},
                    {"attachRequired": False, "preventPodSchedulingIfMissing": True},
                )
            ),
        }
        for name in dice.some((*CSI, MIGRATED["kubernetes.io/aws-ebs"]), 2, 3)
    ]


def _capacity(dice: Dice, index: int, nodes: list[Json]) -> Json:
    topology = dice.one(
        (
            None,
            {},
            {"matchLabels": {ZONE: dice.one("abcd")}},
            {"matchLabels": {HOSTNAME: dice.one(nodes)["metadata"]["name"]}},
            {"matchExpressions": [{"key": "disk", "operator": "NotIn", "values": ["hdd"]}]},
        )
    )
    return without_empty(
        {
            "apiVersion": "storage.k8s.io/v1",
            "kind": "CSIStorageCapacity",
            "metadata": {"name": f"capacity-{index}", "namespace": "default"},
            "storageClassName": dice.one(("late", "other-late")),
            "nodeTopology": topology,
            "capacity": dice.one((None, "0", "1Gi", "20Gi", "100Gi")),
            "maximumVolumeSize": dice.one((None, None, None, "5Gi", "50Gi")),
        }
    )


def _attachments(dice: Dice, objects: list[Json], nodes: list[Json]) -> list[Json]:
    made = []
    for each in objects:
        if each["kind"] == "PersistentVolume" and dice.chance(0.25):
            name = each["metadata"]["name"]
            driver = each["spec"].get("csi", {}).get("driver", MIGRATED["kubernetes.io/aws-ebs"])
            source = {"persistentVolumeName": name if dice.chance(0.95) else "no-such-volume"}
            made.append(
                {
                    "apiVersion": "storage.k8s.io/v1",
                    "kind": "VolumeAttachment",
                    "metadata": {"name": f"attachment-{name}"},
                    "spec": {
                        "attacher": driver if dice.chance(0.9) else dice.one(CSI),
                        "nodeName": dice.one(nodes)["metadata"]["name"],
                        "source": source,
                    },
                }
            )
    return made
