"""``make contention``: py-scheduler and kube-scheduler fill the same nodes at the same time.

Everything is real but the kubelets, which `hack.admitting_kubelet` replaces: it admits pods in the
order of their bindings and fails those that do not fit. Each scheduler has half of the pods, all in
ReplicaSets, and together they request all capacity. Every other second some pods of both are
deleted, so that both schedulers see the same free capacity at once. Now and then a ReplicaSet of
ours gets important pods, which must preempt, mostly pods that kube-scheduler then schedules again.

The run counts rejections by kubelets, by owner and node. A rejection is a *further* one of another
if its pod was bound after the other could be seen. With NodeTrust there may be at most two further
ones of each, and one owner's preemptions on one node may be undone at most three times. Without
NodeTrust both numbers are printed for comparison.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import random
import sys
import time
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from hack.admitting_kubelet import AdmittingKubelet
from hack.api import MERGE_PATCH, AsyncApi, NotFoundError
from hack.control_plane import CONTROLLER_MANAGER, KUBE_SCHEDULER, ControlPlane
from hack.nodes import create_nodes, nodes
from hack.running_scheduler import RunningScheduler

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from hack.api import Json

NAMESPACE: Final = "contention"
OURS: Final = "py-scheduler"
THEIRS: Final = "default-scheduler"
MOST_FURTHER: Final = 2
MOST_UNDONE: Final = 3

_NODES: Final = 6
_CPU: Final = 4
_OWNERS: Final = 3
"""For each scheduler; their pods together ask for every cpu there is."""
_REPLICAS: Final = _NODES * _CPU // (2 * _OWNERS)
_DELETED_AT_ONCE: Final = 3
_CHURN_SECONDS: Final = 2.0
_IMPORTANT_SECONDS: Final = 15.0
_SHUTDOWN_SECONDS: Final = 0.3
_SEEN_SECONDS: Final = 0.5
"""How long a refusal may take to be seen, and a binding that was posted before to be seen."""
_PODS: Final = f"/api/v1/namespaces/{NAMESPACE}/pods"
_SETS: Final = f"/apis/apps/v1/namespaces/{NAMESPACE}/replicasets"


@dataclass
class Fate:
    """What was seen of one pod, in monotonic seconds."""

    scheduler: str
    owner: str
    node: str = ""
    bound_at: float = 0.0
    rejected_at: float = 0.0


@dataclass(frozen=True)
class Refusal:
    """A pod that its kubelet did not take."""

    bound_at: float
    rejected_at: float


@dataclass
class Result:
    """The counts of one run."""

    seconds: float
    trust: bool
    ours: dict[tuple[str, str], list[Refusal]] = field(default_factory=dict)
    theirs: int = 0
    bound: int = 0
    evictions: int = 0
    undone: Counter[tuple[str, str]] = field(default_factory=Counter)

    @property
    def refusals(self) -> int:
        """How many of our pods were refused."""
        return sum(map(len, self.ours.values()))

    @property
    def most_further(self) -> int:
        """How many refusals followed one of the same owner and node at most."""
        return max((most_further(each) for each in self.ours.values()), default=0)

    @property
    def most_undone(self) -> int:
        """The most often that one owner's preemptions on one node were undone."""
        return max(self.undone.values(), default=0)

    @property
    def problems(self) -> Iterator[str]:
        """Yield what must not be."""
        if not self.refusals:
            yield "no conflict was seen: nothing is shown"
        if self.trust and self.most_further > MOST_FURTHER:
            yield f"{self.most_further} further refusals of one owner on one node"
        if self.trust and self.most_undone > MOST_UNDONE:
            yield f"one owner's preemptions on one node were undone {self.most_undone} times"

    def line(self) -> str:
        """Sum up."""
        return (
            f"NodeTrust {'on' if self.trust else 'off'}, {self.seconds:.0f} s: "
            f"{self.bound} pods of ours bound, {self.refusals} refused "
            f"({self.theirs} of theirs), at most {self.most_further} further for one owner on one "
            f"node; {self.evictions} evictions, {self.undone.total()} undone, "
            f"at most {self.most_undone} for one owner on one node"
        )


def most_further(refusals: list[Refusal]) -> int:
    """Return how many refusals at most were of pods that were bound after another was seen."""
    return max(
        (
            sum(other.bound_at > each.rejected_at + _SEEN_SECONDS for other in refusals)
            for each in refusals
        ),
        default=0,
    )


class Watcher:
    """Follows all pods, and remembers what became of them."""

    def __init__(self) -> None:
        self.fates: dict[str, Fate] = {}
        self.names: dict[str, str] = {}
        """Pods that run now: UID and name."""

    @property
    def refusals(self) -> int:
        """How many pods of ours were refused so far."""
        return sum(
            bool(fate.rejected_at) and fate.scheduler == OURS for fate in self.fates.values()
        )

    async def run(self, api: AsyncApi) -> None:
        """Watch until cancelled."""
        version = (await api.request("GET", _PODS))["metadata"]["resourceVersion"]
        while True:
            async for event in api.watch(_PODS, {"resourceVersion": version}):
                self.take(event["type"], event["object"], time.monotonic())
                version = event["object"]["metadata"]["resourceVersion"]

    def take(self, kind: str, pod: Json, now: float) -> None:
        """Take in one event."""
        metadata, spec, status = pod["metadata"], pod["spec"], pod["status"]
        owner = metadata.get("ownerReferences", [{"name": ""}])[0]["name"]
        fate = self.fates.setdefault(metadata["uid"], Fate(spec["schedulerName"], owner))
        if spec.get("nodeName") and not fate.node:
            fate.node, fate.bound_at = spec["nodeName"], now
        refused = status.get("phase") == "Failed" and status.get("reason", "").startswith("OutOf")
        if refused and not fate.rejected_at:
            fate.rejected_at = now
        if kind == "DELETED" or metadata.get("deletionTimestamp") or status["phase"] != "Running":
            self.names.pop(metadata["uid"], None)
        else:
            self.names[metadata["uid"]] = metadata["name"]


def replica_set(name: str, scheduler: str, replicas: int, cpu: str, priority: str = "") -> Json:
    """Describe a ReplicaSet."""
    spec: dict[str, Any] = {
        "schedulerName": scheduler,
        "terminationGracePeriodSeconds": 1,
        "containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}],
    }
    if priority:
        spec["priorityClassName"] = priority
    labels = {"app": name}
    return {
        "metadata": {"name": name},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": spec},
        },
    }


async def prepare(api: AsyncApi, kubeconfig: Path) -> None:
    """Make nodes and the ReplicaSets of both sides."""
    await create_nodes(kubeconfig, nodes(_NODES, cpu=str(_CPU), kwok=False))
    important = {"metadata": {"name": "important"}, "value": 1000}
    await api.request("POST", "/apis/scheduling.k8s.io/v1/priorityclasses", important)
    for number in range(_OWNERS):
        for side, scheduler in (("ours", OURS), ("theirs", THEIRS)):
            made = replica_set(f"{side}-{number}", scheduler, _REPLICAS, "1")
            await api.request("POST", _SETS, made)
    await api.request("POST", _SETS, replica_set("important", OURS, 0, "2", "important"))


async def churn(api: AsyncApi, watcher: Watcher, dice: random.Random) -> None:
    """Delete some running pods of both sides at once, again and again."""
    while True:
        await asyncio.sleep(_CHURN_SECONDS)
        chosen: list[str] = []
        for scheduler in (OURS, THEIRS):
            running = sorted(
                name
                for uid, name in watcher.names.items()
                if watcher.fates[uid].scheduler == scheduler
            )
            chosen += dice.sample(running, k=min(_DELETED_AT_ONCE, len(running)))
        await asyncio.gather(*(delete(api, name) for name in chosen))


async def delete(api: AsyncApi, name: str) -> None:
    """Delete a pod at once; it may be gone already."""
    with contextlib.suppress(NotFoundError):
        await api.request("DELETE", f"{_PODS}/{name}", {"gracePeriodSeconds": 0})


async def be_important(api: AsyncApi) -> None:
    """Scale the ReplicaSet of important pods to two and to none, alternately."""
    wanted = 0
    while True:
        await asyncio.sleep(_IMPORTANT_SECONDS / 2)
        wanted = 2 - wanted
        await api.request(
            "PATCH",
            f"{_SETS}/important",
            {"spec": {"replicas": wanted}},
            content_type=MERGE_PATCH,
        )


async def enough(watcher: Watcher, refusals: int) -> None:
    """Return once so many pods of ours were refused; 0 is never enough."""
    while not refusals or watcher.refusals < refusals:  # noqa: ASYNC110 - the watcher has no event to wait for
        await asyncio.sleep(0.5)


async def contend(plane: ControlPlane, seconds: float, refusals: int, seed: int) -> Watcher:
    """Let both schedulers contend for *seconds*, or until so many pods of ours were refused."""
    watcher, dice = Watcher(), random.Random(seed)
    async with (
        AsyncApi(plane.admin_kubeconfig) as api,
        AdmittingKubelet(plane.admin_kubeconfig, shutdown_seconds=_SHUTDOWN_SECONDS),
    ):
        await prepare(api, plane.admin_kubeconfig)
        tasks = [
            asyncio.create_task(watcher.run(api)),
            asyncio.create_task(churn(api, watcher, dice)),
            asyncio.create_task(be_important(api)),
            asyncio.create_task(enough(watcher, refusals)),
        ]
        done, _ = await asyncio.wait(tasks, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for task in done:
            task.result()
    return watcher


def our_scheduler(plane: ControlPlane, *, trust: bool) -> RunningScheduler:
    """Return a py-scheduler like the kube-scheduler beside it: without lease and rate limit."""
    profile: Json = {"schedulerName": OURS}
    if not trust:
        profile["plugins"] = {"multiPoint": {"disabled": [{"name": "NodeTrust"}]}}
    config = {
        "leaderElection": {"leaderElect": False},
        "clientConnection": {"qps": -1},
        "profiles": [profile],
    }
    return RunningScheduler(plane, config=config)


def run(seconds: float, *, trust: bool, refusals: int = 0, seed: int = 1) -> Result:
    """Let both schedulers contend on a control plane of their own, and count."""
    with ControlPlane(components=(CONTROLLER_MANAGER, KUBE_SCHEDULER)) as plane:
        plane.create_namespace(NAMESPACE)
        with our_scheduler(plane, trust=trust) as scheduler:
            scheduler.wait_for_line("scheduler.started", seconds=180)
            began = time.monotonic()
            watcher = asyncio.run(contend(plane, seconds, refusals, seed))
            return count(watcher, scheduler.lines(), time.monotonic() - began, trust=trust)


def count(watcher: Watcher, lines: Iterable[Json], seconds: float, *, trust: bool) -> Result:
    """Sum up what was seen, and the evictions in our log."""
    tally = Result(seconds, trust)
    ours: dict[tuple[str, str], list[Refusal]] = defaultdict(list)
    for fate in watcher.fates.values():
        tally.bound += bool(fate.node) and fate.scheduler == OURS
        if fate.rejected_at and fate.scheduler == OURS:
            refusal = Refusal(fate.bound_at, fate.rejected_at)
            ours[fate.owner, fate.node].append(refusal)
        elif fate.rejected_at:
            tally.theirs += 1
    tally.ours = dict(ours)
    for line in lines:
        tally.evictions += line.get("event") == "pod.preempted"
        if line.get("event") == "preemption.undone":
            owner = line["pod"].partition("/")[2].rpartition("-")[0]
            tally.undone[owner, line["node"]] += 1
    return tally


def main() -> int:
    """Contend with NodeTrust and without, and print a line for each."""
    parser = argparse.ArgumentParser(prog="python -m hack.contention", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--seconds", type=float, default=300.0, help="how long each run takes")
    parser.add_argument(
        "--refusals", type=int, default=0, help="end as soon as so many pods of ours were refused"
    )
    parser.add_argument("--trust", choices=["on", "off", "both"], default="both")
    parser.add_argument("--seed", type=int, default=1, help="chooses the pods that are deleted")
    options = parser.parse_args()
    problems: list[str] = []
    for trust in {"on": (True,), "off": (False,), "both": (False, True)}[options.trust]:
        tally = run(options.seconds, trust=trust, refusals=options.refusals, seed=options.seed)
        print(tally.line(), flush=True)
        problems += tally.problems
    for problem in problems:
        print(f"broken: {problem}")
    print(f"contention: {'held' if not problems else f'{len(problems)} problems'}")
    return bool(problems)


if __name__ == "__main__":
    sys.exit(main())
