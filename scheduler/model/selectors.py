"""Compiled label selectors.

A selector is a frozen, hashable value, so that equal selectors of thousands of pods share one
column. Two selectors are easily confused: *nothing* (an absent selector) matches no labels,
*everything* (an empty one) matches all.

Source: ``apimachinery/pkg/labels/selector.go`` and ``apimachinery/pkg/apis/meta/v1/helpers.go``.
"""

import re
from collections.abc import Generator, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

import msgspec

from scheduler.errors import MalformedObject
from scheduler.model.meta import LabelSelector, LabelSelectorRequirement
from scheduler.model.pieces import PIECE_ENTRIES, finish

_NAME = re.compile(r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]", re.ASCII)
_SUBDOMAIN = re.compile(
    r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*", re.ASCII
)
_INTEGER = re.compile(r"[+-]?[0-9]+", re.ASCII)
_INT64_DIGITS: Final = 19
_FEW: Final = 32
"""So many requirements are compared one by one."""
_COMPILED: Final = "compiled"
"""Where a written selector keeps its compiled form."""

IN: Final = "In"
NOT_IN: Final = "NotIn"
EXISTS: Final = "Exists"
DOES_NOT_EXIST: Final = "DoesNotExist"
GT: Final = "Gt"
LT: Final = "Lt"
_OPERATORS: Final = frozenset((IN, NOT_IN, EXISTS, DOES_NOT_EXIST, GT, LT))


class Requirement(msgspec.Struct, frozen=True, gc=False):
    """One expression: *key* *operator* *values*."""

    # A struct, since users write selectors by the ten thousand: a dataclass takes fifteen
    # times as long to make, five times to hash, and the garbage collector visits each.

    key: str
    operator: str
    values: frozenset[str] = frozenset()

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Tell whether *labels* satisfy this expression."""
        return self.accepts(labels.get(self.key))

    def accepts(self, value: str | None) -> bool:
        """Tell whether a label with *value*, None if absent, satisfies this expression."""
        match self.operator:
            case "In":
                return value is not None and value in self.values
            case "NotIn":
                return value is None or value not in self.values
            case "Exists":
                return value is not None
            case "DoesNotExist":
                return value is None
            case _:
                return _compares(value, self.operator, next(iter(self.values)))


def _compares(value: str | None, operator: str, operand: str) -> bool:
    """Compare as upstream does: an absent label, or a value that is no int64, never matches."""
    assert operator in {GT, LT}, f"{operator} compares no numbers"
    left, right = parse_int64(value), parse_int64(operand)
    if left is None or right is None:
        return False
    return left > right if operator == GT else left < right


def parse_int64(text: str | None) -> int | None:
    """Read *text* as Go's ``ParseInt(text, 10, 64)`` does; None if that fails."""
    if text is None or not _INTEGER.fullmatch(text):
        return None
    digits = text.lstrip("+-").lstrip("0")
    # A label may have many more digits; Python raises ValueError beyond some thousands of them.
    if len(digits) > _INT64_DIGITS:
        return None
    number = -int(digits or "0") if text[0] == "-" else int(digits or "0")
    return number if -(2**63) <= number < 2**63 else None


@dataclass(frozen=True, slots=True)
class Selector:
    """All *requirements* must hold. ``requirements is None`` matches nothing at all."""

    requirements: tuple[Requirement, ...] | None
    # Selectors are keys of dictionaries, and users write ones with thousands of requirements.
    _hash: int = field(init=False, repr=False, compare=False)
    _by_key: dict[str, list[Requirement]] | None = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_hash", hash(self.requirements))
        few = self.requirements is None or len(self.requirements) <= _FEW
        object.__setattr__(self, "_by_key", None if few else _by_key(self.requirements or ()))

    def __hash__(self) -> int:
        return self._hash

    @property
    def empty(self) -> bool:
        """Whether it has no requirement, and thus matches everything."""
        return self.requirements == ()

    @property
    def named(self) -> int:
        """How many label keys and values the requirements name."""
        return sum(1 + len(each.values) for each in self.requirements or ())

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Tell whether *labels* satisfy every requirement."""
        if self.requirements is None:
            return False
        if self._by_key is not None:
            return _all_match(self._by_key, labels)
        return all(requirement.matches(labels) for requirement in self.requirements)

    def and_also(self, requirements: Iterable[Requirement]) -> "Selector":
        """Return this selector with *requirements* added; nothing stays nothing."""
        if self.requirements is None:
            return self
        more = tuple(requirements)
        return Selector(_canonical((*self.requirements, *more))) if more else self


NOTHING: Final = Selector(None)
EVERYTHING: Final = Selector(())


def merged(requirements: Iterable[Requirement]) -> tuple[Requirement, ...]:
    """Return what all *requirements* together require: one ``In`` and one ``NotIn`` for each key.

    ``In`` without values is no valid requirement. Here it says that nothing satisfies all of them.
    """
    values: dict[tuple[str, str], frozenset[str]] = {}
    excluded: dict[str, list[frozenset[str]]] = {}
    others: dict[Requirement, None] = {}
    for each in requirements:
        key = each.key, each.operator
        if each.operator == IN:
            values[key] = values[key] & each.values if key in values else each.values
        elif each.operator == NOT_IN:
            # United at the end: one by one, thousands of values would be copied thousands of times.
            excluded.setdefault(each.key, []).append(each.values)
        else:
            others[each] = None
    return (
        *(Requirement(key, operator, wanted) for (key, operator), wanted in values.items()),
        *others,
        *(Requirement(key, NOT_IN, frozenset().union(*each)) for key, each in excluded.items()),
    )


def _by_key(requirements: Iterable[Requirement]) -> dict[str, list[Requirement]]:
    """Group *requirements* by key, those that need a label first."""
    found: dict[str, list[Requirement]] = {}
    for each in sorted(merged(requirements), key=lambda each: each.accepts(None)):
        found.setdefault(each.key, []).append(each)
    return found


def _all_match(by_key: Mapping[str, Iterable[Requirement]], labels: Mapping[str, str]) -> bool:
    """Tell whether *labels* satisfy all of many requirements.

    Those that need a label come first, and there are no more of them than labels if all of them are
    satisfied. Of the others, only those about a label that is there can be violated.
    """
    for key, requirements in by_key.items():
        if key not in labels:
            if not all(each.accepts(None) for each in requirements):
                return False
            break
    return all(each.accepts(labels.get(key)) for key in labels for each in by_key.get(key, ()))


def all_match(selectors: Iterable[Selector]) -> Selector:
    """Return the selector that matches what all *selectors* match."""
    # All at once: `and_also` for each of thousands would sort them all again each time.
    requirements: list[Requirement] = []
    for each in selectors:
        if each.requirements is None:
            return NOTHING
        requirements += each.requirements
    return Selector(_canonical(requirements))


def _canonical(requirements: Iterable[Requirement]) -> tuple[Requirement, ...]:
    """Sort *requirements*, so that selectors which match the same labels are mostly equal."""
    requirements = tuple(requirements)
    if len(requirements) < 2:
        return requirements
    # By one text each: thousands of tuples would keep the garbage collector busy.
    return tuple(
        sorted(set(requirements), key=lambda r: "\0".join((r.key, r.operator, *sorted(r.values))))
    )


def equals(labels: Mapping[str, str]) -> tuple[Requirement, ...]:
    """Return a requirement for each of *labels*, without checking their syntax."""
    return tuple(Requirement(key, IN, frozenset((value,))) for key, value in labels.items())


def from_map(labels: Mapping[str, str]) -> Selector:
    """Build a selector from a plain map, as in Services and ReplicationControllers."""
    return Selector(_canonical(equals(labels)))


def compile_selector(selector: LabelSelector | None, field: str) -> Selector:
    """Compile *selector*.

    Raises:
        MalformedObject: If an expression is invalid; the path begins with *field*.
    """
    return finish(compiling(selector, field))


def compiling(selector: LabelSelector | None, field: str) -> Generator[None, None, Selector]:
    """Do what `compile_selector` does, in pieces; afterwards it has nothing left to do.

    Raises:
        MalformedObject: If an expression is invalid; the path begins with *field*.
    """
    if selector is None:
        return NOTHING
    # Pods of one template share what is written, and with it what is kept there. A cache of a
    # number of selectors would keep those of objects that are gone, whatever their size.
    kept: Selector | None = selector.__dict__.get(_COMPILED)
    if kept is not None:
        return kept
    try:
        requirements = yield from _requirements(selector)
    except MalformedObject as malformed:
        raise MalformedObject(f"{field}{malformed.field}", malformed.problem) from None
    if len(requirements) >= PIECE_ENTRIES:
        yield
    requirements = _canonical(requirements)
    if len(requirements) >= PIECE_ENTRIES:
        yield
    compiled = selector.__dict__[_COMPILED] = Selector(requirements)
    return compiled


def _requirements(
    selector: LabelSelector,
) -> Generator[None, None, tuple[Requirement, ...]]:
    found = [
        _requirement(LabelSelectorRequirement(key=key, operator=IN, values=(value,)), "")
        for key, value in sorted(selector.match_labels.items())
    ]
    for index, expression in enumerate(selector.match_expressions, 1):
        if index % PIECE_ENTRIES == 0:
            yield
        path = f".matchExpressions[{index - 1}]"
        if expression.operator not in {IN, NOT_IN, EXISTS, DOES_NOT_EXIST}:
            raise MalformedObject(
                f"{path}.operator",
                f'"{expression.operator}" is not a valid label selector operator',
            )
        found.append(_requirement(expression, path))
    return tuple(found)


def node_requirement(expression: LabelSelectorRequirement, field: str) -> Requirement:
    """Build a requirement of a node selector, where Gt and Lt are allowed too.

    Raises:
        MalformedObject: If key, operator or values are invalid.
    """
    return _requirement(expression, field)


def _requirement(expression: LabelSelectorRequirement, field: str) -> Requirement:
    operator, values = expression.operator, expression.values
    if operator not in _OPERATORS:
        raise MalformedObject(f"{field}.operator", f"Unsupported value: {operator!r}")
    _check_key(expression.key, field)
    if operator in {IN, NOT_IN}:
        if not values:
            raise MalformedObject(
                f"{field}.values", "for 'in', 'notin' operators, values set can't be empty"
            )
    elif operator in {EXISTS, DOES_NOT_EXIST}:
        if values:
            raise MalformedObject(
                f"{field}.values", "values set must be empty for exists and does not exist"
            )
    elif len(values) != 1 or parse_int64(values[0]) is None:
        raise MalformedObject(
            f"{field}.values", "for 'Gt', 'Lt' operators, exactly one integer is required"
        )
    for index, value in enumerate(values):
        if value and (len(value) > 63 or not _NAME.fullmatch(value)):
            raise MalformedObject(
                f"{field}.values[{index}][{expression.key}]", f"Invalid value: {value!r}"
            )
    return Requirement(expression.key, operator, frozenset(values))


def _check_key(key: str, field: str) -> None:
    prefix, slash, name = key.rpartition("/")
    good = len(name) <= 63 and _NAME.fullmatch(name) is not None
    if slash:
        good = good and 0 < len(prefix) <= 253 and _SUBDOMAIN.fullmatch(prefix) is not None
    if not good:
        raise MalformedObject(f"{field}.key", f"Invalid value: {key!r}")
