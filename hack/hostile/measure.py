"""What hostile objects of one kind cost in this process: others, themselves, and memory."""

from __future__ import annotations

import asyncio
import ctypes
import gc
import json
import sys
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Final

from hack.hostile.inside import SCHEDULER, Cluster, CpuTimeLoop
from hack.hostile.kind import HOST, NAMESPACE, ZONE, Kind, Where
from scheduler.process.heap import freeze_heap

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from hack.hostile.kind import Json

_SMALL_BLOCK_BYTES: Final = 64
"""Python's own blocks have 16 to 512 bytes."""
_LOOKS: Final = 100_000
_REST_SECONDS: Final = 1.0


class NotSettledError(RuntimeError):
    """A pod is neither bound nor parked."""


@dataclass(frozen=True, slots=True)
class Settings:
    """How much of everything.

    Args:
        nodes: How many nodes there are.
        objects: How many hostile objects of a kind.
        size: Bytes of each.
        probes: How many plain pods are measured at a time.
    """

    nodes: int = 1000
    objects: int = 10
    size: int = 100_000
    probes: int = 40

    @property
    def zones(self) -> int:
        """How many zones there are: hostile pods of two schedulers can close half of them."""
        return 4 * self.objects

    def node_of(self, number: int) -> str:
        """Return the node of the bound hostile pod of a number: all are in one zone."""
        return f"node-{number * self.zones % self.nodes:05}"


@dataclass(frozen=True, slots=True)
class Cost:
    """What one kind costs this process; times are CPU seconds.

    Args:
        kind: Its name.
        bytes: Of its objects together.
        plain: The median decision about a plain pod without hostile objects, or beside as many pods
            that are all alike where thousands are on nodes.
        beside: The same beside them.
        arrival_step: The longest step of the loop while they arrived and were decided about.
        beside_step: The longest step while plain pods were scheduled beside them.
        step_of: What ran in the longer one of the two.
        own: The mean of the decisions about them; 0 where there were none.
        pods: How many of them are pods to decide about.
        done: How many pods of them are bound.
        parked: How many are parked with a condition.
        condition: The message of such a condition.
        grown: Bytes of memory that they took.
        kept: Bytes that are left after a second round of them, compared with the first round.
    """

    kind: str
    bytes: int
    plain: float
    beside: float
    arrival_step: float
    beside_step: float
    step_of: str
    own: float
    pods: int
    done: int
    parked: int
    condition: str
    grown: int
    kept: int

    @property
    def slowdown(self) -> float:
        """How many times as long the decision about a plain pod takes beside them."""
        return self.beside / self.plain

    @property
    def undecided(self) -> int:
        """How many are neither bound nor parked."""
        return self.pods - self.done - self.parked

    @property
    def document(self) -> Json:
        """This cost as JSON."""
        return asdict(self)


def live_bytes() -> int:
    """Return about how many bytes are in use in this process; garbage is collected first.

    Not the resident bytes: what these measurements themselves allocate between others' objects
    leaves holes, which would count as the scheduler's. Without glibc, large blocks do not count.
    """
    gc.collect()
    return sys.getallocatedblocks() * _SMALL_BLOCK_BYTES + _large_blocks()


class _MallocInfo(ctypes.Structure):
    """``struct mallinfo2`` of glibc."""

    _fields_ = tuple(
        (name, ctypes.c_size_t)
        for name in (
            *("arena", "ordblks", "smblks", "hblks", "hblkhd"),
            *("usmblks", "fsmblks", "uordblks", "fordblks", "keepcost"),
        )
    )


def _large_blocks() -> int:
    """Return the bytes in blocks that Python takes from malloc: those above 512 bytes."""
    library = ctypes.CDLL(None)
    if not hasattr(library, "mallinfo2"):
        return 0
    library.mallinfo2.restype = _MallocInfo
    found = library.mallinfo2()
    return int(found.uordblks) + int(found.hblkhd)


def plain_node(number: int, zones: int) -> Json:
    """Describe a node without anything special."""
    name = f"node-{number:05}"
    resources = {"cpu": "64", "memory": "256Gi", "pods": "1100"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {HOST: name, ZONE: f"zone-{number % zones}"}},
        "spec": {},
        "status": {"capacity": resources, "allocatable": resources},
    }


def plain_pod(number: int, namespace: str = "default") -> Json:
    """Describe a pod without anything special."""
    requests = {"requests": {"cpu": "10m", "memory": "16Mi"}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": f"plain-{number}",
            "namespace": namespace,
            "labels": {"app": "plain"},
        },
        "spec": {
            "schedulerName": SCHEDULER,
            "containers": [{"name": "main", "image": "example", "resources": requests}],
        },
    }


class Trial:
    """One cluster, in which plain pods are scheduled beside hostile objects."""

    def __init__(self, loop: CpuTimeLoop, settings: Settings) -> None:
        self._loop = loop
        self.settings = settings
        self.cluster = Cluster(loop)
        self._plain = 0

    async def prepare(self) -> None:
        """Create the nodes and namespaces."""
        for name in ("default", NAMESPACE):
            await self.cluster.create(
                {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
            )
        for number in range(self.settings.nodes):
            await self.cluster.create(plain_node(number, self.settings.zones))
        await asyncio.sleep(1)
        with self._loop.elsewhere():
            freeze_heap()

    async def probe(self) -> tuple[float, float]:
        """Schedule plain pods; return their mean decision and the longest step, and delete them."""
        cluster, self._loop.longest = self.cluster, 0.0
        paths, took = [], []
        for _ in range(self.settings.probes):
            self._plain += 1
            path = await cluster.create(plain_pod(self._plain))
            paths.append(path)
            await _until(lambda path=path: path in cluster.took)  # type: ignore[misc] # as above
            took.append(cluster.took.pop(path))
        longest = self._loop.longest
        for path in paths:
            await cluster.remove(path)
        await asyncio.sleep(1)
        return sorted(took)[len(took) // 2], longest

    async def add(self, documents: Iterable[Json], where: Where) -> list[str]:
        """Create hostile objects, and wait until pods among them are settled."""
        spec: dict[Where, Callable[[int], Json]] = {
            Where.BOUND: lambda number: {"nodeName": self.settings.node_of(number)},
            Where.PENDING: lambda _: {"schedulerName": SCHEDULER},
        }
        paths = []
        for number, document in enumerate(documents):
            more = {"spec": document["spec"] | spec[where](number)} if where in spec else {}
            paths.append(await self.cluster.create(document | more))
        if where is Where.PENDING:
            # One that waits for a gate is not decided about.
            await _until(lambda: all(map(self.cluster.is_settled, paths)))
        await asyncio.sleep(1)
        return paths

    def memory(self) -> int:
        """Return the bytes in use; measuring takes none of the scheduler's time."""
        with self._loop.elsewhere():
            return live_bytes()

    async def cost(self, kind: Kind) -> Cost:
        """Measure *kind*, in two rounds of different objects."""
        await self.probe()  # fills tables that depend on nobody's objects
        plain, _ = await self.probe()
        if kind.where is Where.BOUND and kind.crowd > 1:
            plain = await self._beside_ordinary(kind)
        first = await self._round(kind, 0)
        second = await self._round(kind, 1)
        return replace(
            second,
            plain=plain,
            kept=second.kept - first.kept,
        )

    async def _beside_ordinary(self, kind: Kind) -> float:
        """Return the mean decision about a plain pod beside as many pods that are all alike.

        Thousands of pods on nodes leave sums there that no decision has met before, whatever the
        pods say. That they are many is not what is hostile about them.
        """
        with self._loop.elsewhere():
            made = list(kind.objects(self.settings.objects, self.settings.size))
        alike = made[0]["metadata"]["labels"]
        ordinary = (each | {"metadata": each["metadata"] | {"labels": alike}} for each in made)
        paths = await self.add(ordinary, kind.where)
        beside, _ = await self.probe()
        await self._remove(paths)
        return beside

    async def _remove(self, paths: Iterable[str]) -> None:
        for path in paths:
            await self.cluster.remove(path)
        await self.cluster.drained()
        await asyncio.sleep(_REST_SECONDS)

    async def _round(self, kind: Kind, number: int) -> Cost:
        """Let objects come, be measured, and go; memory counts from the process's start."""
        settings, cluster, loop = self.settings, self.cluster, self._loop
        with loop.elsewhere():
            made = list(kind.objects(settings.objects, settings.size, number * settings.objects))
            size = sum(map(json_bytes, made))
        before = self.memory()
        loop.longest, earlier = 0.0, cluster.decisions()
        paths = await self.add(made, kind.where)
        arrival, later, step_of = loop.longest, cluster.decisions(), loop.longest_of
        attempts = later[1] - earlier[1]
        grown = self.memory() - before
        beside, step = await self.probe()
        pods = [
            path
            for path in paths
            if kind.where is Where.PENDING
            and not cluster.document(path)["spec"].get("schedulingGates")
        ]
        bound = [path for path in pods if cluster.document(path)["spec"].get("nodeName")]
        parked = [cluster.condition(path) for path in pods if path not in bound]
        await self._remove(paths)
        del made
        return Cost(
            kind=kind.name,
            bytes=size,
            plain=0.0,
            beside=beside,
            arrival_step=arrival,
            beside_step=step,
            step_of=step_of if arrival > step else loop.longest_of,
            own=(later[0] - earlier[0]) / attempts if attempts else 0.0,
            pods=len(pods),
            done=len(bound),
            parked=sum(each.get("status") == "False" for each in parked),
            condition=next((each["message"] for each in parked if each.get("message")), ""),
            grown=grown,
            kept=self.memory(),
        )


def json_bytes(document: Json) -> int:
    """Return how many bytes of JSON a document has, as an API server sends it."""
    return len(json.dumps(document, ensure_ascii=False, separators=(",", ":")).encode())


async def _until(holds: Callable[[], bool]) -> None:
    """Return once *holds*; the virtual time between two looks costs nothing."""
    for _ in range(_LOOKS):
        if holds():
            return
        await asyncio.sleep(0.001)
    raise NotSettledError


def measure(kind: Kind, settings: Settings) -> Cost:
    """Measure *kind* in a cluster of its own."""

    async def trial() -> Cost:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, CpuTimeLoop)
        found = Trial(loop, settings)
        async with found.cluster.running():
            await found.prepare()
            return await found.cost(kind)

    with asyncio.Runner(loop_factory=CpuTimeLoop) as runner:
        return runner.run(trial())
