"""The real kube-scheduler on a real API server: did it do what our plugins would have done?

``python -m hack.fidelity.live --pods 200 --seed 1`` posts generated nodes and pods, one pod at a
time, to a local control plane. Before each pod everything is read back as the API server holds it:
with its defaults, its way to write quantities, its merged selectors. The node that kube-scheduler
binds the pod to has to be one of our best, and where it finds none, condition and event have to say
what we would have said.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from typing import TYPE_CHECKING, Any, Final

from hack.api import ApiError
from hack.control_plane import KUBE_SCHEDULER, ControlPlane
from hack.fidelity.clusters import make_live_cluster
from hack.fidelity.compare import best_nodes
from hack.fidelity.ours import OurCluster
from hack.fidelity.words import NAMESPACES, Dice

if TYPE_CHECKING:
    from collections.abc import Iterator

Json = dict[str, Any]

_CONFIG: Final[Json] = {
    "apiVersion": "kubescheduler.config.k8s.io/v1",
    "kind": "KubeSchedulerConfiguration",
    "profiles": [{"schedulerName": "py-scheduler", "plugins": {"multiPoint": {}}}],
}
_KINDS: Final = {"nodes": "Node", "pods": "Pod", "services": "Service", "namespaces": "Namespace"}
_PODS_IN_CLUSTER: Final = 50
_PATIENCE_SECONDS: Final = 20.0
_PAUSE_SECONDS: Final = 0.005


def main() -> int:
    """Compare, and print one line a mismatch and a summary."""
    parser = argparse.ArgumentParser(prog="python -m hack.fidelity.live", description=__doc__)
    parser.add_argument("--pods", type=int, default=200, help="how many pods to post")
    parser.add_argument("--seed", type=int, default=1, help="from which everything is made")
    options = parser.parse_args()
    found: Counter[str] = Counter()
    # Without the admission that gives pods a service account and new nodes a taint.
    with ControlPlane(components=(KUBE_SCHEDULER,), benchmark=True) as plane:
        for name in NAMESPACES[1:]:
            labels = {"team": name.removeprefix("team-")} if name.startswith("team") else {}
            plane.request(
                "POST", "/api/v1/namespaces", {"metadata": {"name": name, "labels": labels}}
            )
        number = 0
        while found["placed"] + found["refused"] < options.pods:
            _Cluster(plane, found).run(Dice(f"live:{options.seed}:{number}"), f"live-{number}")
            number += 1
    told = ", ".join(f"{count} {what}" for what, count in sorted(found.items()))
    print(f"live: {number} clusters, {told}")
    return int(found["mismatches"] > 0)


class _Cluster:
    """One cluster's nodes, and the pods that are posted to them."""

    def __init__(self, plane: ControlPlane, found: Counter[str]) -> None:
        self._plane = plane
        self._found = found

    def run(self, dice: Dice, name: str) -> None:
        """Post everything, compare after each pod, and clean up."""
        nodes, services, pods = make_live_cluster(dice, name, _PODS_IN_CLUSTER)
        for node in nodes:
            self._plane.request("POST", "/api/v1/nodes", node)
        for service in services:
            namespace = service["metadata"]["namespace"]
            self._plane.request("POST", f"/api/v1/namespaces/{namespace}/services", service)
        for pod in pods:
            self._post(pod)
        for path in [*self._paths("pods"), *self._paths("services"), *self._paths("nodes")]:
            self._plane.request("DELETE", f"{path}?gracePeriodSeconds=0")

    def _post(self, pod: Json) -> None:
        pods = f"/api/v1/namespaces/{pod['metadata']['namespace']}/pods"
        before = [each for plural in _KINDS for each in self._list(plural)]
        try:
            posted = self._plane.request("POST", pods, pod)
        except ApiError as error:
            if error.status != 422:
                raise
            self._found["invalid"] += 1
            return
        path = f"{pods}/{pod['metadata']['name']}"
        decided = self._decided(path)
        ours = OurCluster(_CONFIG, before)
        for problem in self._compare(decided, ours.judge({**posted, "kind": "Pod"}), ours.names):
            self._found["mismatches"] += 1
            print(f"mismatch: pod {pod['metadata']['name']}: {problem}")
        if not decided["spec"].get("nodeName"):
            self._plane.request("DELETE", f"{path}?gracePeriodSeconds=0")

    def _decided(self, path: str) -> Json:
        """Wait until the pod is bound, or refused."""
        deadline = time.monotonic() + _PATIENCE_SECONDS
        while True:
            pod = self._plane.request("GET", path)
            if pod["spec"].get("nodeName") or _condition(pod):
                return pod
            assert time.monotonic() < deadline, f"kube-scheduler did not decide about {path}"
            time.sleep(_PAUSE_SECONDS)

    def _compare(self, decided: Json, ours: Json, names: list[str]) -> Iterator[str]:
        node, condition = decided["spec"].get("nodeName"), _condition(decided)
        if node:
            self._found["placed"] += 1
            best = best_nodes(ours, names)
            self._found["ties"] += len(best) > 1
            if node not in best:
                yield f"on {node}, our best are {sorted(best)}; {ours['outcome']}"
            return
        self._found["refused"] += 1
        message, own = condition.get("message", ""), ours["outcome"].get("message", "")
        if condition.get("reason") == "SchedulerError" and "error" in ours["outcome"]:
            return  # in other words
        # What follows is said by the post-filter plugins.
        if not own or not f"{message} ".startswith(f"{own} "):
            yield f"condition {message!r}, we say {ours['outcome']}"
        yield from self._compare_event(decided, message)

    def _compare_event(self, pod: Json, message: str) -> Iterator[str]:
        name, namespace = pod["metadata"]["name"], pod["metadata"]["namespace"]
        path = f"/api/v1/namespaces/{namespace}/events?fieldSelector=involvedObject.name={name}"
        deadline = time.monotonic() + _PATIENCE_SECONDS
        while not (events := self._plane.request("GET", path)["items"]):
            assert time.monotonic() < deadline, f"no event tells of {namespace}/{name}"
            time.sleep(_PAUSE_SECONDS)
        note = message if len(message) <= 1024 else f"{message[:1020]} ..."
        if events[0]["message"] != note or events[0]["reason"] != "FailedScheduling":
            yield f"event {events[0]['reason']} {events[0]['message']!r}"

    def _list(self, plural: str) -> list[Json]:
        items = self._plane.request("GET", f"/api/v1/{plural}")["items"]
        # In the order in which they came: the first node to hold an image tells its size.
        items.sort(key=lambda item: int(item["metadata"]["resourceVersion"]))
        return [{**item, "kind": _KINDS[plural]} for item in items]

    def _paths(self, plural: str) -> list[str]:
        if plural == "nodes":
            names = [each["metadata"]["name"] for each in self._list(plural)]
            return [f"/api/v1/nodes/{name}" for name in names]
        found = [each["metadata"] for each in self._list(plural)]
        return [
            f"/api/v1/namespaces/{each['namespace']}/{plural}/{each['name']}"
            for each in found
            if each["name"] != "kubernetes"
        ]


def _condition(pod: Json) -> Json:
    conditions: list[Json] = pod.get("status", {}).get("conditions", [])
    return next((each for each in conditions if each["type"] == "PodScheduled"), {})


if __name__ == "__main__":
    sys.exit(main())
