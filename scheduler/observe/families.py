"""The metric families: names, labels and buckets, in one table.

Families that begin with ``scheduler_`` or ``rest_client_`` have upstream's name, type, labels and
buckets, so that existing dashboards and alerts work; so has ``go_goroutines``, which dashboards
plot. Those that begin with ``py_scheduler_`` are ours.

Source: ``pkg/scheduler/metrics/metrics.go``.
"""

from dataclasses import dataclass
from itertools import product
from typing import Final, Literal

Kind = Literal["counter", "gauge", "histogram"]


@dataclass(frozen=True, slots=True, eq=False)
class Family:
    """One family of metrics: name, labels and buckets of all its series.

    Two families are equal only if they are the same object: a hash of all fields would cost more
    than the counting.
    """

    name: str
    kind: Kind
    help: str
    labels: tuple[str, ...] = ()
    buckets: tuple[float, ...] = ()
    known: tuple[tuple[str, ...], ...] = ()
    """Label values whose series exist from the start, at 0.

    Prometheus sees an increase between two scrapes of one series. If a series begins with its first
    event, Prometheus cannot see that event, and no alert fires.
    """
    any_thread: bool = False
    """Whether other threads than the loop's count it as well, and it therefore takes a lock."""


def exponential(start: float, factor: float, count: int) -> tuple[float, ...]:
    """Return *count* bounds, each *factor* times the one before."""
    return tuple(start * factor**exponent for exponent in range(count))


_SLOW: Final = exponential(0.001, 2, 15)
_QUICK: Final = exponential(0.0001, 2, 12)
_TINY: Final = exponential(0.00001, 1.5, 20)
_LONG: Final = exponential(0.01, 2, 20)
_SIZE: Final = (64, 256, 512, 1024, 4096, 16384, 65536, 262144, 1048576, 4194304, 16777216)
_REQUEST: Final = (0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 60.0)


def _counter(name: str, text: str, *labels: str, known: tuple[tuple[str, ...], ...] = ()) -> Family:
    return Family(name, "counter", text, labels, known=known)


def _requests(name: str, text: str, buckets: tuple[float, ...] = ()) -> Family:
    """Return a family about requests: the lease is renewed by a thread of its own."""
    if not buckets:
        return Family(name, "counter", text, ("code", "method", "host"), any_thread=True)
    return Family(name, "histogram", text, ("verb", "host"), buckets, any_thread=True)


def _gauge(name: str, text: str, *labels: str) -> Family:
    return Family(name, "gauge", text, labels)


def _histogram(name: str, text: str, buckets: tuple[float, ...], *labels: str) -> Family:
    return Family(name, "histogram", text, labels, buckets)


ATTEMPTS: Final = _counter(
    "scheduler_schedule_attempts_total", "Attempts to schedule pods.", "result", "profile"
)
ATTEMPT_DURATION: Final = _histogram(
    "scheduler_scheduling_attempt_duration_seconds",
    "Duration of an attempt, binding included.",
    _SLOW,
    "result",
    "profile",
)
ALGORITHM_DURATION: Final = _histogram(
    "scheduler_scheduling_algorithm_duration_seconds", "Duration of a decision.", _SLOW
)
EVENT_HANDLING_DURATION: Final = _histogram(
    "scheduler_event_handling_duration_seconds",
    "Duration of applying a change of the cluster.",
    _QUICK,
    "event",
)
PREEMPTION_VICTIMS: Final = _histogram(
    "scheduler_preemption_victims", "Victims of one preemption.", exponential(1, 2, 7)
)
PREEMPTION_ATTEMPTS: Final = _counter("scheduler_preemption_attempts_total", "Attempts to preempt.")
PREEMPTION_DURATION: Final = _histogram(
    "scheduler_preemption_goroutines_duration_seconds",
    "Duration of carrying out a preemption.",
    _LONG,
    "result",
)
PREEMPTIONS: Final = _counter(
    "scheduler_preemption_goroutines_execution_total",
    "Preemptions carried out.",
    "result",
    known=(("success",), ("error",)),
)
SLI_DURATION: Final = _histogram(
    "scheduler_pod_scheduling_sli_duration_seconds",
    "Time from a pod's first entry into the queue until it was bound.",
    _LONG,
    "attempts",
)
POD_ATTEMPTS: Final = _histogram(
    "scheduler_pod_scheduling_attempts",
    "Attempts that it took to bind a pod.",
    exponential(1, 2, 5),
)
AFTER_FLUSH: Final = _counter(
    "scheduler_pod_scheduled_after_flush_total",
    "Pods bound after the periodic flush of unschedulable pods had made them ready.",
)
EXTENSION_POINT_DURATION: Final = _histogram(
    "scheduler_framework_extension_point_duration_seconds",
    "Duration of all plugins of an extension point.",
    _QUICK,
    "extension_point",
    "status",
    "profile",
)
PLUGIN_DURATION: Final = _histogram(
    "scheduler_plugin_execution_duration_seconds",
    "Duration of one plugin at an extension point, sampled.",
    _TINY,
    "plugin",
    "extension_point",
    "status",
)
HINT_DURATION: Final = _histogram(
    "scheduler_queueing_hint_execution_duration_seconds",
    "Duration of a queueing hint.",
    _TINY,
    "plugin",
    "event",
    "hint",
)
INCOMING_PODS: Final = _counter(
    "scheduler_queue_incoming_pods_total", "Pods added to a queue.", "queue", "event"
)
PERMIT_WAIT_DURATION: Final = _histogram(
    "scheduler_permit_wait_duration_seconds",
    "Time that a pod waited for Permit plugins.",
    _SLOW,
    "result",
)
PLUGIN_EVALUATIONS: Final = _counter(
    "scheduler_plugin_evaluation_total",
    "Plugin calls; a call about all nodes counts once for each node.",
    "plugin",
    "extension_point",
    "profile",
)

PENDING_PODS: Final = _gauge("scheduler_pending_pods", "Pods in each queue.", "queue")
INFLIGHT_EVENTS: Final = _gauge(
    "scheduler_inflight_events", "Events kept for pods in flight.", "event"
)
GOROUTINES: Final = _gauge("scheduler_goroutines", "Running tasks.", "operation")
CACHE_SIZE: Final = _gauge("scheduler_cache_size", "Nodes and pods in the cache.", "type")
UNSCHEDULABLE_PODS: Final = _gauge(
    "scheduler_unschedulable_pods",
    "Pods in the queue, by the plugins that rejected them.",
    "plugin",
    "profile",
)
LEADER: Final = _gauge(
    "leader_election_master_status", "1 while this process holds the lease.", "name"
)

REQUESTS: Final = _requests("rest_client_requests_total", "Requests to the API server.")
REQUEST_DURATION: Final = _requests(
    "rest_client_request_duration_seconds", "Duration of a request to the API server.", _REQUEST
)
RATE_LIMITER_DURATION: Final = _requests(
    "rest_client_rate_limiter_duration_seconds",
    "Time that a request waited for the client's rate limit.",
    _REQUEST,
)
REQUEST_SIZE: Final = _requests(
    "rest_client_request_size_bytes", "Size of a request's body.", _SIZE
)
RESPONSE_SIZE: Final = _requests(
    "rest_client_response_size_bytes", "Size of a response's body.", _SIZE
)
TASKS: Final = _gauge("go_goroutines", "Tasks of the event loop, the counterpart of goroutines.")

BIND_CONFLICTS: Final = _counter(
    "py_scheduler_bind_conflicts_total",
    "Bindings that the API server rejected because another client had decided about the pod first.",
)
LOST_ANSWERS: Final = _counter(
    "py_scheduler_lost_answers_total",
    "Requests without an answer: it is unknown whether they took effect.",
    "request",
    known=(("binding",),),
)
KUBELET_REJECTIONS: Final = _counter(
    "py_scheduler_kubelet_rejections_total",
    "Pods that a kubelet rejected after binding; only the leader counts them.",
    "reason",
)
PREEMPTIONS_UNDONE: Final = _counter(
    "py_scheduler_preemptions_undone_total",
    "Preemptions whose freed capacity was taken by pods of other schedulers.",
)
DISTRUST: Final = _gauge(
    "py_scheduler_distrust", "Pairs of an owner and a node that NodeTrust keeps its pods off."
)
FOREIGN_NOMINATIONS: Final = _gauge(
    "py_scheduler_foreign_nominations",
    "Pods of other schedulers that count on their nominated node.",
)
WATCH_RESTARTS: Final = _counter(
    "py_scheduler_watch_restarts_total",
    "Watches restarted.",
    "resource",
    "reason",
)
WATCH_SILENCE: Final = _gauge(
    "py_scheduler_watch_silence_seconds",
    "Time since a watch last delivered anything; a bookmark is due every minute.",
    "resource",
)
WATCH_LAG: Final = _histogram(
    "py_scheduler_watch_lag_seconds",
    "Time from the answer to a binding until the watch's event about it was applied.",
    _SLOW,
)
UNCONFIRMED_BINDING_AGE: Final = _gauge(
    "py_scheduler_unconfirmed_binding_age_seconds",
    "Time since the answer to the oldest binding that no watch has confirmed; 0 without one.",
)
INBOX_FACTS: Final = _gauge("py_scheduler_inbox_facts", "Facts received and not yet applied.")
PENDING_AGE: Final = _gauge(
    "py_scheduler_pending_pod_age_seconds",
    "Time for which the oldest pending pod has been ready to be scheduled; 0 without one.",
)
CACHE_COMPARISONS: Final = _counter(
    "py_scheduler_cache_comparisons_total",
    "Comparisons of the cache with a fresh list.",
    "result",
    known=(("equal",), ("drifted",), ("error",)),
)
CACHE_DRIFT: Final = _counter(
    "py_scheduler_cache_drift_total",
    "Objects that were wrong in the cache and were corrected.",
    "resource",
    "kind",
    known=tuple(product(("Node", "Pod"), ("missing", "redundant", "outdated"))),
)
CONFIGURATIONS: Final = _counter(
    "py_scheduler_configuration_reloads_total",
    "Changed configurations, by result.",
    "source",
    "result",
)
CONFIGURATION_GOOD: Final = _gauge(
    "py_scheduler_configuration_last_reload_successful",
    "1 if the newest configuration is in force; 0 if it was refused or cannot be followed.",
)
CONFIGURATION_TIMESTAMP: Final = _gauge(
    "py_scheduler_configuration_last_reload_success_timestamp_seconds",
    "When the current configuration came into force, in Unix seconds.",
)
CONFIGURATION_INFO: Final = _gauge(
    "py_scheduler_configuration_info",
    "1; the label identifies the configuration in force.",
    "fingerprint",
)
LOOP_STALL: Final = _histogram(
    "py_scheduler_loop_stall_seconds",
    "Time for which one step blocked the event loop.",
    exponential(0.005, 2, 12),
)
EVENTS_DROPPED: Final = _counter(
    "py_scheduler_events_dropped_total", "Events that were not sent.", "reason"
)
PLUGIN_FAILURES: Final = _counter(
    "py_scheduler_plugin_failures_total",
    "Times a plugin raised, timed out or returned an invalid value.",
    "plugin",
    "extension_point",
)
DECISIONS_DIFFERED: Final = _counter(
    "py_scheduler_decisions_differed_total",
    "Decisions that differed when they were made again without kept answers.",
)
BUILD: Final = _gauge("py_scheduler_build_info", "1; the labels identify the build.", "version")

FAMILIES: Final = tuple(value for value in list(globals().values()) if isinstance(value, Family))
