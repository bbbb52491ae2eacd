"""Pod affinity and anti-affinity.

Source: ``plugins/interpodaffinity/`` (filtering.go, scoring.go, plugin.go).

Terms of the incoming pod and terms of existing pods both count, and so do terminating pods on
either side. Three quirks of upstream's are kept: all required affinity terms must be met by one and
the same pod; a namespace selector of the incoming pod that matches a namespace without labels
selects every namespace; and queueing hints take every namespace to have no labels.
"""

from collections.abc import Iterator
from typing import Final

import numpy as np

from scheduler.config.plugin_args import InterPodAffinityArgs
from scheduler.errors import MalformedObject
from scheduler.framework.cluster_event import NODE, POD, Action, Change, ClusterEvent, Requeue
from scheduler.framework.normalize import MIN_MAX_MULTIPLIED_LAST
from scheduler.framework.rejection import (
    NodeMask,
    Refused,
    Rejection,
    Scores,
    Skip,
)
from scheduler.model.affinity_terms import PodAffinityTerms, TermKind
from scheduler.model.fact import Resource
from scheduler.model.node import Node
from scheduler.model.pod import Pod
from scheduler.snapshot.domains import NO_DOMAIN, DomainPresence
from scheduler.snapshot.node_table import NodeTable

_AFFINITY: Final = "node(s) didn't match pod affinity rules"
_ANTI_AFFINITY: Final = "node(s) didn't match pod anti-affinity rules"
_EXISTING_ANTI_AFFINITY: Final = "node(s) didn't satisfy existing pods anti-affinity rules"


class InterPodAffinity:
    """Rejects nodes by the pods in their domains, and scores them by preferred terms.

    Args:
        args: How the terms of existing pods count.
    """

    name = "InterPodAffinity"
    each_world = True
    scores_by_row = True
    scores_alike = True
    # Upstream's arithmetic: scoring.go, NormalizeScore.
    normalize = MIN_MAX_MULTIPLIED_LAST
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
        existing = nodes.any_terms(pod, TermKind.REQUIRED_ANTI_AFFINITY)
        return None if any(found.anywhere.any() for found in existing.values()) else Skip()

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
        # ignorePreferredTermsOfExistingPods concerns pods without preferred terms, as upstream:
        # for a pod with its own, the terms of existing pods count as well.
        if self._ignore_existing and not terms.preferred:
            return None
        raw = np.zeros(len(nodes), dtype=np.int64)
        for key, (counted, weight) in terms.liked.items():
            if nodes.has_label(key):
                raw += weight * nodes.sum_domains(key, counted)
        if self._hard_weight:
            for sums in nodes.sum_terms(pod, TermKind.REQUIRED_AFFINITY).values():
                raw += self._hard_weight * sums
        for sums in nodes.sum_terms(pod, TermKind.PREFERRED, weighted=True).values():
            raw += sums
        return raw if raw.any() or self._any_counted(pod, nodes) else None

    def _any_counted(self, pod: Pod, nodes: NodeTable) -> bool:
        """Tell whether any pod counts.

        The plugin is skipped if none does. Weights that cancel each other out score 0 instead.
        """
        return any(found.anywhere.any() for found in self._found(pod, nodes))

    def _found(self, pod: Pod, nodes: NodeTable) -> Iterator[DomainPresence]:
        for key, (counted, _) in pod.affinity_terms.mentioned.items():
            if nodes.has_label(key):
                yield nodes.any_in_domain(key, counted)
        if self._hard_weight:
            yield from nodes.any_terms(pod, TermKind.REQUIRED_AFFINITY).values()
        yield from nodes.any_terms(pod, TermKind.PREFERRED).values()


# Which nodes are rejected.


def _violates_affinity(pod: Pod, nodes: NodeTable) -> NodeMask:
    """Return nodes without the pods that *pod*'s required affinity demands.

    A pod that matches its own terms may be the first of its kind, on any node with the topology
    labels: otherwise no pod of a workload with affinity to itself could ever start.
    """
    terms = pod.affinity_terms
    missing, unmet = np.zeros((2, len(nodes)), dtype=np.bool_)
    if not terms.required_affinity:
        return missing
    anywhere = np.zeros(len(nodes), dtype=np.bool_)
    for key in terms.wanted_keys:
        missing |= nodes.domains(key) == NO_DOMAIN
        if missing.all():
            return missing
        found = nodes.any_in_domain(key, terms.wanted)
        unmet |= ~found.here
        anywhere |= found.anywhere
    if terms.wanted.holds(pod, nodes.objects.namespace_labels):
        unmet &= anywhere
    return missing | unmet


def _violates_anti_affinity(pod: Pod, nodes: NodeTable) -> NodeMask:
    """Return nodes with a pod in their domain that *pod*'s required anti-affinity matches."""
    rejected = np.zeros(len(nodes), dtype=np.bool_)
    for key, (counted, _) in pod.affinity_terms.avoided.items():
        if nodes.has_label(key):
            rejected |= nodes.any_in_domain(key, counted).here
    return rejected


def _violates_existing(pod: Pod, nodes: NodeTable) -> NodeMask:
    """Return nodes with a pod in their domain whose required anti-affinity matches *pod*."""
    rejected = np.zeros(len(nodes), dtype=np.bool_)
    for found in nodes.any_terms(pod, TermKind.REQUIRED_ANTI_AFFINITY).values():
        rejected |= found.here
    return rejected


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
        return _wants(terms, pods[0])
    if new is None:
        return _avoids(terms, old) or _avoids(old.affinity_terms, pod)
    added = not _wants(terms, old) and _wants(terms, new)
    return added or (_avoids(terms, old) and not _avoids(terms, new))


def _wants(terms: PodAffinityTerms, pod: Pod) -> bool:
    """Tell whether there are required affinity terms, and all match *pod*."""
    return bool(terms.required_affinity) and terms.wanted.holds(pod)


def _avoids(terms: PodAffinityTerms, pod: Pod) -> bool:
    """Tell whether there are required anti-affinity terms, and all match *pod*."""
    return bool(terms.required_anti_affinity) and terms.unwanted.holds(pod)


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
