"""``make kills``: kill -9 during preemptions, and check that no pod is lost or evicted in vain.

Three nodes are full: two pods of low priority on each, two of middle, one of high. Three pods of
high priority arrive, each of which needs the capacity of two. After a number of changes that is
drawn (nominations, conditions, deletions, ends, bindings) py-scheduler is killed with SIGKILL, and
another process takes over. Everything is real but the kubelets, which `hack.admitting_kubelet`
replaces: it admits pods and ends them after their grace period.

At the end the three are running and exactly the six pods of low priority are gone. The API server's
audit log must show that no pod was bound twice.
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
from http import HTTPStatus
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
"""How many changes a round has: each new pod is created, nominated, bound and running; each victim
has its condition, its deletion timestamp, and is gone."""
_DEADLINE_SECONDS: Final = 60.0
_SETTLE_SECONDS: Final = 1.0
_PODS: Final = "/api/v1/namespaces/default/pods"


@dataclass
class Result:
    """The counts of one run.

    Args:
        stages: How far rounds were when the process was killed, and how often.
        problems: Violations, one line each.
    """

    kills: int = 0
    bound: int = 0
    victims: int = 0
    stages: Counter[str] = field(default_factory=Counter)
    problems: list[str] = field(default_factory=list)

    @property
    def needed(self) -> int:
        """How many victims the new pods needed."""
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
    """One pod, from a watch."""

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
        """Return the pods whose names begin with *prefix*."""
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
        """Run one round."""
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
        # The number that is drawn may be larger than that of all changes.
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
        # An eviction without need, or a second binding, would show within this time.
        await asyncio.sleep(_SETTLE_SECONDS)
        self._judge(round_, victims)
        await self._clear(round_)

    async def _await_scheduler(self) -> None:
        # In a thread: the kubelet and the watch of this process go on meanwhile.
        await asyncio.to_thread(self._scheduler.wait_until_ready)

    # A round.

    async def _fill(self, round_: str) -> tuple[list[str], list[str]]:
        """Fill every node; return the pods that must be evicted, and those that must stay."""
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
        """Return how far the round was when the process was killed."""
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
                problems.append(f"{name} was bound where it did not fit")
            if pod.going and name not in victims:
                problems.append(f"{name} was evicted without need")
            if name in victims and not pod.gone:
                problems.append(f"{name} was not evicted")

    async def _clear(self, round_: str) -> None:
        await self._api.request("DELETE", _PODS, {"gracePeriodSeconds": 0})
        await _until(
            lambda: all(pod.gone for pod in self._pods.matching(f"{round_}-").values()),
            f"{round_}: all pods are gone",
        )

    def _read_audit(self) -> None:
        """Count the bindings of each pod that the API server accepted, as far as it can tell."""
        accepted: Counter[str] = Counter()
        unanswered: set[str] = set()
        for entry in self._audit.entries():
            name, code = entry["objectRef"]["name"], entry["responseStatus"]["code"]
            if code == HTTPStatus.CREATED:
                accepted[name] += 1
            elif code == HTTPStatus.GATEWAY_TIMEOUT:
                # The client was killed before the answer. The binding may have taken effect.
                unanswered.add(name)
        twice = [name for name, count in accepted.items() if count > 1]
        self.result.problems += [f"{name} was bound {accepted[name]} times" for name in twice]
        pods = self._pods.matching("").items()
        bound = {name for name, pod in pods if "-new-" in name and pod.nodes}
        for name in sorted(accepted.keys() - bound):
            self.result.problems.append(f"{name} was bound by the audit log, and never seen so")
        for name in sorted(bound - accepted.keys() - unanswered):
            self.result.problems.append(f"{name} has a node, and no binding in the audit log")


async def _until(
    holds: Callable[[], bool], what: str, *, seconds: float = _DEADLINE_SECONDS
) -> None:
    await until_async(holds, what, seconds=seconds)


async def kill(times: int, seed: int = 0, tell: Callable[[Result], None] | None = None) -> Result:
    """Run *times* rounds, and return the counts."""
    async with Kills(seed) as kills:
        for _ in range(times):
            await kills.kill_once()
            if tell is not None:
                tell(kills.result)
    return kills.result


def main() -> int:
    """Run the rounds, print the counts, and return the exit code."""
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
