"""What a run's timestamps come to: rates, latencies, medians."""

from __future__ import annotations

import math
import statistics
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

# With fewer, a rate over the middle would be one over two stamps.
_FEWEST_FOR_MIDDLE = 20


class Rates(msgspec.Struct, frozen=True):
    """Pods bound a second.

    Args:
        middle: Over the middle nine tenths of the bindings: without beginning and end.
        end_to_end: From the beginning of the measurement to the last binding.
        upstream: As scheduler_perf computes it, from whole seconds; 0 if the run was too short.
    """

    middle: float
    end_to_end: float
    upstream: float


class Latency(msgspec.Struct, frozen=True):
    """From the creation of a pod to its binding, in milliseconds."""

    p50: float
    p90: float
    p99: float
    highest: float


class Spread(msgspec.Struct, frozen=True):
    """Several measurements of the same."""

    median: float
    lowest: float
    highest: float


def rates(stamps: Sequence[float], began: float) -> Rates:
    """Return the rates of bindings seen at *stamps*, in seconds; all 0 without any."""
    if not stamps:
        return Rates(0.0, 0.0, 0.0)
    ordered = sorted(stamps)
    return Rates(
        middle=round(_middle(ordered), 1),
        end_to_end=round(len(ordered) / max(ordered[-1] - began, 1e-9), 1),
        upstream=round(_upstream(per_second(ordered, began)), 1),
    )


def _middle(ordered: Sequence[float]) -> float:
    count = len(ordered)
    if count < _FEWEST_FOR_MIDDLE:
        low, high = 0, count - 1
    else:
        low, high = int(count * 0.05), int(count * 0.95) - 1
    took = ordered[high] - ordered[low]
    return (high - low) / took if took > 0 else 0.0


def per_second(stamps: Iterable[float], began: float) -> list[int]:
    """Return how many stamps there are in each second since *began*."""
    seconds = [max(0, math.floor(stamp - began)) for stamp in stamps]
    counts = [0] * (max(seconds, default=-1) + 1)
    for second in seconds:
        counts[second] += 1
    return counts


def _upstream(counts: Sequence[int]) -> float:
    """Return the mean of upstream's samples (scheduler_perf/util.go, throughputCollector).

    The first second with bindings is the baseline and counts for nothing. After seconds without
    one, the next sample is the mean over them and counts once for each.
    """
    samples: list[float] = []
    skipped, based = 0, False
    for count in counts[:-1]:  # what comes after the last whole second is lost
        if not count:
            skipped += 1
        elif not based:
            based, skipped = True, 0
        else:
            samples += [count / (skipped + 1)] * (skipped + 1)
            skipped = 0
    return statistics.fmean(samples) if samples else 0.0


def latency(seconds: Sequence[float]) -> Latency | None:
    """Return percentiles by nearest rank, in milliseconds; None without any measurement."""
    if not seconds:
        return None
    ordered = sorted(1000 * each for each in seconds)
    p50, p90, p99, highest = (round(nearest_rank(ordered, part), 2) for part in (0.5, 0.9, 0.99, 1))
    return Latency(p50, p90, p99, highest)


def nearest_rank(ordered: Sequence[float], part: float) -> float:
    """Return the smallest value that at least *part* of all values do not exceed."""
    assert ordered
    assert 0 < part <= 1
    return ordered[math.ceil(part * len(ordered)) - 1]


def spread(values: Sequence[float]) -> Spread:
    """Return median and range."""
    assert values
    return Spread(statistics.median(values), min(values), max(values))
