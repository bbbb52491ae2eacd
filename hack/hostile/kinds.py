"""The kinds of hostile objects, as data: what grows, where it is, and what is said of it.

Each kind fills one object up to a size in bytes with as many different items as fit. Items never
repeat, within an object or between objects: what is equal could be shared.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import Enum
from itertools import count
from typing import Any, Final

Json = dict[str, Any]
Item = Callable[[int, int], Any]
"""Makes one item of the object of a number: the items of two objects differ."""

ZONE: Final = "topology.kubernetes.io/zone"
HOST: Final = "kubernetes.io/hostname"
NAMESPACE: Final = "hostile"
INT64_MAX: Final = 2**63 - 1
INT32_MAX: Final = 2**31 - 1
FULL_BYTES: Final = 1_400_000
"""As much JSON as an object may have: etcd takes requests of 1.5 MiB."""
ANNOTATION_BYTES_MAXIMUM: Final = 250_000
"""The API server accepts 256 KiB of annotations, keys and values together."""

_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED: Final = "preferredDuringSchedulingIgnoredDuringExecution"


class Where(Enum):
    """In what state the objects are when others are measured."""

    PENDING = "pending"
    """Pods for the scheduler to decide about."""
    BOUND = "bound"
    """Pods on a node already, of whatever scheduler."""
    OBJECT = "object"
    """No pods: nodes, claims, namespaces and the like."""


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of hostile object.

    Args:
        name: What it is, in words.
        where: The state of the objects.
        make: Makes the object of a number with about so many bytes.
        crowd: How many small objects stand for one large one: some things cost by their number.
    """

    name: str
    where: Where
    make: Callable[[int, int], Json]
    crowd: int = 1

    def objects(self, objects: int, size: int, first: int = 0) -> Iterator[Json]:
        """Yield so many objects of about *size* bytes, or a crowd for each of them.

        The objects of two numbers *first* differ as those of one call do.
        """
        each = max(1, self.crowd * size // FULL_BYTES) if self.crowd > 1 else 1
        numbers = range(first * each, (first + objects) * each)
        return (self.make(number, size // each) for number in numbers)


def filled(item: Callable[[int], Any], size: int) -> list[Any]:
    """Return as many items as *size* bytes of JSON hold, one at least."""
    items: list[Any] = []
    left = size
    for number in count():
        made = item(number)
        left -= len(json.dumps(made, ensure_ascii=False, separators=(",", ":")).encode()) + 1
        if items and left < 0:
            return items
        items.append(made)
    raise AssertionError


def filled_map(entry: Callable[[int], tuple[str, Any]], size: int) -> Json:
    """Return as many entries as *size* bytes of JSON hold."""
    return dict(filled(entry, size))


# Pods.


def _pod(name: str, number: int, spec: Json, **metadata: Any) -> Json:
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


def _slug(name: str) -> str:
    return "-".join(re.findall("[a-z0-9]+", name.lower()))


def pods(
    name: str, spec: Callable[[int, int], Json], *states: Where, **metadata: Any
) -> Iterator[Kind]:
    """Yield a kind of pod for each of *states*; both by default."""
    for where in states or (Where.PENDING, Where.BOUND):
        yield Kind(
            f"{where.value}: {name}",
            where,
            lambda number, size, where=where: _pod(  # type: ignore[misc] # the default binds it
                f"{_slug(name)}-{where.value}", number, spec(number, size), **metadata
            ),
        )


def labelled_pods(name: str, metadata: Callable[[int, int], Json]) -> Iterator[Kind]:
    """Yield a kind of pod for each state whose metadata is what grows."""
    for where in (Where.PENDING, Where.BOUND):
        yield Kind(
            f"{where.value}: {name}",
            where,
            lambda number, size, where=where: _pod(  # type: ignore[misc] # the default binds it
                f"{_slug(name)}-{where.value}", number, {}, **metadata(number, size)
            ),
        )


def _terms(side: str, strength: str, term: Item) -> Callable[[int, int], Json]:
    """Fill one list of pod affinity terms."""

    def item(number: int, index: int) -> Json:
        made: Json = term(number, index)
        if strength == _REQUIRED:
            return made
        return {"weight": 1 + index % 100, "podAffinityTerm": made}

    return lambda number, size: {
        "affinity": {side: {strength: filled(lambda index: item(number, index), size)}}
    }


def _of_nobody(number: int, index: int, key: str = HOST) -> Json:
    """Select pods that do not exist."""
    selector = {"matchLabels": {"app": f"nobody-{number}-{index}"}}
    return {"labelSelector": selector, "namespaceSelector": {}, "topologyKey": key}


def _of_everybody(number: int, index: int, key: str = HOST) -> Json:
    """Select all pods of all namespaces, each time by another selector."""
    requirement = {"key": "app", "operator": "NotIn", "values": [f"nobody-{number}-{index}"]}
    return {
        "labelSelector": {"matchExpressions": [requirement]},
        "namespaceSelector": {},
        "topologyKey": key,
    }


def _key(number: int, index: int) -> str:
    return f"example.com/key-{number}-{index}"


def _of_namespaces(number: int, index: int) -> Json:
    """Select namespaces by yet another selector that matches all of them."""
    other = {"key": "team", "operator": "NotIn", "values": [f"no-team-{number}-{index}"]}
    return _of_nobody(number, index) | {"namespaceSelector": {"matchExpressions": [other]}}


def _in_namespaces(number: int, size: int) -> Json:
    named = filled(lambda index: f"namespace-{number}-{index}", size)
    term = {"labelSelector": {}, "namespaces": named, "topologyKey": ZONE}
    return {"affinity": {"podAntiAffinity": {_REQUIRED: [term]}}}


def _long_selector(number: int, size: int) -> Json:
    def expression(index: int) -> Json:
        values = [f"value-{number}-{index}"]
        return {"key": f"example.com/label-{index}", "operator": "NotIn", "values": values}

    selector = {"matchExpressions": filled(expression, size)}
    term = {"labelSelector": selector, "namespaceSelector": {}, "topologyKey": HOST}
    return {"affinity": {"podAntiAffinity": {_REQUIRED: [term]}}}


def _many_values(number: int, size: int) -> Json:
    values = filled(lambda index: f"value-{number}-{index}", size)
    selector = {"matchExpressions": [{"key": "app", "operator": "NotIn", "values": values}]}
    term = {"labelSelector": selector, "namespaceSelector": {}, "topologyKey": HOST}
    return {"affinity": {"podAntiAffinity": {_PREFERRED: [{"weight": 1, "podAffinityTerm": term}]}}}


def _constraints(action: str) -> Callable[[int, int], Json]:
    def constraint(number: int, index: int) -> Json:
        return {
            "maxSkew": INT32_MAX,
            "topologyKey": _key(number, index) if index else ZONE,
            "whenUnsatisfiable": action,
            "labelSelector": {"matchLabels": {"app": f"nobody-{number}-{index}"}},
        }

    return lambda number, size: {
        "topologySpreadConstraints": filled(lambda index: constraint(number, index), size)
    }


def _node_terms(number: int, size: int) -> Json:
    """Many terms, which all must be read, since none matches but the last."""

    def term(index: int) -> Json:
        values = [f"zone-{number}-{index}-{each}" for each in range(8)]
        return {"matchExpressions": [{"key": ZONE, "operator": "In", "values": values}]}

    last = {"matchExpressions": [{"key": HOST, "operator": "Exists"}]}
    terms = [*filled(term, size), last]
    return {"affinity": {"nodeAffinity": {_REQUIRED: {"nodeSelectorTerms": terms}}}}


def _node_expressions(number: int, size: int) -> Json:
    """One term of many expressions, all of which hold on every node."""

    def expression(index: int) -> Json:
        return {"key": HOST, "operator": "NotIn", "values": [f"no-{number}-{index}"]}

    terms = [{"matchExpressions": filled(expression, size)}]
    return {"affinity": {"nodeAffinity": {_REQUIRED: {"nodeSelectorTerms": terms}}}}


def _node_values(number: int, size: int) -> Json:
    values = filled(lambda index: f"no-{number}-{index}", size)
    terms = [{"matchExpressions": [{"key": HOST, "operator": "NotIn", "values": values}]}]
    return {"affinity": {"nodeAffinity": {_REQUIRED: {"nodeSelectorTerms": terms}}}}


def _node_preferences(number: int, size: int) -> Json:
    def preferred(index: int) -> Json:
        values = [f"no-{number}-{index}"]
        expression = {"key": HOST, "operator": "NotIn", "values": values}
        return {"weight": 1 + index % 100, "preference": {"matchExpressions": [expression]}}

    return {
        "affinity": {"nodeAffinity": {_PREFERRED: filled(preferred, size)}},
    }


def _node_keys(number: int, size: int) -> Json:
    """As many node labels as expressions: each is a column of its own."""

    def expression(index: int) -> Json:
        return {"key": _key(number, index), "operator": "DoesNotExist"}

    terms = [{"matchExpressions": filled(expression, size)}]
    return {"affinity": {"nodeAffinity": {_REQUIRED: {"nodeSelectorTerms": terms}}}}


def _node_selector(number: int, size: int) -> Json:
    return {"nodeSelector": filled_map(lambda index: (_key(number, index), "x"), size)}


def _tolerations(number: int, size: int) -> Json:
    def toleration(index: int) -> Json:
        return {
            "key": _key(number, index),
            "operator": "Equal",
            "value": f"v{index}",
            "effect": "NoExecute",
            "tolerationSeconds": INT64_MAX,
        }

    return {"tolerations": filled(toleration, size)}


def container_of(number: int, index: int, **more: Any) -> Json:
    return {"name": f"c-{index}", "image": f"registry.example/{number}/{index}:v1", **more}


def _containers(number: int, size: int) -> Json:
    requests = {"cpu": "1n", "memory": "1"}
    return {
        "containers": filled(
            lambda index: container_of(number, index, resources={"requests": requests}), size
        )
    }


def _init_containers(number: int, size: int) -> Json:
    def sidecar(index: int) -> Json:
        requests = {"cpu": f"{1 + index % 7}u", "memory": "1"}
        always = {"restartPolicy": "Always"} if index % 2 else {}
        return container_of(number, index, resources={"requests": requests}, **always)

    return {"initContainers": filled(sidecar, size)}


def _ports(number: int, size: int) -> Json:
    def port(index: int) -> Json:
        # Beyond 65,535 of them the address differs.
        host, high = 1 + index % 65535, index // 65535
        address = f"10.{number % 200}.{high}.1"
        return {"containerPort": host, "hostPort": host, "hostIP": address}

    return {"containers": [container_of(number, 0, ports=filled(port, size))]}


def _resources(number: int, size: int) -> Json:
    requests = filled_map(lambda index: (f"example.com/device-{number}-{index}", "0"), size // 2)
    resources = {"requests": requests, "limits": requests}
    return {"containers": [container_of(number, 0, resources=resources)]}


def _unknown_resources(number: int, size: int) -> Json:
    requests = filled_map(lambda index: (f"example.com/device-{number}-{index}", "1"), size // 2)
    resources = {"requests": requests, "limits": requests}
    return {"containers": [container_of(number, 0, resources=resources)]}


def _edge_quantities(number: int, _: int) -> Json:
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


def _claims(number: int, size: int) -> Json:
    def volume(index: int) -> Json:
        claim = {"claimName": f"claim-{number}-{index}"}
        return {"name": f"v-{index}", "persistentVolumeClaim": claim}

    return {"volumes": filled(volume, size)}


def _templates(number: int, size: int) -> Json:
    def volume(index: int) -> Json:
        claim = {
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": f"class-{number}-{index}",
            "resources": {"requests": {"storage": "1"}},
        }
        return {"name": f"v-{index}", "ephemeral": {"volumeClaimTemplate": {"spec": claim}}}

    return {"volumes": filled(volume, size)}


def _disks(number: int, size: int) -> Json:
    def volume(index: int) -> Json:
        return {"name": f"v-{index}", "gcePersistentDisk": {"pdName": f"disk-{number}-{index}"}}

    return {"volumes": filled(volume, size)}


def _csi_volumes(number: int, size: int) -> Json:
    def volume(index: int) -> Json:
        return {"name": f"v-{index}", "csi": {"driver": f"d{number}-{index}.example.com"}}

    return {"volumes": filled(volume, size)}


def _gates(number: int, size: int) -> Json:
    return {"schedulingGates": filled(lambda index: {"name": _key(number, index)}, size)}


def _environment(number: int, size: int) -> Json:
    """What scheduling does not read at all."""
    odd = "\u202e\u00e9\U0001f9e8\ud7ff\u200d"

    def variable(index: int) -> Json:
        return {"name": f"V{number}_{index}", "value": odd * 8}

    return {"containers": [container_of(number, 0, env=filled(variable, size))]}


def _labels(number: int, size: int) -> Json:
    return {"labels": filled_map(lambda index: (f"example.com/l-{index}", f"v-{number}"), size)}


def _annotations(number: int, size: int) -> Json:
    text = "\u00e9\U0001f9e8" * 8
    size = min(size, ANNOTATION_BYTES_MAXIMUM)
    return {"annotations": filled_map(lambda index: (f"a-{number}-{index}", text), size)}


def _owners(number: int, size: int) -> Json:
    def owner(index: int) -> Json:
        return {
            "apiVersion": "apps/v1",
            "kind": "ReplicaSet",
            "name": f"set-{index}",
            "uid": f"00000000-0000-0000-{number:04}-{index:012}",
        }

    return {"ownerReferences": filled(owner, size)}


# Nodes and other objects.


def _node(number: int, *, spec: Json | None = None, **parts: Any) -> Json:
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


def _node_taints(number: int, size: int) -> Json:
    def taint(index: int) -> Json:
        return {"key": _key(number, index), "value": f"v{index}", "effect": "PreferNoSchedule"}

    return _node(number, spec={"taints": filled(taint, size)})


def _node_labels(number: int, size: int) -> Json:
    return _node(number, labels=filled_map(lambda index: (_key(number, index), "x"), size))


def _node_images(number: int, size: int) -> Json:
    def image(index: int) -> Json:
        name = f"registry.example/{number}/{index}:v1"
        return {"names": [name], "sizeBytes": INT64_MAX}

    return _node(number, status={"images": filled(image, size)})


def _node_resources(number: int, size: int) -> Json:
    return _node(
        number,
        resources=filled_map(
            lambda index: (f"example.com/device-{number}-{index}", str(INT64_MAX)), size // 2
        ),
    )


def _edge_node(number: int, _: int) -> Json:
    edge = ("9223372036854775807", "8Ei", "1e18", "0", "9223372036854775807n")
    return _node(
        number,
        resources={
            "cpu": edge[number % 5],
            "memory": edge[(number + 1) % 5],
            "pods": str(INT64_MAX),
            "ephemeral-storage": edge[(number + 2) % 5],
        },
    )


def _meta(kind: str, version: str, name: str, namespace: str = NAMESPACE) -> Json:
    metadata = {"name": name, **({"namespace": namespace} if namespace else {})}
    return {"apiVersion": version, "kind": kind, "metadata": metadata}


def _service(number: int, size: int) -> Json:
    selector = filled_map(lambda index: (f"example.com/s-{number}-{index}", "x"), size)
    ports = [{"port": 80}]
    made = _meta("Service", "v1", f"hostile-{number}", "default")
    return made | {"spec": {"selector": selector, "ports": ports, "clusterIP": "None"}}


def _budget(number: int, size: int) -> Json:
    def expression(index: int) -> Json:
        return {"key": f"example.com/b-{number}-{index}", "operator": "DoesNotExist"}

    selector = {"matchExpressions": filled(expression, size)}
    made = _meta("PodDisruptionBudget", "policy/v1", f"hostile-{number}", "default")
    return made | {"spec": {"minAvailable": 1, "selector": selector}}


def _volume(number: int, size: int) -> Json:
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
    return _meta("PersistentVolume", "v1", f"hostile-{number}", "") | {"spec": spec}


def _csi_node(number: int, size: int) -> Json:
    def driver(index: int) -> Json:
        return {
            "name": f"d{number}-{index}.example.com",
            "nodeID": "n",
            "topologyKeys": [f"topology.d{number}-{index}.example.com/zone"],
            "allocatable": {"count": INT32_MAX},
        }

    made = _meta("CSINode", "storage.k8s.io/v1", f"node-{number:05}", "")
    return made | {"spec": {"drivers": filled(driver, size)}}


def _namespace(number: int, size: int) -> Json:
    labels = filled_map(lambda index: (f"example.com/n-{number}-{index}", "x"), size)
    made = _meta("Namespace", "v1", f"hostile-{number}", "")
    made["metadata"]["labels"] = labels
    return made


def _selected_namespace(number: int, _: int) -> Json:
    """Make a namespace, or at times a pod whose term selects all namespaces."""
    if number % 1000 == 0:
        term = _of_namespaces(number, 0)
        spec = {"affinity": {"podAntiAffinity": {_REQUIRED: [term]}}, "nodeName": "node-00000"}
        return _pod("selecting", number, spec)
    made = _meta("Namespace", "v1", f"crowd-{number}", "")
    made["metadata"]["labels"] = {"team": f"team-{number}"}
    return made


def _label_set(number: int, _: int) -> Json:
    labels = {"app": f"set-{number}", f"example.com/l-{number}": "x"}
    return _pod("labelled", number, {}, labels=labels)


def _object(name: str, make: Callable[[int, int], Json]) -> Iterator[Kind]:
    yield Kind(name, Where.OBJECT, make)


def _everything() -> Iterator[Kind]:
    for side, word in (("podAffinity", "affinity"), ("podAntiAffinity", "anti-affinity")):
        for strength, how in ((_REQUIRED, "required"), (_PREFERRED, "preferred")):
            terms = f"{how} {word} terms"
            nobody, everybody = _of_nobody, _of_everybody
            yield from pods(f"{terms} over host names", _terms(side, strength, nobody))
            yield from pods(
                f"{terms} over zones, for every pod",
                _terms(side, strength, lambda n, i, of=everybody: of(n, i, ZONE)),  # type: ignore[misc] # the default binds it
            )
            yield from pods(
                f"{terms} over as many keys",
                _terms(side, strength, lambda n, i, of=everybody: of(n, i, _key(n, i))),  # type: ignore[misc] # the default binds it
            )
    namespaces = _terms("podAntiAffinity", _PREFERRED, _of_namespaces)
    yield from pods("terms with namespace selectors", namespaces)
    yield from pods("a term with many namespaces", _in_namespaces)
    yield from pods("a term with many expressions", _long_selector)
    yield from pods("a term with many values", _many_values)
    yield from pods("hard spread constraints", _constraints("DoNotSchedule"))
    yield from pods("soft spread constraints", _constraints("ScheduleAnyway"))
    pending = Where.PENDING
    yield from pods("node selector terms", _node_terms, pending)
    yield from pods("node selector expressions", _node_expressions, pending)
    yield from pods("node selector values", _node_values, pending)
    yield from pods("node selector keys", _node_keys, pending)
    yield from pods("preferred node selector terms", _node_preferences, pending)
    yield from pods("a nodeSelector with many labels", _node_selector, pending)
    yield from pods("tolerations", _tolerations)
    yield from pods("containers", _containers)
    yield from pods("init containers and sidecars", _init_containers)
    yield from pods("host ports", _ports)
    yield from pods("resource names, zero of each", _resources)
    yield from pods("resource names, one of each", _unknown_resources)
    yield from pods("quantities at the edge of int64", _edge_quantities)
    yield from pods("claims that do not exist", _claims)
    yield from pods("claim templates", _templates)
    yield from pods("disks", _disks)
    yield from pods("inline CSI volumes", _csi_volumes)
    yield from pods("scheduling gates", _gates, pending)
    yield from pods("environment", _environment)
    yield from labelled_pods("labels", _labels)
    yield from labelled_pods("annotations", _annotations)
    yield from labelled_pods("owners", _owners)
    yield from _object("nodes with taints", _node_taints)
    yield from _object("nodes with labels", _node_labels)
    yield from _object("nodes with images", _node_images)
    yield from _object("nodes with resource names", _node_resources)
    yield from _object("nodes with quantities at the edge of int64", _edge_node)
    yield from _object("services with long selectors", _service)
    yield from _object("budgets with long selectors", _budget)
    yield from _object("volumes with node affinity", _volume)
    yield from _object("CSINodes with many drivers", _csi_node)
    yield from _object("namespaces with labels", _namespace)
    yield Kind("5,000 namespaces under one selector", Where.OBJECT, _selected_namespace, 5000)
    yield Kind("bound: 5,000 label sets", Where.BOUND, _label_set, 5000)
    yield Kind("pending: 1,000 label sets", Where.PENDING, _label_set, 1000)


KINDS: Final = tuple(_everything())
