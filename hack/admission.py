"""Whether a node takes a pod that was bound to it: the kubelet's last word, as a pure function.

A scheduler decides by what its watches have shown; the kubelet decides by what is there. It checks
the pod against all pods that hold its resources, first come, first served: pod count, cpu, memory,
ephemeral storage and other resources, then node affinity, host ports and NoExecute taints. The
first failure names the pod's ``status.reason``. (What the kubelet also does and this does not:
preempt for critical pods, and ask its device, topology and sysctl handlers.)

Written from the documented behaviour, independently of the scheduler, so that one can check the
other.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from hack.api import Json

Requests = Counter[str]

_MULTIPLIERS: Final = {
    "": Fraction(1),
    "n": Fraction(1, 10**9),
    "u": Fraction(1, 10**6),
    "m": Fraction(1, 1000),
    **{suffix: Fraction(1000**power) for power, suffix in enumerate("kMGTPE", 1)},
    **{f"{suffix}i": Fraction(1024**power) for power, suffix in enumerate("KMGTPE", 1)},
}
# Looked at in this order; the others follow by name.
_FIRST: Final = ("cpu", "memory", "ephemeral-storage")
_WILDCARDS: Final = ("", "0.0.0.0", "::")


@dataclass(frozen=True)
class Refusal:
    """Why a kubelet does not take a pod; both texts as in the pod's status."""

    reason: str
    message: str


def amount(resource: str, quantity: str | float) -> int:
    """A quantity as the whole number that is compared: milli-units of cpu, units of the rest."""
    text = str(quantity)
    digits = text.rstrip("numkMGTPEi")
    # 12E6 is an exponent, 12E is exa: what is left of the former ends in a digit.
    exact = Fraction(digits) * _MULTIPLIERS[text[len(digits) :]]
    return math.ceil(exact * 1000 if resource == "cpu" else exact)


def requests_of(pod: Json) -> Requests:
    """What a pod asks for.

    Containers and sidecars run together. An ordinary init container runs beside the sidecars that
    were started before it and nothing else. The pod asks for the most that is held at any time, and
    its overhead. Requests at pod level replace what its containers add up to.
    """
    spec = pod["spec"]
    peak, sidecars = Requests(), Requests()
    for container in spec.get("initContainers", ()):
        held = sidecars + _requests(container.get("resources"))
        peak |= held
        if container.get("restartPolicy") == "Always":
            sidecars = held
    steady = sum((_requests(each.get("resources")) for each in spec["containers"]), sidecars)
    total = peak | steady
    total.update(_requests_at_pod_level(spec, total))
    return total + _amounts(spec.get("overhead", {}))


def admit(pod: Json, node: Json, others: Iterable[Json]) -> Refusal | None:
    """Judge ``pod`` on ``node``, where ``others`` hold resources already; None: it may run."""
    held = list(others)
    return next(
        (
            refusal
            for refusal in (
                _refused_by_resources(pod, node, held),
                _refused_by_affinity(pod, node),
                _refused_by_ports(pod, held),
                _refused_by_taints(pod, node),
            )
            if refusal is not None
        ),
        None,
    )


def _amounts(quantities: Mapping[str, str]) -> Requests:
    return Requests({name: amount(name, text) for name, text in quantities.items()})


def _requests(resources: Json | None) -> Requests:
    return _amounts((resources or {}).get("requests", {}))


def _requests_at_pod_level(spec: Json, total: Requests) -> dict[str, int]:
    """The increments (or decrements) that turn the containers' total into the pod-level request."""
    wished = _requests(spec.get("resources"))
    return {name: value - total[name] for name, value in wished.items()}


def _refused_by_resources(pod: Json, node: Json, others: Sequence[Json]) -> Refusal | None:
    capacity = _amounts(node["status"]["allocatable"])
    if len(others) + 1 > capacity["pods"]:
        return _out_of("pods", 1, len(others), capacity["pods"])
    wanted = requests_of(pod)
    used = sum((requests_of(other) for other in others), Requests())
    for name in _in_order(wanted):
        # As in the real kubelet: extended resources that a node does not know are not checked.
        if "/" in name and name not in capacity:
            continue
        if wanted[name] > capacity[name] - used[name]:
            return _out_of(name, wanted[name], used[name], capacity[name])
    return None


def _in_order(wanted: Requests) -> list[str]:
    rest = sorted(set(wanted) - set(_FIRST))
    return [name for name in (*_FIRST, *rest) if wanted[name] > 0]


def _out_of(resource: str, requested: int, used: int, capacity: int) -> Refusal:
    return Refusal(
        f"OutOf{resource}",
        f"Pod was rejected: Node didn't have enough resource: {resource}, "
        f"requested: {requested}, used: {used}, capacity: {capacity}",
    )


def _failed(predicate: str, text: str) -> Refusal:
    return Refusal(predicate, f"Pod was rejected: Predicate {predicate} failed: {text}")


def _refused_by_affinity(pod: Json, node: Json) -> Refusal | None:
    if matches_affinity(pod["spec"], node):
        return None
    return _failed("NodeAffinity", "node(s) didn't match Pod's node affinity/selector")


def matches_affinity(spec: Json, node: Json) -> bool:
    labels = node["metadata"].get("labels", {})
    if any(labels.get(key) != value for key, value in spec.get("nodeSelector", {}).items()):
        return False
    affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution")
    if required is None:
        return True
    fields = {"metadata.name": node["metadata"]["name"]}
    return any(_matches_term(term, labels, fields) for term in required["nodeSelectorTerms"])


def _matches_term(term: Json, labels: Mapping[str, str], fields: Mapping[str, str]) -> bool:
    expressions = term.get("matchExpressions") or []
    field_expressions = term.get("matchFields") or []
    # A term that says nothing matches nothing.
    return bool(expressions or field_expressions) and all(
        [
            *(_OPERATORS[e["operator"]](labels.get(e["key"]), e) for e in expressions),
            *(_OPERATORS[e["operator"]](fields.get(e["key"]), e) for e in field_expressions),
        ]
    )


def _values(expression: Json) -> list[str]:
    values: list[str] = expression.get("values") or []
    return values


def _whole(text: str | None) -> int | None:
    try:
        return int(text) if text is not None else None
    except ValueError:
        return None


def _compares(value: str | None, expression: Json, sign: int) -> bool:
    ours, theirs = _whole(value), _whole(_values(expression)[0])
    return ours is not None and theirs is not None and (ours - theirs) * sign > 0


_OPERATORS: Final[Mapping[str, Callable[[str | None, Json], bool]]] = {
    "In": lambda value, expression: value in _values(expression),
    "NotIn": lambda value, expression: value not in _values(expression),
    "Exists": lambda value, _: value is not None,
    "DoesNotExist": lambda value, _: value is None,
    "Gt": lambda value, expression: _compares(value, expression, 1),
    "Lt": lambda value, expression: _compares(value, expression, -1),
}


def _refused_by_ports(pod: Json, others: Sequence[Json]) -> Refusal | None:
    wanted = list(_host_ports(pod))
    taken = [port for other in others for port in _host_ports(other)]
    if any(_collide(one, another) for one in wanted for another in taken):
        return _failed("NodePorts", "node(s) didn't have free ports for the requested pod ports")
    return None


def _host_ports(pod: Json) -> Iterator[tuple[str, str, int]]:
    spec: dict[str, Any] = pod["spec"]
    sidecars = (c for c in spec.get("initContainers", ()) if c.get("restartPolicy") == "Always")
    for container in (*spec["containers"], *sidecars):
        for port in container.get("ports", ()):
            if port.get("hostPort"):
                yield port.get("hostIP", ""), port.get("protocol", "TCP"), port["hostPort"]


def _collide(one: tuple[str, str, int], another: tuple[str, str, int]) -> bool:
    same_address = one[0] == another[0] or one[0] in _WILDCARDS or another[0] in _WILDCARDS
    return same_address and one[1:] == another[1:]


def _refused_by_taints(pod: Json, node: Json) -> Refusal | None:
    tolerations = pod["spec"].get("tolerations", ())
    for taint in node.get("spec", {}).get("taints", ()):
        evicts = taint["effect"] == "NoExecute"
        if evicts and not any(tolerates(each, taint) for each in tolerations):
            return _failed("TaintToleration", "node(s) had taints that the pod didn't tolerate")
    return None


def tolerates(toleration: Json, taint: Json) -> bool:
    if toleration.get("effect") not in {None, "", taint["effect"]}:
        return False
    if toleration.get("key") not in {None, "", taint["key"]}:
        return False
    if toleration.get("operator") == "Exists":
        return True
    same_value: bool = toleration.get("value", "") == taint.get("value", "")
    return same_value
