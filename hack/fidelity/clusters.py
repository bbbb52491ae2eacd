"""Questions: a cluster, a configuration, and pending pods to ask about."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from hack.fidelity.configs import make_config
from hack.fidelity.disks import DRIVER_ZONES
from hack.fidelity.pods import nominated_pod, pending_pod, running_pod, started
from hack.fidelity.selectors import label_selector
from hack.fidelity.volumes import add_volumes, make_storage
from hack.fidelity.words import (
    APPS,
    BATCH,
    BETA_REGION,
    BETA_ZONE,
    BEYOND_INT64,
    DISRUPTED,
    FEATURES,
    FPGA,
    GPU,
    HARD_TAINTS,
    HOSTNAME,
    HUGE,
    IMAGES,
    NAMESPACES,
    REGION,
    SOFT_TAINTS,
    TIERS,
    ZONE,
    Dice,
    Json,
    without_empty,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

PODS_IN_QUESTION: Final = 20
_COVETED_PORT: Final = 9000


@dataclass(frozen=True)
class _Sizes:
    """How many nodes and running pods a cluster has, with weights."""

    nodes: Mapping[int, float]
    pods: Mapping[int, float]


_SMALL: Final = _Sizes({1: 0.5, 3: 2, 6: 4, 12: 2}, {0: 1, 8: 3, 20: 4, 45: 2})
# Where columns are dense, and upstream would look at a sample.
_LARGE: Final = _Sizes({120: 1, 250: 1}, {300: 1, 900: 1})
_LARGE_SHARE: Final = 0.02


@dataclass
class Question:
    """What both sides are asked, as JSON.

    Args:
        objects: Nodes, bound and nominated pods, and everything else a cluster holds.
        pods: The pods that are asked about, each by itself.
        config: A KubeSchedulerConfiguration with one profile.
        origin: Seed and number, from which the question can be made again.
    """

    objects: list[Json]
    pods: list[Json]
    config: Json
    origin: str = ""

    @property
    def document(self) -> Json:
        """The question as the oracle reads it."""
        return {"config": self.config, "objects": self.objects, "pods": self.pods}


def make_question(seed: int, number: int, pods: int = PODS_IN_QUESTION) -> Question:
    """Make question *number* of *seed*: always the same."""
    origin = f"{seed}:{number}"
    dice = Dice(origin)
    sizes = _LARGE if Dice(f"size of {origin}").chance(_LARGE_SHARE) else _SMALL
    nodes = make_nodes(dice, sizes.nodes)
    names = [node["metadata"]["name"] for node in nodes]
    owners, storage = _owners(dice), make_storage(dice, nodes)
    objects = [*_namespaces(dice), *make_services(dice), *_budgets(dice), *owners]
    objects += [*storage.objects, *nodes]
    leaving = dice.one((0.0, 0.25))
    ports: set[tuple[str, int]] = set()
    for index in range(dice.weighted(sizes.pods)):
        node = dice.one(names) if dice.chance(0.97) else "gone-node"
        pod = running_pod(dice, f"running-{index}", node, owners, leaving=leaving)
        _share_no_port(pod, ports)
        objects.append(started(dice, pod, index))
    if dice.chance(0.3):
        for index in range(dice.number(1, 3)):
            node = dice.one(names)
            objects.append(nominated_pod(dice, f"nominated-{index}", node, owners))
    pending = [pending_pod(dice, f"pending-{index}", names, owners) for index in range(pods)]
    placed = [each for each in objects if each["kind"] == "Pod"]
    for index, pod in enumerate((*placed, *pending)):
        if storage.objects and dice.chance(0.6):
            objects += add_volumes(dice, storage, pod, placed=index < len(placed))
    _wait_for_one_that_leaves(dice, placed, pending)
    config = make_config(dice)
    nominated = any(each.get("status", {}).get("nominatedNodeName") for each in placed)
    for pod in pending:
        _keep_from_differing(pod, config, nominated=nominated, leaving=bool(leaving))
    return Question(objects, pending, config, origin)


def _share_no_port(pod: Json, ports: set[tuple[str, int]]) -> None:
    """Leave out ports of *pod* that are in use on its node, as kubelets do.

    We count who uses a port; upstream thinks it free as soon as one of two users would go.
    """
    node = pod["spec"]["nodeName"]
    for container in (*pod["spec"]["containers"], *pod["spec"].get("initContainers", ())):
        free = [
            each
            for each in container.get("ports", ())
            if (node, each.get("hostPort", 0)) not in ports
        ]
        ports |= {(node, each["hostPort"]) for each in free if "hostPort" in each}
        if "ports" in container:
            container["ports"] = free


def _wait_for_one_that_leaves(dice: Dice, placed: list[Json], pending: list[Json]) -> None:
    """Nominate three pods whose victims are being evicted, and let them want what is in use."""
    victims = [pod for pod in placed if DISRUPTED in pod["status"].get("conditions", ())]
    if not victims:
        return
    victim = dice.one(victims)
    victim["spec"]["priority"] = -5
    waiting = dice.some(pending, 3, 3)
    for pod in waiting:
        pod["status"]["nominatedNodeName"] = victim["spec"]["nodeName"]
        pod["spec"]["priority"] = 100
    for pod in (victim, *waiting):
        container = pod["spec"]["containers"][0]
        container["ports"] = [*container.get("ports", ()), {"hostPort": _COVETED_PORT}]


def _keep_from_differing(pod: Json, config: Json, *, nominated: bool, leaving: bool) -> None:
    """Keep *pod* from what we differ about on purpose.

    A hard constraint with an empty selector counts nobody, yet upstream counts pods that are
    nominated or would be evicted; and it takes evicted pods off a count that are being deleted
    already, which were never counted.
    """
    own = pod["spec"].get("topologySpreadConstraints", ())
    hard = list(filter(_is_hard, own or _default_constraints(config)))
    everybody = [each for each in hard if each.get("labelSelector") == {}]
    if nominated:
        for constraint in everybody:
            constraint["labelSelector"] = {
                "matchExpressions": [{"key": "app", "operator": "Exists"}]
            }
    if everybody or (leaving and hard):
        pod["spec"]["preemptionPolicy"] = "Never"


def _is_hard(constraint: Json) -> bool:
    return bool(constraint["whenUnsatisfiable"] == "DoNotSchedule")


def _default_constraints(config: Json) -> list[Json]:
    given = config["profiles"][0].get("pluginConfig", ())
    return [
        constraint
        for each in given
        if each["name"] == "PodTopologySpread"
        for constraint in each["args"]["defaultConstraints"]
    ]


def make_nodes(dice: Dice, sizes: Mapping[int, float] = _SMALL.nodes) -> list[Json]:
    """Make the nodes of a cluster, in up to four zones; how many is one of *sizes*."""
    zones = dice.some("abcd", 1, 4)
    tidy = dice.chance(0.6)
    full = dice.chance(0.1)
    return [
        _node(dice, f"node-{index}", zones, tidy=tidy, full=full)
        for index in range(dice.weighted(sizes))
    ]


def _node(dice: Dice, name: str, zones: list[str], *, tidy: bool, full: bool) -> Json:
    labels = {HOSTNAME: name, ZONE: dice.one(zones), REGION: "r1" if "a" in zones else "r2"}
    if not tidy:
        for key in list(labels):
            if dice.chance(0.2):
                del labels[key]
        if dice.chance(0.08):
            labels[ZONE] = ""
    labels |= _provider_labels(dice, labels)
    if dice.chance(0.6):
        labels["disk"] = dice.one(("ssd", "hdd", "nvme"))
    if dice.chance(0.6):
        labels["cores"] = dice.one(("4", "8", "064", "16", "many", "005", "", BEYOND_INT64))
    if dice.chance(0.5):
        labels["rack"] = dice.one(("r1", "r2", ""))
    spec: Json = {}
    taints = dice.some(HARD_TAINTS, 1, 2) if dice.chance(0.25) else []
    if dice.chance(0.5):
        taints += dice.some(SOFT_TAINTS, 1, 4)
    if taints:
        spec["taints"] = taints
    if dice.chance(0.06):
        spec["unschedulable"] = True
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "uid": f"uid-{name}", "labels": labels},
        "spec": spec,
        "status": {
            "allocatable": _allocatable(dice, full=full),
            "images": _images(dice),
            "declaredFeatures": sorted(dice.some(FEATURES, 0, 2)),  # as kubelets do
            "conditions": [
                {"type": kind, "status": dice.one(("True", "False"))}
                for kind in dice.some(("Ready", "DiskPressure", "NetworkUnavailable"), 0, 2)
            ],
            "nodeInfo": {"kubeletVersion": "v1.36.3"},
        },
    }


def _provider_labels(dice: Dice, labels: dict[str, str]) -> dict[str, str]:
    """Repeat the zone under the keys of drivers, and under the key of older versions."""
    made: dict[str, str] = {}
    if ZONE in labels and dice.chance(0.5):
        made |= dict.fromkeys(dice.some(DRIVER_ZONES, 1, len(DRIVER_ZONES)), labels[ZONE])
    if dice.chance(0.15):
        made |= {BETA_ZONE: dice.one("abcd"), BETA_REGION: dice.one(("r1", "r2"))}
    return made


def _allocatable(dice: Dice, *, full: bool) -> Json:
    return without_empty(
        {
            "cpu": dice.one(("4", "3920m", "8", "16", "7.5", "32")) if dice.chance(0.97) else None,
            "memory": dice.one(("8Gi", "16G", "15842188Ki", "32Gi", "64e9", "128Gi"))
            if dice.chance(0.97)
            else None,
            "ephemeral-storage": dice.one(("20Gi", "50Gi", "47093746742"))
            if dice.chance(0.7)
            else None,
            "pods": dice.one(("1", "2", "3")) if full or dice.chance(0.03) else "110",
            GPU: dice.one(("1", "4", "8")) if dice.chance(0.3) else None,
            FPGA: "2" if dice.chance(0.1) else None,
            BATCH: "4k" if dice.chance(0.1) else None,
            HUGE: dice.one(("0", "8Mi")) if dice.chance(0.2) else None,
        }
    )


def _images(dice: Dice) -> list[Json]:
    made = []
    for name in dice.some(IMAGES, 0, 6):
        names = [name]
        if dice.chance(0.3):
            names.append(f"{name.partition('@')[0].rpartition(':')[0] or name}:alias")
        size = dice.one((10, 23, 60, 150, 400, 900, 2500, 7000)) * 1024 * 1024
        made.append({"names": names, "sizeBytes": size + dice.number(0, 999)})
    return made


def _namespaces(dice: Dice) -> list[Json]:
    made = []
    for name in NAMESPACES:
        labels = {"kubernetes.io/metadata.name": name}
        if name.startswith("team") and dice.chance(0.8):
            labels["team"] = name.removeprefix("team-")
        if name != "lonely":
            metadata = {"name": name, "labels": labels}
            made.append({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata})
    return made


def make_services(dice: Dice) -> list[Json]:
    """Make services that select some pods, all or none."""
    return [
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": f"service-{index}", "namespace": dice.one(NAMESPACES[:2])},
            "spec": without_empty(
                {
                    "selector": dice.one(
                        (
                            None,
                            {},
                            {"app": dice.one(APPS)},
                            {"tier": dice.one(TIERS)},
                            {"app": dice.one(APPS), "tier": dice.one(TIERS)},
                        )
                    )
                }
            ),
        }
        for index in range(dice.number(0, 3))
    ]


def _budgets(dice: Dice) -> list[Json]:
    return [
        {
            "apiVersion": "policy/v1",
            "kind": "PodDisruptionBudget",
            "metadata": {"name": f"budget-{index}", "namespace": dice.one(NAMESPACES[:3])},
            "spec": without_empty({"minAvailable": 1, "selector": label_selector(dice)}),
            "status": {
                "disruptionsAllowed": dice.number(0, 2),
                "disruptedPods": {
                    f"running-{number}": "2026-01-01T00:00:00Z"
                    for number in range(dice.number(0, 2))
                },
            },
        }
        for index in range(dice.number(0, 3))
    ]


def _owners(dice: Dice) -> list[Json]:
    made = []
    for index in range(dice.number(0, 3)):
        kind, version = dice.one(
            (
                ("ReplicaSet", "apps/v1"),
                ("ReplicaSet", "apps/v1"),
                ("StatefulSet", "apps/v1"),
                ("ReplicationController", "v1"),
            )
        )
        selector = (
            {"app": dice.one(APPS)}
            if kind == "ReplicationController"
            else (label_selector(dice) or {"matchLabels": {"app": dice.one(APPS)}})
        )
        made.append(
            {
                "apiVersion": version,
                "kind": kind,
                "metadata": {"name": f"owner-{index}", "namespace": dice.one(NAMESPACES[:2])},
                "spec": {"selector": selector},
            }
        )
    return made
