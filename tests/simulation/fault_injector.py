"""Injects faults into a simulated cluster: users, other schedulers, nodes, networks, from a seed.

The injector owns the API server and does not know the scheduler: everything that it does could
happen to a real cluster, and is noted in a journal.
"""

import asyncio
import random
import re
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Final

from scheduler.errors import Throttled, Unreachable
from scheduler.model.fact import Resource
from scheduler.testing.documents import ENDED, Document, path_of
from scheduler.testing.simulated_api import Fault, Lose, SimulatedApi
from tests.simulation.controllers import Controllers
from tests.simulation.faults import describe, draw, kind_of, throttled
from tests.simulation.journal import Journal
from tests.simulation.watch_server import WatchServer
from tests.simulation.workload import DOOR, OURS, Workload

_WATCHED: Final = (
    Resource.POD,
    Resource.FAILED_POD,
    Resource.NODE,
    Resource.POD_DISRUPTION_BUDGET,
)
_POD_IN_PATH: Final = re.compile(r"(/api/v1/namespaces/default/pods/([^/]+))/(\w+)")
_PODS_MAXIMUM: Final = 60
_NODES_MAXIMUM: Final = 8
_LAST_PODS: Final = 3
_DISRUPTED: Final = {"DisruptionTarget"}
_EVENTS: Final = (
    *(["pod"] * 14 + ["delete"] * 3 + ["finish"] * 3 + ["rival"] * 3 + ["steal"] * 2),
    *("recreate", "recreate", "relabel", "nominate", "gate", "release"),
    *("hold", "drop", "drop", "hang", "gap", "gap", "restart"),
    *("node", "node gone", "node again", "resize", "cordon", "taint", "door", "door"),
)


class FaultInjector:
    """A simulated cluster and the faults that happen to it.

    Args:
        rng: Draws everything.
    """

    watched = _WATCHED

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.active = True
        self.journal = Journal()
        self.faults: Counter[str] = Counter()
        """How often what happened."""
        self.bound_by_others: set[tuple[str, str]] = set()
        """UID and node of bindings by others."""
        self.api = SimulatedApi(watching=(), latency=lambda: self.rng.uniform(0.0, 0.05))
        self.api.choose_fault = self._choose_fault
        self.watches = WatchServer(
            self.api,
            _WATCHED,
            latency=lambda: self.rng.uniform(0.0, 0.02),
            lag=lambda: self.rng.uniform(0.0, 0.3) if self.active else 0.01,
            choose_error=self._choose_watch_error,
            streams_lists=rng.random() < 0.7,
        )
        self.controllers = Controllers(self.api, rng, self._fault)
        self.api.listen(self._note_slow_eviction)
        self._workload = Workload(rng)
        self._unreachable_until = 0.0
        self._watches_down_until = dict.fromkeys(_WATCHED, 0.0)
        self._fault_probability = rng.choice([0.0, 0.1, 0.3, 0.5])
        for _ in range(rng.randint(2, 5)):
            self.api.create(self._workload.node())
        for _ in range(rng.randint(0, 2)):
            self.api.create(self._workload.budget(), Resource.POD_DISRUPTION_BUDGET)

    # Contents of the cluster.

    def nodes(self) -> list[Document]:
        """Return every node, by name."""
        found = [d for path, d in self.api.documents.items() if path.startswith("/api/v1/nodes/")]
        return sorted(found, key=_name)

    def pods(self) -> list[Document]:
        """Return every pod that has not ended, by name."""
        alive = (pod for pod in self.api.pods() if pod.get("status", {}).get("phase") not in ENDED)
        return sorted(alive, key=_name)

    def pending(self) -> Iterator[Document]:
        """Yield the pods of ours that have no node and are not going away."""
        for pod in self.pods():
            ours = pod["spec"].get("schedulerName") in OURS
            if ours and not pod["spec"].get("nodeName") and not _is_terminating(pod):
                yield pod

    # Faults.

    def inject(self) -> None:
        """Let one event happen, a fault or an ordinary change."""
        event = self.rng.choice(_EVENTS)
        getattr(self, "_inject_" + event.replace(" ", "_"))()

    def end(self) -> None:
        """Stop the faults, open all scheduling gates and remove all finalizers.

        The doors open a second later, so that the last pods have to wait at them.
        """
        self.active = False
        self._unreachable_until = 0.0
        self._watches_down_until = dict.fromkeys(_WATCHED, 0.0)
        for pod in self.pods():
            if pod["spec"].get("schedulingGates"):
                self._open_gate(pod)
        for pod in tuple(self.api.pods()):
            if pod["metadata"].get("finalizers"):
                self.api.release(_path(pod))
        for _ in range(_LAST_PODS):
            self._add_pod(self._workload.pod(needs_open_door=True))
        self._later(1.0, self._open_doors)

    def note(self, subject: str, text: str) -> None:
        """Write into the journal."""
        self.journal.note(asyncio.get_running_loop().time(), subject, text)

    def _fault(self, kind: str, subject: str, text: str) -> None:
        self.faults[kind] += 1
        self.note(subject, text)

    def _note_slow_eviction(self, _: str, old: Document | None, new: Document | None) -> None:
        """Note an eviction that a finalizer or the grace period keeps from ending at once."""
        begins = old and new and _is_terminating(new) and not _is_terminating(old)
        if begins and new and _DISRUPTED & _conditions(new):
            kept = "finalizer" if new["metadata"].get("finalizers") else "grace period"
            self._fault(f"eviction hangs on {kept}", _name(new), f"hangs on its {kept}")

    def _choose(self, found: list[Document]) -> Document | None:
        return self.rng.choice(found) if found else None

    def _later(self, seconds: float, act: Callable[..., object], *args: object) -> None:
        asyncio.get_running_loop().call_later(seconds, act, *args)

    # Pods.

    def _inject_pod(self) -> None:
        if len(self.pods()) < _PODS_MAXIMUM:
            self._add_pod(self._workload.pod())

    def _add_pod(self, pod: Document) -> None:
        self.api.create(pod, Resource.POD)
        self.note(_name(pod), f"is created, of priority {pod['spec']['priority']}")

    def _inject_delete(self) -> None:
        if pod := self._choose(self.pods()):
            if not pod["spec"].get("nodeName") and self.rng.random() < 0.7:
                self._remove(pod, "is deleted")
            elif not _is_terminating(pod):
                self.note(_name(pod), "is being deleted")
                self.api.begin_deletion(_path(pod))
                self._later(self.rng.choice([0.2, 2.0, 15.0]), self._finish_deletion, pod)

    def _finish_deletion(self, pod: Document) -> None:
        there = self.api.documents.get(_path(pod))
        if there is not None and there["metadata"]["uid"] == pod["metadata"]["uid"]:
            self.note(_name(pod), "ends")
            self.api.end(_path(pod))

    def _remove(self, pod: Document, text: str) -> None:
        self.note(_name(pod), text)
        self.api.remove(_path(pod))

    def _inject_finish(self) -> None:
        if pod := self._choose([p for p in self.pods() if p["spec"].get("nodeName")]):
            self.note(_name(pod), "succeeds")
            self.api.change(_path(pod), lambda d: d["status"].update(phase="Succeeded"))

    def _inject_recreate(self) -> None:
        if pod := self._choose(self.pods()):
            self._recreate(pod)

    def _recreate(self, pod: Document) -> None:
        uid = f"{_name(pod)}-uid{self._workload.number()}"
        self.api.remove(_path(pod))
        self._fault("same name, other UID", _name(pod), f"is replaced by {uid}")
        self._add_pod(self._workload.pod(_name(pod), uid))

    def _inject_release(self) -> None:
        kept = [pod for pod in self.pods() if pod["metadata"].get("finalizers")]
        if pod := self._choose([pod for pod in kept if _is_terminating(pod)]):
            self.note(_name(pod), "loses its finalizer")
            self.api.release(_path(pod))

    def _inject_relabel(self) -> None:
        if pod := self._choose(self.pods()):
            value = f"{self._workload.number()}"
            self.api.change(_path(pod), lambda d: d["metadata"]["labels"].update(t=value))

    def _inject_nominate(self) -> None:
        nodes = self.nodes()
        if nodes and (pod := self._choose(list(self.pending()))):
            node = _name(self.rng.choice(nodes))
            self.note(_name(pod), f"is nominated to {node} by others")
            self.api.change(_path(pod), lambda d: d["status"].update(nominatedNodeName=node))

    def _inject_gate(self) -> None:
        if pod := self._choose([p for p in self.pods() if p["spec"].get("schedulingGates")]):
            self._open_gate(pod)

    def _open_gate(self, pod: Document) -> None:
        self.note(_name(pod), "loses its gate")
        self.api.change(_path(pod), lambda d: d["spec"].pop("schedulingGates"))

    # Other schedulers.

    def _inject_rival(self) -> None:
        if not (nodes := self.nodes()):
            return
        node = _name(self.rng.choice(nodes))
        if self.rng.random() < 0.5:
            pod = self._workload.pod_of_other_scheduler(node)
            self._note_bound_by_other(pod.name, pod.uid, node)
            self.api.create(pod)
            return
        pod = self._workload.pod_of_other_scheduler(nominated=self.rng.choice(["", node]))
        self.note(pod.name, f"is created for another scheduler, on its way to {node}")
        path = self.api.create(pod)
        self._later(self.rng.uniform(0.0, 20.0), self._bind_by_other, path, pod.uid, node)

    def _bind_by_other(self, path: str, uid: str, node: str) -> None:
        pod = self.api.documents.get(path)
        if pod is None or pod["metadata"]["uid"] != uid or _is_terminating(pod):
            return
        if not pod["spec"].get("nodeName") and self._node(node):
            self._note_bound_by_other(_name(pod), uid, node)
            self.api.change(path, lambda d: _assign(d, node))

    def _inject_steal(self) -> None:
        nodes = self.nodes()
        if nodes and (pod := self._choose(list(self.pending()))):
            self._bind_by_other(_path(pod), pod["metadata"]["uid"], _name(self.rng.choice(nodes)))

    def _note_bound_by_other(self, name: str, uid: str, node: str) -> None:
        self.bound_by_others.add((uid, node))
        self.api.bound.append((uid, node))
        self._fault("other scheduler", name, f"is bound to {node} by another scheduler")

    def _node(self, name: str) -> Document | None:
        return self.api.documents.get(f"/api/v1/nodes/{name}")

    # Nodes.

    def _inject_node(self) -> None:
        if len(self.nodes()) < _NODES_MAXIMUM:
            node = self._workload.node()
            self.api.create(node)
            self.note(node.name, "joins")

    def _inject_node_gone(self) -> None:
        if len(self.nodes()) > 2 and (node := self._choose(self.nodes())):
            self._fault("node", _name(node), "leaves")
            self.api.remove(_node_path(node))

    def _inject_node_again(self) -> None:
        if node := self._choose(self.nodes()):
            self._fault("same name, other UID", _name(node), "is created anew")
            self.api.remove(_node_path(node))
            self.api.create(self._workload.node(_name(node)))

    def _inject_resize(self) -> None:
        cpu = str(self.rng.choice([1, 2, 4, 8]))
        self._change_node(f"has {cpu} cpu", lambda d: d["status"]["allocatable"].update(cpu=cpu))

    def _inject_cordon(self) -> None:
        value = self.rng.random() < 0.4
        self._change_node(
            "is cordoned" if value else "is uncordoned",
            lambda d: d["spec"].update(unschedulable=value),
        )

    def _inject_taint(self) -> None:
        taints = [{"key": "t", "effect": "NoSchedule"}] if self.rng.random() < 0.4 else []
        self._change_node(f"has {len(taints)} taints", lambda d: d["spec"].update(taints=taints))

    def _inject_door(self) -> None:
        if node := self._choose(self.nodes()):
            self._set_door(node, self.rng.choice(["open", "shut"]))

    def _open_doors(self) -> None:
        for node in self.nodes():
            if node["metadata"]["labels"].get(DOOR) == "shut":
                self._set_door(node, "open")

    def _set_door(self, node: Document, door: str) -> None:
        self.note(_name(node), f"has its door {door}")
        self.api.change(_node_path(node), lambda d: d["metadata"]["labels"].update({DOOR: door}))

    def _change_node(self, text: str, edit: Callable[[Document], object]) -> None:
        if node := self._choose(self.nodes()):
            self._fault("node", _name(node), text)
            self.api.change(_node_path(node), edit)

    # The network and the API server.

    def _inject_hold(self) -> None:
        resource = self.rng.choice(_WATCHED)
        self._fault("watch late", "watches", f"of {resource} is late")
        self.watches.hold(resource, self.rng.uniform(0.5, 4.0))

    def _inject_drop(self) -> None:
        resource = self.rng.choice(_WATCHED)
        why = self.rng.choice(["", "connection reset by peer"])
        self._fault("watch dropped", "watches", f"of {resource} ends: {why or 'in good order'}")
        self.watches.cut(resource, why)

    def _inject_hang(self) -> None:
        if self.rng.random() < 0.2:
            resource = self.rng.choice(_WATCHED)
            self._fault("watch silent", "watches", f"of {resource} is silent from now on")
            self.watches.hang(resource)

    def _inject_gap(self) -> None:
        """Break a watch for so long that its history is gone when it comes back (410)."""
        resource, seconds = self.rng.choice(_WATCHED), self.rng.uniform(0.1, 4.0)
        self._fault(
            "410", "watches", f"of {resource} is broken for {seconds:.1f} s, and expires (410)"
        )
        self.watches.cut(resource)
        self._watches_down_until[resource] = asyncio.get_running_loop().time() + seconds
        self._later(seconds, self.watches.compact, resource)

    def _inject_restart(self) -> None:
        """Restart the API server: no request is answered, and every watch breaks."""
        seconds = self.rng.uniform(0.2, 3.0)
        self._fault(
            "API server restart",
            "watches",
            f"are all gone: the API server restarts for {seconds:.1f} s",
        )
        self._unreachable_until = asyncio.get_running_loop().time() + seconds
        for resource in _WATCHED:
            self.watches.cut(resource)
            if self.rng.random() < 0.5:
                self._later(seconds, self.watches.compact, resource)

    def _choose_watch_error(self, resource: Resource) -> Throttled | Unreachable | None:
        rng, now = self.rng, asyncio.get_running_loop().time()
        if now < max(self._unreachable_until, self._watches_down_until[resource]):
            return Unreachable("connection refused")
        if not self.active or rng.random() >= self._fault_probability / 2:
            return None
        busy = rng.random() < 0.5
        problem = throttled(rng) if busy else Unreachable("500", status=500)
        self._fault(str(problem.status), "watches", f"of {resource} meets {problem.status}")
        return problem

    def _choose_fault(self, method: str, path: str) -> Fault | None:
        if not self.active:
            return None
        pod = _POD_IN_PATH.fullmatch(path)
        name = pod[2] if pod else path.rpartition("/")[2]
        if asyncio.get_running_loop().time() < self._unreachable_until:
            self._fault("no answer", name, f"{method}: the API server is away")
            return Lose(executed=False)
        if self.rng.random() >= self._fault_probability:
            return None
        if pod and pod[3] == "binding" and self.rng.random() < 0.2 and pod[1] in self.api.documents:
            self._interfere(self.api.documents[pod[1]])
            return None
        fault = draw(self.rng, method)
        self._fault(kind_of(fault), name, f"{method} meets {describe(fault)}")
        return fault

    def _interfere(self, pod: Document) -> None:
        """Replace or delete a pod just before its binding arrives."""
        if self.rng.random() < 0.6:
            self._recreate(pod)
        else:
            self._fault("404", _name(pod), "is deleted just before its binding")
            self.api.remove(_path(pod))


def _assign(pod: Document, node: str) -> None:
    pod["spec"]["nodeName"] = node
    pod["status"].pop("nominatedNodeName", None)


def _name(document: Document) -> str:
    return str(document["metadata"]["name"])


def _path(pod: Document) -> str:
    return path_of(Resource.POD, pod["metadata"])


def _node_path(node: Document) -> str:
    return path_of(Resource.NODE, node["metadata"])


def _conditions(pod: Document) -> set[str]:
    return {each["type"] for each in pod.get("status", {}).get("conditions") or ()}


def _is_terminating(pod: Document) -> bool:
    return bool(pod["metadata"].get("deletionTimestamp"))
