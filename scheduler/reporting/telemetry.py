"""Reports what happens to pods: as log lines, metrics, events and entries of the pod's history.

One call does all of it, so that the four cannot contradict each other; nothing else logs or writes
events about pods. This object is also the observer of the queue, the API client, the watches, the
bindings, the events and the lease: those rooms may not import metrics, and each defines a protocol.
Code that only counts uses `Telemetry.metrics` itself.
"""

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Final
from urllib.parse import urlsplit

from scheduler.errors import ApiError, Gone
from scheduler.framework.cluster_event import (
    ASSIGNED_POD,
    ASSIGNED_POD_ADD,
    UNSCHEDULABLE_POD,
    node_changes,
)
from scheduler.framework.decision import Bind
from scheduler.framework.observer import Ending, Observer
from scheduler.framework.profile import Profile
from scheduler.kube import events
from scheduler.kube.binding import BindObserver
from scheduler.kube.event_recorder import DropReason, EventObserver, EventRecorder
from scheduler.kube.events import Event
from scheduler.kube.lease import LeaseObserver
from scheduler.model.fact import Added, Deleted, Fact, Listed, ResourceName, Updated
from scheduler.model.node import Node
from scheduler.model.pod import Pod
from scheduler.observe import event_names, families
from scheduler.observe.cycle_observer import CycleObserver
from scheduler.observe.log_throttle import LogThrottle
from scheduler.observe.logs import get_logger
from scheduler.observe.metrics import Metrics
from scheduler.observe.pod_history import PodHistory, render
from scheduler.queue.queued_pod import QueuedPod

log = get_logger()

_RESULTS: Final[Mapping[str, str]] = {"Unschedulable": "unschedulable", "SchedulerError": "error"}

_HAPPENED: Final[Mapping[type[Fact], str]] = {Added: "Add", Updated: "Update", Deleted: "Delete"}

_ATTEMPTS_SHOWN_MAXIMUM: Final = 15
"""From here on all pods share one label value, as upstream's getAttemptsLabel has it."""

_STALL_SECONDS: Final = 1.0
_EXAMPLES: Final = 5


class Recorder:
    """Drops events about pods, until there is a connection that can deliver them."""

    def record(self, event: Event) -> None:
        """Drop *event*."""


class Telemetry(BindObserver, EventObserver, LeaseObserver):
    """Logs, counts and records what happens.

    Args:
        metrics: Receives what is counted and timed.
        server: The URL of the API server; its host is a label of the requests' metrics.

    Attributes:
        recorder: Delivers events; replaced once there is a connection.
        identity: The holder identity with which this process applies for the lease; empty
            without an election.
    """

    def __init__(self, metrics: Metrics, *, server: str = "") -> None:
        self.metrics = metrics
        self.recorder: Recorder | EventRecorder = Recorder()
        self.host = urlsplit(server).netloc
        self.identity = ""
        self._observers: dict[str, CycleObserver] = {}
        self._log_throttle = LogThrottle()
        self._history = PodHistory()
        self._unschedulable: Counter[tuple[str, str]] = Counter()
        metrics.read(families.UNSCHEDULABLE_PODS, self._read_unschedulable)

    def _read_unschedulable(self) -> dict[tuple[str, ...], float]:
        return {labels: float(count) for labels, count in self._unschedulable.items() if count}

    # The cycle.

    def cycle_observer(self, profile: Profile) -> Observer:
        """Return the observer of the next scheduling cycle of *profile*."""
        observer = self._observer(profile)
        observer.begin_cycle()
        return observer

    def extension_point(self, point: str, profile: Profile) -> AbstractContextManager[Ending]:
        """Enclose one run of an extension point outside the cycle."""
        return self._observer(profile).extension_point(point)

    def extension_point_ended(self, point: str, profile: Profile, began: float) -> None:
        """A run of an extension point that `began` then has succeeded."""
        self._observer(profile).point_ended(point, "Success", time.perf_counter() - began)

    def _observer(self, profile: Profile) -> CycleObserver:
        observer = self._observers.get(profile.scheduler_name)
        if observer is None:
            observer = CycleObserver(self.metrics, profile.scheduler_name)
            self._observers[profile.scheduler_name] = observer
        return observer

    def applied(self, fact: Fact, seconds: float) -> None:
        """The loop applied *fact* to cache and queue in *seconds*."""
        for label in _labels(fact):
            self.metrics.observe(families.EVENT_HANDLING_DURATION, seconds, label)

    # Outcomes of attempts.

    def bound(self, queued: QueuedPod, decision: Bind, *, started: float, now: float) -> None:
        """A pod is bound."""
        pod = decision.pod
        first = queued.initial_attempt if queued.initial_attempt is not None else started
        self._attempt_ended("scheduled", pod, now - started)
        shown = str(queued.attempts) if queued.attempts < _ATTEMPTS_SHOWN_MAXIMUM else "15+"
        self.metrics.observe(families.SLI_DURATION, now - first, shown)
        self.metrics.observe(families.POD_ATTEMPTS, queued.attempts)
        if queued.flushed:
            self.metrics.count(families.AFTER_FLUSH)
        self.recorder.record(events.scheduled(pod, decision.node))
        self._history.add(pod.uid, now, queued.attempts, f"bound to {decision.node}")
        log.info(
            event_names.POD_BOUND,
            pod=pod.key,
            node=decision.node,
            attempt=queued.attempts,
            evaluated=decision.evaluated,
            feasible=decision.feasible,
        )

    def failed(
        self,
        queued: QueuedPod,
        reason: str,
        message: str,
        plugin: str,
        *,
        started: float,
        now: float,
    ) -> None:
        """An attempt ended without a binding."""
        pod = queued.pod
        self._attempt_ended(_RESULTS[reason], pod, now - started)
        self._history.add(pod.uid, now, queued.attempts, f"{reason}: {message}")
        if reason == "Unschedulable":
            log.info(event_names.POD_PARKED, pod=pod.key, attempt=queued.attempts, message=message)
        else:
            log.warning(
                event_names.POD_RETRIED,
                pod=pod.key,
                attempt=queued.attempts,
                plugin=plugin or None,
                error=message,
            )

    def _attempt_ended(self, result: str, pod: Pod, seconds: float) -> None:
        profile = pod.spec.scheduler_name
        self.metrics.count(families.ATTEMPTS, result, profile)
        self.metrics.observe(families.ATTEMPT_DURATION, seconds, result, profile)

    def evicting(self, preemptor: Pod, node: str, victims: int) -> None:
        """The victims of a preemption are chosen, and the pod is nominated to *node*."""
        assert victims >= 0, f"{victims} victims for {preemptor.key}"
        self.metrics.observe(families.PREEMPTION_VICTIMS, victims)
        log.info(event_names.POD_NOMINATED, pod=preemptor.key, node=node, victims=victims)

    def evicted(self, victim: Pod, preemptor: Pod, node: str, *, in_memory: bool = False) -> None:
        """A victim is evicted; *in_memory* if it was not bound yet, and is only requeued."""
        self.recorder.record(events.preempted(victim, preemptor, node, in_memory=in_memory))
        log.info(event_names.POD_PREEMPTED, pod=victim.key, node=node, by=preemptor.key)

    def evictions_ended(self, preemptor: Pod, node: str, problem: str, seconds: float) -> None:
        """All victims of a preemption are evicted, or *problem* prevented it."""
        result = "error" if problem else "success"
        self.metrics.count(families.PREEMPTIONS, result)
        self.metrics.observe(families.PREEMPTION_DURATION, seconds, result)
        if problem:
            log.warning(event_names.PREEMPTION_FAILED, pod=preemptor.key, node=node, error=problem)

    def preemption_undone(self, pod: Pod, node: str, taken_by: Sequence[Pod]) -> None:
        """Pods of other schedulers took the capacity that was freed for *pod*."""
        self.metrics.count(families.PREEMPTIONS_UNDONE)
        self.recorder.record(events.preemption_undone(pod, node, taken_by))
        log.warning(
            event_names.PREEMPTION_UNDONE,
            pod=pod.key,
            node=node,
            by=[each.key for each in taken_by[:_EXAMPLES]],
            count=len(taken_by),
        )

    def failed_event(self, pod: Pod, message: str) -> None:
        """Record the FailedScheduling event of *pod*."""
        self.recorder.record(events.failed_scheduling(pod, message))

    def status_not_written(self, pod: Pod, why: str) -> None:
        """A pod's condition or nomination could not be written."""
        log.warning(event_names.STATUS_FAILED, pod=pod.key, error=why)

    def effect_not_undone(self, pod: Pod, path: str, why: str) -> None:
        """What a PreBind plugin had changed could not be changed back."""
        log.error(event_names.BINDING_FAILED, pod=pod.key, path=path, error=why)

    def kubelet_rejected(self, pod: Pod) -> None:
        """A kubelet rejected a pod that this scheduler had bound."""
        self.metrics.count(families.KUBELET_REJECTIONS, pod.status.reason)
        log.warning(
            event_names.POD_REFUSED,
            pod=pod.key,
            node=pod.node_name,
            reason=pod.status.reason,
            message=pod.status.message,
            story=render(self._history.of(pod.uid)),
        )

    def node_distrusted(self, pod: Pod, node: str, why: str, seconds: float) -> None:
        """Pods of the owner of *pod* avoid *node* for *seconds*."""
        controller = pod.metadata.controller
        owner = pod.key if controller is None else f"{controller.kind} {controller.name}"
        log.info(
            event_names.NODE_DISTRUSTED,
            node=node,
            owner=owner,
            why=f"node(s) {why}",
            seconds=round(seconds),
        )

    def decision_differed(self, pod: Pod, difference: str) -> None:
        """A decision was another one when it was made again without kept answers."""
        self.metrics.count(families.DECISIONS_DIFFERED)
        log.error(event_names.DECISION_DIFFERED, pod=pod.key, difference=difference)

    def plugin_failed(self, plugin: str, point: str, error: str) -> None:
        """A plugin raised, stalled or returned an invalid value."""
        self.metrics.count(families.PLUGIN_FAILURES, plugin, point)
        if self._log_throttle.is_new(f"plugin {plugin} at {point}", error):
            log.error(event_names.PLUGIN_FAILED, plugin=plugin, point=point, error=error)

    def plugin_stalled(self, plugin: str, point: str, seconds: float) -> None:
        """A plugin gave no answer for *seconds* and was interrupted."""
        log.error(event_names.PLUGIN_STALLED, plugin=plugin, point=point, seconds=seconds)

    def plugin_disabled(self, profile: str, plugin: str, why: str) -> None:
        """A score plugin failed again and again: nodes are scored without it from now on."""
        log.error(event_names.PLUGIN_DISABLED, profile=profile, plugin=plugin, why=why)

    def profile_stopped(self, profile: str, plugin: str, why: str) -> None:
        """A plugin failed for one pod after the other: the profile schedules no more pods."""
        log.error(
            event_names.PROFILE_STOPPED,
            profile=profile,
            plugin=plugin,
            why=why,
            remedy="correct the plugin and restart the scheduler, or disable it",
        )

    # Binding (scheduler.kube.binding).

    def conflicted(self) -> None:
        """A binding was refused, since the pod has a node already or is gone."""
        self.metrics.count(families.BIND_CONFLICTS)

    def answer_lost(self, pod: Pod, why: str) -> None:
        """A binding was posted and no response came: the pod may be bound or not."""
        self.metrics.count(families.LOST_ANSWERS, "binding")
        log.warning(event_names.BINDING_ANSWER_LOST, pod=pod.key, error=why)

    def throttled(self, seconds: float) -> None:
        """The server wants the next request after *seconds* (Retry-After)."""
        log.debug(event_names.BINDING_THROTTLED, retry_after_seconds=seconds)

    # The queue (scheduler.queue.observer).

    def incoming(self, queue: str, event: str) -> None:
        """A pod was put into *queue* because of *event*."""
        self.metrics.count(families.INCOMING_PODS, queue, event)

    def unschedulable_delta(self, plugin: str, profile: str, delta: int) -> None:
        """One pod more or less waits because *plugin* rejected it."""
        self._unschedulable[plugin, profile] += delta
        assert self._unschedulable[plugin, profile] >= 0, f"a negative number of pods: {plugin}"

    def began(self) -> float:
        """Return the moment at which plugins are called."""
        return time.perf_counter()

    def pre_enqueue(self, profile: str, began: float) -> None:
        """Time the PreEnqueue plugins for one pod; the status is Success whatever they answer."""
        seconds = time.perf_counter() - began
        self.metrics.observe(
            families.EXTENSION_POINT_DURATION, seconds, "PreEnqueue", "Success", profile
        )

    def hint(self, plugin: str, event: str, result: str, began: float) -> None:
        """Time one queueing hint."""
        seconds = time.perf_counter() - began
        self.metrics.observe(families.HINT_DURATION, seconds, plugin, event, result)

    # Events (scheduler.kube.events).

    def dropped(self, reason: DropReason) -> None:
        """An event will not be written."""
        self.metrics.count(families.EVENTS_DROPPED, reason)

    # Watches (scheduler.kube.reflector).

    def watch_started(self, resource: ResourceName) -> None:
        """A watch is open."""
        log.debug(event_names.WATCH_STARTED, resource=resource)

    def watch_restarted(self, resource: ResourceName, problem: ApiError) -> None:
        """A watch broke and is restarted."""
        # A text names hosts and versions, each of which would be a time series of its own.
        reason = "expired" if isinstance(problem, Gone) else "broken"
        self.metrics.count(families.WATCH_RESTARTS, resource, reason)
        if self._log_throttle.is_new(resource, str(problem)):
            log.warning(event_names.WATCH_RESTARTED, resource=resource, error=str(problem))

    def watch_denied(self, resource: ResourceName, why: str) -> None:
        """This process lacks the permission to watch *resource*."""
        log.error(
            event_names.WATCH_REFUSED,
            resource=resource,
            error=why,
            remedy="grant get, list and watch on it to the scheduler's account",
        )

    def list_done(self, resource: ResourceName, objects: int, seconds: float) -> None:
        """The list of a resource is complete."""
        log.info(
            event_names.WATCH_SYNCED,
            resource=resource,
            objects=objects,
            seconds=round(seconds, 3),
        )

    def object_malformed(self, resource: ResourceName, key: str, problem: str) -> None:
        """An object cannot be decoded."""
        log.warning(event_names.OBJECT_MALFORMED, resource=resource, object=key, problem=problem)

    # The cache comparer (scheduler.process.cache_comparer).

    def cache_drifted(self, resource: ResourceName, kind: str, keys: Sequence[str]) -> None:
        """The cache had objects wrong: *kind* is missing, redundant or outdated."""
        assert keys, "drift is reported with at least one object"
        self.metrics.count(families.CACHE_DRIFT, resource, kind, amount=len(keys))
        log.warning(
            event_names.CACHE_DRIFTED,
            resource=resource,
            kind=kind,
            count=len(keys),
            examples=list(keys[:_EXAMPLES]),
        )

    # Requests (scheduler.kube.client).

    def request_done(self, method: str, status: int, seconds: float) -> None:
        """A request was answered, or given up with status 0."""
        code = str(status or "<error>")
        if method == "WATCH":  # client-go counts it as a GET, and does not time it
            self.metrics.count(families.REQUESTS, code, "GET", self.host)
        else:
            self.metrics.count(families.REQUESTS, code, method, self.host)
            self.metrics.observe(families.REQUEST_DURATION, seconds, method, self.host)

    def request_waited(self, method: str, seconds: float) -> None:
        """A request waited *seconds* for the rate limit."""
        verb = "GET" if method == "WATCH" else method
        self.metrics.observe(families.RATE_LIMITER_DURATION, seconds, verb, self.host)

    def request_sized(self, method: str, sent: int, received: int) -> None:
        """A request was answered: its body had *sent* bytes, the response *received*."""
        self.metrics.observe(families.REQUEST_SIZE, sent, method, self.host)
        self.metrics.observe(families.RESPONSE_SIZE, received, method, self.host)

    # The lease (scheduler.kube.lease).

    def holder_changed(self, holder: str) -> None:
        """Another process holds the lease now, or none does."""
        if holder != self.identity:
            log.info(event_names.LEASE_AWAITED, holder=holder or None)

    def request_failed(self, error: ApiError) -> None:
        """One try to get or renew the lease failed."""
        if self._log_throttle.is_new("lease", str(error)):
            log.warning(event_names.LEASE_AWAITED, error=str(error))

    def watch_refused(self, error: ApiError) -> None:
        """This process lacks the permission to watch the lease."""
        log.warning(
            event_names.LEASE_UNWATCHED,
            error=str(error),
            remedy="grant watch on it; until then it is tried again now and then",
        )

    # The loop.

    def loop_stalled(self, seconds: float, cpu_seconds: float) -> None:
        """The event loop was *seconds* late for a task, and computed for *cpu_seconds* of them."""
        self.metrics.observe(families.LOOP_STALL, seconds)
        if seconds > _STALL_SECONDS:
            log.warning(
                event_names.LOOP_STALLED,
                seconds=round(seconds, 3),
                cpu_seconds=round(cpu_seconds, 3),
            )


def _labels(fact: Fact) -> Sequence[str]:
    """Name what happened as upstream does; a change of a node by each thing that changed."""
    match fact:
        case Listed():
            return ()
        case Updated(old=Pod() as old, new=Pod() as new) if new.node_name and not old.node_name:
            return (ASSIGNED_POD_ADD.label,)
        case Updated(old=Node() as before, new=Node() as after):
            return [event.label for event in node_changes(before, after)]
    changed = fact.old if isinstance(fact, Deleted) else fact.new
    resource: str = fact.resource
    if isinstance(changed, Pod):
        resource = ASSIGNED_POD if changed.node_name else UNSCHEDULABLE_POD
    return (resource + _HAPPENED[type(fact)],)
