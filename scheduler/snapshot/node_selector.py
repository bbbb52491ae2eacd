"""Which nodes a node selector accepts: compiled once, asked of a whole table or of a single node.

A term of which any part is invalid never matches, and is no error as long as another term does.

Source: ``component-helpers/scheduling/corev1/nodeaffinity/nodeaffinity.go``.
"""

from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import numpy as np

from scheduler.errors import MalformedObject
from scheduler.model.affinity import NodeAffinity, NodeSelector, NodeSelectorTerm
from scheduler.model.meta import LabelSelectorRequirement
from scheduler.model.node import Node
from scheduler.model.pod import Pod
from scheduler.model.selectors import IN, NOT_IN, Requirement, equals, node_requirement
from scheduler.snapshot.arrays import Mask
from scheduler.snapshot.node_table import NodeTable

NAME_FIELD: Final = "metadata.name"
_COMPILED_KEPT: Final = 4096


@dataclass(frozen=True, slots=True)
class FieldTest:
    """One expression about a field; fields other than the name are empty."""

    key: str
    value: str
    equal: bool

    def accepts(self, name: str) -> bool:
        """Tell whether a node called *name* passes."""
        return ((name if self.key == NAME_FIELD else "") == self.value) == self.equal

    def mask(self, nodes: NodeTable) -> Mask:
        """Return which of *nodes* pass."""
        if self.key != NAME_FIELD:
            return np.full(len(nodes), self.accepts(""))
        named = nodes.named((self.value,))
        return named if self.equal else ~named


@dataclass(frozen=True, slots=True)
class CompiledTerm:
    """All labels and all fields must agree."""

    labels: tuple[Requirement, ...] = ()
    fields: tuple[FieldTest, ...] = ()

    def matches(self, node: Node) -> bool:
        """Tell whether *node* matches; a node without a name has no fields to disagree."""
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
    """Any of the terms must match; *broken* tells that others were left out as invalid."""

    terms: tuple[CompiledTerm, ...]
    broken: bool

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
    def indifferent(self) -> bool:
        """Whether every node will do."""
        return not self.labels and self.any_of is None

    def matches(self, node: Node) -> bool:
        """Tell whether *node* will do."""
        return self._labels_match(node) and (self.any_of is None or self.any_of.matches(node))

    def in_doubt(self, node: Node) -> bool:
        """Tell whether *node* does not match, but an invalid term could have meant it."""
        return (
            self.any_of is not None
            and self.any_of.broken
            and self._labels_match(node)
            and not self.any_of.matches(node)
        )

    def mask(self, nodes: NodeTable) -> Mask:
        """Return which of *nodes* will do."""
        mask = _all_of(nodes, self.labels)
        return mask if self.any_of is None else mask & self.any_of.mask(nodes)

    def _labels_match(self, node: Node) -> bool:
        return all(each.matches(node.metadata.labels) for each in self.labels)


@dataclass(frozen=True, slots=True)
class PreferredTerm:
    """A term and what a node that matches it is worth."""

    weight: int
    term: CompiledTerm


def required_of(pod: Pod) -> RequiredAffinity:
    """Return what *pod* requires of its node."""
    affinity = node_affinity_of(pod)
    required = affinity.required_during_scheduling_ignored_during_execution if affinity else None
    return _required(tuple((pod.spec.node_selector or {}).items()), required)


def node_affinity_of(pod: Pod) -> NodeAffinity | None:
    """Return the part of *pod*'s affinity that is about nodes."""
    return pod.spec.affinity.node_affinity if pod.spec.affinity else None


@lru_cache(maxsize=_COMPILED_KEPT)
def _required(
    labels: tuple[tuple[str, str], ...], required: NodeSelector | None
) -> RequiredAffinity:
    return RequiredAffinity(
        equals(dict(labels)), None if required is None else compile_selector(required)
    )


def compile_selector(selector: NodeSelector) -> AnyOf:
    """Compile *selector*, leaving out terms that are empty and those that are invalid."""
    terms, broken = [], False
    for term in selector.node_selector_terms or ():
        if term.match_expressions or term.match_fields:
            try:
                terms.append(compile_term(term, ""))
            except MalformedObject:
                broken = True
    return AnyOf(tuple(terms), broken)


@lru_cache(maxsize=_COMPILED_KEPT)
def preferred_of(affinity: NodeAffinity) -> tuple[PreferredTerm, ...]:
    """Compile what *affinity* prefers; what has no weight or says nothing is left out unread.

    Raises:
        MalformedObject: If one of the others is invalid.
    """
    wishes = affinity.preferred_during_scheduling_ignored_during_execution or ()
    return tuple(
        PreferredTerm(wish.weight, compile_term(wish.preference, f"[{index}]."))
        for index, wish in enumerate(wishes)
        if wish.weight and (wish.preference.match_expressions or wish.preference.match_fields)
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
            _field_test(expression, f"{path}matchFields[{index}]")
            for index, expression in enumerate(term.match_fields)
        ),
    )


def _field_test(expression: LabelSelectorRequirement, path: str) -> FieldTest:
    if expression.operator not in {IN, NOT_IN}:
        raise MalformedObject(f"{path}.operator", f"Unsupported value: {expression.operator!r}")
    if len(expression.values) != 1:
        raise MalformedObject(f"{path}.values", "must have one element")
    return FieldTest(expression.key, expression.values[0], expression.operator == IN)


def _all_of(nodes: NodeTable, requirements: tuple[Requirement, ...]) -> Mask:
    if not requirements:
        return np.ones(len(nodes), dtype=np.bool_)
    mask = nodes.matching(requirements[0])
    for requirement in requirements[1:]:
        mask = mask & nodes.matching(requirement)
    return mask
