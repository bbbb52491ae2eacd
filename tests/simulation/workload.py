"""Draws the nodes, budgets and pods of a simulated cluster."""

import random
from typing import Any, Final

from scheduler.model.node import Node
from scheduler.model.objects import PodDisruptionBudget
from scheduler.model.pod import Pod
from scheduler.testing.builders import HOSTNAME_LABEL, ZONE_LABEL, make_node, make_object, make_pod
from scheduler.testing.documents import Document, document_of

DOOR: Final = "door"
OURS: Final = ("py-scheduler", "py-packer")
"""The profiles: one with every default; one with MostAllocated and preemptForeignPods: false."""
SPARING: Final = OURS[1]
OTHER_SCHEDULER: Final = "default-scheduler"
_APPS: Final = ("web", "api", "batch")


class Workload:
    """Draws nodes, pods and budgets; every name is a new one.

    Args:
        rng: Draws everything.
    """

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self._made = 0

    def number(self) -> int:
        """Return the next number."""
        self._made += 1
        return self._made

    def node(self, name: str = "") -> Node:
        """Draw a node."""
        rng, number = self._rng, self.number()
        return make_node(
            name or f"n{number}",
            uid=f"node-uid{number}",
            allocatable=f"{rng.choice([2, 4, 8])} cpu, 16Gi, {rng.choice([5, 20])} pods",
            zone=rng.choice(["z1", "z2"]),
            labels={"disk": rng.choice(["ssd", "hdd"]), DOOR: rng.choice(["open", "shut"])},
            taints="t:NoSchedule" if rng.random() < 0.2 else "",
        )

    def budget(self) -> Document:
        """Draw a budget; it allows no disruption before its controller has run."""
        name, app = f"budget{self.number()}", self._rng.choice(_APPS)
        drawn = make_object(
            PodDisruptionBudget, name, spec={"selector": {"matchLabels": {"app": app}}}
        )
        document = document_of(drawn)
        document["spec"]["minAvailable"] = self._rng.randint(0, 4)
        return document

    def pod(self, name: str = "", uid: str = "", *, needs_open_door: bool = False) -> Document:
        """Draw a pod of ours; with *needs_open_door* it has to pass the permit plugin."""
        rng = self._rng
        name = name or f"p{self.number()}"
        app = "alone" if rng.random() < 0.05 else rng.choice(_APPS)
        constraints: dict[str, Any] = {}
        if app == "alone":
            constraints["affinity"] = {"podAntiAffinity": _required(app, HOSTNAME_LABEL)}
        elif rng.random() < 0.06:
            constraints["affinity"] = {"podAffinity": _required(rng.choice(_APPS), ZONE_LABEL)}
        if rng.random() < 0.12:
            constraints["topology_spread_constraints"] = [_spread(app, rng)]
        if rng.random() < 0.05:
            constraints["preemption_policy"] = "Never"
        drawn = make_pod(
            name,
            uid=uid or f"{name}-uid",
            scheduler=OURS[rng.random() < 0.25],
            requests=f"{rng.choice([250, 500, 1000, 2000])}m cpu, {rng.choice([1, 2, 4])}Gi",
            priority=rng.randrange(4),
            labels={"app": app} | ({DOOR: "1"} if needs_open_door or rng.random() < 0.12 else {}),
            host_ports=[8080] if rng.random() < 0.05 else [],
            tolerations="t" if rng.random() < 0.3 else "",
            node_selector=f"disk={rng.choice(['ssd', 'hdd'])}" if rng.random() < 0.12 else "",
            gates=["later"] if not needs_open_door and rng.random() < 0.05 else [],
            termination_grace_period_seconds=rng.choice([0, 1, 5, 30]),
            **constraints,
        )
        document = document_of(drawn)
        if rng.random() < 0.08:
            document["metadata"]["finalizers"] = ["example.com/slow"]
        return document

    def pod_of_other_scheduler(self, node: str = "", nominated: str = "") -> Pod:
        """Draw a pod of another scheduler."""
        rng = self._rng
        return make_pod(
            f"rival{self.number()}",
            scheduler=OTHER_SCHEDULER,
            requests=f"{rng.choice([500, 1000])}m cpu, 1Gi",
            priority=rng.randrange(4),
            labels={"app": rng.choice(_APPS)},
            node=node,
            nominated=nominated,
            termination_grace_period_seconds=rng.choice([0, 1, 5]),
        )


def _required(app: str, topology_key: str) -> dict[str, Any]:
    term = {"labelSelector": {"matchLabels": {"app": app}}, "topologyKey": topology_key}
    return {"requiredDuringSchedulingIgnoredDuringExecution": [term]}


def _spread(app: str, rng: random.Random) -> dict[str, Any]:
    return {
        "maxSkew": rng.choice([1, 2]),
        "topologyKey": rng.choice([ZONE_LABEL, HOSTNAME_LABEL]),
        "whenUnsatisfiable": rng.choice(["DoNotSchedule", "DoNotSchedule", "ScheduleAnyway"]),
        "labelSelector": {"matchLabels": {"app": app}},
    }
