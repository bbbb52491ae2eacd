"""Pods come and go with ever new names of everything, and what stays is counted.

Each pod has labels, selectors, terms, resource names, images, ports and an owner that no other pod
has; every few pods a namespace, a claim and a service come and go as well. One pod in five can not
be placed, one in five belongs to another scheduler and is bound already.
"""

from __future__ import annotations

import asyncio
import gc
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from hack.hostile.hostile_pods import container_of
from hack.hostile.inside import SCHEDULER, CpuTimeLoop
from hack.hostile.kind import HOST, ZONE, filled
from hack.hostile.measure import Settings, Trial
from hack.hostile.tables import caches, entries, grown

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Callable, Iterator, Sequence

    from hack.hostile.kind import Json

_NAMESPACES: Final = 10
"""Pods that share a namespace."""


_BOUNDED: Final = (
    *("DomainTotals", "Domains", "Totals", "LabelColumn", "LabelIndex"),
    *("PodHistory", "PodSetColumns", "Templates"),
)
"""How the names of tables begin that may fill up, since they have a bound: unit tests hold it."""
_FILLED_PODS: Final = 6000
"""So many pods fill every table that has a bound."""
_CACHE_BYTES_MAXIMUM: Final = 4_000_000
_MEMORY_BYTES_ALLOWED: Final = 5_000_000
_GARBAGE_MAXIMUM: Final = 1.0
"""How many objects of a pod may wait for the garbage collector, which comes by their number: an
array over all nodes is one object, or none."""
_SPARE_ENTRIES: Final = 64
"""What tables of rows, tasks and labels of metrics may differ by from one moment to another."""


@dataclass(frozen=True, slots=True)
class Kept:
    """What is kept at one moment.

    Args:
        pods: How many have come and gone.
        tables: Entries by table.
        caches: Bytes by ``lru_cache``.
        memory: Resident bytes.
        garbage: Objects that referred to each other and to nothing that is in use, since the last
            such moment.
    """

    pods: int
    tables: Counter[str]
    caches: dict[str, int]
    memory: int
    garbage: int


def namespace_of(number: int) -> str:
    """Return the namespace of the pod of a number."""
    return f"churn-{number // _NAMESPACES}"


def churned_pod(number: int, node: str = "") -> Json:
    """Describe a pod of which nothing has been seen before; bound already if there is a *node*."""
    mine, key = {"matchLabels": {f"l-{number}": f"v-{number}"}}, f"example.com/key-{number}"
    term = {"labelSelector": mine, "namespaceSelector": mine, "topologyKey": HOST}
    own = {"labelSelector": mine, "namespaces": [f"n-{number}"], "topologyKey": key}
    weighted = [{"weight": 1 + number % 100, "podAffinityTerm": each} for each in (term, own)]
    strength, preference = (
        "requiredDuringSchedulingIgnoredDuringExecution",
        "preferredDuringSchedulingIgnoredDuringExecution",
    )
    expression = {"key": key, "operator": "DoesNotExist"}
    affinity = {
        "podAntiAffinity": {strength: [term, own], preference: weighted},
        "nodeAffinity": {
            strength: {"nodeSelectorTerms": [{"matchExpressions": [expression]}]},
            preference: [{"weight": 1, "preference": {"matchExpressions": [expression]}}],
        },
    }
    amount = "1" if number % 5 == 1 else "0"
    requests = {"cpu": f"{1 + number}u", f"example.com/device-{number}": amount}
    resources = {"requests": requests, "limits": {f"example.com/device-{number}": amount}}
    port = {"containerPort": 80, "hostPort": 1 + number % 60000, "hostIP": f"10.0.0.{number % 250}"}
    made: Json = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": f"churn-{number}",
            "namespace": namespace_of(number),
            "labels": {f"l-{number}": f"v-{number}", "app": f"churn-{number}"},
            "ownerReferences": [
                {
                    "apiVersion": "apps/v1",
                    "kind": "ReplicaSet",
                    "name": f"set-{number}",
                    "uid": f"set-{number}",
                    "controller": True,
                }
            ],
        },
        "spec": {
            "schedulerName": f"other-{number}" if node else SCHEDULER,
            "containers": [container_of(number, 0, resources=resources, ports=[port])],
            "affinity": affinity,
            "tolerations": [{"key": key, "operator": "Exists"}],
            "topologySpreadConstraints": [
                {
                    "maxSkew": 1 + number,
                    "topologyKey": ZONE,
                    "whenUnsatisfiable": "ScheduleAnyway",
                    "labelSelector": mine,
                }
            ],
            "volumes": filled(
                lambda _: {"name": "d", "gcePersistentDisk": {"pdName": f"disk-{number}"}}, 1
            ),
        },
    }
    if node:
        made["spec"]["nodeName"] = node
    return made


class Churn:
    """Lets pods come and go in a cluster of this process."""

    def __init__(self, loop: CpuTimeLoop, nodes: int, at_once: int = 20) -> None:
        self._loop = loop
        self.trial = Trial(loop, Settings(nodes=nodes, probes=3))
        self._at_once = at_once
        self._number = 0

    async def run(self, pods: int) -> None:
        """Create and delete so many pods."""
        cluster = self.trial.cluster
        for _ in range(0, pods, self._at_once):
            with self._loop.elsewhere():
                numbers = range(self._number, self._number + self._at_once)
                self._number += self._at_once
                documents = [churned_pod(number, self._node(number)) for number in numbers]
                spaces = [_namespace(each) for each in dict.fromkeys(map(namespace_of, numbers))]
            others = [await cluster.create(each) for each in spaces]
            others += [await cluster.create(_service(number)) for number in numbers]
            paths = [await cluster.create(each) for each in documents]
            await asyncio.sleep(2)
            for path in (*paths, *others):
                await cluster.remove(path)
            await asyncio.sleep(1)

    def kept(self) -> Kept:
        """Count what is kept now."""
        cluster = self.trial.cluster
        with self._loop.elsewhere():
            garbage = gc.collect()
            memory = self.trial.memory()
            tables = entries(cluster.core, cluster.telemetry, *cluster.reflectors)
            return Kept(self._number, tables, caches(), memory, garbage)

    def _node(self, number: int) -> str:
        bound = number % 5 == 2
        return f"node-{number % self.trial.settings.nodes:05}" if bound else ""


def _namespace(name: str) -> Json:
    metadata = {"name": name, "labels": {f"team-{name}": name}}
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}


def _service(number: int) -> Json:
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": f"churn-{number}", "namespace": namespace_of(number)},
        "spec": {"selector": {f"l-{number}": f"v-{number}"}},
    }


def kept_problems(found: Sequence[Kept], nodes: int) -> Iterator[str]:
    """Yield what grows with the pods that have come and gone.

    The first round fills what is filled by any pod at all, so later rounds are compared with it.
    """
    first, last = found[1], found[-1]
    filled_up = first.pods >= _FILLED_PODS
    for name, (old, new) in grown(first.tables, last.tables).items():
        spare = (nodes + _SPARE_ENTRIES) * (8 if name.endswith("(bytes)") else 1)
        if (filled_up or not name.startswith(_BOUNDED)) and new > old + spare:
            yield f"{name} grows from {old:,} entries to {new:,}"
    for name, size in last.caches.items():
        if size > _CACHE_BYTES_MAXIMUM:
            yield f"{name} holds {size / 1e6:.1f} MB"
    if last.garbage > _GARBAGE_MAXIMUM * (last.pods - found[-2].pods):
        yield f"{last.garbage:,} objects wait for the garbage collector"
    if filled_up and last.memory > first.memory + _MEMORY_BYTES_ALLOWED:
        yield f"memory grows from {first.memory / 1e6:.1f} MB to {last.memory / 1e6:.1f} MB"


def churn(
    pods: int, nodes: int, rounds: int = 4, tell: Callable[[Kept], None] = lambda _: None
) -> list[Kept]:
    """Let *pods* come and go in so many rounds, and return what is kept before and after each.

    *tell* is called with each of these as soon as it is known. Garbage is collected then only.
    """

    async def run() -> list[Kept]:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, CpuTimeLoop)
        churning = Churn(loop, nodes)
        async with churning.trial.cluster.running():
            await churning.trial.prepare()
            await churning.trial.probe()
            found = [churning.kept()]
            tell(found[0])
            for _ in range(rounds):
                await churning.run(pods // rounds)
                await churning.trial.probe()
                # Backoffs, bans and the queue's own periods end meanwhile.
                await asyncio.sleep(600)
                found.append(churning.kept())
                tell(found[-1])
            return found

    gc.disable()
    try:
        with asyncio.Runner(loop_factory=CpuTimeLoop) as runner:
            return runner.run(run())
    finally:
        gc.enable()
