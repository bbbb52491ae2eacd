"""Full clusters, and more important pods that want in.

Some clusters are drawn at large. In the others all nodes hold the same pods, but for one thing:
what they differ in decides where pods are evicted. Pods on one node never start at the same time
unless they are alike in everything but their name: among those kube-scheduler may take any.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from hack.fidelity.clusters import Question
from hack.fidelity.words import APPS, HOSTNAME, NAMESPACES, TIERS, ZONE, Dice, Json

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

PREEMPTORS: Final = 8
PRIORITIES: Final = (-10, 0, 0, 10, 50, 100)
TWINS: Final = ("budget", "highest", "sum", "count", "start", "nothing")
"""What the nodes of a cluster of twins differ in."""

_LOWEST: Final = -(2**30)
_ANNOUNCED: Final = {
    "type": "DisruptionTarget",
    "status": "True",
    "reason": "PreemptionByScheduler",
    "message": "py-scheduler: preempting to accommodate a higher priority pod",
    "lastTransitionTime": "2026-01-01T00:00:00Z",
}
_EVICTED: Final = {**_ANNOUNCED, "reason": "EvictionByEvictionAPI", "message": "drained"}


class _Clock:
    """Start times, each later than the one before."""

    def __init__(self) -> None:
        self._minutes = 0

    def next(self) -> str:
        self._minutes += 1
        return f"2026-01-01T{self._minutes // 60:02}:{self._minutes % 60:02}:00Z"


def make_full_cluster(seed: int, number: int) -> Question:
    """Make cluster *number* of *seed*: always the same but for UIDs, which the server gives.

    Objects are as they should be once all is posted. The pods are to be posted one after the other;
    one with a nominated node is held back until that is written.
    """
    dice, clock = Dice(f"full:{seed}:{number}"), _Clock()
    made = Question([], [], {}, f"{seed}:{number}")
    twins = dice.one(TWINS) if dice.chance(0.4) else ""
    names = [f"node-{number}-{index}" for index in range(dice.number(2, 5))]
    made.objects += [_node(dice, name, plain=bool(twins)) for name in names]
    if twins:
        _fill_alike(dice, clock, made, names, twins)
    else:
        _fill(dice, clock, made, names)
        made.objects += [_budget(dice, index, made) for index in range(dice.number(0, 3))]
        made.objects += [
            _nominee(dice, f"nominee-{index}", dice.one(names))
            for index in range(dice.weighted({0: 5, 1: 3, 2: 1}))
        ]
    count = dice.number(3, PREEMPTORS)
    made.pods = [
        _preemptor(dice, f"preemptor-{index}", names, plain=bool(twins)) for index in range(count)
    ]
    return made


# Nodes.


def _node(dice: Dice, name: str, *, plain: bool) -> Json:
    labels = {HOSTNAME: name, ZONE: dice.one("ab" if plain else "abc")}
    spec: Json = {}
    if not plain:
        labels["disk"] = dice.one(("ssd", "hdd"))
        if dice.chance(0.08):
            del labels[ZONE]
        if dice.chance(0.12):
            spec["taints"] = [{"key": "dedicated", "value": "ml", "effect": "NoSchedule"}]
        if dice.chance(0.05):
            spec["unschedulable"] = True
    cpu = "4" if plain else dice.one(("4", "4", "6", "3500m"))
    resources = {"cpu": cpu, "memory": "8Gi", "pods": "110"}
    if not plain and dice.chance(0.1):
        resources["pods"] = dice.one(("3", "4"))
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels},
        "spec": spec,
        "status": {"capacity": resources, "allocatable": resources},
    }


# Who is there already.


def _fill(dice: Dice, clock: _Clock, made: Question, names: Sequence[str]) -> None:
    for name in names:
        left = 4000 - dice.one((0, 0, 0, 300, 500))
        number = 0
        while left >= 500 and number < 7:
            request = min(left, dice.one((500, 500, 1000, 1000, 1500, 2000)))
            copies = 2 if request <= left // 2 and dice.chance(0.25) else 1
            made.objects += _running(dice, clock, f"{name}-{number}", name, request, copies)
            left -= request * copies
            number += copies


def _running(
    dice: Dice, clock: _Clock, name: str, node: str, request: int, copies: int
) -> Iterator[Json]:
    pod = _pod(dice, name, dice.one(PRIORITIES), request, _labels(dice))
    pod["spec"]["nodeName"] = node
    if dice.chance(0.14):
        pod["spec"]["affinity"] = {"podAntiAffinity": _required(dice)}
    if name.endswith("-1") and dice.chance(0.6):
        # One a node: where two pods held the same port, upstream would forget both with one.
        pod["spec"]["containers"][0]["ports"] = [_host_port(dice)]
        copies = 1
    status: Json = {"phase": "Running", "startTime": clock.next()}
    if copies == 1 and dice.chance(0.05):
        del status["startTime"]
    if dice.chance(0.15):
        pod["metadata"]["deletionTimestamp"] = "to come"
        if dice.chance(0.7):
            status["conditions"] = [dice.one((_ANNOUNCED, _ANNOUNCED, _EVICTED))]
    for index in range(copies):
        metadata = {**pod["metadata"], "name": f"{name}-{index}"}
        yield {**pod, "metadata": metadata, "status": status}


def _fill_alike(
    dice: Dice, clock: _Clock, made: Question, names: Sequence[str], differ: str
) -> None:
    """Fill all nodes with the same pods, but for what they *differ* in."""
    shares = dice.one(((2000, 2000), (1000, 1000, 2000), (1000, 1000, 1000, 1000), (4000,)))
    if differ == "count":
        shares = (2000, 2000)
    priorities = [0 if differ == "count" else dice.one((0, 10, 50)) for _ in shares]
    starts = [clock.next() for _ in shares]
    for position, name in enumerate(names):
        shape = list(zip(shares, priorities, starts, strict=True))
        app = "web"
        if differ == "budget":
            app = dice.one(("web", "db"))
        elif differ in {"highest", "sum"}:
            shape = _with_other_priorities(dice, shape, differ)
        elif differ == "count" and position % 2 == 0:
            # As much importance in all: each of the two weighs half as much as one of priority 0.
            shape = [(2000, 0, starts[0])]
            shape += [(1000, _LOWEST, clock.next()) for _ in range(2)]
        elif differ == "start":
            shape = [(request, priority, clock.next()) for request, priority, _ in shape]
        for index, (request, priority, start) in enumerate(shape):
            pod = _pod(dice, f"{name}-{index}", priority, request, {"app": app, "own": f"{index}"})
            pod["metadata"]["namespace"] = "default"
            pod["spec"]["nodeName"] = name
            pod["status"] = {"phase": "Running", "startTime": start}
            made.objects.append(pod)
    if differ == "budget":
        made.objects.append(_budget_about("pdb-0", "default", {"app": "db"}, dice.number(0, 1)))


def _with_other_priorities(
    dice: Dice, shape: Sequence[tuple[int, int, str]], differ: str
) -> list[tuple[int, int, str]]:
    """Change the highest priority on a node, or only those below it."""
    (share, _, start), *others = shape
    if differ == "highest":
        return [(share, 60 + dice.number(0, 2), start), *others]
    *between, (last, _, began) = others or [(0, 0, "")]
    rest = [*between, (last, dice.number(0, 20), began)] if others else []
    return [(share, 60, start), *rest]


def _nominee(dice: Dice, name: str, node: str) -> Json:
    """Make a pod that is nominated to *node*; a gate keeps it from being tried."""
    pod = _pod(dice, name, dice.one((50, 100, 500, 2000)), dice.one((500, 1000)), _labels(dice))
    if dice.chance(0.3):
        pod["spec"]["affinity"] = {"podAntiAffinity": _required(dice)}
    pod["spec"]["schedulingGates"] = [{"name": "example.com/held"}]
    pod["status"] = {"nominatedNodeName": node}
    return pod


def _budget(dice: Dice, index: int, made: Question) -> Json:
    selector = dice.one(
        (
            {"matchLabels": {"app": _app(dice)}},
            {"matchLabels": {"tier": dice.one(TIERS)}},
            {"matchExpressions": [{"key": "app", "operator": "In", "values": list(APPS[:2])}]},
            {},
        )
    )
    namespace = dice.one(NAMESPACES[:2])
    budget = _budget_about(f"pdb-{index}", namespace, {}, dice.weighted({0: 5, 1: 3, 2: 1}))
    budget["spec"]["selector"] = selector
    alone = [
        each["metadata"]["name"]
        for each in made.objects
        if each["kind"] == "Pod"
        and each["metadata"]["namespace"] == namespace
        and not _has_a_copy(each, made.objects)
    ]
    if alone and dice.chance(0.4):
        going = dice.some(alone, 1, 3)
        budget["status"]["disruptedPods"] = dict.fromkeys(going, "2026-01-01T00:00:00Z")
    return budget


def _has_a_copy(pod: Json, objects: Sequence[Json]) -> bool:
    stem = pod["metadata"]["name"].rpartition("-")[0]
    return any(
        each is not pod and each["metadata"]["name"].rpartition("-")[0] == stem
        for each in objects
        if each["kind"] == "Pod"
    )


def _budget_about(name: str, namespace: str, labels: Json, allowed: int) -> Json:
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": labels}},
        "status": {
            "disruptionsAllowed": allowed,
            "currentHealthy": 1,
            "desiredHealthy": 1,
            "expectedPods": 1,
            "observedGeneration": 1,
        },
    }


# Who wants in.


def _preemptor(dice: Dice, name: str, nodes: Sequence[str], *, plain: bool) -> Json:
    request = dice.one((4000, 4000, 3000) if plain else (500, 1000, 1500, 2000, 3000, 5000))
    priority = dice.one((100, 1000, 2000) if plain else (0, 20, 100, 500, 2000))
    pod = _pod(dice, name, priority, request, _labels(dice))
    pod["spec"]["affinity"] = {}
    if dice.chance(0.07):
        pod["spec"]["preemptionPolicy"] = "Never"
    if dice.chance(0.2):
        pod["status"] = {"nominatedNodeName": dice.one((*nodes, *nodes, "no-such-node"))}
    if plain:
        return pod
    _add_wishes(dice, pod)
    return pod


def _add_wishes(dice: Dice, pod: Json) -> None:
    spec = pod["spec"]
    wish = dice.weighted({"": 3, "spread": 6, "apart": 2, "near": 2, "soft": 1, "port": 2})
    if wish == "spread":
        spec["topologySpreadConstraints"] = [
            _spread(dice, pod["metadata"]["labels"]) for _ in range(dice.number(1, 2))
        ]
        keys = [each["topologyKey"] for each in spec["topologySpreadConstraints"]]
        if len(set(keys)) < len(keys):
            del spec["topologySpreadConstraints"][1:]
    elif wish == "apart":
        spec["affinity"]["podAntiAffinity"] = _required(dice)
    elif wish == "near":
        spec["affinity"]["podAffinity"] = _required(dice)
    elif wish == "soft":
        kind = dice.one(("podAffinity", "podAntiAffinity"))
        preferred = [{"weight": dice.number(1, 100), "podAffinityTerm": _term(dice)}]
        spec["affinity"][kind] = {"preferredDuringSchedulingIgnoredDuringExecution": preferred}
    elif wish == "port":
        spec["containers"][0]["ports"] = [_host_port(dice)]
    if dice.chance(0.1):
        spec["nodeSelector"] = {"disk": dice.one(("ssd", "hdd"))}
    if dice.chance(0.1):
        spec["tolerations"] = [{"key": "dedicated", "operator": "Exists"}]


def _spread(dice: Dice, labels: Json) -> Json:
    hard = dice.chance(0.85)
    made: Json = {
        "maxSkew": dice.weighted({1: 4, 2: 1}),
        "topologyKey": dice.one((ZONE, HOSTNAME)),
        "whenUnsatisfiable": "DoNotSchedule" if hard else "ScheduleAnyway",
        "labelSelector": {"matchLabels": labels if dice.chance(0.4) else {"app": _app(dice)}},
    }
    if hard and dice.chance(0.15):
        made["minDomains"] = dice.number(2, 4)
    if dice.chance(0.15):
        made["nodeTaintsPolicy"] = "Honor"
    if dice.chance(0.15):
        made["nodeAffinityPolicy"] = "Ignore"
    return made


def _required(dice: Dice) -> Json:
    return {"requiredDuringSchedulingIgnoredDuringExecution": [_term(dice)]}


def _term(dice: Dice) -> Json:
    selector = dice.one(
        ({"matchLabels": {"app": _app(dice)}}, {"matchLabels": {"tier": dice.one(TIERS)}})
    )
    term: Json = {"labelSelector": selector, "topologyKey": dice.one((HOSTNAME, HOSTNAME, ZONE))}
    if dice.chance(0.2):
        term["namespaces"] = list(NAMESPACES[:2])
    elif dice.chance(0.15):
        term["namespaceSelector"] = dice.one(({}, {"matchLabels": {"team": "a"}}))
    return term


def _pod(dice: Dice, name: str, priority: int, request: int, labels: Json) -> Json:
    requests = {"cpu": f"{request}m"}
    if dice.chance(0.3):
        requests["memory"] = dice.one(("256Mi", "1Gi"))
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": dice.weighted({"default": 4, "team-a": 1}),
            "labels": labels,
        },
        "spec": {
            "schedulerName": "py-scheduler",
            "priority": priority,
            # Long enough that nobody is gone before everything was compared.
            "terminationGracePeriodSeconds": 600,
            "containers": [{"name": "c", "image": "c", "resources": {"requests": requests}}],
        },
    }


def _labels(dice: Dice) -> Json:
    labels = {"app": _app(dice)}
    if dice.chance(0.5):
        labels["tier"] = dice.one(TIERS)
    return labels


def _app(dice: Dice) -> str:
    return dice.weighted({"web": 6, "db": 2, "cache": 1})


def _host_port(dice: Dice) -> Json:
    port = dice.one((8080, 8081))
    return {"containerPort": port, "hostPort": port}
