"""Checks where all pods are in the end, independently of every scheduler.

A rate counts only if the pods are where their own rules allow. These are checked: every measured
pod is bound; no node holds more than it can; node selectors, required node affinity and NoSchedule
taints; required affinity and anti-affinity between pods; hard spread constraints. Nothing is
checked about soft rules. Of the pods with such rules none is deleted, so what held when a pod was
placed holds in the end.

Thousands of pods have the same rule, so rules are grouped by their text, and a rule costs one pass
over the pods.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Any, Final

import msgspec

from hack.admission import amount, matches_affinity, requests_of, tolerates

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

Json = dict[str, Any]
_SHOWN: Final = 5
_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
_HARD: Final = frozenset({"NoSchedule", "NoExecute"})


def check(
    pods: Sequence[Json], nodes: Sequence[Json], namespaces: Sequence[Json], measured: str
) -> list[str]:
    """Return what is wrong, in words; at most a few lines of each kind.

    Args:
        pods: All pods.
        nodes: All nodes.
        namespaces: All namespaces.
        measured: The namespace whose pods must all be bound.
    """
    cluster = _Cluster(pods, nodes, namespaces)
    checks = (_unbound(pods, measured), _overcommitted(cluster), _misplaced(cluster))
    between = (_apart(cluster), _together(cluster), _skewed(cluster))
    return [line for found in (*checks, *between) for line in _shortened(list(found))]


class _Cluster:
    """The bound pods and what is known about nodes and namespaces."""

    def __init__(
        self, pods: Sequence[Json], nodes: Sequence[Json], namespaces: Sequence[Json]
    ) -> None:
        self.nodes = {node["metadata"]["name"]: node for node in nodes}
        self.labels = {
            name: node["metadata"].get("labels", {}) for name, node in self.nodes.items()
        }
        self.bound = [
            pod
            for pod in pods
            if pod["spec"].get("nodeName") in self.nodes
            and pod.get("status", {}).get("phase") not in {"Succeeded", "Failed"}
        ]
        self._namespaces = {
            each["metadata"]["name"]: each["metadata"].get("labels", {}) for each in namespaces
        }

    def domain(self, pod: Json, key: str) -> str | None:
        """Return the value of a label of the pod's node."""
        value: str | None = self.labels[pod["spec"]["nodeName"]].get(key)
        return value

    def namespaces_of(self, term: Json, own: str) -> frozenset[str]:
        """Return the namespaces that an affinity term is about."""
        found = set(term.get("namespaces") or ())
        selector = term.get("namespaceSelector")
        if selector is not None:
            found |= {name for name, labels in self._namespaces.items() if _fits(selector, labels)}
        elif not found:
            found = {own}
        return frozenset(found)


def _name(pod: Json) -> str:
    return f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"


def _shortened(lines: list[str]) -> list[str]:
    more = len(lines) - _SHOWN
    return [*lines[:_SHOWN], f"and {more} more of this kind"] if more > 0 else lines


def _fits(selector: Json | None, labels: Mapping[str, str]) -> bool:
    """Tell whether labels match a label selector; none matches nothing."""
    if selector is None:
        return False
    equal = all(labels.get(key) == value for key, value in selector.get("matchLabels", {}).items())
    return equal and all(
        _EXPRESSIONS[each["operator"]](labels.get(each["key"]), each.get("values") or ())
        for each in selector.get("matchExpressions") or ()
    )


_EXPRESSIONS: Final[Mapping[str, Callable[[str | None, Sequence[str]], bool]]] = {
    "In": lambda value, values: value in values,
    "NotIn": lambda value, values: value not in values,
    "Exists": lambda value, _: value is not None,
    "DoesNotExist": lambda value, _: value is None,
}


def _unbound(pods: Sequence[Json], measured: str) -> Iterator[str]:
    for pod in pods:
        if pod["metadata"]["namespace"] == measured and not pod["spec"].get("nodeName"):
            yield f"{_name(pod)} is not bound"


def _overcommitted(cluster: _Cluster) -> Iterator[str]:
    used: dict[str, Counter[str]] = defaultdict(Counter)
    known: dict[bytes, Counter[str]] = {}
    for pod in cluster.bound:
        # Pods of one template request the same; adding quantities up is what takes long.
        text = msgspec.json.encode(pod["spec"]["containers"])
        if text not in known:
            known[text] = requests_of(pod)
        used[pod["spec"]["nodeName"]].update(known[text])
        used[pod["spec"]["nodeName"]]["pods"] += 1
    for name, requested in used.items():
        allocatable = cluster.nodes[name]["status"]["allocatable"]
        for resource, wanted in requested.items():
            capacity = amount(resource, allocatable.get(resource, 0))
            if wanted > capacity:
                yield f"{name} holds {wanted} of {resource}, and has {capacity}"


def _misplaced(cluster: _Cluster) -> Iterator[str]:
    for pod in cluster.bound:
        node = cluster.nodes[pod["spec"]["nodeName"]]
        if not matches_affinity(pod["spec"], node):
            yield f"{_name(pod)} is on {pod['spec']['nodeName']} against its node affinity"
        if not _tolerates_all(pod["spec"], node):
            yield f"{_name(pod)} is on {pod['spec']['nodeName']} against a taint"


def _tolerates_all(spec: Json, node: Json) -> bool:
    tolerations = spec.get("tolerations") or ()
    return all(
        any(tolerates(each, taint) for each in tolerations)
        for taint in node["spec"].get("taints") or ()
        if taint["effect"] in _HARD
    )


# Rules between pods.


def _carriers(
    cluster: _Cluster, rules_of: Callable[[Json], Iterable[Json]]
) -> Iterator[tuple[Json, str, list[Json]]]:
    """Yield each rule once, with a namespace and all bound pods of that namespace that have it."""
    found: dict[tuple[bytes, str], list[Json]] = defaultdict(list)
    for pod in cluster.bound:
        for rule in rules_of(pod["spec"]):
            found[msgspec.json.encode(rule), pod["metadata"]["namespace"]].append(pod)
    for (text, namespace), pods in found.items():
        yield msgspec.json.decode(text), namespace, pods


def _terms(side: str) -> Callable[[Json], Iterable[Json]]:
    def terms(spec: Json) -> Iterable[Json]:
        found: Iterable[Json] = (spec.get("affinity") or {}).get(side, {}).get(_REQUIRED) or ()
        return found

    return terms


def _matching(cluster: _Cluster, term: Json, own: str) -> list[Json]:
    namespaces = cluster.namespaces_of(term, own)
    return [
        pod
        for pod in cluster.bound
        if pod["metadata"]["namespace"] in namespaces
        and _fits(term.get("labelSelector"), pod["metadata"].get("labels", {}))
    ]


def _apart(cluster: _Cluster) -> Iterator[str]:
    """Required anti-affinity: nobody else in the domain matches."""
    for term, own, pods in _carriers(cluster, _terms("podAntiAffinity")):
        key = term["topologyKey"]
        there: dict[str | None, list[str]] = defaultdict(list)
        for other in _matching(cluster, term, own):
            there[cluster.domain(other, key)].append(_name(other))
        for pod in pods:
            domain = cluster.domain(pod, key)
            others = [name for name in there[domain] if name != _name(pod)]
            if domain is not None and others:
                yield f"{_name(pod)} is in {domain} with {others[0]} against its anti-affinity"


def _together(cluster: _Cluster) -> Iterator[str]:
    """Required affinity: somebody else in the domain matches, unless the pod was the first."""
    for term, own, pods in _carriers(cluster, _terms("podAffinity")):
        key = term["topologyKey"]
        matching = _matching(cluster, term, own)
        there = Counter(cluster.domain(other, key) for other in matching)
        matches_itself = {_name(other) for other in matching}
        for pod in pods:
            domain = cluster.domain(pod, key)
            itself = _name(pod) in matches_itself
            alone = there[domain] - itself <= 0 and not (itself and len(matching) == 1)
            if domain is None or alone:
                yield f"{_name(pod)} is in {domain} without those of its affinity"


def _constraints(spec: Json) -> Iterable[Json]:
    for constraint in spec.get("topologySpreadConstraints") or ():
        if constraint["whenUnsatisfiable"] == "DoNotSchedule":
            # Which nodes count depends on the pod's own rules as well.
            yield constraint | {
                "pod": {key: spec.get(key) for key in ("nodeSelector", "affinity", "tolerations")}
            }


def _skewed(cluster: _Cluster) -> Iterator[str]:
    for constraint, own, _ in _carriers(cluster, _constraints):
        key = constraint["topologyKey"]
        counts = dict.fromkeys(_eligible_domains(cluster, constraint), 0)
        term = {"labelSelector": constraint.get("labelSelector")}
        for pod in _matching(cluster, term, own):
            domain = cluster.domain(pod, key)
            if domain in counts:
                counts[domain] += 1
        skew = max(counts.values(), default=0) - min(counts.values(), default=0)
        if skew > constraint["maxSkew"]:
            yield f"a skew of {skew} over {key} in {own}, where {constraint['maxSkew']} is allowed"


def _eligible_domains(cluster: _Cluster, constraint: Json) -> set[str]:
    """Return the domains of the nodes that count, by the constraint's inclusion policies."""
    spec = {name: value for name, value in constraint["pod"].items() if value}
    by_affinity = constraint.get("nodeAffinityPolicy", "Honor") == "Honor"
    by_taints = constraint.get("nodeTaintsPolicy", "Ignore") == "Honor"
    return {
        cluster.labels[name][constraint["topologyKey"]]
        for name, node in cluster.nodes.items()
        if constraint["topologyKey"] in cluster.labels[name]
        and (not by_affinity or matches_affinity(spec, node))
        and (not by_taints or _tolerates_all(spec, node))
    }
