"""The controllers of a simulated cluster: kubelets, garbage collector, disruption controller.

Each call of `run_once` lets them do a random part of their work, so that they are late at times.
"""

import asyncio
import random
from collections.abc import Callable, Iterator

from scheduler.model.fact import Resource
from scheduler.model.quantity import millis, nanos
from scheduler.testing.documents import ENDED, Document, is_of, path_of
from scheduler.testing.simulated_api import SimulatedApi


class Controllers:
    """Kubelets, garbage collector and disruption controller.

    Args:
        rng: Draws which of them are late.
        report: Called with the kind of an event, its subject and a text.
    """

    def __init__(
        self, api: SimulatedApi, rng: random.Random, report: Callable[[str, str, str], None]
    ) -> None:
        self._api = api
        self._rng = rng
        self._report = report
        self._admitted: set[str] = set()

    def run_once(self) -> None:
        """Let each controller do a random part of its work."""
        self._kubelets()
        if self._rng.random() < 0.5:
            self._allow_disruptions()

    def _pods(self) -> list[Document]:
        return [pod for pod in self._api.pods() if pod.get("status", {}).get("phase") not in ENDED]

    # Kubelets: admit pods that fit and reject the others.

    def _kubelets(self) -> None:
        pods = self._pods()
        for pod in pods:
            uid, node = pod["metadata"]["uid"], pod["spec"].get("nodeName")
            if not node or uid in self._admitted or self._rng.random() < 0.5:
                continue
            here = self._api.documents.get(f"/api/v1/nodes/{node}")
            if here is None:
                if self._rng.random() < 0.3:
                    self._garbage_collect(pod)
            elif self._cpu_on(node, pods) + _cpu(pod) <= _cpu_of_node(here):
                self._admit(pod)
            else:
                self._reject(pod, node)

    def _admit(self, pod: Document) -> None:
        self._admitted.add(pod["metadata"]["uid"])
        second = int(asyncio.get_running_loop().time()) % 3600
        started = f"2026-01-01T00:{second // 60:02}:{second % 60:02}Z"
        self._api.change(_path(pod), lambda d: d["status"].update(startTime=started))

    def _reject(self, pod: Document, node: str) -> None:
        self._report("kubelet rejection", _name(pod), f"kubelet of {node} refuses")
        self._api.change(
            _path(pod), lambda d: d["status"].update(phase="Failed", reason="OutOfcpu")
        )

    def _garbage_collect(self, pod: Document) -> None:
        self._report("garbage collection", _name(pod), "is collected: its node is gone")
        self._api.remove(_path(pod))

    def _cpu_on(self, node: str, pods: list[Document]) -> int:
        """Return what the pods request that were admitted to *node*."""
        return sum(
            _cpu(pod)
            for pod in pods
            if pod["spec"].get("nodeName") == node and pod["metadata"]["uid"] in self._admitted
        )

    # Budgets.

    def _allow_disruptions(self) -> None:
        """Update each budget's disruptionsAllowed from the healthy pods."""
        for path, budget in self._budgets():
            wanted = budget["spec"]["selector"]["matchLabels"].items()
            healthy = sum(
                pod["metadata"]["uid"] in self._admitted
                and not pod["metadata"].get("deletionTimestamp")
                and wanted <= pod["metadata"].get("labels", {}).items()
                for pod in self._pods()
            )
            allowed = max(0, healthy - budget["spec"]["minAvailable"])
            if budget.get("status", {}).get("disruptionsAllowed") != allowed:
                self._api.change(path, lambda d: d["status"].update(disruptionsAllowed=allowed))  # noqa: B023 - called at once

    def _budgets(self) -> Iterator[tuple[str, Document]]:
        found = tuple(self._api.documents.items())
        return (each for each in found if is_of(Resource.POD_DISRUPTION_BUDGET, each[0]))


def _name(document: Document) -> str:
    return str(document["metadata"]["name"])


def _path(pod: Document) -> str:
    return path_of(Resource.POD, pod["metadata"])


def _cpu(pod: Document) -> int:
    return millis(nanos(pod["spec"]["containers"][0]["resources"]["requests"]["cpu"]))


def _cpu_of_node(node: Document) -> int:
    return millis(nanos(node["status"]["allocatable"]["cpu"]))
