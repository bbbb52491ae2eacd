"""Work on a large value in pieces, between which its caller may let others run.

An API server accepts objects of a megabyte and a half. What is derived from one takes a tenth of a
second, and watches, health and other pods would wait for it. Such a derivation is a generator that
yields after each piece; whoever has a small value, or no event loop, runs it to its end.
"""

from collections.abc import Generator
from typing import Final, TypeVar

R = TypeVar("R")

PIECE_ENTRIES: Final = 1000
"""So many terms or expressions are one piece: about ten milliseconds of work."""


def finish(work: Generator[None, None, R]) -> R:
    """Run *work* to its end at once, and return its answer."""
    while True:
        try:
            next(work)
        except StopIteration as end:
            answer: R = end.value
            return answer
