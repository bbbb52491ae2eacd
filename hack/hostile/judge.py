"""What hostile objects may cost, and which costs are beyond that.

A step is compared with the time that a fixed computation takes beside it: a machine that is half as
fast, or busy, gets twice the time.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hack.hostile.measure import Cost

SLOWDOWN_MAXIMUM: Final = 3.0
STEP_SECONDS_MAXIMUM: Final = 0.05
KEPT_MAXIMUM: Final = 0.05
"""How much of its bytes a second round of objects may add to the memory for good."""
KEPT_BYTES_ALLOWED: Final = 2_000_000
"""What the allocator may keep for itself, in any case."""

_REFERENCE_LOOPS: Final = 100_000
_REFERENCE_SECONDS: Final = 0.005
"""What the fixed computation takes on the machine of docs/performance.md when it is quiet."""


def slowness() -> float:
    """Return how much slower than the reference this machine is right now; 1 at least."""
    best = min(_computation() for _ in range(3))
    return max(1.0, best / _REFERENCE_SECONDS)


def _computation() -> float:
    began = time.thread_time()
    total = 0
    for number in range(_REFERENCE_LOOPS):
        total += number ^ (number >> 3)
    assert total
    return time.thread_time() - began


def problems(cost: Cost, *, slower: float = 1.0, theirs: float = 0.0) -> Iterator[str]:
    """Yield what is beyond the limits.

    Args:
        cost: Of one kind, in this process.
        slower: How slow the machine is, as `slowness` returns it.
        theirs: kube-scheduler's slowdown beside the same objects; 0 where that is unknown.
    """
    if cost.slowdown > max(SLOWDOWN_MAXIMUM, theirs):
        yield f"another pod's decision takes {cost.slowdown:.1f} times as long"
    if cost.undecided:
        yield f"{cost.undecided} of them are neither bound nor parked"
    step = max(cost.arrival_step, cost.beside_step)
    if step > STEP_SECONDS_MAXIMUM * slower:
        yield f"a step of {cost.step_of} takes {step * 1e3:.0f} ms"
    if cost.kept > max(KEPT_BYTES_ALLOWED, KEPT_MAXIMUM * cost.bytes):
        yield f"{cost.kept / 1e6:.1f} MB of {cost.bytes / 1e6:.1f} MB stay"
