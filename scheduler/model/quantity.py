"""Kubernetes quantities, exact.

A quantity is an integer number of nanos (billionths of a unit), the smallest unit that upstream
keeps. Sums are exact and are rounded once, to the integer that the scheduler compares. With floats,
a rounding error could make a node look full or free.

Source: ``apimachinery/pkg/api/resource`` (quantity.go, suffix.go).
"""

import re
from fractions import Fraction
from functools import lru_cache

NANOS = 10**9
NANOS_PER_MILLI = 10**6
INT64_MAX = 2**63 - 1

_KEPT = 8192
_LONGEST_KEPT = 40

_FORM = re.compile(r"([+-]?)([0-9]*)(?:\.([0-9]*))?([eEinumkKMGTP]*[+-]?[0-9]*)")
_DECIMAL = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY = {"Ki": 1, "Mi": 2, "Gi": 3, "Ti": 4, "Pi": 5, "Ei": 6}
_EXPONENT = re.compile(r"[eE][+-]?[0-9]+")


def nanos(literal: str | float | None) -> int:
    """Parse *literal* into nanos.

    Anything smaller than a nano is rounded away from zero; binary suffixes saturate at 2^63-1
    units. ``null`` is zero and a JSON number counts by its decimal text, as upstream decodes them.

    Raises:
        ValueError: If *literal* is not a quantity.
    """
    # Users write quantities: neither their number nor their length may take memory without bound.
    if isinstance(literal, str) and len(literal) > _LONGEST_KEPT:
        return _parse(literal)
    return _parse_kept(literal)


def _parse(literal: str | float | None) -> int:
    if literal is None:
        return 0
    text = literal if isinstance(literal, str) else repr(literal)
    match = _FORM.fullmatch(text)
    if not text or match is None:
        raise ValueError(f"{text!r} is not a quantity such as '500m', '2' or '1Gi'")
    sign, whole, fraction, suffix = match.groups()
    factor, binary = _factor(suffix, text)
    digits = int((whole or "") + (fraction or "") or "0")
    magnitude = Fraction(digits, 10 ** len(fraction or "")) * factor
    count = -(-magnitude.numerator * NANOS // magnitude.denominator)
    if binary:
        count = min(count, INT64_MAX * NANOS)
    return -count if sign == "-" else count


# A cluster has few distinct quantities, and hundreds of thousands of occurrences of them.
_parse_kept = lru_cache(maxsize=_KEPT)(_parse)


def _factor(suffix: str, text: str) -> tuple[Fraction, bool]:
    """Return what a number with *suffix* is multiplied by, and whether the suffix is binary."""
    if suffix in _DECIMAL:
        return Fraction(10) ** _DECIMAL[suffix], False
    if suffix in _BINARY:
        return Fraction(1024 ** _BINARY[suffix]), True
    if _EXPONENT.fullmatch(suffix):
        exponent = int(suffix[1:])
        # A user writes the exponent: ten to the power of a billion would take all memory.
        if abs(exponent) > 1000:
            raise ValueError(f"{text!r} has an exponent beyond reason")
        return Fraction(10) ** exponent, False
    raise ValueError(f"{text!r} has an unknown suffix {suffix!r}")


def units(count: int) -> int:
    """Round *count* nanos away from zero to whole units, within int64 (``Value()``)."""
    return _round(count, NANOS)


def millis(count: int) -> int:
    """Round *count* nanos away from zero to thousandths, within int64 (``MilliValue()``)."""
    return _round(count, NANOS_PER_MILLI)


def _round(count: int, grain: int) -> int:
    # Away from zero: a pod that requests a fraction of a byte must not fit a node with none.
    magnitude = min(-(-abs(count) // grain), INT64_MAX)
    return magnitude if count >= 0 else -magnitude
