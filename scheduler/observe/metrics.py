"""Metrics: everything that is counted and timed, by family.

An event is counted in the code that causes it: ``metrics.count(families.BIND_CONFLICTS)``. A new
metric changes families.py, that code and docs/operations.md, and nothing else.

Counts are plain numbers until a scrape reads them. prometheus_client's own counters and histograms
take a lock each time and 0.9 µs to find the series; a decision counts about thirty things, all of
them in the loop's thread. Gauges are not kept up to date here: a scrape reads them at their owner.
"""

import threading
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import accumulate

import prometheus_client
from prometheus_client import CollectorRegistry
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector
from prometheus_client.utils import floatToGoString

from scheduler.observe import families
from scheduler.observe.families import FAMILIES, Family
from scheduler.version import __version__

Labels = tuple[str, ...]
"""Label values, in the family's order."""

Reading = Callable[[], Mapping[str, float] | Mapping[Labels, float]]
"""Returns a gauge's values: by label value, or by all label values in the family's order."""

Gauges = Mapping[Family, Mapping[str, float] | Mapping[Labels, float]]
"""The values of all gauges at one moment."""


class Counts(dict[Labels, float]):
    """The series of one counter, by label values."""

    def __init__(self, family: Family) -> None:
        super().__init__(dict.fromkeys(family.known if family.labels else [()], 0))
        self._family = family

    def __missing__(self, labels: Labels) -> float:
        _check_labels(self._family, labels)
        return 0


class Distribution:
    """Counts amounts by bucket, at a quarter of what prometheus_client's histogram costs."""

    __slots__ = ("_bounds", "counts", "total")

    def __init__(self, bounds: Sequence[float]) -> None:
        self._bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.total = 0.0

    def observe(self, amount: float) -> None:
        """Count *amount* in the first bucket whose bound it does not exceed."""
        self.counts[bisect_left(self._bounds, amount)] += 1
        self.total += amount


class Distributions(dict[Labels, Distribution]):
    """The series of one histogram, by label values; made when first used."""

    def __init__(self, family: Family) -> None:
        super().__init__()
        self._family = family
        if not family.labels:
            self[()]

    def __missing__(self, labels: Labels) -> Distribution:
        _check_labels(self._family, labels)
        series = self[labels] = Distribution(self._family.buckets)
        return series


def _check_labels(family: Family, labels: Labels) -> None:
    """Assert that a new series has a value for each label: checked once for each series."""
    assert len(labels) == len(family.labels), f"{family.name} has {family.labels}, not {labels}"


class Metrics(Collector):
    """Everything that is counted and timed, in a registry of its own."""

    def __init__(self) -> None:
        # Upstream has no *_created series; they would double the number of series.
        prometheus_client.disable_created_metrics()  # type: ignore[no-untyped-call]
        self._counters = {each: Counts(each) for each in FAMILIES if each.kind == "counter"}
        self._histograms = {
            each: Distributions(each) for each in FAMILIES if each.kind == "histogram"
        }
        self._readings: dict[Family, Reading] = {}
        self.gauges: Gauges | None = None
        """What the gauges were when they were read last; None to read them at each scrape."""
        self._lock = threading.Lock()
        self.registry = CollectorRegistry()
        self.registry.register(self)
        for standard in (
            prometheus_client.ProcessCollector,
            prometheus_client.PlatformCollector,
            prometheus_client.GCCollector,
        ):
            standard(registry=self.registry)
        self.read(families.BUILD, lambda: {__version__: 1})

    def count(self, family: Family, *labels: str, amount: float = 1) -> None:
        """Count that something happened, *amount* times."""
        assert amount >= 0, f"{family.name} is a counter: it never falls, as by {amount}"
        if family.any_thread:
            with self._lock:
                self._counters[family][labels] += amount
        else:
            self._counters[family][labels] += amount

    def observe(self, family: Family, amount: float, *labels: str) -> None:
        """Add *amount* to a histogram: seconds, bytes, or a number of things."""
        if family.any_thread:
            with self._lock:
                self._histograms[family][labels].observe(amount)
        else:
            self._histograms[family][labels].observe(amount)

    def counts(self, family: Family) -> Counts:
        """Return the series of a counter that is incremented ten times per decision.

        The caller adds to them itself, and saves the call of `count`.
        """
        assert not family.any_thread, f"{family.name} is counted under a lock"
        return self._counters[family]

    def distributions(self, family: Family) -> Distributions:
        """Return the series of a histogram that is observed ten times per decision, as `counts`."""
        assert not family.any_thread, f"{family.name} is observed under a lock"
        return self._histograms[family]

    def read(self, family: Family, reading: Reading) -> None:
        """Take the values of the gauge *family* from *reading* at each scrape from now on."""
        assert family.kind == "gauge", f"{family.name} is a {family.kind}"
        self._readings[family] = reading

    def read_gauges(self) -> Gauges:
        """Read all gauges at their owners, in the thread in which those live."""
        return {family: dict(reading()) for family, reading in self._readings.items()}

    def collect(self) -> Iterator[Metric]:
        """Yield all families with what they count now: a scrape calls this, in any thread."""
        gauges = self.read_gauges() if self.gauges is None else self.gauges
        for family in FAMILIES:
            match family.kind:
                case "counter":
                    yield self._counter(family)
                case "gauge":
                    yield _gauge(family, gauges.get(family, {}))
                case "histogram":
                    yield self._histogram(family)

    def _counter(self, family: Family) -> Metric:
        shown = CounterMetricFamily(family.name, family.help, labels=family.labels)
        for labels, count in list(self._counters[family].items()):
            shown.add_metric(list(labels), count)
        return shown

    def _histogram(self, family: Family) -> Metric:
        shown = HistogramMetricFamily(family.name, family.help, labels=family.labels)
        bounds = [_as_go(bound) for bound in (*family.buckets, float("inf"))]
        # The lock keeps out the families that any thread observes. The loop observes the others
        # without it, and may be between the buckets and the sum: that is one amount too few in the
        # sum, until the next scrape. A copy is made before anything else runs.
        with self._lock:
            for labels, series in list(self._histograms[family].items()):
                counts, total = series.counts.copy(), series.total
                buckets = list(zip(bounds, accumulate(counts), strict=True))
                shown.add_metric(list(labels), buckets, total)
        return shown


def _gauge(family: Family, values: Mapping[str, float] | Mapping[Labels, float]) -> Metric:
    shown = GaugeMetricFamily(family.name, family.help, labels=family.labels)
    for labels, value in values.items():
        shown.add_metric([labels] if isinstance(labels, str) else list(labels), value)
    return shown


def _as_go(bound: float) -> str:
    text: str = floatToGoString(bound)  # type: ignore[no-untyped-call]
    return text
