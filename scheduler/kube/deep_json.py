"""JSON that is nested more deeply than a decoder follows.

The API server accepts objects that are nested ten thousand levels deep, in the managed fields of a
pod or anywhere in a custom resource. A decoder gives up after a thousand, even in fields that it
only skips. Nothing that we read is deeper than a few dozen levels, so what lies far below is cut
off: otherwise one such object would end the watch of its whole resource, again and again.
"""

import re
from collections.abc import Callable
from typing import Final, TypeVar

T = TypeVar("T")

DEEPEST: Final = 200
"""How many levels are kept."""

# Matches up to the next bracket outside of strings, and then one opening bracket, a run of closing
# ones, or the end. Without the end, a search behind the last bracket would fail there and start
# again one byte later, perhaps inside a string. The quantifiers are possessive: no match
# backtracks.
_STEP: Final = re.compile(
    rb'(?:[^{}\[\]"]++|"[^"\\]*+(?:\\.[^"\\]*+)*+")*+(?:([{\[])|([}\]]++)|\Z)', re.DOTALL
)


def decode_deep(decode: Callable[[bytes], T], content: bytes) -> T:
    """Return *content* decoded, or only its upper levels where it is too deep to decode."""
    try:
        return decode(content)
    except RecursionError:
        return decode(truncate_depth(content))


def truncate_depth(content: bytes, deepest: int = DEEPEST) -> bytes:
    """Return *content*, which is JSON, with null in place of what lies below level *deepest*."""
    if content.count(b"{") + content.count(b"[") <= deepest:
        return content
    kept: list[bytes] = []
    depth = start = 0
    for step in _STEP.finditer(content):
        if step[1]:
            depth += 1
            if depth == deepest + 1:
                kept += (content[start : step.start(1)], b"null")
        elif step[2]:
            above = depth - len(step[2])
            if above <= deepest < depth:
                start = step.start(2) + depth - deepest
            depth = above
    return b"".join((*kept, content[start:]))
