"""Pods that want to be near other pods, or apart from them.

Source: ``plugins/interpodaffinity/`` (filtering.go, scoring.go, plugin.go).

Both sides speak: the pod that comes says whom it wants near, and pods that are there may have said
whom they do not. Terminating pods count on both sides. Three quirks of upstream's are kept: all
required affinity terms must be met by one and the same pod; a namespace selector that an unlabelled
namespace would satisfy is about every namespace, where the pod that comes carries it; and hints
take every namespace to be unlabelled.
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

_NOT_NEAR: Final = "node(s) didn't match pod affinity rules"
_NOT_APART: Final = "node(s) didn't match pod anti-affinity rules"
_NOT_WELCOME: Final = "node(s) didn't satisfy existing pods anti-affinity rules"

_UNLABELLED: Final[Mapping[str, str]] = {}


_ByKey = defaultdict[str, list[tuple[Counted, int]]]
"""By topology key: whom to count, and what one of them is worth."""


class InterPodAffinity:
    """Rejects nodes by the pods around them, and ranks them by how welcome those are.

    Args:
        args: How the terms of pods that are there already count.
    """

    name = "InterPodAffinity"
    each_world = True
    needs = frozenset((Resource.NAMESPACE,))

    def __init__(self, args: InterPodAffinityArgs = InterPodAffinityArgs()) -> None:  # noqa: B008 - frozen
        self._hard_weight = args.hard_pod_affinity_weight
        self._only_own_wishes = args.ignore_preferred_terms_of_existing_pods
        pods = Action.ADD | Action.DELETE | Action.UPDATE_POD_LABEL
        nodes = Action.ADD | Action.UPDATE_NODE_LABEL
        self.requeue_on = (
            Requeue(ClusterEvent(POD, pods), _company_changed),
            Requeue(ClusterEvent(NODE, nodes), _domains_changed),
        )

    # Filter.

    def pre_filter(self, pod: Pod, nodes: NodeTable) -> Skip | Refused | None:
        """Skip pods that require nothing, and to which nobody objects anywhere."""
        terms = pod.affinity_terms
        if terms.problem:
            return Refused(f"parsing pod: {terms.problem}", resolvable=False)
        if terms.required_affinity or terms.required_anti_affinity or _anybody_objects(pod, nodes):
            return None
        return Skip()

    def filter(self, pod: Pod, nodes: NodeTable) -> Iterator[Rejection]:
        """Reject each node for the first rule that *pod* would break there."""
        undecided = np.ones(len(nodes), dtype=np.bool_)
        for judge, reason, resolvable in (
            (_not_near, _NOT_NEAR, False),
            (_not_apart, _NOT_APART, True),
            (_not_welcome, _NOT_WELCOME, True),
        ):
            rejected = undecided & judge(pod, nodes)
            if rejected.any():
                yield Rejection(rejected, reason, resolvable)
                undecided &= ~rejected

    # Score.

    def score(self, pod: Pod, nodes: NodeTable) -> Scores | None:
        """Add up the wishes about each node's surroundings: the pod's own, and those about it.

        Raises:
            MalformedObject: If a selector of the pod is invalid.
        """
        terms = pod.affinity_terms
        if terms.problem:
            raise MalformedObject("spec.affinity", terms.problem)
        wishes = self._wishes(pod, terms, nodes)
        raw = np.zeros(len(nodes), dtype=np.int64)
        for key, parts in wishes.items():
            raw += nodes.sum_domains(key, parts).here
        return raw if raw.any() or _concern_anybody(wishes, nodes) else None

    def normalize(self, scores: Scores, pod: Pod, nodes: NodeTable) -> Scores:  # noqa: ARG002
        """Stretch so that the least welcome node gets 0 and the most welcome 100."""
        if not len(scores):
            return scores
        least, most = int(scores.min()), int(scores.max())
        if least == most:
            return np.zeros_like(scores)
        # Upstream multiplies last, and cuts off: 29 of 100 make 28.
        stretched: Scores = (MAX_NODE_SCORE * ((scores - least) / (most - least))).astype(np.int64)
        return stretched

    def _wishes(self, pod: Pod, terms: PodAffinityTerms, nodes: NodeTable) -> _ByKey:
        """Collect, by topology key, whom to count and what one of them is worth."""
        wishes: _ByKey = defaultdict(list)
        if self._only_own_wishes and not terms.preferred:
            return wishes
        for term in terms.preferred:
            wishes[term.topology_key].append((_pods_of(term, nodes.objects), term.weight))
        if self._hard_weight:
            for term in nodes.terms_matching(pod, TermKind.REQUIRED_AFFINITY):
                wishes[term.topology_key].append((term, self._hard_weight))
        for term in nodes.terms_matching(pod, TermKind.PREFERRED):
            wishes[term.topology_key].append((term, term.weight))
        return wishes


def _concern_anybody(wishes: _ByKey, nodes: NodeTable) -> bool:
    """Tell whether anybody is counted: wishes that cancel out are not the same as none."""
    return any(
        nodes.sum_domains(key, [(each, 1)]).total.any()
        for key, parts in wishes.items()
        for each, _ in parts
    )


# Which nodes are out.


def _not_near(pod: Pod, nodes: NodeTable) -> NodeMask:
    """Return nodes around which the company that *pod* requires is not there.

    The first pod of a kind that requires its own kind is let in wherever nodes have the labels,
    or no pod of the kind could ever start.
    """
    terms = pod.affinity_terms.required_affinity
    missing, alone = np.zeros((2, len(nodes)), dtype=np.bool_)
    if not terms:
        return missing
    company = _meeting_all(terms, nodes.objects)
    anywhere = np.zeros(len(nodes), dtype=np.int64)
    for key in dict.fromkeys(term.topology_key for term in terms):
        sums = nodes.sum_domains(key, [(company, 1)])
        missing |= nodes.domains(key) == NO_DOMAIN
        alone |= sums.here == 0
        anywhere += sums.total
    if company.holds(pod):
        alone &= anywhere != 0
    return missing | alone


def _not_apart(pod: Pod, nodes: NodeTable) -> NodeMask:
    """Return nodes around which there is a pod that *pod* requires to be apart from."""
    crowded = np.zeros(len(nodes), dtype=np.bool_)
    avoided: _ByKey = defaultdict(list)
    for term in pod.affinity_terms.required_anti_affinity:
        avoided[term.topology_key].append((_pods_of(term, nodes.objects), 1))
    for key, parts in avoided.items():
        crowded |= nodes.sum_domains(key, parts).here > 0
    return crowded


def _not_welcome(pod: Pod, nodes: NodeTable) -> NodeMask:
    """Return nodes around which there is a pod that requires to be apart from *pod*."""
    unwelcome = np.zeros(len(nodes), dtype=np.bool_)
    for sums in _objections(pod, nodes):
        unwelcome |= sums.here > 0
    return unwelcome


def _anybody_objects(pod: Pod, nodes: NodeTable) -> bool:
    return any(sums.total.any() for sums in _objections(pod, nodes))


def _objections(pod: Pod, nodes: NodeTable) -> Iterator[DomainSums]:
    """Count, by one topology key after the other, the pods that require to be apart from *pod*."""
    objecting: _ByKey = defaultdict(list)
    for term in nodes.terms_matching(pod, TermKind.REQUIRED_ANTI_AFFINITY):
        objecting[term.topology_key].append((term, 1))
    for key, parts in objecting.items():
        yield nodes.sum_domains(key, parts)


# Which pods a term is about.


def _pods_of(term: AffinityTerm, objects: ClusterObjects) -> PodSet:
    """Return the pods that *term* of an incoming pod is about."""
    elsewhere = term.namespace_selector
    if elsewhere.matches(_UNLABELLED):
        return PodSet(None, term.selector, terminating=True)
    namespaces = term.namespaces
    if elsewhere != NOTHING:
        namespaces |= objects.namespaces(elsewhere)
    return PodSet(namespaces, term.selector, terminating=True)


def _meeting_all(terms: Sequence[AffinityTerm], objects: ClusterObjects) -> PodSet:
    """Return the pods that all *terms* of an incoming pod are about."""
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


# What helps a pod that did not fit.


def _company_changed(pod: Pod, change: Change) -> bool:
    """Tell whether wanted company came, or unwanted went."""
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
        return _all_about(terms.required_affinity, pods[0])
    if new is None:
        return _all_about(terms.required_anti_affinity, old) or _all_about(
            old.affinity_terms.required_anti_affinity, pod
        )
    came = not _all_about(terms.required_affinity, old) and _all_about(terms.required_affinity, new)
    went = _all_about(terms.required_anti_affinity, old) and not _all_about(
        terms.required_anti_affinity, new
    )
    return came or went


def _all_about(terms: Sequence[AffinityTerm], pod: Pod) -> bool:
    """Tell whether all *terms*, of which there must be some, are about *pod*."""
    return bool(terms) and all(
        term.matches(pod.namespace, pod.labels, _UNLABELLED) for term in terms
    )


def _domains_changed(pod: Pod, change: Change) -> bool:
    """Tell whether a node came, or moved to another domain, that could take *pod* now."""
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
