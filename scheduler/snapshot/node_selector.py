"""Compiled node selectors: which nodes of a table, or whether a single node, they accept.

A term with an invalid part never matches, and is no error as long as another term matches.

Source: ``component-helpers/scheduling/corev1/nodeaffinity/nodeaffinity.go``.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np

from scheduler.errors import MalformedObject
from scheduler.model.affinity import NodeAffinity, NodeSelector, NodeSelectorTerm
from scheduler.model.meta import LabelSelectorRequirement, kept_in_argument
from scheduler.model.node import Node
from scheduler.model.pod import Pod
from scheduler.model.pod_template import PodTemplate
from scheduler.model.selectors import IN, NOT_IN, Requirement, equals, node_requirement
from scheduler.snapshot.arrays import Mask
from scheduler.snapshot.node_table import NodeTable

NAME_FIELD: Final = "metadata.name"


@dataclass(frozen=True, slots=True)
class FieldRequirement:
    """One expression about a field of the node.

    ``metadata.name`` is the only field that has a value; others count as empty, as upstream's
    field set has only that one.
    """

    key: str
    value: str
    equal: bool

    def accepts(self, name: str) -> bool:
        """Tell whether a node called *name* satisfies the expression."""
        return ((name if self.key == NAME_FIELD else "") == self.value) == self.equal

    def mask(self, nodes: NodeTable) -> Mask:
        """Return which of *nodes* satisfy the expression."""
        if self.key != NAME_FIELD:
            return np.full(len(nodes), self.accepts(""))
        named = nodes.named((self.value,))
        return named if self.equal else ~named


@dataclass(frozen=True, slots=True)
class CompiledTerm:
    """A node selector term: all expressions about labels and all about fields must be satisfied."""

    labels: tuple[Requirement, ...] = ()
    fields: tuple[FieldRequirement, ...] = ()

    def matches(self, node: Node) -> bool:
        """Tell whether *node* matches; fields of a node without a name are not compared.

        Upstream checks volume affinity against such a node (``CheckNodeAffinity``).
        """
        return all(each.matches(node.metadata.labels) for each in self.labels) and (
            not node.name or all(each.accepts(node.name) for each in self.fields)
        )

    def mask(self, nodes: NodeTable) -> Mask:
        """Return which of *nodes* match."""
        mask = _all_of(nodes, self.labels)
        for each in self.fields:
            mask = mask & each.mask(nodes)
        return mask


@dataclass(frozen=True, slots=True)
class AnyOf:
    """A selector of which any term must match.

    Args:
        terms: The valid terms.
        has_invalid_terms: Whether invalid terms were left out.
    """

    terms: tuple[CompiledTerm, ...]
    has_invalid_terms: bool

    def matches(self, node: Node) -> bool:
        """Tell whether *node* matches one of the terms."""
        return any(term.matches(node) for term in self.terms)

    def mask(self, nodes: NodeTable) -> Mask:
        """Return which of *nodes* match one of the terms."""
        mask = np.zeros(len(nodes), dtype=np.bool_)
        for term in self.terms:
            mask |= term.mask(nodes)
        return mask


@dataclass(frozen=True, slots=True)
class RequiredAffinity:
    """What a pod requires of its node: its ``nodeSelector``, and its required node affinity."""

    labels: tuple[Requirement, ...] = ()
    any_of: AnyOf | None = None

    @property
    def accepts_all(self) -> bool:
        """Whether every node satisfies it."""
        return not self.labels and self.any_of is None

    def matches(self, node: Node) -> bool:
        """Tell whether *node* satisfies it."""
        return self._labels_match(node) and (self.any_of is None or self.any_of.matches(node))

    def may_match_invalid_term(self, node: Node) -> bool:
        """Tell whether *node* matches no valid term, while there are invalid ones."""
        return (
            self.any_of is not None
            and self.any_of.has_invalid_terms
            and self._labels_match(node)
            and not self.any_of.matches(node)
        )

    def mask(self, nodes: NodeTable) -> Mask:
        """Return which of *nodes* satisfy it."""
        mask = _all_of(nodes, self.labels)
        return mask if self.any_of is None else mask & self.any_of.mask(nodes)

    def _labels_match(self, node: Node) -> bool:
        return all(each.matches(node.metadata.labels) for each in self.labels)


@dataclass(frozen=True, slots=True)
class PreferredTerm:
    """A term and its weight in the score of a node that matches it."""

    weight: int
    term: CompiledTerm


def required_of(pod: Pod) -> RequiredAffinity:
    """Return what *pod* requires of its node."""
    return _required_of(pod.template)


def node_affinity_of(pod: Pod) -> NodeAffinity | None:
    """Return the node affinity of *pod*."""
    return pod.spec.affinity.node_affinity if pod.spec.affinity else None


@kept_in_argument
def _required_of(template: PodTemplate) -> RequiredAffinity:
    affinity = template.spec.affinity.node_affinity if template.spec.affinity else None
    required = affinity.required_during_scheduling_ignored_during_execution if affinity else None
    return RequiredAffinity(
        equals(template.spec.node_selector or {}),
        None if required is None else compile_selector(required),
    )


def compile_selector(selector: NodeSelector) -> AnyOf:
    """Compile *selector* without its empty and its invalid terms."""
    terms, has_invalid_terms = [], False
    for term in selector.node_selector_terms or ():
        if term.match_expressions or term.match_fields:
            try:
                terms.append(compile_term(term, ""))
            except MalformedObject:
                has_invalid_terms = True
    return AnyOf(tuple(terms), has_invalid_terms)


@kept_in_argument
def preferred_of(affinity: NodeAffinity) -> tuple[PreferredTerm, ...]:
    """Compile the preferred terms of *affinity*.

    Terms with weight 0 and empty terms are left out before they are read: upstream reports no error
    for an invalid one of those either (``NewPreferredSchedulingTerms``).

    Raises:
        MalformedObject: If one of the other terms is invalid.
    """
    terms = affinity.preferred_during_scheduling_ignored_during_execution or ()
    return tuple(
        PreferredTerm(each.weight, compile_term(each.preference, f"[{index}]."))
        for index, each in enumerate(terms)
        if each.weight and (each.preference.match_expressions or each.preference.match_fields)
    )


def compile_term(term: NodeSelectorTerm, path: str) -> CompiledTerm:
    """Compile *term*.

    Raises:
        MalformedObject: If an expression is invalid; its path begins with *path*.
    """
    return CompiledTerm(
        tuple(
            node_requirement(expression, f"{path}matchExpressions[{index}]")
            for index, expression in enumerate(term.match_expressions)
        ),
        tuple(
            _field_requirement(expression, f"{path}matchFields[{index}]")
            for index, expression in enumerate(term.match_fields)
        ),
    )


def _field_requirement(expression: LabelSelectorRequirement, path: str) -> FieldRequirement:
    if expression.operator not in {IN, NOT_IN}:
        raise MalformedObject(f"{path}.operator", f"Unsupported value: {expression.operator!r}")
    if len(expression.values) != 1:
        raise MalformedObject(f"{path}.values", "must have one element")
    return FieldRequirement(expression.key, expression.values[0], expression.operator == IN)


def _all_of(nodes: NodeTable, requirements: tuple[Requirement, ...]) -> Mask:
    if not requirements:
        return np.ones(len(nodes), dtype=np.bool_)
    mask = nodes.matching(requirements[0])
    for requirement in requirements[1:]:
        mask = mask & nodes.matching(requirement)
    return mask
