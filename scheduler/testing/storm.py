"""Bad weather for a simulated cluster: users, rivals, kubelets and networks, drawn from a seed.

The storm owns the API server and knows nothing of the scheduler: everything that it does could
happen to a real cluster, and is noted in a journal.
"""

import asyncio
import random
import re
from collections.abc import Callable, Iterator
from typing import Any, Final

from scheduler.errors import Conflict, Throttled, Unreachable
from scheduler.model.fact import Resource
from scheduler.model.quantity import millis, nanos
from scheduler.testing.builders import make_node, make_pod
from scheduler.testing.simulated_api import Delay, Document, Fault, Lose, Refuse, SimulatedApi
from scheduler.testing.witness import Journal

DOOR: Final = "door"
OURS: Final = "py-scheduler"
_WATCHED: Final = (Resource.POD, Resource.FAILED_POD, Resource.NODE)
_ENDED: Final = frozenset({"Succeeded", "Failed"})
_POD_IN_PATH: Final = re.compile(r"(/api/v1/namespaces/default/pods/([^/]+))/(\w+)")
_PODS_MAXIMUM: Final = 70
_EVENTS: Final = (
    *(["pod"] * 14 + ["delete"] * 3 + ["finish"] * 3 + ["rival"] * 2 + ["steal"] * 2),
    *("recreate", "recreate", "relabel", "nominate", "gate", "hold", "gap", "gap", "restart"),
    *("node", "node gone", "node again", "resize", "cordon", "taint", "door", "door"),
)
_TERM: Final = {
    "labelSelector": {"matchLabels": {"app": "alone"}},
    "topologyKey": "kubernetes.io/hostname",
}
_ALONE: Final = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [_TERM]}}


class Storm:
    """A cluster and what befalls it.

    Args:
        rng: Draws everything.
    """

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.blows = True
        self.journal = Journal()
        self.faults = 0
        self.foreign: set[tuple[str, str]] = set()
        """UID and node of bindings by others."""
        self.api = SimulatedApi(
            latency=lambda: self.rng.uniform(0.0, 0.05),
            lag=lambda: self.rng.uniform(0.0, 0.3) if self.blows else 0.01,
        )
        self.api.weather = self._weather
        self._made = 0
        self._unreachable_until = 0.0
        self._admitted: set[str] = set()
        self._roughness = rng.choice([0.0, 0.1, 0.3, 0.5])
        for _ in range(rng.randint(2, 5)):
            self._add_node()

    # What there is.

    def nodes(self) -> list[Document]:
        """Return every node, by name."""
        found = [d for path, d in self.api.documents.items() if path.startswith("/api/v1/nodes/")]
        return sorted(found, key=_name)

    def pods(self) -> list[Document]:
        """Return every pod that has not ended, by name."""
        alive = (pod for pod in self.api.pods() if pod.get("status", {}).get("phase") not in _ENDED)
        return sorted(alive, key=_name)

    def pending(self) -> Iterator[Document]:
        """Yield the pods of ours that have no node and are not going away."""
        for pod in self.pods():
            ours = pod["spec"].get("schedulerName") == OURS
            if ours and not pod["spec"].get("nodeName") and not _is_terminating(pod):
                yield pod

    # What happens.

    def strike(self) -> None:
        """Let one thing happen."""
        event = self.rng.choice(_EVENTS)
        getattr(self, "_strike_" + event.replace(" ", "_"))()

    def kubelets(self) -> None:
        """Let kubelets admit or refuse what was bound to them, some later than others."""
        for pod in self.pods():
            uid, node = pod["metadata"]["uid"], pod["spec"].get("nodeName")
            if not node or uid in self._admitted or self.rng.random() < 0.5:
                continue
            here = self._node(node)
            if here is None:
                if self.rng.random() < 0.3:  # the garbage collector
                    self._remove(pod, "is collected: its node is gone")
                continue
            taken = sum(
                _cpu(other)
                for other in self.pods()
                if other["spec"].get("nodeName") == node
                and other["metadata"]["uid"] in self._admitted
            )
            if taken + _cpu(pod) <= _cpu_of_node(here):
                self._admitted.add(uid)
                continue
            self._fault(_name(pod), f"kubelet of {node} refuses")
            self.api.change(
                _path(pod), lambda d: d["status"].update(phase="Failed", reason="OutOfcpu")
            )

    def end(self) -> None:
        """Let it be over: no more faults, all doors and gates open."""
        self.blows = False
        self._unreachable_until = 0.0
        for pod in self.pods():
            if pod["spec"].get("schedulingGates"):
                self._open_gate(pod)
        for node in self.nodes():
            if node["metadata"]["labels"].get(DOOR) == "shut":
                self._set_door(node, "open")

    def _fault(self, subject: str, text: str) -> None:
        self.faults += 1
        self._note(subject, text)

    def _note(self, subject: str, text: str) -> None:
        self.journal.note(asyncio.get_running_loop().time(), subject, text)

    def _next(self) -> int:
        self._made += 1
        return self._made

    def _some(self, found: list[Document]) -> Document | None:
        return self.rng.choice(found) if found else None

    def _node(self, name: str) -> Document | None:
        return self.api.documents.get(f"/api/v1/nodes/{name}")

    def _later(self, seconds: float, act: Callable[..., object], *args: object) -> None:
        asyncio.get_running_loop().call_later(seconds, act, *args)

    # Pods come and go.

    def _strike_pod(self) -> None:
        if len(self.pods()) < _PODS_MAXIMUM:
            name = f"p{self._next()}"
            self.api.create(self._make_pod(name))
            self._note(name, "is created")

    def _make_pod(self, name: str, uid: str = "") -> Any:
        rng = self.rng
        alone = rng.random() < 0.05
        return make_pod(
            name,
            uid=uid or f"{name}-uid",
            requests=f"{rng.choice([250, 500, 1000, 2000])}m cpu",
            priority=rng.randrange(3),
            labels={"app": "alone" if alone else "web"}
            | ({DOOR: "1"} if rng.random() < 0.15 else {}),
            host_ports=[8080] if rng.random() < 0.05 else [],
            tolerations="t" if rng.random() < 0.3 else "",
            node_selector=f"disk={rng.choice(['ssd', 'hdd'])}" if rng.random() < 0.15 else "",
            gates=["later"] if rng.random() < 0.05 else [],
            affinity=_ALONE if alone else None,
        )

    def _strike_delete(self) -> None:
        if pod := self._some(self.pods()):
            if not pod["spec"].get("nodeName") and self.rng.random() < 0.7:
                self._remove(pod, "is deleted")
            elif not _is_terminating(pod):
                self._note(_name(pod), "is being deleted")
                self.api.condemn(_path(pod))
                self._later(self.rng.choice([0.2, 2.0, 15.0]), self._end_pod, pod)

    def _end_pod(self, pod: Document) -> None:
        there = self.api.documents.get(_path(pod))
        if there is not None and there["metadata"]["uid"] == pod["metadata"]["uid"]:
            self._remove(there, "is gone")

    def _remove(self, pod: Document, text: str) -> None:
        self._note(_name(pod), text)
        self.api.remove(_path(pod))

    def _strike_finish(self) -> None:
        if pod := self._some([p for p in self.pods() if p["spec"].get("nodeName")]):
            self._note(_name(pod), "succeeds")
            self.api.change(_path(pod), lambda d: d["status"].update(phase="Succeeded"))

    def _strike_recreate(self) -> None:
        if pod := self._some(self.pods()):
            self._recreate(pod)

    def _recreate(self, pod: Document) -> None:
        uid = f"{_name(pod)}-uid{self._next()}"
        self.api.remove(_path(pod))
        self.api.create(self._make_pod(_name(pod), uid))
        self._fault(_name(pod), f"is created anew as {uid}")

    def _strike_relabel(self) -> None:
        if pod := self._some(self.pods()):
            value = f"{self._next()}"
            self.api.change(_path(pod), lambda d: d["metadata"]["labels"].update(t=value))

    def _strike_nominate(self) -> None:
        nodes = self.nodes()
        if nodes and (pod := self._some(list(self.pending()))):
            node = _name(self.rng.choice(nodes))
            self._note(_name(pod), f"is nominated to {node} by others")
            self.api.change(_path(pod), lambda d: d["status"].update(nominatedNodeName=node))

    def _strike_gate(self) -> None:
        if pod := self._some([p for p in self.pods() if p["spec"].get("schedulingGates")]):
            self._open_gate(pod)

    def _open_gate(self, pod: Document) -> None:
        self._note(_name(pod), "loses its gate")
        self.api.change(_path(pod), lambda d: d["spec"].pop("schedulingGates"))

    # Others who bind.

    def _strike_rival(self) -> None:
        if nodes := self.nodes():
            node = _name(self.rng.choice(nodes))
            name = f"rival{self._next()}"
            pod = make_pod(name, requests="1000m cpu", scheduler="default-scheduler", node=node)
            self.foreign.add((pod.uid, node))
            self.api.bound.append((pod.uid, node))
            self.api.create(pod)
            self._fault(name, f"is bound to {node} by another scheduler")

    def _strike_steal(self) -> None:
        nodes = self.nodes()
        if nodes and (pod := self._some(list(self.pending()))):
            node = _name(self.rng.choice(nodes))
            self.foreign.add((pod["metadata"]["uid"], node))
            self.api.bound.append((pod["metadata"]["uid"], node))
            self._fault(_name(pod), f"is bound to {node} by another scheduler")
            self.api.change(_path(pod), lambda d: d["spec"].update(nodeName=node))

    # Nodes.

    def _add_node(self, name: str = "") -> None:
        rng, number = self.rng, self._next()
        self.api.create(
            make_node(
                name or f"n{number}",
                uid=f"node-uid{number}",
                allocatable=f"{rng.choice([2, 4, 8])} cpu, {rng.choice([5, 20])} pods",
                labels={"disk": rng.choice(["ssd", "hdd"]), DOOR: rng.choice(["open", "shut"])},
                taints="t:NoSchedule" if rng.random() < 0.2 else "",
            )
        )

    def _strike_node(self) -> None:
        if len(self.nodes()) < 8:
            self._add_node()
            self._note(f"n{self._made}", "joins")

    def _strike_node_gone(self) -> None:
        if len(self.nodes()) > 2 and (node := self._some(self.nodes())):
            self._fault(_name(node), "leaves")
            self.api.remove(_node_path(node))

    def _strike_node_again(self) -> None:
        if node := self._some(self.nodes()):
            self._fault(_name(node), "is created anew")
            self.api.remove(_node_path(node))
            self._add_node(_name(node))

    def _strike_resize(self) -> None:
        cpu = str(self.rng.choice([1, 2, 4, 8]))
        self._change_node(f"has {cpu} cpu", lambda d: d["status"]["allocatable"].update(cpu=cpu))

    def _strike_cordon(self) -> None:
        value = self.rng.random() < 0.4
        self._change_node(
            "is cordoned" if value else "is uncordoned",
            lambda d: d["spec"].update(unschedulable=value),
        )

    def _strike_taint(self) -> None:
        taints = [{"key": "t", "effect": "NoSchedule"}] if self.rng.random() < 0.4 else []
        self._change_node(f"has {len(taints)} taints", lambda d: d["spec"].update(taints=taints))

    def _strike_door(self) -> None:
        if node := self._some(self.nodes()):
            self._set_door(node, self.rng.choice(["open", "shut"]))

    def _set_door(self, node: Document, door: str) -> None:
        self._note(_name(node), f"has its door {door}")
        self.api.change(_node_path(node), lambda d: d["metadata"]["labels"].update({DOOR: door}))

    def _change_node(self, text: str, edit: Callable[[Document], object]) -> None:
        if node := self._some(self.nodes()):
            self._fault(_name(node), text)
            self.api.change(_node_path(node), edit)

    # The network and the API server.

    def _strike_hold(self) -> None:
        resource = self.rng.choice(_WATCHED)
        self._fault("watches", f"of {resource} is interrupted and resumed")
        self.api.delay_watch(resource, self.rng.uniform(0.5, 4.0))

    def _strike_gap(self) -> None:
        resource = self.rng.choice(_WATCHED)
        self._fault("watches", f"of {resource} is gone (410) and lists again")
        self.api.break_watch(resource)
        self._later(self.rng.uniform(0.1, 4.0), self._mend, resource)

    def _mend(self, resource: Resource) -> None:
        self.api.tell_all(resource)

    def _strike_restart(self) -> None:
        """Restart the API server: nobody is answered, and every watch begins anew."""
        seconds = self.rng.uniform(0.2, 3.0)
        self._fault("watches", f"are all gone: the API server restarts for {seconds:.1f} s")
        self._unreachable_until = asyncio.get_running_loop().time() + seconds
        for resource in _WATCHED:
            self.api.break_watch(resource)
            self._later(seconds + self.rng.uniform(0.0, 2.0), self._mend, resource)

    def _weather(self, method: str, path: str) -> Fault | None:
        if not self.blows:
            return None
        pod = _POD_IN_PATH.fullmatch(path)
        name = pod[2] if pod else path.rpartition("/")[2]
        if asyncio.get_running_loop().time() < self._unreachable_until:
            self._fault(name, f"{method}: the API server is away")
            return Lose(executed=False)
        if self.rng.random() >= self._roughness:
            return None
        if pod and pod[3] == "binding" and self.rng.random() < 0.2 and pod[1] in self.api.documents:
            self._interfere(self.api.documents[pod[1]])
            return None
        fault = self._draw(method)
        self._fault(name, f"{method} meets {_tell(fault)}")
        return fault

    def _interfere(self, pod: Document) -> None:
        """Let something happen to a pod just before its binding arrives."""
        if self.rng.random() < 0.6:
            self._recreate(pod)
        else:
            self._fault(_name(pod), "is deleted just before its binding (404)")
            self.api.remove(_path(pod))

    def _draw(self, method: str) -> Fault:
        rng = self.rng
        faults: list[Fault] = [
            Lose(executed=True),
            Lose(executed=True),
            Lose(executed=True, after_seconds=rng.uniform(0.0, 50.0)),
            Lose(executed=False),
            Delay(rng.uniform(0.0, 3.0)),
            Refuse(Throttled("slow down", retry_after_seconds=rng.uniform(0.1, 2.0))),
            Refuse(Unreachable("500", status=500)),
            Refuse(Unreachable("503", status=503)),
        ]
        if method in {"PATCH", "POST"}:
            faults.append(Refuse(Conflict("the object has been modified", status=409)))
        return rng.choice(faults)


def _tell(fault: Fault) -> str:
    match fault:
        case Refuse(error):
            return f"{error.status} {error}"
        case Lose(executed, seconds):
            how = f"applied {seconds:.1f} s later" if executed else "not applied"
            return f"no answer, {how}"
        case Delay(seconds):
            return f"a delay of {seconds:.1f} s"


def _name(document: Document) -> str:
    return str(document["metadata"]["name"])


def _path(pod: Document) -> str:
    return f"/api/v1/namespaces/{pod['metadata']['namespace']}/pods/{_name(pod)}"


def _node_path(node: Document) -> str:
    return f"/api/v1/nodes/{_name(node)}"


def _is_terminating(pod: Document) -> bool:
    return bool(pod["metadata"].get("deletionTimestamp"))


def _cpu(pod: Document) -> int:
    return millis(nanos(pod["spec"]["containers"][0]["resources"]["requests"]["cpu"]))


def _cpu_of_node(node: Document) -> int:
    return millis(nanos(node["status"]["allocatable"]["cpu"]))
