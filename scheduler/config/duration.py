"""Durations as Go writes them: ``15s``, ``1m30s``, ``250ms``."""

import re
from fractions import Fraction

_UNITS = {
    "ns": Fraction(1, 10**9),
    "us": Fraction(1, 10**6),
    "µs": Fraction(1, 10**6),  # U+00B5, the micro sign
    "μs": Fraction(1, 10**6),
    "ms": Fraction(1, 10**3),
    "s": Fraction(1),
    "m": Fraction(60),
    "h": Fraction(3600),
}
_TOO_LONG = Fraction(2**63, 10**9)
_PART = r"(\d+\.?\d*|\.\d+)(ns|us|µs|μs|ms|s|m|h)"
_WHOLE = re.compile(rf"[+-]?(?:0|(?:{_PART})+)", re.ASCII)


def parse(text: str) -> float:
    """Return the seconds that *text* stands for.

    Raises:
        ValueError: If it is no duration.
    """
    if _WHOLE.fullmatch(text) is None:
        raise ValueError(f"{text!r} is no duration such as 15s, 1m30s or 250ms")
    total = sum(Fraction(count) * _UNITS[unit] for count, unit in re.findall(_PART, text))
    if total >= _TOO_LONG:
        raise ValueError(f"{text!r} is too long: Go keeps durations in 64 bits of nanoseconds")
    return float(-total if text.startswith("-") else total)


def format_seconds(seconds: float) -> str:
    """Write *seconds* as Go does, to the millisecond."""
    if seconds < 0:
        return "-" + format_seconds(-seconds)
    millis = round(seconds * 1000)
    if millis < 1000:
        return f"{millis}ms" if millis else "0s"
    minutes, millis = divmod(millis, 60_000)
    hours, minutes = divmod(minutes, 60)
    rest = f"{millis / 1000:g}s"
    if hours:
        return f"{hours}h{minutes}m{rest}"
    return f"{minutes}m{rest}" if minutes else rest
