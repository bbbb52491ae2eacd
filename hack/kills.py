"""``make kills``: kill -9 during preemptions, and check that no pod is harmed.

Three nodes are full: two pods of low priority on each, two of middle, one as important as the pods
that come. Three pods come, each of which needs the place of two. Once some number of changes was
seen (nominations, conditions, deletions, ends, bindings: the number is drawn) py-scheduler is
killed on the spot, and another process takes over. Everything is real but the nodes, for which
`hack.admitting_kubelet` takes pods in and lets them end in their own time.

In the end the three are running, the six least important are gone, and nobody else: not one pod
more, not one twice. Who was bound when, and by whom, is read in the API server's audit log.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import random
import sys
import tempfile
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self

from hack.admitting_kubelet import AdmittingKubelet
from hack.api import AsyncApi
from hack.audit import BINDINGS, AuditLog
from hack.control_plane import ControlPlane
from hack.nodes import node
from hack.running_scheduler import RunningScheduler
from hack.waiting import NotInTimeError, until_async

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

    from hack.api import Json

NODES: Final = ("a", "b", "c")
_CLASSES: Final = {"low": 1, "middle": 50, "high": 100}
_STAYING: Final = ("middle", "middle", "high")
_VICTIMS: Final = 2
"""Of low priority, on each node."""
_CHANGES: Final = 30
"""How many changes a round has: each newcomer comes, is nominated, bound and runs; each victim
gets its condition, is deleted, and ends."""
_PATIENCE_SECONDS: Final = 60.0
_SETTLE_SECONDS: Final = 1.0
_PODS: Final = "/api/v1/namespaces/default/pods"


@dataclass
class Result:
    """What came of it.

    Args:
        stages: How far things were when the process was killed, and how often.
        problems: What must not have happened, one line each.
    """

    kills: int = 0
    bound: int = 0
    victims: int = 0
    stages: Counter[str] = field(default_factory=Counter)
    problems: list[str] = field(default_factory=list)

    @property
    def needed(self) -> int:
        """How many victims there had to be."""
        return self.kills * len(NODES) * _VICTIMS

    def __str__(self) -> str:
        """Return the last line of a run."""
        stages = ", ".join(f"{count} {stage}" for stage, count in sorted(self.stages.items()))
        return (
            f"kills: {self.kills} kills ({stages}), {self.bound} pods bound, "
            f"{self.victims} victims of {self.needed} needed, {len(self.problems)} problems"
        )


@dataclass
class Seen:
    """One pod as a watch tells it."""

    uid: str
    nodes: list[str] = field(default_factory=list)
    nominated: bool = False
    going: bool = False
    gone: bool = False
    phase: str = ""

    def note(self, kind: str, pod: Json) -> None:
        self.going = self.going or "deletionTimestamp" in pod["metadata"]
        self.gone = kind == "DELETED"
        self.phase = pod["status"].get("phase", "")
        self.nominated = "nominatedNodeName" in pod["status"]
        found = pod["spec"].get("nodeName", "")
        if found and found not in self.nodes[-1:]:
            self.nodes.append(found)


class Pods:
    """All pods there were, by name, from a watch that is never interrupted."""

    def __init__(self, api: AsyncApi) -> None:
        self._api = api
        self._seen: dict[str, Seen] = {}
        self.changes = 0

    def __getitem__(self, name: str) -> Seen:
        return self._seen.get(name) or Seen("")

    def matching(self, prefix: str) -> dict[str, Seen]:
        """Return the pods whose names begin so."""
        return {name: each for name, each in self._seen.items() if name.startswith(prefix)}

    async def watch(self) -> None:
        """Follow until cancelled."""
        async for event in self._api.watch(_PODS, {"resourceVersion": "0"}):
            pod = event["object"]
            metadata = pod["metadata"]
            seen = self._seen.setdefault(metadata["name"], Seen(metadata["uid"]))
            seen.note(event["type"], pod)
            self.changes += 1


class Kills:
    """Rounds of one kill each, on a control plane of their own; an asynchronous context manager.

    Args:
        seed: Draws when to kill.
    """

    def __init__(self, seed: int = 0) -> None:
        self.result = Result()
        self._rng = random.Random(seed)
        self._open = contextlib.AsyncExitStack()

    async def __aenter__(self) -> Self:
        enter = self._open.enter_context
        directory = Path(enter(tempfile.TemporaryDirectory(prefix="py-scheduler-kills-")))
        self._audit = AuditLog(directory, BINDINGS)
        plane = enter(ControlPlane(components=(), apiserver_flags=self._audit.flags))
        self._api = AsyncApi(plane.admin_kubeconfig)
        await self._open.enter_async_context(self._api)
        await self._open.enter_async_context(AdmittingKubelet(plane.admin_kubeconfig))
        for name, value in _CLASSES.items():
            body = {"metadata": {"name": name}, "value": value}
            await self._api.request("POST", "/apis/scheduling.k8s.io/v1/priorityclasses", body)
        cpu = str(_VICTIMS + len(_STAYING))
        for name in NODES:
            await self._api.request("POST", "/api/v1/nodes", node(name, cpu=cpu, kwok=False))
        self._pods = Pods(self._api)
        watching = asyncio.create_task(self._pods.watch())
        self._open.callback(watching.cancel)
        self._scheduler = enter(RunningScheduler(plane))
        await self._await_scheduler()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if error is None:
            self._read_audit()
        await self._open.aclose()

    async def kill_once(self) -> None:
        """Play one round."""
        round_, pods = f"r{self.result.kills}", self._pods
        victims, staying = await self._fill(round_)
        await _until(
            lambda: all(pods[name].phase == "Running" for name in (*victims, *staying)),
            "the nodes are full",
        )
        newcomers = [f"{round_}-new-{number}" for number in range(len(NODES))]
        before = pods.changes
        drawn, pause = self._rng.randrange(_CHANGES), self._rng.uniform(0.0, 0.02)
        for name in newcomers:
            await self._create(name, "high", cpu=_VICTIMS)
        # The number that is drawn may be larger than that of the changes which come.
        with contextlib.suppress(NotInTimeError):
            await _until(lambda: pods.changes - before >= drawn, "that many changes", seconds=5.0)
        await asyncio.sleep(pause)
        self._scheduler.kill()
        self.result.kills += 1
        self.result.stages[self._stage(victims, newcomers)] += 1
        self._scheduler.start()
        try:
            await _until(
                lambda: all(pods[name].phase == "Running" for name in newcomers),
                f"{round_}: the newcomers run",
            )
        except NotInTimeError as problem:
            self.result.problems.append(str(problem))
        await self._await_scheduler()
        # Whoever were to go without need, or be bound twice, would be in this time.
        await asyncio.sleep(_SETTLE_SECONDS)
        self._judge(round_, victims)
        await self._clear(round_)

    async def _await_scheduler(self) -> None:
        # In a thread: the kubelet and the watch of this process go on meanwhile.
        await asyncio.to_thread(self._scheduler.wait_until_ready)

    # A round.

    async def _fill(self, round_: str) -> tuple[list[str], list[str]]:
        """Fill every node; return who has to go, and who does not."""
        victims, staying = [], []
        grace = self._rng.randrange(3)
        for where in NODES:
            for number in range(_VICTIMS):
                victims.append(name := f"{round_}-low-{where}{number}")
                await self._create(name, "low", where=where, grace=grace)
            for number, priority in enumerate(_STAYING):
                staying.append(name := f"{round_}-{priority}-{where}{number}")
                await self._create(name, priority, where=where, grace=grace)
        return victims, staying

    async def _create(
        self, name: str, priority: str, *, where: str = "", cpu: int = 1, grace: int = 0
    ) -> None:
        container = {
            "name": "main",
            "image": "example",
            "resources": {"requests": {"cpu": str(cpu)}},
        }
        spec: Json = {
            "schedulerName": "py-scheduler",
            "priorityClassName": priority,
            "terminationGracePeriodSeconds": grace,
            "containers": [container],
        }
        if where:
            spec["nodeName"] = where
        await self._api.request("POST", _PODS, {"metadata": {"name": name}, "spec": spec})

    def _stage(self, victims: list[str], newcomers: list[str]) -> str:
        """Say how far things are."""
        pods = self._pods
        if all(pods[name].nodes for name in newcomers):
            return "when all were bound"
        if any(pods[name].nodes for name in newcomers):
            return "while they were bound"
        if all(pods[name].going for name in victims):
            return "while victims left"
        if any(pods[name].going for name in victims):
            return "during evictions"
        if any(pods[name].nominated for name in newcomers):
            return "after a nomination"
        return "before a nomination"

    def _judge(self, round_: str, victims: list[str]) -> None:
        problems = self.result.problems
        for name, pod in self._pods.matching(f"{round_}-").items():
            self.result.victims += pod.going
            self.result.bound += "-new-" in name and bool(pod.nodes)
            if len(pod.nodes) > 1:
                problems.append(f"{name} was on {' and '.join(pod.nodes)}")
            if pod.phase == "Failed":
                problems.append(f"{name} was bound where there was no room")
            if pod.going and name not in victims:
                problems.append(f"{name} had to go without need")
            if name in victims and not pod.gone:
                problems.append(f"{name} did not go")

    async def _clear(self, round_: str) -> None:
        await self._api.request("DELETE", _PODS, {"gracePeriodSeconds": 0})
        await _until(
            lambda: all(pod.gone for pod in self._pods.matching(f"{round_}-").values()),
            f"{round_}: all pods are gone",
        )

    def _read_audit(self) -> None:
        """Count the bindings that the API server accepted, of each pod."""
        accepted: Counter[str] = Counter()
        for entry in self._audit.entries():
            if entry["responseStatus"]["code"] == 201:
                accepted[entry["objectRef"]["name"]] += 1
        twice = [name for name, count in accepted.items() if count > 1]
        self.result.problems += [f"{name} was bound {accepted[name]} times" for name in twice]
        if len(accepted) != self.result.bound:
            told = f"{len(accepted)} pods bound by the audit log, {self.result.bound} seen"
            self.result.problems.append(told)


async def _until(
    holds: Callable[[], bool], what: str, *, seconds: float = _PATIENCE_SECONDS
) -> None:
    await until_async(holds, what, seconds=seconds)


async def kill(times: int, seed: int = 0, tell: Callable[[Result], None] | None = None) -> Result:
    """Play as many rounds, and return what came of it."""
    async with Kills(seed) as kills:
        for _ in range(times):
            await kills.kill_once()
            if tell is not None:
                tell(kills.result)
    return kills.result


def main() -> int:
    """Kill as often as told, print what came of it, and return the exit code."""
    parser = argparse.ArgumentParser("kills", description=__doc__)
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    result = asyncio.run(kill(options.kills, options.seed, _tell))
    for problem in result.problems:
        print(problem)
    print(result)
    return 1 if result.problems else 0


def _tell(result: Result) -> None:
    if not result.kills % 10:
        print(f"... {result}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
