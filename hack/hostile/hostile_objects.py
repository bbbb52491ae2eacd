"""Hostile nodes and other objects that are no pods."""

from __future__ import annotations

from typing import Any

from hack.hostile.hostile_pods import label_key, of_namespaces, pod_object
from hack.hostile.kind import (
    HOST,
    INT32_MAX,
    INT64_MAX,
    NAMESPACE,
    REQUIRED,
    ZONE,
    Json,
    filled,
    filled_map,
)


def node_object(number: int, *, spec: Json | None = None, **parts: Any) -> Json:
    name = f"hostile-node-{number}"
    resources = {"cpu": "4", "memory": "32Gi", "pods": "110"} | parts.get("resources", {})
    labels = {HOST: name, ZONE: f"zone-{number % 10}"} | parts.get("labels", {})
    status = {"capacity": resources, "allocatable": resources} | parts.get("status", {})
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels},
        "spec": spec or {},
        "status": status,
    }


def node_taints(number: int, size: int) -> Json:
    def taint(index: int) -> Json:
        return {"key": label_key(number, index), "value": f"v{index}", "effect": "PreferNoSchedule"}

    return node_object(number, spec={"taints": filled(taint, size)})


def node_labels(number: int, size: int) -> Json:
    return node_object(
        number, labels=filled_map(lambda index: (label_key(number, index), "x"), size)
    )


def node_images(number: int, size: int) -> Json:
    def image(index: int) -> Json:
        name = f"registry.example/{number}/{index}:v1"
        return {"names": [name], "sizeBytes": INT64_MAX}

    return node_object(number, status={"images": filled(image, size)})


def node_resources(number: int, size: int) -> Json:
    return node_object(
        number,
        resources=filled_map(
            lambda index: (f"example.com/device-{number}-{index}", str(INT64_MAX)), size // 2
        ),
    )


def edge_node(number: int, _: int) -> Json:
    edge = ("9223372036854775807", "8Ei", "1e18", "0", "9223372036854775807n")
    return node_object(
        number,
        resources={
            "cpu": edge[number % 5],
            "memory": edge[(number + 1) % 5],
            "pods": str(INT64_MAX),
            "ephemeral-storage": edge[(number + 2) % 5],
        },
    )


def meta(kind: str, version: str, name: str, namespace: str = NAMESPACE) -> Json:
    metadata = {"name": name, **({"namespace": namespace} if namespace else {})}
    return {"apiVersion": version, "kind": kind, "metadata": metadata}


def service(number: int, size: int) -> Json:
    selector = filled_map(lambda index: (f"example.com/s-{number}-{index}", "x"), size)
    ports = [{"port": 80}]
    made = meta("Service", "v1", f"hostile-{number}", "default")
    return made | {"spec": {"selector": selector, "ports": ports, "clusterIP": "None"}}


def budget(number: int, size: int) -> Json:
    def expression(index: int) -> Json:
        return {"key": f"example.com/b-{number}-{index}", "operator": "DoesNotExist"}

    selector = {"matchExpressions": filled(expression, size)}
    made = meta("PodDisruptionBudget", "policy/v1", f"hostile-{number}", "default")
    return made | {"spec": {"minAvailable": 1, "selector": selector}}


def volume(number: int, size: int) -> Json:
    def term(index: int) -> Json:
        values = [f"zone-{number}-{index}-{each}" for each in range(8)]
        return {"matchExpressions": [{"key": ZONE, "operator": "In", "values": values}]}

    spec = {
        "capacity": {"storage": "1Gi"},
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": "hostile",
        "hostPath": {"path": "/tmp"},
        "nodeAffinity": {"required": {"nodeSelectorTerms": filled(term, size)}},
    }
    return meta("PersistentVolume", "v1", f"hostile-{number}", "") | {"spec": spec}


def csi_node(number: int, size: int) -> Json:
    def driver(index: int) -> Json:
        return {
            "name": f"d{number}-{index}.example.com",
            "nodeID": "n",
            "topologyKeys": [f"topology.d{number}-{index}.example.com/zone"],
            "allocatable": {"count": INT32_MAX},
        }

    made = meta("CSINode", "storage.k8s.io/v1", f"node-{number:05}", "")
    return made | {"spec": {"drivers": filled(driver, size)}}


def namespace(number: int, size: int) -> Json:
    labels = filled_map(lambda index: (f"example.com/n-{number}-{index}", "x"), size)
    made = meta("Namespace", "v1", f"hostile-{number}", "")
    made["metadata"]["labels"] = labels
    return made


def selected_namespace(number: int, _: int) -> Json:
    """Make a namespace, or at times a pod whose term selects all namespaces."""
    if number % 1000 == 0:
        term = of_namespaces(number, 0)
        spec = {"affinity": {"podAntiAffinity": {REQUIRED: [term]}}, "nodeName": "node-00000"}
        return pod_object("selecting", number, spec)
    made = meta("Namespace", "v1", f"crowd-{number}", "")
    made["metadata"]["labels"] = {"team": f"team-{number}"}
    return made


def label_set(number: int, _: int) -> Json:
    labels = {"app": f"set-{number}", f"example.com/l-{number}": "x"}
    return pod_object("labelled", number, {}, labels=labels)
