"""Node selectors and node affinity: required and preferred labels of nodes.

Source: ``plugins/nodeaffinity/node_affinity.go``.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec
import numpy as np

from scheduler.config.plugin_args import NodeAffinityArgs
from scheduler.errors import ConfigurationError, MalformedObject
from scheduler.framework.cluster_event import NODE, Action, Change, ClusterEvent, Requeue
from scheduler.framework.normalize import PROPORTIONAL
from scheduler.framework.rejection import Only, PreFilterAnswer, Refused, Rejection, Scores, Skip
from scheduler.model.affinity import NodeAffinity as Affinity
from scheduler.model.affinity import NodeSelector, NodeSelectorTerm
from scheduler.model.node import Node
from scheduler.model.pod import Pod
from scheduler.model.selectors import IN
from scheduler.snapshot.node_selector import (
    NAME_FIELD,
    RequiredAffinity,
    compile_selector,
    compile_term,
    node_affinity_of,
    preferred_of,
    required_of,
)
from scheduler.snapshot.node_table import NodeTable


class NodeAffinity:
    """Rejects nodes that do not match the pod's selector or affinity; scores preferred terms.

    Args:
        args: An affinity that applies to every pod in addition to its own.
    """

    name = "NodeAffinity"
    node_local = True
    normalize = PROPORTIONAL

    def __init__(self, args: NodeAffinityArgs = NodeAffinityArgs()) -> None:  # noqa: B008 - frozen
        self._added = _added_affinity(args.added_affinity)
        required = self._added.required_during_scheduling_ignored_during_execution
        self._enforced = RequiredAffinity(any_of=compile_selector(required) if required else None)
        self.requeue_on = (
            Requeue(ClusterEvent(NODE, Action.ADD | Action.UPDATE_NODE_LABEL), self._node_matches),
        )

    def pre_filter(self, pod: Pod, nodes: NodeTable) -> PreFilterAnswer:  # noqa: ARG002
        """Skip pods without requirements; return the node names that affinity requires."""
        affinity = node_affinity_of(pod)
        required = (
            affinity.required_during_scheduling_ignored_during_execution if affinity else None
        )
        if required is None and pod.spec.node_selector is None and self._enforced.accepts_all:
            return Skip()
        names = _names_of(required) if required else None
        if names is None:
            return None
        if not names:
            return Refused("pod affinity terms conflict", resolvable=False)
        return Only(names)

    def filter(self, pod: Pod, nodes: NodeTable) -> Iterator[Rejection]:
        """Reject nodes that do not match the added affinity, then those for the pod's own."""
        allowed = self._enforced.mask(nodes)
        if not allowed.all():
            text = "node(s) didn't match scheduler-enforced node affinity"
            yield Rejection(~allowed, text, resolvable=False)
        unmatched = allowed & ~required_of(pod).mask(nodes)
        if unmatched.any():
            text = "node(s) didn't match Pod's node affinity/selector"
            yield Rejection(unmatched, text, resolvable=False)

    def score(self, pod: Pod, nodes: NodeTable) -> Scores | None:
        """Sum the weights of the preferred terms that each node matches.

        Raises:
            MalformedObject: If a preferred term is invalid.
        """
        affinities = [
            each
            for each in (self._added, node_affinity_of(pod))
            if each and each.preferred_during_scheduling_ignored_during_execution is not None
        ]
        if not affinities:
            return None
        scores = np.zeros(len(nodes), dtype=np.int64)
        for affinity in affinities:
            for preferred in preferred_of(affinity):
                scores += preferred.weight * preferred.term.mask(nodes)
        return scores

    def _node_matches(self, pod: Pod, change: Change) -> bool:
        """Tell whether a node matches *pod* that did not before, or an invalid term may match it.

        The affinity that the operator added is checked against the new version of the node alone,
        as upstream does.
        """
        if not isinstance(change.new, Node):
            return True
        if not self._enforced.matches(change.new):
            return False
        required = required_of(pod)
        if not required.matches(change.new):
            # Upstream's hint fails on an invalid term, and a hint that fails wakes the pod.
            return required.may_match_invalid_term(change.new)
        return not isinstance(change.old, Node) or not required.matches(change.old)


def _names_of(required: NodeSelector) -> frozenset[str] | None:
    """Return the node names in *required*; None if a term has none and may match any node."""
    names = [_names_of_term(term) for term in required.node_selector_terms or ()]
    known = [each for each in names if each is not None]
    return frozenset().union(*known) if known and len(known) == len(names) else None


def _names_of_term(term: NodeSelectorTerm) -> frozenset[str] | None:
    # Upstream reads a list of several names here too, although its filter takes that as invalid.
    lists = [
        frozenset(field.values)
        for field in term.match_fields
        if field.key == NAME_FIELD and field.operator == IN
    ]
    return frozenset.intersection(*lists) if lists else None


def _added_affinity(raw: dict[str, Any] | None) -> Affinity:
    """Decode and check the affinity that the operator adds.

    Raises:
        ConfigurationError: If it is invalid.
    """
    try:
        added = msgspec.convert(raw or {}, Affinity)
    except msgspec.ValidationError as problem:
        raise ConfigurationError(f"addedAffinity: {problem}") from None
    required = added.required_during_scheduling_ignored_during_execution
    terms = required.node_selector_terms or () if required else ()
    problems = [
        *_problems("addedAffinity.requiredDuringSchedulingIgnoredDuringExecution", terms),
        *_problems_of_preferences(added),
    ]
    if problems:
        raise ConfigurationError(*problems)
    return added


def _problems(path: str, terms: Sequence[NodeSelectorTerm]) -> Iterator[str]:
    for index, term in enumerate(terms):
        try:
            compile_term(term, f"{path}.nodeSelectorTerms[{index}].")
        except MalformedObject as problem:
            yield str(problem)


def _problems_of_preferences(added: Affinity) -> Iterator[str]:
    try:
        preferred_of(added)
    except MalformedObject as problem:
        yield f"addedAffinity.preferredDuringSchedulingIgnoredDuringExecution{problem}"
