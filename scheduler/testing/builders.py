"""Pods, nodes and other objects from a few words.

::

    make_pod("a", requests="500m cpu, 8Gi", priority=10, tolerations="dedicated=ml:NoSchedule")
    make_node("n1", allocatable="8 cpu, 32Gi", zone="eu-1a", taints="dedicated=ml:NoSchedule")

Whatever has no word of its own is given as a fragment of Kubernetes JSON, in either spelling of its
name: ``make_pod(topology_spread_constraints=[{"maxSkew": 1, ...}])``. A field that we do not read
is refused, since a test that sets it would prove nothing.
"""

from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any, Final, TypeVar

import msgspec

from scheduler.model import quantity
from scheduler.model.meta import ObjectMeta
from scheduler.model.node import Node, NodeSpec, NodeStatus
from scheduler.model.pod import Pod
from scheduler.model.pod_spec import PodSpec, PodStatus

Words = str | Mapping[str, str]
Fragment = Mapping[str, Any]
Fragments = str | Iterable[str | Fragment]

HOSTNAME_LABEL: Final = "kubernetes.io/hostname"
ZONE_LABEL: Final = "topology.kubernetes.io/zone"
REGION_LABEL: Final = "topology.kubernetes.io/region"
DELETED_AT: Final = "2026-01-01T00:00:00Z"

_T = TypeVar("_T", bound=msgspec.Struct)


def make_pod(
    name: str = "pod",
    *,
    namespace: str = "default",
    uid: str = "",
    requests: Words = "",
    priority: int | None = None,
    labels: Words = "",
    tolerations: Fragments = (),
    node: str = "",
    nominated: str = "",
    node_selector: Words = "",
    gates: Iterable[str] = (),
    host_ports: Iterable[int | str] = (),
    scheduler: str = "py-scheduler",
    terminating: bool = False,
    metadata: Fragment | None = None,
    status: Fragment | None = None,
    **spec: Any,
) -> Pod:
    """Build a pod: one container, nothing requested and not bound by default.

    Args:
        name: Name; names make UIDs, so equal names of one namespace make one pod.
        namespace: Namespace.
        uid: UID, to tell apart two pods of one name.
        requests: What the container requests, as in ``500m cpu, 8Gi, 2 example.com/gpu``.
        priority: ``spec.priority``.
        labels: ``app=web, tier=front``, or a mapping.
        tolerations: ``key=value:Effect``, ``key:Effect``, ``key`` or ``*`` (any), or fragments.
        node: Where it is bound.
        nominated: ``status.nominatedNodeName``.
        node_selector: As *labels*.
        gates: Names of scheduling gates.
        host_ports: ``8080``, ``53/UDP`` or ``127.0.0.1:53/UDP``.
        scheduler: ``spec.schedulerName``.
        terminating: Whether deletion has begun.
        metadata: More of the metadata.
        status: More of the status.
        spec: More of the spec, as ``affinity={...}``.
    """
    words: dict[str, Any] = {
        "nodeName": node,
        "schedulerName": scheduler,
        "priority": priority,
        "nodeSelector": parse_labels(node_selector) or None,
        "tolerations": [parse_toleration(each) for each in _split(tolerations)],
        "schedulingGates": [{"name": gate} for gate in gates],
    }
    if not {"containers"} & set(spec):
        words["containers"] = [_container(requests, host_ports)]
    elif requests or tuple(host_ports):
        raise TypeError("requests and host_ports go into the containers that were given")
    document = {
        "metadata": _metadata(name, namespace, uid, labels, terminating, metadata),
        "spec": words | _camel(spec, PodSpec),
        "status": {"nominatedNodeName": nominated} | _camel(status or {}, PodStatus),
    }
    return _decode(document, Pod)


def make_node(
    name: str = "node",
    *,
    uid: str = "",
    allocatable: Words = "",
    zone: str = "",
    region: str = "",
    labels: Words = "",
    taints: Fragments = (),
    unschedulable: bool = False,
    images: Mapping[str, int | str] | None = None,
    conditions: Words = "",
    metadata: Fragment | None = None,
    status: Fragment | None = None,
    **spec: Any,
) -> Node:
    """Build a node: 8 cpu, 32Gi and 110 pods, its host name for a label, no taint.

    Args:
        name: Name.
        uid: UID, to tell apart two nodes of one name.
        allocatable: ``8 cpu, 32Gi, 2 example.com/gpu``; 110 pods unless it says otherwise.
        zone: Value of the zone label.
        region: Value of the region label.
        labels: ``disk=ssd``, or a mapping; after host name, zone and region, which it may override.
        taints: ``key=value:Effect`` or ``key:Effect``, or fragments.
        unschedulable: Whether it is cordoned.
        images: Size by name, as in ``{"registry/app:1": "150Mi"}``.
        conditions: Status by type, as in ``Ready=True``.
        metadata: More of the metadata.
        status: More of the status.
        spec: More of the spec.
    """
    known = {HOSTNAME_LABEL: name, ZONE_LABEL: zone, REGION_LABEL: region}
    all_labels = {key: value for key, value in known.items() if value} | parse_labels(labels)
    words = {"unschedulable": unschedulable, "taints": [parse_taint(t) for t in _split(taints)]}
    document = {
        "metadata": _metadata(name, "", uid, all_labels, terminating=False, more=metadata),
        "spec": words | _camel(spec, NodeSpec),
        "status": {
            "allocatable": {"pods": "110"} | parse_amounts(allocatable or "8 cpu, 32Gi"),
            "images": [_image(*each) for each in (images or {}).items()],
            "conditions": [{"type": t, "status": s} for t, s in parse_labels(conditions).items()],
        }
        | _camel(status or {}, NodeStatus),
    }
    return _decode(document, Node)


def make_object(
    kind: type[_T], name: str, *, namespace: str = "default", labels: Words = "", **document: Any
) -> _T:
    """Build any other object: ``make_object(Service, "a", spec={"selector": {"app": "web"}})``."""
    metadata = _metadata(
        name, namespace, "", labels, terminating=False, more=document.pop("metadata", None)
    )
    return _decode({"metadata": metadata} | _camel(document, kind), kind)


def parse_amounts(words: Words) -> dict[str, str]:
    """Read ``4 cpu, 8Gi, 2 example.com/gpu``; a lone amount with a binary suffix is memory."""
    if not isinstance(words, str):
        return dict(words)
    amounts: dict[str, str] = {}
    for word in _split(words):
        literal, _, resource = str(word).partition(" ")
        if not resource and not literal.endswith("i"):
            raise ValueError(f"of what are there {literal!r}? Say '4 cpu' or '8Gi'")
        quantity.nanos(literal)
        amounts[resource.strip() or "memory"] = literal
    return amounts


def parse_labels(words: Words) -> dict[str, str]:
    """Read ``app=web, tier=front``; a lone key has an empty value."""
    if not isinstance(words, str):
        return dict(words)
    pairs = (str(word).partition("=") for word in _split(words))
    return {key: value for key, _, value in pairs}


def parse_taint(words: str | Fragment) -> Fragment:
    """Read ``key=value:Effect`` or ``key:Effect``, as kubectl does."""
    if not isinstance(words, str):
        return words
    pair, _, effect = words.rpartition(":")
    if not pair or not effect:
        raise ValueError(f"a taint is 'key=value:Effect' or 'key:Effect', not {words!r}")
    key, _, value = pair.partition("=")
    return {"key": key, "value": value, "effect": effect}


def parse_toleration(words: str | Fragment) -> Fragment:
    """Read ``key=value:Effect``; no value or effect means any, and ``*`` means any key."""
    if not isinstance(words, str):
        return words
    pair, _, effect = words.partition(":")
    key, equals, value = pair.partition("=")
    operator = "Equal" if equals else "Exists"
    found = {"key": "" if key == "*" else key, "operator": operator, "effect": effect}
    return found | ({"value": value} if equals else {})


def _split(words: Fragments) -> list[str | Fragment]:
    if isinstance(words, str):
        return [word.strip() for word in words.split(",") if word.strip()]
    return list(words)


def _metadata(
    name: str,
    namespace: str,
    uid: str,
    labels: Words,
    terminating: bool,
    more: Fragment | None,
) -> dict[str, Any]:
    known = {
        "name": name,
        "namespace": namespace,
        # Never equal to the key, so that code which confuses the two fails.
        "uid": uid or "-".join(filter(None, ("uid", namespace, name))),
        "resourceVersion": "1",
        "labels": parse_labels(labels),
        "deletionTimestamp": DELETED_AT if terminating else None,
    }
    return known | _camel(more or {}, ObjectMeta)


def _container(requests: Words, host_ports: Iterable[int | str]) -> Fragment:
    return {
        "name": "main",
        "image": "app",
        "resources": {"requests": parse_amounts(requests)},
        "ports": [_host_port(str(port)) for port in host_ports],
    }


def _host_port(words: str) -> Fragment:
    address, _, protocol = words.partition("/")
    ip, _, port = address.rpartition(":")
    return {"hostPort": int(port), "hostIP": ip, "protocol": protocol or "TCP"}


def _image(name: str, size: int | str) -> Fragment:
    return {"names": [name], "sizeBytes": quantity.units(quantity.nanos(size))}


def _camel(fields: Fragment, kind: type[msgspec.Struct]) -> dict[str, Any]:
    """Return *fields* in Kubernetes' spelling, all of which *kind* must read."""
    known = _spellings(kind)
    if unknown := set(fields) - set(known):
        raise TypeError(f"{kind.__name__} reads no {', '.join(sorted(unknown))}")
    return {known[name]: value for name, value in fields.items()}


@cache
def _spellings(kind: type[msgspec.Struct]) -> Mapping[str, str]:
    spelled = {field.name: field.encode_name for field in msgspec.structs.fields(kind)}
    return spelled | {name: name for name in spelled.values()}


def _decode(document: Fragment, kind: type[_T]) -> _T:
    # By way of JSON, so that raw fragments inside are what they are in production: bytes.
    return msgspec.json.decode(msgspec.json.encode(document), type=kind)
