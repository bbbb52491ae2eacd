"""Decodes plain values into structs, and encodes them, field by field.

Decoding is strict: an unknown field or a value of the wrong type is a problem, and the struct has
the default there, so that everything else can still be checked. (msgspec's own decoder stops at the
first problem.)
"""

import base64
import binascii
import types
from collections.abc import Callable, Mapping
from difflib import get_close_matches
from typing import Annotated, Any, TypeVar, Union, get_args, get_origin

import msgspec

from scheduler.config import duration
from scheduler.config.problems import Problems, child

S = TypeVar("S", bound=msgspec.Struct)

Seconds = Annotated[float, "duration"]
"""Seconds; written as a duration, as in ``1m30s``."""

Int32 = Annotated[int, "int32"]
"""A whole number that Go keeps in 32 bits."""

_FLOAT32_BOUND = 3.5e38  # a little more than the largest float32: upstream decodes qps into one


class _Unreadable(Exception):  # noqa: N818 - never leaves this module
    """A value does not have the type of its field."""


class StructDecoder:
    """Decodes plain values into structs.

    Args:
        problems: Receives what is wrong.
    """

    def __init__(self, problems: Problems) -> None:
        self.problems = problems
        self.written: list[str] = []
        """The paths of all fields that were given a value, in order."""

    def struct(self, kind: type[S], given: object, path: str) -> S:
        """Decode *given*, found at *path*, into *kind*; null means all defaults."""
        if given is None:
            return kind()
        if not isinstance(given, Mapping):
            self.problems.add(path, f"must hold fields, got {shown(given)}")
            return kind()
        known = {field.encode_name: field for field in msgspec.structs.fields(kind)}
        values: dict[str, object] = {}
        for name, value in given.items():
            where = child(path, name)
            if name not in known:
                self.problems.add(where, f"unknown field; {_remedy(name, known)}")
            elif value is not None:
                self.written.append(where)
                values |= self._field(known[name], value, where)
        return kind(**values)

    def _field(
        self, field: msgspec.structs.FieldInfo, given: object, path: str
    ) -> dict[str, object]:
        try:
            return {field.name: self._value(field.type, given, path)}
        except _Unreadable as mistake:
            self.problems.add(path, f"{mistake}, got {shown(given)}")
            return {}

    def _value(self, kind: Any, given: object, path: str) -> object:
        kind = _without_none(kind)
        if given is None and kind is str:
            return ""  # within a list, as Go reads it
        if kind in _SCALARS:
            return _SCALARS[kind](given)
        if get_origin(kind) is tuple:
            return self._items(get_args(kind)[0], given, path)
        if get_origin(kind) is dict:
            return _mapping(given)
        return self.struct(kind, given, path)

    def _items(self, kind: Any, given: object, path: str) -> tuple[object, ...]:
        if not isinstance(given, list):
            raise _Unreadable("must be a list")
        items = []
        for index, item in enumerate(given):
            where = f"{path}[{index}]"
            try:
                items.append(self._value(kind, item, where))
            except _Unreadable as mistake:
                self.problems.add(where, f"{mistake}, got {shown(item)}")
        return tuple(items)


def encode(value: object, kind: Any = None) -> Any:
    """Return *value* as in a document, with defaults; secrets are withheld."""
    kind = _without_none(kind)
    if isinstance(value, msgspec.Struct):
        return {
            field.encode_name: encode(getattr(value, field.name), field.type)
            for field in msgspec.structs.fields(value)
            if getattr(value, field.name) is not None
        }
    if isinstance(value, tuple):
        return [encode(item) for item in value]
    if isinstance(value, Mapping):
        return {str(name): encode(item) for name, item in value.items()}
    if isinstance(value, bytes):
        return "withheld" if value else ""
    if kind == Seconds and isinstance(value, float):
        return duration.format_seconds(value)
    return value


def shown(value: object) -> str:
    """Return *value* as text for an error message: short and on one line."""
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def _remedy(name: str, known: Mapping[str, object]) -> str:
    close = get_close_matches(name, known, n=1)
    return f"did you mean {close[0]}?" if close else f"there are {', '.join(sorted(known))}"


def _without_none(kind: Any) -> Any:
    if get_origin(kind) in {Union, types.UnionType}:
        return next(option for option in get_args(kind) if option is not type(None))
    return kind


def _mapping(given: object) -> dict[str, object]:
    if not isinstance(given, dict):
        raise _Unreadable("must hold fields")
    return given


def _boolean(given: object) -> bool:
    if not isinstance(given, bool):
        raise _Unreadable("must be true or false")
    return given


def _whole(given: object) -> int:
    if not isinstance(given, int) or isinstance(given, bool) or abs(given) >= 2**63:
        raise _Unreadable("must be a whole number")
    return given


def _whole32(given: object) -> int:
    if not -(2**31) <= _whole(given) < 2**31:
        raise _Unreadable("must be a whole number of 32 bits")
    return _whole(given)


def _number(given: object) -> float:
    if not isinstance(given, int | float) or isinstance(given, bool):
        raise _Unreadable("must be a number")
    if not abs(given) < _FLOAT32_BOUND:
        raise _Unreadable("must be a number of a size that exists")
    return float(given)


def _text(given: object) -> str:
    if not isinstance(given, str):
        raise _Unreadable("must be text (put it in quotes)")
    return given


def _seconds(given: object) -> float:
    try:
        return duration.parse(given if isinstance(given, str) else "")
    except ValueError:
        raise _Unreadable("must be a duration such as 15s or 1m30s") from None


def _bytes(given: object) -> bytes:
    try:
        return base64.b64decode(_text(given), validate=True)
    except binascii.Error:
        raise _Unreadable("must be base64") from None


_SCALARS: dict[Any, Callable[[object], object]] = {
    bool: _boolean,
    int: _whole,
    Int32: _whole32,
    float: _number,
    str: _text,
    Seconds: _seconds,
    bytes: _bytes,
}
