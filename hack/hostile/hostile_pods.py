"""The parts of hostile pods: what a tenant may write by the thousand."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from hack.hostile.kind import (
    ANNOTATION_BYTES_MAXIMUM,
    HOST,
    INT32_MAX,
    INT64_MAX,
    NAMESPACE,
    PREFERRED,
    REQUIRED,
    ZONE,
    Item,
    Json,
    Kind,
    Where,
    filled,
    filled_map,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


def pod_object(name: str, number: int, spec: Json, **metadata: Any) -> Json:
    container = {"name": "main", "image": "example", "resources": {"requests": {"cpu": "10m"}}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": f"{name}-{number}",
            "namespace": NAMESPACE,
            "labels": {"app": f"hostile-{number}"},
            **metadata,
        },
        "spec": {"containers": [container], **spec},
    }


def slug(name: str) -> str:
    return "-".join(re.findall("[a-z0-9]+", name.lower()))


def pods(
    name: str, spec: Callable[[int, int], Json], *states: Where, **metadata: Any
) -> Iterator[Kind]:
    """Yield a kind of pod for each of *states*; both by default."""
    for where in states or (Where.PENDING, Where.BOUND):
        yield Kind(
            f"{where.value}: {name}",
            where,
            lambda number, size, where=where: pod_object(  # type: ignore[misc] # the default binds it
                f"{slug(name)}-{where.value}", number, spec(number, size), **metadata
            ),
        )


def labelled_pods(name: str, metadata: Callable[[int, int], Json]) -> Iterator[Kind]:
    """Yield a kind of pod for each state whose metadata is what grows."""
    for where in (Where.PENDING, Where.BOUND):
        yield Kind(
            f"{where.value}: {name}",
            where,
            lambda number, size, where=where: pod_object(  # type: ignore[misc] # the default binds it
                f"{slug(name)}-{where.value}", number, {}, **metadata(number, size)
            ),
        )


def terms(side: str, strength: str, term: Item) -> Callable[[int, int], Json]:
    """Fill one list of pod affinity terms."""

    def item(number: int, index: int) -> Json:
        made: Json = term(number, index)
        if strength == REQUIRED:
            return made
        return {"weight": 1 + index % 100, "podAffinityTerm": made}

    return lambda number, size: {
        "affinity": {side: {strength: filled(lambda index: item(number, index), size)}}
    }


def of_nobody(number: int, index: int, key: str = HOST) -> Json:
    """Select pods that do not exist."""
    selector = {"matchLabels": {"app": f"nobody-{number}-{index}"}}
    return {"labelSelector": selector, "namespaceSelector": {}, "topologyKey": key}


def of_everybody(number: int, index: int, key: str = HOST) -> Json:
    """Select all pods of all namespaces, each time by another selector."""
    requirement = {"key": "app", "operator": "NotIn", "values": [f"nobody-{number}-{index}"]}
    return {
        "labelSelector": {"matchExpressions": [requirement]},
        "namespaceSelector": {},
        "topologyKey": key,
    }


def label_key(number: int, index: int) -> str:
    return f"example.com/key-{number}-{index}"


def of_namespaces(number: int, index: int) -> Json:
    """Select namespaces by yet another selector that matches all of them."""
    other = {"key": "team", "operator": "NotIn", "values": [f"no-team-{number}-{index}"]}
    return of_nobody(number, index) | {"namespaceSelector": {"matchExpressions": [other]}}


def in_namespaces(number: int, size: int) -> Json:
    named = filled(lambda index: f"namespace-{number}-{index}", size)
    term = {"labelSelector": {}, "namespaces": named, "topologyKey": ZONE}
    return {"affinity": {"podAntiAffinity": {REQUIRED: [term]}}}


def long_selector(number: int, size: int) -> Json:
    def expression(index: int) -> Json:
        values = [f"value-{number}-{index}"]
        return {"key": f"example.com/label-{index}", "operator": "NotIn", "values": values}

    selector = {"matchExpressions": filled(expression, size)}
    term = {"labelSelector": selector, "namespaceSelector": {}, "topologyKey": HOST}
    return {"affinity": {"podAntiAffinity": {REQUIRED: [term]}}}


def many_values(number: int, size: int) -> Json:
    values = filled(lambda index: f"value-{number}-{index}", size)
    selector = {"matchExpressions": [{"key": "app", "operator": "NotIn", "values": values}]}
    term = {"labelSelector": selector, "namespaceSelector": {}, "topologyKey": HOST}
    return {"affinity": {"podAntiAffinity": {PREFERRED: [{"weight": 1, "podAffinityTerm": term}]}}}


def constraints(action: str) -> Callable[[int, int], Json]:
    def constraint(number: int, index: int) -> Json:
        return {
            "maxSkew": INT32_MAX,
            "topologyKey": label_key(number, index) if index else ZONE,
            "whenUnsatisfiable": action,
            "labelSelector": {"matchLabels": {"app": f"nobody-{number}-{index}"}},
        }

    return lambda number, size: {
        "topologySpreadConstraints": filled(lambda index: constraint(number, index), size)
    }


def node_terms(number: int, size: int) -> Json:
    """Many terms, which all must be read, since none matches but the last."""

    def term(index: int) -> Json:
        values = [f"zone-{number}-{index}-{each}" for each in range(8)]
        return {"matchExpressions": [{"key": ZONE, "operator": "In", "values": values}]}

    last = {"matchExpressions": [{"key": HOST, "operator": "Exists"}]}
    terms = [*filled(term, size), last]
    return {"affinity": {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": terms}}}}


def node_expressions(number: int, size: int) -> Json:
    """One term of many expressions, all of which hold on every node."""

    def expression(index: int) -> Json:
        return {"key": HOST, "operator": "NotIn", "values": [f"no-{number}-{index}"]}

    terms = [{"matchExpressions": filled(expression, size)}]
    return {"affinity": {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": terms}}}}


def node_values(number: int, size: int) -> Json:
    values = filled(lambda index: f"no-{number}-{index}", size)
    terms = [{"matchExpressions": [{"key": HOST, "operator": "NotIn", "values": values}]}]
    return {"affinity": {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": terms}}}}


def node_preferences(number: int, size: int) -> Json:
    def preferred(index: int) -> Json:
        values = [f"no-{number}-{index}"]
        expression = {"key": HOST, "operator": "NotIn", "values": values}
        return {"weight": 1 + index % 100, "preference": {"matchExpressions": [expression]}}

    return {
        "affinity": {"nodeAffinity": {PREFERRED: filled(preferred, size)}},
    }


def node_keys(number: int, size: int) -> Json:
    """As many node labels as expressions: each is a column of its own."""

    def expression(index: int) -> Json:
        return {"key": label_key(number, index), "operator": "DoesNotExist"}

    terms = [{"matchExpressions": filled(expression, size)}]
    return {"affinity": {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": terms}}}}


def node_selector(number: int, size: int) -> Json:
    return {"nodeSelector": filled_map(lambda index: (label_key(number, index), "x"), size)}


def tolerations(number: int, size: int) -> Json:
    def toleration(index: int) -> Json:
        return {
            "key": label_key(number, index),
            "operator": "Equal",
            "value": f"v{index}",
            "effect": "NoExecute",
            "tolerationSeconds": INT64_MAX,
        }

    return {"tolerations": filled(toleration, size)}


def container_of(number: int, index: int, **more: Any) -> Json:
    return {"name": f"c-{index}", "image": f"registry.example/{number}/{index}:v1", **more}


def containers(number: int, size: int) -> Json:
    requests = {"cpu": "1n", "memory": "1"}
    return {
        "containers": filled(
            lambda index: container_of(number, index, resources={"requests": requests}), size
        )
    }


def init_containers(number: int, size: int) -> Json:
    def sidecar(index: int) -> Json:
        requests = {"cpu": f"{1 + index % 7}u", "memory": "1"}
        always = {"restartPolicy": "Always"} if index % 2 else {}
        return container_of(number, index, resources={"requests": requests}, **always)

    return {"initContainers": filled(sidecar, size)}


def ports(number: int, size: int) -> Json:
    def port(index: int) -> Json:
        # Beyond 65,535 of them the address differs.
        host, high = 1 + index % 65535, index // 65535
        address = f"10.{number % 200}.{high}.1"
        return {"containerPort": host, "hostPort": host, "hostIP": address}

    return {"containers": [container_of(number, 0, ports=filled(port, size))]}


def resources(number: int, size: int) -> Json:
    requests = filled_map(lambda index: (f"example.com/device-{number}-{index}", "0"), size // 2)
    resources = {"requests": requests, "limits": requests}
    return {"containers": [container_of(number, 0, resources=resources)]}


def unknown_resources(number: int, size: int) -> Json:
    requests = filled_map(lambda index: (f"example.com/device-{number}-{index}", "1"), size // 2)
    resources = {"requests": requests, "limits": requests}
    return {"containers": [container_of(number, 0, resources=resources)]}


def edge_quantities(number: int, _: int) -> Json:
    """Numbers at the edge of int64 and beyond it."""
    edge = ("9223372036854775807", "8Ei", "9223372036854775807n", "1e18", "9e18", "0.000000001")
    requests = {
        "cpu": edge[number % 6],
        "memory": edge[(number + 1) % 6],
        "ephemeral-storage": edge[(number + 2) % 6],
    }
    container = container_of(number, 0, resources={"requests": requests})
    return {
        "containers": [container],
        "terminationGracePeriodSeconds": INT64_MAX,
        "tolerations": [
            {"operator": "Exists", "effect": "NoExecute", "tolerationSeconds": -(2**63)}
        ],
    }


def claims(number: int, size: int) -> Json:
    def volume(index: int) -> Json:
        claim = {"claimName": f"claim-{number}-{index}"}
        return {"name": f"v-{index}", "persistentVolumeClaim": claim}

    return {"volumes": filled(volume, size)}


def templates(number: int, size: int) -> Json:
    def volume(index: int) -> Json:
        claim = {
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": f"class-{number}-{index}",
            "resources": {"requests": {"storage": "1"}},
        }
        return {"name": f"v-{index}", "ephemeral": {"volumeClaimTemplate": {"spec": claim}}}

    return {"volumes": filled(volume, size)}


def disks(number: int, size: int) -> Json:
    def volume(index: int) -> Json:
        return {"name": f"v-{index}", "gcePersistentDisk": {"pdName": f"disk-{number}-{index}"}}

    return {"volumes": filled(volume, size)}


def csi_volumes(number: int, size: int) -> Json:
    def volume(index: int) -> Json:
        return {"name": f"v-{index}", "csi": {"driver": f"d{number}-{index}.example.com"}}

    return {"volumes": filled(volume, size)}


def gates(number: int, size: int) -> Json:
    return {"schedulingGates": filled(lambda index: {"name": label_key(number, index)}, size)}


def environment(number: int, size: int) -> Json:
    """What scheduling does not read at all."""
    odd = "\u202e\u00e9\U0001f9e8\ud7ff\u200d"

    def variable(index: int) -> Json:
        return {"name": f"V{number}_{index}", "value": odd * 8}

    return {"containers": [container_of(number, 0, env=filled(variable, size))]}


def labels(number: int, size: int) -> Json:
    return {"labels": filled_map(lambda index: (f"example.com/l-{index}", f"v-{number}"), size)}


def many_annotations(number: int, size: int) -> Json:
    text = "\u00e9\U0001f9e8" * 8
    size = min(size, ANNOTATION_BYTES_MAXIMUM)
    return {"annotations": filled_map(lambda index: (f"a-{number}-{index}", text), size)}


def owners(number: int, size: int) -> Json:
    def owner(index: int) -> Json:
        return {
            "apiVersion": "apps/v1",
            "kind": "ReplicaSet",
            "name": f"set-{index}",
            "uid": f"00000000-0000-0000-{number:04}-{index:012}",
        }

    return {"ownerReferences": filled(owner, size)}
