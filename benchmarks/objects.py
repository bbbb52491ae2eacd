"""The objects of a workload, as the bytes that are posted.

Thousands of pods differ in their names alone, so each template is encoded once, and the name of a
pod is put in by a replacement. The writers share the machine with what they measure.
"""

from __future__ import annotations

import datetime as dt
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import msgspec

from benchmarks.workload import Churn, Deletions, Measured, Namespaces, Nodes, Pods, Service

if TYPE_CHECKING:
    from collections.abc import Iterator

    from benchmarks.workload import Phase, Template, Workload

_NAME: Final = b"@NAME@"
_NODE: Final = b"@NODE@"
_NAMESPACE: Final = b"@NAMESPACE@"
_INDEX: Final = b"{index}"
PODS: Final = "/api/v1/namespaces/{}/pods"
_DIGITS: Final = 6


@dataclass(frozen=True, slots=True)
class Post:
    """One object to create.

    Args:
        path: Of the collection.
        body: The object as JSON.
        name: Its name.
    """

    path: str
    body: bytes
    name: str


def object_name(prefix: str, index: int) -> str:
    """Return the name of the object with the number *index*; `index_of` reads it."""
    return f"{prefix}-{index:0{_DIGITS}}"


def index_of(name: str) -> int:
    """Return the number of the object that has this name."""
    return int(name.rpartition("-")[2])


def node_names(phase: Nodes) -> list[str]:
    """Return the names of a group of nodes."""
    assert isinstance(phase.count, int), "a workload that was read has numbers"
    return (
        [phase.name]
        if phase.name
        else [object_name(phase.group, index) for index in range(phase.count)]
    )


def group_of(workload: Workload, phase: Pods | Measured) -> list[str]:
    """Return the names of the nodes that a phase's pods are meant for."""
    groups = workload.of(Nodes)
    wanted = phase.node_group or groups[0].group
    return [name for group in groups if group.group == wanted for name in node_names(group)]


def nodes(workload: Workload) -> Iterator[Post]:
    """Yield all nodes: each is ready, and everything that it has is allocatable."""
    for phase in workload.of(Nodes):
        for index, name in enumerate(node_names(phase)):
            yield Post("/api/v1/nodes", msgspec.json.encode(_node(phase, name, index)), name)


def _node(phase: Nodes, name: str, index: int) -> dict[str, Any]:
    zones = phase.zones
    zone = {"topology.kubernetes.io/zone": zones[index % len(zones)]} if zones else {}
    resources = {
        key.replace("{index}", str(index)): amount for key, amount in phase.resources.items()
    }
    return {
        "metadata": {
            "name": name,
            "labels": {"kubernetes.io/hostname": name} | zone | phase.labels,
        },
        "spec": {"taints": phase.taints},
        "status": _ready(
            {"cpu": phase.cpu, "memory": phase.memory, "pods": str(phase.pods)} | resources
        ),
    }


def _ready(resources: dict[str, str]) -> dict[str, Any]:
    now = dt.datetime.now(dt.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    ready = {
        "type": "Ready",
        "status": "True",
        "reason": "KubeletReady",
        "lastHeartbeatTime": now,
        "lastTransitionTime": now,
    }
    return {
        "capacity": resources,
        "allocatable": resources,
        "phase": "Running",
        "conditions": [ready],
    }


def namespaces(workload: Workload) -> Iterator[Post]:
    """Yield all namespaces that the phases name."""
    labels = {
        f"{phase.prefix}-{number}": phase.labels
        for phase in workload.of(Namespaces)
        for number in range(int(phase.count))
    }
    for phase in (*workload.phases, workload.measured):
        labels = {name: dict[str, str]() for name in namespaces_of(phase)} | labels
    for name, own in sorted(labels.items()):
        body = msgspec.json.encode({"metadata": {"name": name, "labels": own}})
        yield Post("/api/v1/namespaces", body, name)


def namespaces_of(phase: Phase) -> list[str]:
    """Return the namespaces in which a phase creates objects."""
    match phase:
        case Service(namespace=namespace):
            return [namespace]
        case Pods(namespaces=int(count)) if count:
            return [f"{phase.namespace or phase.name}-{number}" for number in range(count)]
        case Pods():
            return [phase.namespace or phase.name]
        case Churn(name=name) | Measured(name=name):
            return [name]
        case Nodes() | Namespaces() | Deletions():
            return []


def services(workload: Workload) -> Iterator[Post]:
    """Yield all services that are there from the beginning."""
    for number, phase in enumerate(workload.of(Service)):
        name = f"service-{number}"
        ports = [{"protocol": "TCP", "port": 80, "targetPort": 8000}]
        body = {"metadata": {"name": name}, "spec": {"selector": phase.selector, "ports": ports}}
        path = f"/api/v1/namespaces/{phase.namespace}/services"
        yield Post(path, msgspec.json.encode(body), name)


def running_pods(workload: Workload, scheduler: str) -> Iterator[Post]:
    """Yield the pods of all phases before the measured one.

    Those that are bound are dealt out over their group of nodes; each phase goes on where the one
    before it ended.
    """
    taken: Counter[str] = Counter()
    for phase in workload.of(Pods):
        group = group_of(workload, phase)
        assert isinstance(phase.count, int)
        places = namespaces_of(phase)
        pod = PodBytes(workload.templates[phase.template], scheduler)
        for index in range(phase.count):
            node = ""
            if phase.state == "bound":
                node = group[(taken[group[0]] + index) % len(group)]
            yield pod.post(phase.name, index, places[index % len(places)], node)
        if phase.state == "bound":
            taken[group[0]] += phase.count


def measured_pods(workload: Workload, scheduler: str, count: int) -> Iterator[Post]:
    """Yield the first *count* of the pods that are measured."""
    phase = workload.measured
    pod = PodBytes(workload.templates[phase.template], scheduler)
    return (pod.post(phase.name, index, phase.name) for index in range(count))


def churned(workload: Workload, phase: Churn, scheduler: str, index: int) -> Iterator[Post]:
    """Yield one object of each of the phase's templates."""
    for template in phase.nodes:
        body = workload.templates[template]
        name = object_name(f"{phase.name}-{template}", index)
        status = _ready(body["status"]["capacity"])
        labels = {"kubernetes.io/hostname": name}
        node = {"metadata": {"name": name, "labels": labels}, "spec": {}, "status": status}
        yield Post("/api/v1/nodes", msgspec.json.encode(node), name)
    for template in phase.pods:
        pod = PodBytes(workload.templates[template], scheduler)
        yield pod.post(f"{phase.name}-{template}", index, phase.name)
    for template in phase.services:
        name = object_name(template, index)
        service = {"metadata": {"name": name}, "spec": workload.templates[template]["spec"]}
        path = f"/api/v1/namespaces/{phase.name}/services"
        yield Post(path, msgspec.json.encode(service), name)


def probe(scheduler: str, namespace: str) -> Post:
    """Return a pod that requests nothing: once it is bound, the scheduler is at work."""
    template: Template = {
        "spec": {
            "terminationGracePeriodSeconds": 0,
            "containers": [{"name": "pause", "image": "registry.k8s.io/pause:3.10.2"}],
        },
    }
    return PodBytes(template, scheduler).post("probe", 0, namespace)


class PodBytes:
    """Makes the bodies of pods that have one template.

    Args:
        template: Labels, finalizers and spec.
        scheduler: ``spec.schedulerName``.
    """

    def __init__(self, template: Template, scheduler: str) -> None:
        metadata = {"name": _NAME.decode(), "namespace": _NAMESPACE.decode()} | {
            key: template[key] for key in ("labels", "finalizers") if key in template
        }
        spec = {**template["spec"], "schedulerName": scheduler}
        self._unbound = msgspec.json.encode({"metadata": metadata, "spec": spec})
        spec["nodeName"] = _NODE.decode()
        self._bound = msgspec.json.encode({"metadata": metadata, "spec": spec})

    def post(self, prefix: str, index: int, namespace: str, node: str = "") -> Post:
        """Return one pod: number *index*, on *node* if there is one."""
        name = object_name(prefix, index)
        body = self._bound.replace(_NODE, node.encode()) if node else self._unbound
        body = body.replace(_NAME, name.encode()).replace(_NAMESPACE, namespace.encode())
        return Post(PODS.format(namespace), body.replace(_INDEX, str(index).encode()), name)
