"""Claims, volumes and what belongs to them, from a few words; and tables that know them."""

from scheduler.model.fact import Resource
from scheduler.model.storage import (
    BIND_COMPLETED,
    SELECTED_NODE,
    CsiDriver,
    CsiNode,
    CsiStorageCapacity,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
    VolumeAttachment,
)
from scheduler.snapshot.node_table import NodeTable
from scheduler.testing import make_object
from tests.unit.plugins.plugin_calls import columns_of

RESOURCES = {
    PersistentVolumeClaim: Resource.PERSISTENT_VOLUME_CLAIM,
    PersistentVolume: Resource.PERSISTENT_VOLUME,
    StorageClass: Resource.STORAGE_CLASS,
    CsiNode: Resource.CSI_NODE,
    CsiDriver: Resource.CSI_DRIVER,
    CsiStorageCapacity: Resource.CSI_STORAGE_CAPACITY,
    VolumeAttachment: Resource.VOLUME_ATTACHMENT,
}
WAITING, IMMEDIATE = "WaitForFirstConsumer", "Immediate"


def claim(
    name,
    *,
    of="",
    size="1Gi",
    volume="",
    bound=None,
    modes=("ReadWriteOnce",),
    on=None,
    phase="",
    owner="",
    namespace="default",
    metadata=None,
    **spec,
):
    """Build a claim *of* a class; with a *volume* it is bound unless *bound* says otherwise."""
    annotations = {BIND_COMPLETED: "yes"} if (bool(volume) if bound is None else bound) else {}
    annotations |= {SELECTED_NODE: on} if on else {}
    owners = [{"kind": "Pod", "uid": owner, "controller": True}] if owner else []
    return make_object(
        PersistentVolumeClaim,
        name,
        namespace=namespace,
        metadata={"annotations": annotations, "ownerReferences": owners} | (metadata or {}),
        spec={
            "storageClassName": of,
            "volumeName": volume,
            "accessModes": list(modes),
            "resources": {"requests": {"storage": size} if size else {}},
            **spec,
        },
        status={"phase": phase},
    )


def volume(
    name,
    *,
    of="",
    size="1Gi",
    node="",
    within=None,
    csi="",
    claimed="",
    uid="",
    modes=("ReadWriteOnce",),
    phase="Available",
    labels="",
    metadata=None,
    **spec,
):
    """Build a volume that *node*, or nodes with labels *within*, can reach.

    Args:
        csi: ``driver/handle``.
        claimed: ``namespace/name`` of the claim that it is for.
    """
    if node:
        within = {"kubernetes.io/hostname": node}
    if within is not None:
        terms = [{"key": key, "operator": "In", "values": [value]} for key, value in within.items()]
        spec["nodeAffinity"] = {"required": {"nodeSelectorTerms": [{"matchExpressions": terms}]}}
    if csi:
        driver, _, handle = csi.partition("/")
        spec["csi"] = {"driver": driver, "volumeHandle": handle}
    if claimed:
        namespace, _, of_name = claimed.partition("/")
        spec["claimRef"] = {"namespace": namespace, "name": of_name, "uid": uid}
    return make_object(
        PersistentVolume,
        name,
        namespace="",
        labels=labels,
        metadata=metadata or {},
        spec={
            "storageClassName": of,
            "capacity": {"storage": size},
            "accessModes": list(modes),
            **spec,
        },
        status={"phase": phase},
    )


def storage_class(name, mode=WAITING, *, provisioner="csi.example.com", topologies=()):
    """Build a class; each topology is a mapping from label to values."""
    return make_object(
        StorageClass,
        name,
        namespace="",
        provisioner=provisioner,
        volumeBindingMode=mode,
        allowedTopologies=[
            {"matchLabelExpressions": [{"key": k, "values": list(v)} for k, v in each.items()]}
            for each in topologies
        ],
    )


def csi_node(name, *, migrated="", **limits):
    """Build a CSINode; underscores in the drivers' names are dots."""
    drivers = [
        {"name": driver.replace("_", "."), "allocatable": {"count": count}}
        for driver, count in limits.items()
    ]
    annotations = {"storage.alpha.kubernetes.io/migrated-plugins": migrated} if migrated else {}
    return make_object(
        CsiNode,
        name,
        namespace="",
        metadata={"annotations": annotations},
        spec={"drivers": drivers},
    )


def csi_driver(name="csi.example.com", *, capacity=True):
    return make_object(CsiDriver, name, namespace="", spec={"storageCapacity": capacity})


def capacity(of, *, size=None, maximum=None, within=None, name="capacity"):
    """Build a CSIStorageCapacity for nodes with labels *within*; None serves nobody."""
    return make_object(
        CsiStorageCapacity,
        name,
        storageClassName=of,
        capacity=size,
        maximumVolumeSize=maximum,
        nodeTopology=None if within is None else {"matchLabels": within},
    )


def attachment(name, node, volume_name, attacher="csi.example.com"):
    return make_object(
        VolumeAttachment,
        name,
        namespace="",
        spec={
            "attacher": attacher,
            "nodeName": node,
            "source": {"persistentVolumeName": volume_name},
        },
    )


def using(*claims):
    """Return volumes of a pod that mount *claims*; a name with a star is of the pod's own."""
    return [
        {"name": name.strip("*"), "ephemeral": {}}
        if name.endswith("*")
        else {"name": name, "persistentVolumeClaim": {"claimName": name}}
        for name in claims
    ]


def stored_columns(nodes, pods=(), things=()):
    """Return columns that know *things*, added after the nodes and pods."""
    columns = columns_of(nodes, pods)
    for item in things:
        columns.objects.put(RESOURCES[type(item)], item)
    return columns


def stored(nodes, pods=(), things=()):
    return NodeTable(stored_columns(nodes, pods, things))
