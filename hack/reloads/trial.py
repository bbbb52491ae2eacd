"""One trial: a steady load of pods and changes, and the checks of both."""

from __future__ import annotations

import asyncio
import contextlib
import random
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from hack.api import ApiError, AsyncApi
from hack.nodes import node
from hack.reloads.changes import Change, any_change, good_change, whole

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from hack.api import Json

PATH: Final = "/apis/py-scheduler.dev/v1alpha1/schedulerconfigurations"
GIANT: Final = "999"
"""Processors that no node has."""

_DEADLINE_SECONDS: Final = 60.0
_LOOK_SECONDS: Final = 0.02
_NODES: Final = 20
_BURST: Final = 0.1
_RECREATED_SHARE: Final = 0.02


@dataclass
class Trial:
    """Makes the changes and the pods, and checks what becomes of them.

    Args:
        kubeconfig: An administrator's.
        name: Of the namespace, of the object, and of the first scheduler name.
        changes: How many.
        seed: Draws everything.
        rate: Pods a second.
        pause_seconds: Between two changes, on average.
    """

    kubeconfig: Path
    name: str
    changes: int
    seed: int
    rate: float = 50.0
    pause_seconds: float = 0.2
    wrong: list[str] = field(default_factory=list)
    became: Counter[str] = field(default_factory=Counter)
    seconds: list[float] = field(default_factory=list)
    pods: dict[str, bool] = field(default_factory=dict)
    """Every pod that was created, by name, and whether it fits anywhere."""

    def __post_init__(self) -> None:
        self.names = [f"{self.name}-{letter}" for letter in "abcd"]
        self._rng = random.Random(self.seed)
        self._expected: dict[tuple[str, int], Change] = {}
        self._status: dict[tuple[str, int], Json] = {}
        self._bound: dict[str, str] = {}
        self._ending = asyncio.Event()

    async def run(self) -> None:
        """Do it all; what was wrong is in `wrong` afterwards."""
        async with AsyncApi(self.kubeconfig) as api:
            self._api = api
            await self._add_nodes()
            watching = [
                asyncio.create_task(self._watch(PATH, self._hold_status)),
                asyncio.create_task(self._watch(self._pods_path, self._hold_pod)),
            ]
            loading = asyncio.create_task(self._load())
            try:
                for number in range(self.changes):
                    await self._change_once(number)
                    await asyncio.sleep(self._rng.uniform(0, 2 * self.pause_seconds))
                self._ending.set()
                await loading
                await self._change(whole(self.names), "PUT")
                await self._await_pods()
            finally:
                for task in (loading, *watching):
                    task.cancel()
                ends = await asyncio.gather(loading, *watching, return_exceptions=True)
                self.wrong += [repr(end) for end in ends if isinstance(end, Exception)]
            await self._count_pods()

    # Load.

    @property
    def _pods_path(self) -> str:
        return f"/api/v1/namespaces/{self.name}/pods"

    async def _add_nodes(self) -> None:
        for number in range(_NODES):
            described = node(f"{self.name}-{number}", cpu="200", pods=2000, kwok=False)
            await self._api.request("POST", "/api/v1/nodes", described)

    async def _load(self) -> None:
        """Create pods at an even pace, for all names, of which not all are served at any time."""
        rng = random.Random(self.seed + 1)
        due = time.monotonic()
        while not self._ending.is_set():
            number = len(self.pods)
            fits = rng.random() > 0.02
            await self._create(f"pod-{number}", rng.choice(self.names), fits=fits)
            due += 1 / self.rate
            await asyncio.sleep(max(0.0, due - time.monotonic()))

    async def _create(self, name: str, scheduler: str, *, fits: bool) -> None:
        requests = {"cpu": "10m" if fits else GIANT}
        spec = {
            "schedulerName": scheduler,
            "containers": [{"name": "c", "image": "i", "resources": {"requests": requests}}],
        }
        self.pods[name] = fits
        await self._api.request("POST", self._pods_path, {"metadata": {"name": name}, "spec": spec})

    # Changes.

    async def _change_once(self, number: int) -> None:
        if number == 0:
            await self._change(good_change(self._rng, self.names), "POST")
        elif self._rng.random() < _RECREATED_SHARE:
            await self._api.request("DELETE", f"{PATH}/{self.name}")
            await self._change(good_change(self._rng, self.names), "POST")
        else:
            in_a_hurry = self._rng.random() < _BURST
            await self._change(any_change(self._rng, self.names), "PUT", wait=not in_a_hurry)

    async def _change(self, change: Change, method: str, *, wait: bool = True) -> None:
        """Write a configuration, and wait until the status says what became of it."""
        body: Json = {
            "apiVersion": "py-scheduler.dev/v1alpha1",
            "kind": "SchedulerConfiguration",
            "metadata": {"name": self.name},
            "spec": {"configuration": change.document},
        }
        path = PATH if method == "POST" else f"{PATH}/{self.name}"
        if method == "PUT":
            while True:
                found = await self._api.request("GET", path)
                body["metadata"] = found["metadata"]
                # Said before it is written, since the watch may be quicker than the answer.
                version = found["metadata"]["uid"], found["metadata"]["generation"] + 1
                if found["spec"] == body["spec"]:
                    return
                self._expected[version] = change
                try:
                    answer = await self._api.request(method, path, body)
                except ApiError as error:
                    if error.status != 409:
                        raise
                    continue  # its status was written in between
                break
        else:
            answer = await self._api.request(method, path, body)
            version = answer["metadata"]["uid"], answer["metadata"]["generation"]
            self._expected[version] = change
        self.became[change.reason] += 1
        if wait:
            await self._await_status(version)

    async def _await_status(self, version: tuple[str, int]) -> None:
        began = time.monotonic()
        while version not in self._status:
            if time.monotonic() > began + _DEADLINE_SECONDS:
                self.wrong.append(f"generation {version[1]} was never considered")
                return
            await asyncio.sleep(_LOOK_SECONDS)
        self.seconds.append(time.monotonic() - began)

    # What watches report.

    async def _watch(self, path: str, hold: Callable[[str, Json], None]) -> None:
        query: dict[str, str] = {"timeoutSeconds": "3600"}
        # The API server ends the watches of a custom resource, and may not know it for a moment,
        # when it takes in a change of the definition, as it does shortly after the installation.
        # A new watch begins with everything that exists.
        while True:
            try:
                async for event in self._api.watch(path, query):
                    hold(event["type"], event["object"])
            except ApiError as error:
                if error.status not in {404, 429, 503}:
                    raise
            await asyncio.sleep(_LOOK_SECONDS)

    def _hold_status(self, kind: str, found: Json) -> None:
        """Hold one version of the object to what the generator did."""
        status: Mapping[str, Any] = found.get("status") or {}
        generation = status.get("observedGeneration")
        if kind == "DELETED" or found["metadata"]["name"] != self.name or generation is None:
            return
        version = found["metadata"]["uid"], generation
        self._status[version] = dict(status)
        change = self._expected.get(version)
        if change is None:
            # The answer to its creation is on the way; it is held at the end.
            return
        self.wrong += check_status(version[1], change, status)

    def hold_all(self) -> None:
        """Check the last reported status of every generation once more."""
        for version, status in self._status.items():
            change = self._expected.get(version)
            if change is None:
                self.wrong.append(f"generation {version[1]} is not one of ours")
            else:
                self.wrong += check_status(version[1], change, status)

    def _hold_pod(self, kind: str, found: Json) -> None:
        name, there = found["metadata"]["name"], found["spec"].get("nodeName", "")
        before = self._bound.get(name, "")
        if kind == "DELETED":
            self.wrong.append(f"{name} was deleted")
        elif before and there != before:
            self.wrong.append(f"{name} moved from {before} to {there or 'nowhere'}")
        elif there:
            self._bound[name] = there

    # The end.

    async def _await_pods(self) -> None:
        wanted = {name for name, fits in self.pods.items() if fits}
        deadline = time.monotonic() + _DEADLINE_SECONDS
        # The watch has no event to wait for.
        while not wanted <= self._bound.keys() and time.monotonic() < deadline:  # noqa: ASYNC110
            await asyncio.sleep(_LOOK_SECONDS * 5)

    async def _count_pods(self) -> None:
        there = (await self._api.request("GET", self._pods_path))["items"]
        found = {each["metadata"]["name"]: each for each in there}
        if found.keys() != self.pods.keys():
            self.wrong.append(f"pods are missing: {sorted(self.pods.keys() - found.keys())[:5]}")
        lost = []
        for name, fits in self.pods.items():
            if name in found and bool(found[name]["spec"].get("nodeName")) != fits:
                lost.append(name)
        if lost:
            self.wrong.append(f"{len(lost)} pods are not where they should be: {lost[:5]}")
        self.hold_all()


def check_status(generation: int, change: Change, status: Mapping[str, Any]) -> Sequence[str]:
    """Say what of *status* is not as *change* wants it."""
    conditions = {each["type"]: each for each in status["conditions"]}
    active, valid = conditions["Active"], conditions["Valid"]
    wrong = []
    if active["status"] != str(change.good) or active["reason"] != change.reason:
        wrong.append(f"Active is {active}, not {change.reason}")
    if valid["status"] != str(change.good):
        wrong.append(f"Valid is {valid}")
    if change.says not in active["message"]:
        wrong.append(f"{active['message']!r} does not say {change.says!r}")
    if change.good and status["activeGeneration"] != generation:
        wrong.append(f"activeGeneration is {status['activeGeneration']}")
    if change.good and tuple(status["profiles"]) != change.names:
        wrong.append(f"profiles are {status['profiles']}, not {change.names}")
    if any(each["observedGeneration"] != generation for each in conditions.values()):
        wrong.append("a condition was observed elsewhere")
    return [f"generation {generation}: {each}" for each in wrong]


def quantile(values: Sequence[float], share: float) -> float:
    """Return the value below which *share* of *values* lie."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else 0.0


async def remove(kubeconfig: Path, name: str) -> None:
    """Remove what a trial leaves behind: its pods, its nodes and its object."""
    pods = f"/api/v1/namespaces/{name}/pods"
    async with AsyncApi(kubeconfig) as api:
        at_once = {"gracePeriodSeconds": 0, "propagationPolicy": "Background"}
        await api.request("DELETE", pods, at_once)
        for number in range(_NODES):
            with contextlib.suppress(ApiError):
                await api.request("DELETE", f"/api/v1/nodes/{name}-{number}")
        with contextlib.suppress(ApiError):
            await api.request("DELETE", f"{PATH}/{name}")
        while (await api.request("GET", pods))["items"]:  # noqa: ASYNC110 - polled: no event to wait for
            await asyncio.sleep(_LOOK_SECONDS)
