"""Metrics: one method for each thing that can happen, about a microsecond each.

Gauges are not kept up to date here: whoever owns the number is asked when somebody looks.
"""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from itertools import accumulate
from typing import Generic, TypeVar

import prometheus_client
from prometheus_client import CollectorRegistry, Counter, Histogram
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
)
from prometheus_client.registry import Collector
from prometheus_client.utils import floatToGoString

from scheduler.observe import families
from scheduler.observe.families import Family
from scheduler.version import __version__

Reading = Callable[[], Mapping[str, float] | Mapping[tuple[str, ...], float]]
"""Returns a gauge's values: by label value, or by all label values in the family's order."""

_ATTEMPTS_SHOWN_MAXIMUM = 15

M = TypeVar("M", Counter, Histogram)


class Children(dict[Hashable, M], Generic[M]):
    """The members of a family by label values, made when first asked for.

    prometheus_client looks a child up in 0.9 µs, under a lock; a dictionary does in 0.1 µs.
    """

    def __init__(self, family: M) -> None:
        super().__init__()
        self._family: M = family

    def __missing__(self, labels: tuple[str, ...]) -> M:
        child: M = self._family.labels(*labels)
        self[labels] = child
        return child


class Gauges(Collector):
    """Gauges that are read when somebody looks."""

    def __init__(self) -> None:
        self._readings: dict[str, Reading] = {}

    def read(self, family: Family, reading: Reading) -> None:
        """Ask *reading* for the values of *family* from now on."""
        assert family.kind == "gauge", f"{family.name} is a {family.kind}"
        self._readings[family.name] = reading

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """Read every gauge."""
        for name, family in families.GAUGES.items():
            gauge = GaugeMetricFamily(name, family.help, labels=family.labels)
            reading = self._readings.get(name)
            for labels, value in (reading() if reading else {}).items():
                gauge.add_metric([labels] if isinstance(labels, str) else list(labels), value)
            yield gauge


class Tallies(Collector):
    """A counter that moves ten times a decision: a plain number until somebody looks."""

    def __init__(self, family: Family) -> None:
        assert family.kind == "counter", f"{family.name} is a {family.kind}"
        self.counts: defaultdict[tuple[str, ...], int] = defaultdict(int)
        self._family = family

    def collect(self) -> Iterator[CounterMetricFamily]:
        """Read all of them."""
        family = self._family
        counter = CounterMetricFamily(family.name, family.help, labels=family.labels)
        for labels, count in list(self.counts.items()):
            counter.add_metric(list(labels), count)
        yield counter


class Distribution:
    """Counts amounts by bucket: a quarter of what prometheus_client's histogram costs.

    It is for one thread: that of the loop.
    """

    __slots__ = ("_bounds", "counts", "total")

    def __init__(self, bounds: Sequence[float]) -> None:
        self._bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.total = 0.0

    def observe(self, amount: float) -> None:
        """Count *amount* in the first bucket whose bound it does not exceed."""
        self.counts[bisect_left(self._bounds, amount)] += 1
        self.total += amount


class Distributions(dict[tuple[str, ...], Distribution]):
    """The members of a histogram by label values, made when first asked for."""

    def __init__(self, bounds: Sequence[float]) -> None:
        super().__init__()
        self._bounds = bounds

    def __missing__(self, labels: tuple[str, ...]) -> Distribution:
        child = self[labels] = Distribution(self._bounds)
        return child


class Histograms(Collector):
    """A histogram for one thread, summed up when somebody looks."""

    def __init__(self, family: Family) -> None:
        assert family.kind == "histogram", f"{family.name} is a {family.kind}"
        self._family = family
        self._shown = [_as_go(bound) for bound in (*family.buckets, float("inf"))]
        self.members = Distributions(family.buckets)
        if not family.labels:
            self.members[()]

    def collect(self) -> Iterator[HistogramMetricFamily]:
        """Sum up all of them."""
        family = self._family
        histogram = HistogramMetricFamily(family.name, family.help, labels=family.labels)
        for labels, each in list(self.members.items()):
            buckets = list(zip(self._shown, accumulate(each.counts), strict=True))
            histogram.add_metric(list(labels), buckets, each.total)
        yield histogram


def _as_go(bound: float) -> str:
    text: str = floatToGoString(bound)  # type: ignore[no-untyped-call]
    return text


class Metrics:
    """Everything that is counted and timed, in a registry of its own."""

    def __init__(self) -> None:
        # Upstream has no *_created series; they would double the number of series.
        prometheus_client.disable_created_metrics()  # type: ignore[no-untyped-call]
        self.registry = CollectorRegistry()
        self._gauges = Gauges()
        self.registry.register(self._gauges)
        self.read(families.BUILD, lambda: {__version__: 1})
        for standard in (
            prometheus_client.ProcessCollector,
            prometheus_client.PlatformCollector,
            prometheus_client.GCCollector,
        ):
            standard(registry=self.registry)
        self._make_families()

    def _make_families(self) -> None:
        self._attempts = self._counters(families.ATTEMPTS)
        self._attempt_duration = self._distributions(families.ATTEMPT_DURATION)
        self._algorithm_duration = self._distribution(families.ALGORITHM_DURATION)
        self._event_duration = self._distributions(families.EVENT_HANDLING_DURATION)
        self._victims = self._distribution(families.PREEMPTION_VICTIMS)
        self._preemption_attempts = self._counter(families.PREEMPTION_ATTEMPTS)
        self._preemption_duration = self._distributions(families.PREEMPTION_DURATION)
        self._preemptions = self._counters(families.PREEMPTIONS)
        self._sli_duration = self._distributions(families.SLI_DURATION)
        self._pod_attempts = self._distribution(families.POD_ATTEMPTS)
        self._after_flush = self._counter(families.AFTER_FLUSH)
        self._point_duration = self._distributions(families.EXTENSION_POINT_DURATION)
        self._plugin_duration = self._distributions(families.PLUGIN_DURATION)
        self._hint_duration = self._distributions(families.HINT_DURATION)
        self._incoming = self._counters(families.INCOMING_PODS)
        self._permit_wait = self._distributions(families.PERMIT_WAIT_DURATION)
        self._evaluations = self._tallies(families.PLUGIN_EVALUATIONS)
        # The lease's thread asks as well: these are counted under a lock.
        self._requests = self._counters(families.REQUESTS)
        self._request_duration = self._histograms(families.REQUEST_DURATION)
        self._rate_limited = self._histograms(families.RATE_LIMITER_DURATION)
        self._request_size = self._histograms(families.REQUEST_SIZE)
        self._response_size = self._histograms(families.RESPONSE_SIZE)
        self._conflicts = self._counter(families.BIND_CONFLICTS)
        self._lost = self._counters(families.LOST_ANSWERS)
        self._undone = self._counter(families.PREEMPTIONS_UNDONE)
        self._kubelet = self._counters(families.KUBELET_REJECTIONS)
        self._restarts = self._counters(families.WATCH_RESTARTS)
        self._stall = self._distribution(families.LOOP_STALL)
        self._dropped = self._counters(families.EVENTS_DROPPED)
        self._failures = self._counters(families.PLUGIN_FAILURES)
        self._drift = self._counters(families.CACHE_DRIFT)
        self._comparisons = self._counters(families.CACHE_COMPARISONS)
        self._configurations = self._counters(families.CONFIGURATIONS)

    def read(self, family: Family, reading: Reading) -> None:
        """Ask *reading* for the gauge *family* from now on, whenever somebody looks."""
        self._gauges.read(family, reading)

    def attempt_ended(self, result: str, profile: str, seconds: float) -> None:
        """Count an attempt: *result* is scheduled, unschedulable or error."""
        self._attempts[result, profile].inc()
        self._attempt_duration[result, profile].observe(seconds)

    def decision_ended(self, seconds: float) -> None:
        """Time filtering, scoring and the search for room."""
        self._algorithm_duration.observe(seconds)

    def pod_bound(self, attempts: int, seconds: float, *, after_flush: bool = False) -> None:
        """Record a bound pod, *seconds* after it first entered the active queue."""
        shown = str(attempts) if attempts < _ATTEMPTS_SHOWN_MAXIMUM else "15+"
        self._sli_duration[(shown,)].observe(seconds)
        self._pod_attempts.observe(attempts)
        if after_flush:
            self._after_flush.inc()

    def pod_queued(self, queue: str, event: str) -> None:
        """Count a pod that *event* put into *queue*."""
        self._incoming[queue, event].inc()

    def event_handled(self, event: str, seconds: float) -> None:
        """Time taking in *event*."""
        self._event_duration[(event,)].observe(seconds)

    def hint_given(self, plugin: str, event: str, hint: str, seconds: float) -> None:
        """Time a plugin's answer: *hint* is Queue, QueueSkip or Error."""
        self._hint_duration[plugin, event, hint].observe(seconds)

    def permit_waited(self, result: str, seconds: float) -> None:
        """Time how long a pod was held, with the name of the status in the end."""
        self._permit_wait[(result,)].observe(seconds)

    def preemption_tried(self) -> None:
        """Count an attempt to make room."""
        self._preemption_attempts.inc()

    def victims_chosen(self, count: int) -> None:
        """Record how many pods have to go."""
        self._victims.observe(count)

    def preemption_ended(self, result: str, seconds: float) -> None:
        """Time carrying out a preemption: *result* is success or error."""
        self._preemptions[(result,)].inc()
        self._preemption_duration[(result,)].observe(seconds)

    def extension_point_ended(self, point: str, status: str, profile: str, seconds: float) -> None:
        """Time all plugins of *point*, as in ``PreFilter``."""
        self._point_duration[point, status, profile].observe(seconds)

    def plugin_ended(self, plugin: str, point: str, status: str, seconds: float) -> None:
        """Time one plugin."""
        self._plugin_duration[plugin, point, status].observe(seconds)

    def plugin_asked(self, plugin: str, point: str, profile: str, times: int = 1) -> None:
        """Count questions to a plugin; at Filter and Score each node is one."""
        self._evaluations[plugin, point, profile] += times

    def plugin_failed(self, plugin: str, point: str) -> None:
        """Count a plugin that raised, stalled or answered in the wrong shape."""
        self._failures[plugin, point].inc()

    def request_ended(self, method: str, host: str, code: str, seconds: float) -> None:
        """Count and time a request; *code* is ``<error>`` where there was no answer."""
        self._requests[code, method, host].inc()
        self._request_duration[method, host].observe(seconds)

    def watch_opened(self, host: str, code: str) -> None:
        """Count the request that opens a watch; client-go counts it as a GET and times none."""
        self._requests[code, "GET", host].inc()

    def request_waited(self, method: str, host: str, seconds: float) -> None:
        """Time how long a request was held back by the rate limit."""
        self._rate_limited[method, host].observe(seconds)

    def request_sized(self, method: str, host: str, sent: int, received: int) -> None:
        """Record the bodies of a request and of its answer, in bytes."""
        self._request_size[method, host].observe(sent)
        self._response_size[method, host].observe(received)

    def bind_conflicted(self) -> None:
        """Count a binding that somebody else had forestalled."""
        self._conflicts.inc()

    def answer_lost(self, request: str) -> None:
        """Count a *request*, as in ``binding``, of which nobody knows the outcome."""
        self._lost[(request,)].inc()

    def preemption_undone(self) -> None:
        """Count a preemption whose room others took."""
        self._undone.inc()

    def kubelet_rejected(self, reason: str) -> None:
        """Count a pod that its kubelet refused."""
        self._kubelet[(reason,)].inc()

    def watch_restarted(self, resource: str, reason: str) -> None:
        """Count a watch that had to begin anew."""
        self._restarts[resource, reason].inc()

    def loop_stalled(self, seconds: float) -> None:
        """Record how long one step kept the others waiting."""
        self._stall.observe(seconds)

    def cache_compared(self, result: str) -> None:
        """Count a comparison with a fresh list: *result* is equal, drifted or error."""
        self._comparisons[(result,)].inc()

    def cache_drifted(self, resource: str, kind: str, count: int) -> None:
        """Count objects that the cache had wrong: *kind* is missing, redundant or outdated."""
        self._drift[resource, kind].inc(count)

    def configuration_judged(self, source: str, result: str) -> None:
        """Count a changed configuration from *source*, file or resource."""
        self._configurations[source, result].inc()

    def event_dropped(self, reason: str) -> None:
        """Count an event that was not sent."""
        self._dropped[(reason,)].inc()

    def _counter(self, family: Family) -> Counter:
        assert family.kind == "counter", f"{family.name} is a {family.kind}"
        return Counter(family.name, family.help, family.labels, registry=self.registry)

    def _counters(self, family: Family) -> Children[Counter]:
        children = Children(self._counter(family))
        for labels in family.known:
            children[labels]
        return children

    def _tallies(self, family: Family) -> defaultdict[tuple[str, ...], int]:
        count_columns = Tallies(family)
        self.registry.register(count_columns)
        return count_columns.counts

    def _distribution(self, family: Family) -> Distribution:
        return self._distributions(family)[()]

    def _distributions(self, family: Family) -> Distributions:
        histograms = Histograms(family)
        self.registry.register(histograms)
        return histograms.members

    def _histogram(self, family: Family) -> Histogram:
        return Histogram(
            family.name,
            family.help,
            family.labels,
            buckets=family.buckets,
            registry=self.registry,
        )

    def _histograms(self, family: Family) -> Children[Histogram]:
        return Children(self._histogram(family))
