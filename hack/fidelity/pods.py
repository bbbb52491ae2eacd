"""Pods, running and pending: containers of odd sizes, ports, images and every kind of wish."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from hack.fidelity.only_labelled import LABEL
from hack.fidelity.selectors import (
    node_affinity,
    node_selector,
    only_named,
    pod_affinity,
    spread_constraints,
)
from hack.fidelity.words import (
    BATCH,
    DISRUPTED,
    FPGA,
    GPU,
    HARD_TAINTS,
    HUGE,
    IMAGES,
    NAMESPACES,
    RESTRICTED,
    SOFT_TAINTS,
    Dice,
    Json,
    without_empty,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

_DELETED_AT: Final = "2026-01-01T00:00:00Z"
_OTHERWISE_DISRUPTED: Final = ({"status": "False"}, {"reason": "EvictionByEvictionAPI"})
_ADDRESSES: Final = ("", "0.0.0.0", "127.0.0.1", "10.0.0.1", "::")


def running_pod(
    dice: Dice, name: str, node: str, owners: Sequence[Json], *, leaving: float
) -> Json:
    """Make a pod that is bound to *node*; a share of them, *leaving*, are being deleted."""
    pod = _pod(dice, name, owners)
    pod["spec"] |= {"nodeName": node, "containers": containers(dice, large=0.04)}
    if dice.chance(0.2):
        pod["spec"]["affinity"] = pod_affinity(dice, mild=True)
    status: Json = {"phase": dice.one(("Running", "Running", "Pending")), "conditions": []}
    pod["status"] = status
    if dice.chance(leaving):
        pod["metadata"] |= {"deletionTimestamp": _DELETED_AT, "deletionGracePeriodSeconds": 30}
        if dice.chance(0.8):
            status["conditions"].append(
                DISRUPTED if dice.chance(0.8) else {**DISRUPTED, **dice.one(_OTHERWISE_DISRUPTED)}
            )
    if dice.chance(0.12):
        _resize(dice, pod)
    return pod


def started(dice: Dice, pod: Json, number: int) -> Json:
    """Let *pod*, the *number*th of its cluster, start at a moment of its own.

    Who started when decides who is evicted, and upstream takes equal times in any order.
    """
    pod["status"]["startTime"] = (
        f"2026-01-01T{dice.number(0, 23):02}:{number // 60:02}:{number % 60:02}Z"
    )
    return pod


def nominated_pod(dice: Dice, name: str, node: str, owners: Sequence[Json]) -> Json:
    """Make a pending pod that is nominated to *node*, where victims are being evicted."""
    pod = pending_pod(dice, name, [node], owners)
    pod["spec"].pop("nodeName", None)
    pod["status"] = {"phase": "Pending", "nominatedNodeName": node}
    return pod


def pending_pod(dice: Dice, name: str, nodes: list[str], owners: Sequence[Json]) -> Json:
    """Make a pod that is to be placed on one of *nodes*, with a few wishes out of many."""
    pod = _pod(dice, name, owners)
    if dice.chance(0.2):
        return _easy(dice, pod)
    spec = pod["spec"]
    if dice.chance(0.06):
        spec["preemptionPolicy"] = dice.one(("Never", "Never", "PreemptLowerPriority"))
    if dice.chance(0.05):
        gates = dice.some(("example.com/quota", "example.com/images"), 1, 2)
        spec["schedulingGates"] = [{"name": gate} for gate in gates]
    spec["containers"] = containers(dice, large=0.08, ports=0.12)
    if dice.chance(0.04):
        spec["nodeName"] = dice.one([*nodes, "no-such-node"])
    if dice.chance(0.55):
        spec["tolerations"] = tolerations(dice)
    if dice.chance(0.15):
        spec["nodeSelector"] = node_selector(dice)
    affinity: Json = {}
    if dice.chance(0.35):
        affinity["nodeAffinity"] = node_affinity(dice, nodes)
    if dice.chance(0.35):
        affinity |= pod_affinity(dice)
    if dice.chance(0.15):
        pod["metadata"]["labels"][LABEL] = "_".join(dice.some(nodes, 0, 3))
        if dice.chance(0.4):
            affinity["nodeAffinity"] = only_named(dice, nodes)
    if affinity or dice.chance(0.02):
        spec["affinity"] = affinity
    if dice.chance(0.35):
        labels = pod["metadata"]["labels"]
        spec["topologySpreadConstraints"] = spread_constraints(dice, labels)
    if dice.chance(0.03):
        spec |= {"hostNetwork": True, "hostUsers": dice.chance(0.2)}
    if dice.chance(0.05):
        container = dice.one([*spec["containers"], *spec.get("initContainers", ())])
        action = dice.one(("RestartAllContainers", "RestartAllContainers", "Restart"))
        container["restartPolicyRules"] = [
            {"action": action, "exitCodes": {"operator": "In", "values": [42]}}
        ]
    if dice.chance(0.1):
        spec["volumes"] = [{"name": "image", "image": {"reference": dice.one(IMAGES)}}]
    pod["status"] = {"phase": "Pending"}
    if dice.chance(0.05):
        pod["status"]["nominatedNodeName"] = dice.one([*nodes, "no-such-node"])
    return pod


def _easy(dice: Dice, pod: Json) -> Json:
    """Ask for little, so that many nodes are left to be scored."""
    pod["spec"] = {
        "containers": [{"name": "c0", "image": dice.one(IMAGES)}],
        "tolerations": [{"operator": "Exists", "effect": "NoSchedule"}],
        "affinity": pod_affinity(dice),
    }
    pod["status"] = {"phase": "Pending"}
    return pod


def _pod(dice: Dice, name: str, owners: Sequence[Json]) -> Json:
    """Make what all pods share; replicas belong to one of *owners*."""
    metadata: Json = {
        "name": name,
        "namespace": dice.weighted(dict(zip(NAMESPACES, (6, 2, 1, 0.3), strict=True))),
        "uid": f"uid-{name}",
        "labels": dice.labels(),
    }
    if owners and dice.chance(0.3):
        owner = dice.one(owners)
        metadata["namespace"] = owner["metadata"]["namespace"]
        metadata["ownerReferences"] = [
            {
                "apiVersion": owner["apiVersion"] if dice.chance(0.95) else "other/v1",
                "kind": owner["kind"],
                "name": owner["metadata"]["name"] if dice.chance(0.95) else "gone",
                "uid": f"uid-{owner['metadata']['name']}",
                "controller": dice.chance(0.95),
            }
        ]
    spec: Json = {"schedulerName": "py-scheduler"}
    if dice.chance(0.1):
        spec["terminationGracePeriodSeconds"] = dice.one((0, 30))
    if dice.chance(0.5):
        spec["priority"] = dice.one((0, 0, 10, 100, -5))
    if dice.chance(0.08):
        spec["overhead"] = dice.one(
            (
                {"cpu": "50m", "memory": "32Mi"},
                {"cpu": "50m"},
                {"ephemeral-storage": "1Gi", GPU: "1"},
            )
        )
    if dice.chance(0.15):
        spec["initContainers"] = _init_containers(dice)
    if dice.chance(0.1):
        amounts = dice.some((("cpu", dice.cpu()), ("memory", dice.memory()), (HUGE, "4Mi")), 0, 2)
        spec["resources"] = {"requests": dict(amounts)}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata,
        "spec": spec,
    }


def containers(dice: Dice, *, large: float, ports: float = 0.06) -> list[Json]:
    """Make one to three containers."""
    return [
        _container(dice, f"c{index}", large=large, ports=ports)
        for index in range(dice.weighted({1: 6, 2: 2, 3: 1}))
    ]


def _container(dice: Dice, name: str, *, large: float = 0.02, ports: float = 0.1) -> Json:
    made: Json = {"name": name, "image": dice.one(IMAGES)}
    requests: Json = {}
    if dice.chance(0.75):
        requests["cpu"] = dice.one(("3", "7500m", "40")) if dice.chance(large) else dice.cpu()
    if dice.chance(0.75):
        requests["memory"] = dice.one(("6Gi", "200Gi")) if dice.chance(large) else dice.memory()
    if dice.chance(0.12):
        requests["ephemeral-storage"] = dice.one(("1Gi", "2Gi", "10Gi", "60Gi"))
    if dice.chance(0.1):
        requests[GPU] = dice.one(("0", "1", "2", "9"))
    if dice.chance(0.06):
        requests[dice.one((FPGA, FPGA, BATCH, BATCH, HUGE, "storage", "nonsense"))] = "2"
    if dice.chance(0.05):
        requests["cpu"] = dice.one(("0", "1u", "100u"))
    if requests or dice.chance(0.5):
        made["resources"] = {"requests": requests}
    if "resources" in made and dice.chance(0.2):
        made["resources"]["limits"] = {
            name: requests[name] for name in (GPU, FPGA) if name in requests
        }
    if dice.chance(0.05):
        made["restartPolicy"] = dice.one(("Never", "OnFailure"))
    if dice.chance(ports):
        made["ports"] = [_port(dice) for _ in range(dice.number(1, 2))]
    return made


def _port(dice: Dice) -> Json:
    port: Json = {"containerPort": 80, "hostPort": dice.one((80, 80, 443, 8080, 0))}
    if dice.chance(0.6):
        port["protocol"] = dice.one(("TCP", "UDP"))
    if dice.chance(0.5):
        port["hostIP"] = dice.one(_ADDRESSES)
    return port


def _init_containers(dice: Dice) -> list[Json]:
    made = [_container(dice, f"i{index}", ports=0.2) for index in range(dice.number(1, 3))]
    for container in made:
        if dice.chance(0.4):
            container["restartPolicy"] = "Always"
    return made


def _resize(dice: Dice, pod: Json) -> None:
    """Let a kubelet say that it actuated something else than is written."""
    for kind in ("container", "initContainer"):
        pod["status"][f"{kind}Statuses"] = [
            without_empty(
                {
                    "name": container["name"],
                    "resources": {"requests": {"cpu": dice.cpu(), "memory": dice.memory()}}
                    if dice.chance(0.9)
                    else None,
                    "allocatedResources": {"cpu": dice.cpu(), "memory": dice.memory()},
                }
            )
            for container in pod["spec"].get(f"{kind}s", ())
            if dice.chance(0.8)
        ]
    if "resources" in pod["spec"] and dice.chance(0.5):
        pod["status"]["resources"] = {"requests": {"cpu": dice.cpu()}}
        pod["status"]["allocatedResources"] = {"cpu": dice.cpu(), "memory": dice.memory()}
    if dice.chance(0.4):
        reason = dice.one(("Infeasible", "Deferred"))
        pod["status"]["conditions"].append(
            {"type": "PodResizePending", "status": "True", "reason": reason}
        )


def tolerations(dice: Dice) -> list[Json]:
    """Make tolerations that fit taints, nearly fit them, or fit everything."""
    made = [_toleration(dice) for _ in range(dice.number(1, 4))]
    if dice.chance(0.12):
        made.append({"operator": "Exists"})
    return made


def _toleration(dice: Dice) -> Json:
    taint = dice.one((*HARD_TAINTS, *SOFT_TAINTS))
    made: Json = {"key": taint["key"]}
    if dice.chance(0.4):
        made["operator"] = "Exists"
    else:
        if dice.chance(0.5):
            made["operator"] = "Equal"
        made["value"] = taint.get("value", "") if dice.chance(0.9) else "other"
    if dice.chance(0.7):
        made["effect"] = (
            taint["effect"]
            if dice.chance(0.85)
            else dice.one(("NoSchedule", "NoExecute", "PreferNoSchedule"))
        )
    if taint["key"] in {"sla", "slow"} and dice.chance(0.3):
        made |= {"operator": dice.one(("Gt", "Lt")), "value": dice.one(("900", "1000"))}
    if taint["key"] == RESTRICTED and dice.chance(0.5):
        made.pop("effect", None)
    if made.get("effect") == "NoExecute" and dice.chance(0.3):
        made["tolerationSeconds"] = dice.one((0, 300))
    return made
