"""How much a pod asks: the entries of its spec that cost something at each of its attempts.

The API server limits an object's bytes and not what they say: one and a half megabytes hold tens of
thousands of affinity terms. What one pod asks is kept linear everywhere, but each entry takes its
microseconds, and the scheduler decides about one pod at a time.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Final

from scheduler.model.affinity import NodeAffinity, NodeSelectorTerm, PodAffinity, PodAffinityTerm
from scheduler.model.containers import Container
from scheduler.model.meta import LabelSelector, LabelSelectorRequirement, kept_in_argument
from scheduler.model.pod import Pod
from scheduler.model.pod_template import PodTemplate

_VALUES_AN_ENTRY: Final = 16
"""Values of an expression are looked up in one go: so many cost as much as another entry."""

_RESOURCE: Final = 16
"""A resource is compared on every node, and has a reason of its own: it counts for so many."""


def excess(pod: Pod, maximum: int) -> str:
    """Return which field is to blame if *pod* asks more than *maximum*; empty if it does not.

    With a *maximum* of 0 any pod may ask anything.
    """
    entries = entries_of(pod.template)
    total = entries.total()
    if not maximum or total <= maximum:
        return ""
    field, largest = entries.most_common(1)[0]
    return f"{field}: {largest} entries of {total} in the pod's spec; at most {maximum} are allowed"


@kept_in_argument
def entries_of(template: PodTemplate) -> Counter[str]:
    """Count the entries of a spec by field; fields without any may be missing."""
    return Counter(dict(_count(template)))


def _count(template: PodTemplate) -> Iterator[tuple[str, int]]:
    spec = template.spec
    yield "metadata.labels", len(template.labels)
    yield "spec.nodeSelector", len(spec.node_selector or {})
    yield "spec.tolerations", len(spec.tolerations)
    yield "spec.volumes", len(spec.volumes)
    yield "spec.schedulingGates", len(spec.scheduling_gates)
    yield "spec.resourceClaims", len(spec.resource_claims)
    yield (
        "spec.topologySpreadConstraints",
        sum(
            1 + _selector(each.label_selector) + len(each.match_label_keys)
            for each in spec.topology_spread_constraints
        ),
    )
    yield "spec.containers", _containers(spec.containers)
    yield "spec.initContainers", _containers(spec.init_containers)
    yield "spec.overhead", _RESOURCE * len(spec.overhead)
    if spec.resources is not None:
        yield "spec.resources", _RESOURCE * len(spec.resources.requests)
    if spec.affinity is not None:
        yield "spec.affinity.nodeAffinity", _node_affinity(spec.affinity.node_affinity)
        yield "spec.affinity.podAffinity", _pod_affinity(spec.affinity.pod_affinity)
        yield "spec.affinity.podAntiAffinity", _pod_affinity(spec.affinity.pod_anti_affinity)


def _containers(containers: Iterable[Container]) -> int:
    entries = 0
    resources: set[str] = set()
    for each in containers:
        entries += 1 + len(each.ports)
        resources.update(each.resources.requests)
    return entries + _RESOURCE * len(resources)


def _node_affinity(affinity: NodeAffinity | None) -> int:
    if affinity is None:
        return 0
    required = affinity.required_during_scheduling_ignored_during_execution
    terms = required.node_selector_terms or () if required is not None else ()
    preferred = affinity.preferred_during_scheduling_ignored_during_execution or ()
    return sum(map(_node_term, (*terms, *(each.preference for each in preferred))))


def _node_term(term: NodeSelectorTerm) -> int:
    return 1 + _expressions(term.match_expressions) + _expressions(term.match_fields)


def _pod_affinity(affinity: PodAffinity | None) -> int:
    if affinity is None:
        return 0
    preferred = affinity.preferred_during_scheduling_ignored_during_execution
    required = affinity.required_during_scheduling_ignored_during_execution
    return sum(map(_pod_term, (*required, *(each.pod_affinity_term for each in preferred))))


def _pod_term(term: PodAffinityTerm) -> int:
    selectors = _selector(term.label_selector) + _selector(term.namespace_selector)
    return 1 + selectors + len(term.namespaces) // _VALUES_AN_ENTRY


def _selector(selector: LabelSelector | None) -> int:
    """Count a selector's requirements but for the first: a selector usually has one."""
    if selector is None:
        return 0
    return max(0, len(selector.match_labels) + _expressions(selector.match_expressions) - 1)


def _expressions(expressions: Iterable[LabelSelectorRequirement]) -> int:
    return sum(1 + len(each.values) // _VALUES_AN_ENTRY for each in expressions)
