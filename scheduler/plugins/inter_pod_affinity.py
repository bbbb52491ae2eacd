"""Pod affinity and anti-affinity.

Source: ``plugins/interpodaffinity/`` (filtering.go, scoring.go, plugin.go).

Terms of the incoming pod and terms of existing pods both count, and so do terminating pods on
either side. Three quirks of upstream's are kept: all required affinity terms must be met by one and
the same pod; a namespace selector of the incoming pod that matches a namespace without labels
selects every namespace; and queueing hints take every namespace to have no labels.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import numpy as np

from scheduler.config.plugin_args import InterPodAffinityArgs
from scheduler.errors import MalformedObject
from scheduler.framework.cluster_event import NODE, POD, Action, Change, ClusterEvent, Requeue
from scheduler.framework.rejection import (
    MAX_NODE_SCORE,
    NodeMask,
    Refused,
    Rejection,
    Scores,
    Skip,
)
from scheduler.model.affinity_terms import AffinityTerm, PodAffinityTerms, TermKind
from scheduler.model.fact import Resource
from scheduler.model.node import Node
from scheduler.model.pod import Pod
from scheduler.model.selectors import NOTHING
from scheduler.snapshot.domains import NO_DOMAIN, DomainSums
from scheduler.snapshot.node_table import NodeTable
from scheduler.snapshot.objects import ClusterObjects
from scheduler.snapshot.pod_contribution import Counted
from scheduler.snapshot.pod_sets import PodSet

_AFFINITY: Final = "node(s) didn't match pod affinity rules"
_ANTI_AFFINITY: Final = "node(s) didn't match pod anti-affinity rules"
_EXISTING_ANTI_AFFINITY: Final = "node(s) didn't satisfy existing pods anti-affinity rules"

_UNLABELLED: Final[Mapping[str, str]] = {}
"""The labels of a namespace without labels."""


_ByKey = defaultdict[str, list[tuple[Counted, int]]]
"""By topology key: which pods to count, and the weight of each."""


class InterPodAffinity:
    """Rejects nodes by the pods in their domains, and scores them by preferred terms.

    Args:
        args: How the terms of existing pods count.
    """

    name = "InterPodAffinity"
    each_world = True
    needs = frozenset((Resource.NAMESPACE,))

    def __init__(self, args: InterPodAffinityArgs = InterPodAffinityArgs()) -> None:  # noqa: B008 - frozen
        self._hard_weight = args.hard_pod_affinity_weight
        self._ignore_existing = args.ignore_preferred_terms_of_existing_pods
        pods = Action.ADD | Action.DELETE | Action.UPDATE_POD_LABEL
        nodes = Action.ADD | Action.UPDATE_NODE_LABEL
        self.requeue_on = (
            Requeue(ClusterEvent(POD, pods), _pods_changed),
            Requeue(ClusterEvent(NODE, nodes), _domains_changed),
        )

    # Filter.

    def pre_filter(self, pod: Pod, nodes: NodeTable) -> Skip | Refused | None:
        """Skip pods without required terms, if no existing pod's anti-affinity matches them."""
        terms = pod.affinity_terms
        if terms.problem:
            return Refused(f"parsing pod: {terms.problem}", resolvable=False)
        if terms.required_affinity or terms.required_anti_affinity:
            return None
        existing = _existing_anti_affinity(pod, nodes)
        return None if any(sums.total.any() for sums in existing) else Skip()

    def filter(self, pod: Pod, nodes: NodeTable) -> Iterator[Rejection]:
        """Reject each node for the first rule that *pod* would violate there.

        Preemption removes pods: that may resolve anti-affinity, but never affinity.
        """
        undecided = np.ones(len(nodes), dtype=np.bool_)
        for violates, reason, resolvable in (
            (_violates_affinity, _AFFINITY, False),
            (_violates_anti_affinity, _ANTI_AFFINITY, True),
            (_violates_existing, _EXISTING_ANTI_AFFINITY, True),
        ):
            rejected = undecided & violates(pod, nodes)
            if rejected.any():
                yield Rejection(rejected, reason, resolvable)
                undecided &= ~rejected

    # Score.

    def score(self, pod: Pod, nodes: NodeTable) -> Scores | None:
        """Sum the weights of preferred terms by node: the pod's own, and those that match it.

        Raises:
            MalformedObject: If a selector of the pod is invalid.
        """
        terms = pod.affinity_terms
        if terms.problem:
            raise MalformedObject("spec.affinity", terms.problem)
        weights = self._weights(pod, terms, nodes)
        raw = np.zeros(len(nodes), dtype=np.int64)
        for key, parts in weights.items():
            raw += nodes.sum_domains(key, parts).here
        return raw if raw.any() or _any_counted(weights, nodes) else None

    def normalize(self, scores: Scores, pod: Pod, nodes: NodeTable) -> Scores:  # noqa: ARG002
        """Scale so that the lowest raw score becomes 0 and the highest 100."""
        if not len(scores):
            return scores
        least, most = int(scores.min()), int(scores.max())
        if least == most:
            return np.zeros_like(scores)
        # Upstream multiplies last, and truncates: 29 of 100 become 28.
        scaled: Scores = (MAX_NODE_SCORE * ((scores - least) / (most - least))).astype(np.int64)
        return scaled

    def _weights(self, pod: Pod, terms: PodAffinityTerms, nodes: NodeTable) -> _ByKey:
        """Collect, by topology key, which pods to count and the weight of each."""
        weights: _ByKey = defaultdict(list)
        # ignorePreferredTermsOfExistingPods concerns pods without preferred terms, as upstream:
        # for a pod with its own, the terms of existing pods count as well.
        if self._ignore_existing and not terms.preferred:
            return weights
        for term in terms.preferred:
            weights[term.topology_key].append((_pods_of(term, nodes.objects), term.weight))
        if self._hard_weight:
            for term in nodes.terms_matching(pod, TermKind.REQUIRED_AFFINITY):
                weights[term.topology_key].append((term, self._hard_weight))
        for term in nodes.terms_matching(pod, TermKind.PREFERRED):
            weights[term.topology_key].append((term, term.weight))
        return weights


def _any_counted(weights: _ByKey, nodes: NodeTable) -> bool:
    """Tell whether any pod counts.

    The plugin is skipped if none does. Weights that cancel each other out score 0 instead.
    """
    return any(
        nodes.sum_domains(key, [(each, 1)]).total.any()
        for key, parts in weights.items()
        for each, _ in parts
    )


# Which nodes are rejected.


def _violates_affinity(pod: Pod, nodes: NodeTable) -> NodeMask:
    """Return nodes without the pods that *pod*'s required affinity demands.

    A pod that matches its own terms may be the first of its kind, on any node with the topology
    labels: otherwise no pod of a workload with affinity to itself could ever start.
    """
    terms = pod.affinity_terms.required_affinity
    missing, unmet = np.zeros((2, len(nodes)), dtype=np.bool_)
    if not terms:
        return missing
    wanted = _matching_all(terms, nodes.objects)
    anywhere = np.zeros(len(nodes), dtype=np.int64)
    for key in dict.fromkeys(term.topology_key for term in terms):
        sums = nodes.sum_domains(key, [(wanted, 1)])
        missing |= nodes.domains(key) == NO_DOMAIN
        unmet |= sums.here == 0
        anywhere += sums.total
    if wanted.holds(pod):
        unmet &= anywhere != 0
    return missing | unmet


def _violates_anti_affinity(pod: Pod, nodes: NodeTable) -> NodeMask:
    """Return nodes with a pod in their domain that *pod*'s required anti-affinity matches."""
    rejected = np.zeros(len(nodes), dtype=np.bool_)
    avoided: _ByKey = defaultdict(list)
    for term in pod.affinity_terms.required_anti_affinity:
        avoided[term.topology_key].append((_pods_of(term, nodes.objects), 1))
    for key, parts in avoided.items():
        rejected |= nodes.sum_domains(key, parts).here > 0
    return rejected


def _violates_existing(pod: Pod, nodes: NodeTable) -> NodeMask:
    """Return nodes with a pod in their domain whose required anti-affinity matches *pod*."""
    rejected = np.zeros(len(nodes), dtype=np.bool_)
    for sums in _existing_anti_affinity(pod, nodes):
        rejected |= sums.here > 0
    return rejected


def _existing_anti_affinity(pod: Pod, nodes: NodeTable) -> Iterator[DomainSums]:
    """Yield, for each topology key, the counts of pods whose anti-affinity matches *pod*."""
    matching: _ByKey = defaultdict(list)
    for term in nodes.terms_matching(pod, TermKind.REQUIRED_ANTI_AFFINITY):
        matching[term.topology_key].append((term, 1))
    for key, parts in matching.items():
        yield nodes.sum_domains(key, parts)


# Which pods a term matches.


def _pods_of(term: AffinityTerm, objects: ClusterObjects) -> PodSet:
    """Return the pods that *term* of an incoming pod matches."""
    selector = term.namespace_selector
    if selector.matches(_UNLABELLED):
        return PodSet(None, term.selector, terminating=True)
    namespaces = term.namespaces
    if selector != NOTHING:
        namespaces |= objects.namespaces(selector)
    return PodSet(namespaces, term.selector, terminating=True)


def _matching_all(terms: Sequence[AffinityTerm], objects: ClusterObjects) -> PodSet:
    """Return the pods that match all *terms* of an incoming pod."""
    first, *others = (_pods_of(term, objects) for term in terms)
    namespaces, selector = first.namespaces, first.selector
    for each in others:
        if namespaces is None or each.namespaces is None:
            namespaces = each.namespaces if namespaces is None else namespaces
        else:
            namespaces &= each.namespaces
        required = each.selector.requirements
        selector = NOTHING if required is None else selector.and_also(required)
    return PodSet(namespaces, selector, terminating=True)


# Queueing hints.


def _pods_changed(pod: Pod, change: Change) -> bool:
    """Tell whether a pod came that *pod*'s affinity needs, or one went that it must avoid."""
    old, new = (each if isinstance(each, Pod) else None for each in (change.old, change.new))
    pods = [each for each in (old, new) if each is not None]
    terms = pod.affinity_terms
    if not pods or (len(pods) == 2 and pods[0].uid == pod.uid):
        return True
    if not all(each.node_name or each.nominated_node for each in pods):
        return False
    if terms.problem:
        return True
    if old is None:
        return _all_match(terms.required_affinity, pods[0])
    if new is None:
        return _all_match(terms.required_anti_affinity, old) or _all_match(
            old.affinity_terms.required_anti_affinity, pod
        )
    added = not _all_match(terms.required_affinity, old) and _all_match(
        terms.required_affinity, new
    )
    removed = _all_match(terms.required_anti_affinity, old) and not _all_match(
        terms.required_anti_affinity, new
    )
    return added or removed


def _all_match(terms: Sequence[AffinityTerm], pod: Pod) -> bool:
    """Tell whether there are *terms*, and all match *pod*."""
    return bool(terms) and all(
        term.matches(pod.namespace, pod.labels, _UNLABELLED) for term in terms
    )


def _domains_changed(pod: Pod, change: Change) -> bool:
    """Tell whether a node was added, or moved to another domain, that may now fit *pod*."""
    old, new = (each if isinstance(each, Node) else None for each in (change.old, change.new))
    terms = pod.affinity_terms
    if new is None or terms.problem:
        return True
    after = new.metadata.labels
    if old is None:
        return bool(terms.required_anti_affinity) or any(
            term.topology_key in after for term in terms.required_affinity
        )
    before = old.metadata.labels
    arrived = (
        term.topology_key in after and after[term.topology_key] != before.get(term.topology_key)
        for term in terms.required_affinity
    )
    left = (
        term.topology_key in before and before[term.topology_key] != after.get(term.topology_key)
        for term in terms.required_anti_affinity
    )
    return any(arrived) or any(left)
