"""A pod's node selector and node affinity: where it must go, and where it would rather go.

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
    """Rejects nodes that the pod's selector or affinity does not allow; ranks those it prefers.

    Args:
        args: An affinity that holds for every pod beside its own.
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
        """Skip pods without requirements; narrow to the nodes that affinity names."""
        affinity = node_affinity_of(pod)
        required = (
            affinity.required_during_scheduling_ignored_during_execution if affinity else None
        )
        if required is None and pod.spec.node_selector is None and self._enforced.indifferent:
            return Skip()
        names = _names_of(required) if required else None
        if names is None:
            return None
        if not names:
            return Refused("pod affinity terms conflict", resolvable=False)
        return Only(names)

    def filter(self, pod: Pod, nodes: NodeTable) -> Iterator[Rejection]:
        """Reject what the added affinity does not allow, then what the pod itself does not."""
        allowed = self._enforced.mask(nodes)
        if not allowed.all():
            text = "node(s) didn't match scheduler-enforced node affinity"
            yield Rejection(~allowed, text, resolvable=False)
        unmatched = allowed & ~required_of(pod).mask(nodes)
        if unmatched.any():
            text = "node(s) didn't match Pod's node affinity/selector"
            yield Rejection(unmatched, text, resolvable=False)

    def score(self, pod: Pod, nodes: NodeTable) -> Scores | None:
        """Add up the weights of the preferred terms that each node matches.

        Raises:
            MalformedObject: If a preferred term is invalid.
        """
        wishes = tuple(_with_preferences(self._added, node_affinity_of(pod)))
        if not wishes:
            return None
        scores = np.zeros(len(nodes), dtype=np.int64)
        for affinity in wishes:
            for wish in preferred_of(affinity):
                scores += wish.weight * wish.term.mask(nodes)
        return scores

    def _node_matches(self, pod: Pod, change: Change) -> bool:
        """Tell whether a node began to match *pod*; in doubt about what an invalid term means, yes.

        An affinity added by the operator only decides about the node as it is now.
        """
        if not isinstance(change.new, Node):
            return True
        if not self._enforced.matches(change.new):
            return False
        required = required_of(pod)
        if not required.matches(change.new):
            return required.in_doubt(change.new)
        return not isinstance(change.old, Node) or not required.matches(change.old)


def _with_preferences(*affinities: Affinity | None) -> Iterator[Affinity]:
    for affinity in affinities:
        if affinity and affinity.preferred_during_scheduling_ignored_during_execution is not None:
            yield affinity


def _names_of(required: NodeSelector) -> frozenset[str] | None:
    """Return the nodes that *required* names; None where a term names none and any may do."""
    names: frozenset[str] | None = None
    for term in required.node_selector_terms or ():
        named = _names_of_term(term)
        if named is None:
            return None
        names = named if names is None else names | named
    return names


def _names_of_term(term: NodeSelectorTerm) -> frozenset[str] | None:
    # A list of several names narrows here, although the filter then takes it to be invalid.
    lists = [
        frozenset(field.values)
        for field in term.match_fields
        if field.key == NAME_FIELD and field.operator == IN
    ]
    return frozenset.intersection(*lists) if lists else None


def _added_affinity(raw: dict[str, Any] | None) -> Affinity:
    """Read the affinity that the operator adds.

    Raises:
        ConfigurationError: If it cannot be used.
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
