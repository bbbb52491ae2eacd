"""Generated clusters as an API server takes them, and as kube-scheduler decides within them."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Final

from hack.fidelity.claims import BETA_CLASS, Storage
from hack.fidelity.clusters import make_nodes, make_services
from hack.fidelity.disks import disk_in_place
from hack.fidelity.pods import pending_pod
from hack.fidelity.volumes import add_volumes, make_storage
from hack.fidelity.words import FPGA, GPU, HOSTNAME, Dice, Json

# Nobody makes or binds volumes here: a claim that waits for either would wait for ever.
_NEVER_BOUND: Final = frozenset({"late", "other-late", "local", "cloud", "disks", "modeless"})
_CLAIM: Final = "PersistentVolumeClaim"


@dataclass
class PostableCluster:
    """What is posted, in this order.

    Args:
        objects: Nodes last, since whether they are known is asked.
        pods: One after the other.
    """

    objects: list[Json]
    pods: list[Json]


def make_postable_cluster(dice: Dice, name: str, pods: int) -> PostableCluster:
    """Make a cluster that an API server takes, most of it; three nodes have a twin, for ties."""
    nodes = make_nodes(dice)
    nodes += [_twin(node) for node in nodes[:3]]
    names = [node["metadata"]["name"] for node in nodes]
    services = make_services(dice)
    for service in services:
        service["spec"]["ports"] = [{"port": 80}]
    storage = _settled(make_storage(dice, nodes))
    pending = [pending_pod(dice, f"{name}-{index}", names, ()) for index in range(pods)]
    coveted = {"name": "coveted", **disk_in_place(dice)}
    for pod in pending:
        if storage.objects and dice.chance(0.6):
            storage.objects += map(_settled_claim, add_volumes(dice, storage, pod, placed=False))
        if dice.chance(0.2):
            pod["spec"].setdefault("volumes", []).append(coveted)
        _make_acceptable(pod)
    return PostableCluster([*services, *storage.objects, *nodes], pending)


def _twin(node: Json) -> Json:
    twin = copy.deepcopy(node)
    metadata = twin["metadata"]
    metadata["name"] += "-twin"
    metadata["uid"] += "-twin"
    if HOSTNAME in metadata["labels"]:
        metadata["labels"][HOSTNAME] = metadata["name"]
    return twin


def _make_acceptable(pod: Json) -> None:
    """Leave out of *pod* what an API server refuses, or what would keep it from being decided."""
    del pod["metadata"]["uid"], pod["status"]
    spec = pod["spec"]
    for each in ("nodeName", "schedulerName", "schedulingGates", "hostNetwork", "hostUsers"):
        spec.pop(each, None)
    spec.pop("overhead", None)  # comes with a runtime class
    spec["tolerations"] = [
        each for each in spec.get("tolerations", ()) if each.get("operator") not in {"Lt", "Gt"}
    ]
    for container in (*spec["containers"], *spec.get("initContainers", ())):
        if "restartPolicyRules" in container:
            container["restartPolicy"] = "Never"
        resources = container.get("resources", {})
        extended = {n: v for n, v in resources.get("requests", {}).items() if n in (GPU, FPGA)}
        if extended:
            resources["limits"] = extended


def _settled(storage: Storage) -> Storage:
    """Leave out claims that would keep a pod waiting after the decision, or that are going."""
    claims = [each for each in storage.objects if each["kind"] == _CLAIM]
    kept = {each["metadata"]["name"] for each in claims if not _waits(each)}
    return Storage(
        [
            _settled_claim(each)
            for each in storage.objects
            if each["kind"] != _CLAIM or each["metadata"]["name"] in kept
        ],
        {
            namespace: [name for name in names if name in kept]
            for namespace, names in storage.claims.items()
        },
        storage.private & kept,
    )


def _waits(claim: Json) -> bool:
    metadata, spec = claim["metadata"], claim["spec"]
    storage_class = metadata["annotations"].get(BETA_CLASS, spec.get("storageClassName"))
    return "deletionTimestamp" in metadata or (
        "volumeName" not in spec and storage_class in _NEVER_BOUND
    )


def _settled_claim(document: Json) -> Json:
    """Return *document* with UIDs left to the API server.

    Claims of pods' own volumes then belong to nobody, and their class binds at once, which nobody
    does.
    """
    metadata = {name: value for name, value in document["metadata"].items() if name != "uid"}
    metadata.pop("ownerReferences", None)
    settled = {**document, "metadata": metadata}
    if "claimRef" in document.get("spec", ()):
        reference = {n: v for n, v in document["spec"]["claimRef"].items() if n != "uid"}
        settled["spec"] = {**document["spec"], "claimRef": reference}
    if metadata["name"].endswith("-scratch"):
        settled["spec"] = {**document["spec"], "storageClassName": "now"}
    return settled
