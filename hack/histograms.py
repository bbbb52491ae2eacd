"""Histograms without labels, read from what a scheduler exposes to Prometheus."""

import re

Buckets = dict[float, float]
"""The cumulative counts, by upper bound."""


def buckets(exposition: str, name: str) -> Buckets:
    """Return the buckets of the histogram *name*; none if it is not exposed."""
    found = re.findall(rf'^{name}_bucket{{le="([^"]+)"}} (\S+)$', exposition, re.MULTILINE)
    return {float(bound): float(count) for bound, count in found}


def longest(before: Buckets, after: Buckets) -> float:
    """Return the bound of the highest bucket that has counted in between; 0 where none has."""
    below, highest = 0.0, 0.0
    for bound in sorted(after):
        grown = after[bound] - before.get(bound, 0.0)
        if grown > below:
            below, highest = grown, bound
    return highest
