"""Compiled node selectors: which nodes of a table, or whether a single node, they accept.

A term with an invalid part never matches, and is no error as long as another term matches.

Source: ``component-helpers/scheduling/corev1/nodeaffinity/nodeaffinity.go``.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np

from scheduler.errors import MalformedObject
from scheduler.model.affinity import NodeAffinity, NodeSelector, NodeSelectorTerm
from scheduler.model.meta import LabelSelectorRequirement, kept_in_argument
from scheduler.model.node import Node
from scheduler.model.pod import Pod
from scheduler.model.pod_template import PodTemplate
from scheduler.model.selectors import IN, NOT_IN, Requirement, equals, merged, node_requirement
from scheduler.snapshot.arrays import Mask
from scheduler.snapshot.node_table import NodeTable

NAME_FIELD: Final = "metadata.name"
_FEW: Final = 8
"""So many terms or requirements are read one by one; of more, those about one label are merged."""


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
        for each in dict.fromkeys(self.fields):
            mask = mask & each.mask(nodes)
        return mask

    @property
    def only_label(self) -> Requirement | None:
        """The only requirement, if there is just one and it lists values of a label."""
        match self.labels, self.fields:
            case (Requirement(operator="In") as only,), ():
                return only
            case _:
                return None

    @property
    def only_name(self) -> str | None:
        """The only node that can match, if nothing but its name is required."""
        match self.labels, self.fields:
            case (), (FieldRequirement(key="metadata.name", equal=True) as only,):
                return only.value
            case _:
                return None


@dataclass(frozen=True)
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
        names, labels, others = self._by_kind
        mask = np.zeros(len(nodes), dtype=np.bool_)
        if names:
            mask |= nodes.named(names)
        for each in labels:
            mask |= nodes.matching(each)
        for term in others:
            if mask.all():
                break
            mask |= term.mask(nodes)
        return mask

    @cached_property
    def _by_kind(
        self,
    ) -> tuple[frozenset[str], tuple[Requirement, ...], tuple[CompiledTerm, ...]]:
        """The terms that name a node, those about one label, merged by its key, and the rest."""
        names: set[str] = set()
        values: dict[str, set[str]] = {}
        others: dict[CompiledTerm, None] = {}
        for term in self.terms:
            if (name := term.only_name) is not None:
                names.add(name)
            elif (only := term.only_label) is not None:
                values.setdefault(only.key, set()).update(only.values)
            else:
                others[term] = None
        labels = (Requirement(key, IN, frozenset(each)) for key, each in values.items())
        return frozenset(names), tuple(labels), tuple(others)


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
    """Any of some terms, and what it adds to the score of a node that matches it."""

    weight: int
    term: CompiledTerm | AnyOf


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
    compiled = [
        (each.weight, compile_term(each.preference, f"[{index}]."))
        for index, each in enumerate(terms)
        if each.weight and (each.preference.match_expressions or each.preference.match_fields)
    ]
    if len(compiled) <= _FEW:
        return tuple(PreferredTerm(weight, term) for weight, term in compiled)
    return tuple(_without_overlaps(compiled))


def _without_overlaps(terms: Iterable[tuple[int, CompiledTerm]]) -> Iterator[PreferredTerm]:
    """Merge *terms* of one weight of which a node can match one at most; the sum stays the same."""
    weights: dict[CompiledTerm, int] = {}
    by_label: dict[str, dict[str, int]] = {}
    for weight, term in terms:
        only = term.only_label
        if only is None:
            weights[term] = weights.get(term, 0) + weight
        else:
            values = by_label.setdefault(only.key, {})
            for value in only.values:
                values[value] = values.get(value, 0) + weight
    for key, values in by_label.items():
        by_weight: dict[int, list[str]] = {}
        for value, weight in values.items():
            by_weight.setdefault(weight, []).append(value)
        for weight, alike in by_weight.items():
            requirement = Requirement(key, IN, frozenset(alike))
            yield PreferredTerm(weight, CompiledTerm((requirement,)))
    by_sum: dict[int, list[str]] = {}
    for term, weight in weights.items():
        if (name := term.only_name) is None:
            yield PreferredTerm(weight, term)
        else:
            by_sum.setdefault(weight, []).append(name)
    for weight, names in by_sum.items():
        fields = (CompiledTerm(fields=(FieldRequirement(NAME_FIELD, x, True),)) for x in names)
        yield PreferredTerm(weight, AnyOf(tuple(fields), has_invalid_terms=False))


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
    if len(requirements) > _FEW:
        requirements = merged(requirements)
    mask = nodes.matching(requirements[0])
    for requirement in requirements[1:]:
        if len(requirements) > _FEW and not mask.any():
            break
        mask = mask & nodes.matching(requirement)
    return mask
