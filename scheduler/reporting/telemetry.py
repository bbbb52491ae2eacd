"""Tells people what happens: log lines, metrics and events, from one place.

Everything above the line reports here, in the field's words, and nobody else logs, counts or writes
events about pods. The methods named by the observers of other rooms stand here too, so that one
object hears them all.
"""

import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Final, TypeVar
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

R = TypeVar("R")

log = get_logger()

_RESULTS: Final[Mapping[str, str]] = {"Unschedulable": "unschedulable", "SchedulerError": "error"}

_HAPPENED: Final[Mapping[type[Fact], str]] = {Added: "Add", Updated: "Update", Deleted: "Delete"}

_STALL_SECONDS: Final = 1.0
_EXAMPLES: Final = 5


class Recorder:
    """Takes events about pods; this one drops them."""

    def record(self, event: Event) -> None:
        """Take *event* for delivery."""


class Telemetry(BindObserver, EventObserver, LeaseObserver):
    """One ear for every room.

    Args:
        recorder: Delivers events; replaced once there is a connection.
        server: The URL of the API server, for the label of requests.
    """

    def __init__(self, metrics: Metrics, *, server: str = "") -> None:
        self.metrics = metrics
        self.recorder: Recorder | EventRecorder = Recorder()
        self.host = urlsplit(server).netloc
        self.identity = ""
        self._observers: dict[str, CycleObserver] = {}
        self._news = LogThrottle()
        self._stories = PodHistory()
        self._unschedulable: Counter[tuple[str, str]] = Counter()
        metrics.read(families.UNSCHEDULABLE_PODS, self._read_unschedulable)

    def _read_unschedulable(self) -> dict[tuple[str, ...], float]:
        return {labels: float(count) for labels, count in self._unschedulable.items() if count}

    # The cycle.

    def cycle_observer(self, profile: Profile) -> Observer:
        """Return who watches the next cycle of *profile*."""
        observer = self._observer(profile)
        observer.begin_cycle()
        return observer

    def extension_point(self, point: str, profile: Profile) -> AbstractContextManager[Ending]:
        """Enclose one run of an extension point outside the cycle."""
        return self._observer(profile).extension_point(point)

    def _observer(self, profile: Profile) -> CycleObserver:
        observer = self._observers.get(profile.scheduler_name)
        if observer is None:
            observer = CycleObserver(self.metrics, profile.scheduler_name)
            self._observers[profile.scheduler_name] = observer
        return observer

    def applied(self, fact: Fact, seconds: float) -> None:
        """The loop took *seconds* to take *fact* in."""
        for label in _labels(fact):
            self.metrics.event_handled(label, seconds)

    def permit_waited(self, result: str, seconds: float) -> None:
        """A pod was held for *seconds* by permit plugins."""
        self.metrics.permit_waited(result, seconds)

    def decided(self, seconds: float) -> None:
        """A decision took *seconds*."""
        self.metrics.decision_ended(seconds)

    # What became of pods.

    def bound(self, queued: QueuedPod, decision: Bind, *, started: float, now: float) -> None:
        """A pod is bound."""
        pod = decision.pod
        first = queued.initial_attempt if queued.initial_attempt is not None else started
        self.metrics.attempt_ended("scheduled", pod.spec.scheduler_name, now - started)
        self.metrics.pod_bound(queued.attempts, now - first, after_flush=queued.flushed)
        self.recorder.record(events.scheduled(pod, decision.node))
        self._stories.tell(pod.uid, now, queued.attempts, f"bound to {decision.node}")
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
        self.metrics.attempt_ended(_RESULTS[reason], pod.spec.scheduler_name, now - started)
        self._stories.tell(pod.uid, now, queued.attempts, f"{reason}: {message}")
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

    def evicting(self, preemptor: Pod, node: str, victims: int) -> None:
        """Room is made for a pod."""
        self.metrics.victims_chosen(victims)
        log.info(event_names.POD_NOMINATED, pod=preemptor.key, node=node, victims=victims)

    def evicted(self, victim: Pod, preemptor: Pod, node: str, *, in_memory: bool = False) -> None:
        """A pod has to go, or if it was not bound yet, to wait."""
        self.recorder.record(events.preempted(victim, preemptor, node, in_memory=in_memory))
        log.info(event_names.POD_PREEMPTED, pod=victim.key, node=node, by=preemptor.key)

    def evictions_ended(self, preemptor: Pod, node: str, problem: str, seconds: float) -> None:
        """All that was to be evicted for a pod has been told so, or something went wrong."""
        self.metrics.preemption_ended("error" if problem else "success", seconds)
        if problem:
            log.warning(event_names.PREEMPTION_FAILED, pod=preemptor.key, node=node, error=problem)

    def preemption_undone(self, pod: Pod, node: str, taken_by: Sequence[Pod]) -> None:
        """Pods of other schedulers took the room that was made for *pod*."""
        self.metrics.preemption_undone()
        self.recorder.record(events.preemption_undone(pod, node, taken_by))
        log.warning(
            event_names.PREEMPTION_UNDONE,
            pod=pod.key,
            node=node,
            by=[each.key for each in taken_by[:_EXAMPLES]],
            count=len(taken_by),
        )

    def failed_event(self, pod: Pod, message: str) -> None:
        """Tell the pod why it is not scheduled."""
        self.recorder.record(events.failed_scheduling(pod, message))

    def status_not_written(self, pod: Pod, why: str) -> None:
        """A pod's condition or nomination could not be written."""
        log.warning(event_names.STATUS_FAILED, pod=pod.key, error=why)

    def effect_not_undone(self, pod: Pod, path: str, why: str) -> None:
        """What a pre-bind plugin had changed could not be changed back."""
        log.error(event_names.BINDING_FAILED, pod=pod.key, path=path, error=why)

    def kubelet_rejected(self, pod: Pod) -> None:
        """A kubelet refused a pod that we had bound."""
        self.metrics.kubelet_rejected(pod.status.reason)
        log.warning(
            event_names.POD_REFUSED,
            pod=pod.key,
            node=pod.node_name,
            reason=pod.status.reason,
            message=pod.status.message,
            story=render(self._stories.of(pod.uid)),
        )

    def node_distrusted(self, pod: Pod, node: str, why: str, seconds: float) -> None:
        """Pods of the owner of *pod* keep away from *node* for a while."""
        controller = pod.metadata.controller
        owner = pod.key if controller is None else f"{controller.kind} {controller.name}"
        log.info(
            event_names.NODE_DISTRUSTED,
            node=node,
            owner=owner,
            why=f"node(s) {why}",
            seconds=round(seconds),
        )

    def plugin_failed(self, plugin: str, point: str, error: str) -> None:
        """A plugin raised, stalled or answered in the wrong shape."""
        self.metrics.plugin_failed(plugin, point)
        if self._news.is_new(f"plugin {plugin} at {point}", error):
            log.error(event_names.PLUGIN_FAILED, plugin=plugin, point=point, error=error)

    def plugin_stalled(self, plugin: str, point: str, seconds: float) -> None:
        """A plugin gave no answer for *seconds* and was broken off."""
        log.error(event_names.PLUGIN_STALLED, plugin=plugin, point=point, seconds=seconds)

    def plugin_disabled(self, profile: str, plugin: str, why: str) -> None:
        """A score plugin failed again and again: pods are placed without it from now on."""
        log.error(event_names.PLUGIN_DISABLED, profile=profile, plugin=plugin, why=why)

    def profile_stopped(self, profile: str, plugin: str, why: str) -> None:
        """Another plugin failed for one pod after the other: the profile takes no pods any more."""
        log.error(
            event_names.PROFILE_STOPPED,
            profile=profile,
            plugin=plugin,
            why=why,
            remedy="correct the plugin and restart the scheduler, or disable it",
        )

    # Binding (scheduler.kube.binding).

    def conflicted(self) -> None:
        """Somebody else decided about a pod first."""
        self.metrics.bind_conflicted()

    def answer_lost(self, pod: Pod, why: str) -> None:
        """A binding was posted and no answer came."""
        self.metrics.answer_lost("binding")
        log.warning(event_names.BINDING_ANSWER_LOST, pod=pod.key, error=why)

    def throttled(self, seconds: float) -> None:
        """The server asked to come back after *seconds*."""
        log.debug(event_names.BINDING_THROTTLED, retry_after_seconds=seconds)

    # The queue (scheduler.queue.observer).

    def incoming(self, queue: str, event: str) -> None:
        """A pod was put into *queue* because of *event*."""
        self.metrics.pod_queued(queue, event)

    def unschedulable_delta(self, plugin: str, profile: str, delta: int) -> None:
        """One pod more or less waits because *plugin* turned it away."""
        self._unschedulable[plugin, profile] += delta

    def pre_enqueue(self, profile: str, ask: Callable[[], R]) -> R:
        """Enclose the question to the gates whether a pod may enter; Success whatever they say."""
        began = time.perf_counter()
        answer = ask()
        seconds = time.perf_counter() - began
        self.metrics.extension_point_ended("PreEnqueue", "Success", profile, seconds)
        return answer

    def hint(self, plugin: str, event: str, ask: Callable[[], str]) -> str:
        """Enclose a question to a plugin: whether an event helps."""
        began = time.perf_counter()
        result = ask()
        self.metrics.hint_given(plugin, event, result, time.perf_counter() - began)
        return result

    # Events (scheduler.kube.events).

    def delivered(self) -> None:
        """An event was written."""

    def dropped(self, reason: DropReason) -> None:
        """An event will not be written."""
        self.metrics.event_dropped(reason)

    # Watches (scheduler.kube.reflector).

    def watch_started(self, resource: ResourceName) -> None:
        """A watch is open."""
        log.debug(event_names.WATCH_STARTED, resource=resource)

    def watch_restarted(self, resource: ResourceName, problem: ApiError) -> None:
        """A watch broke and begins again."""
        # A text names hosts and versions, each of which would be a time series of its own.
        reason = "expired" if isinstance(problem, Gone) else "broken"
        self.metrics.watch_restarted(resource, reason)
        if self._news.is_new(resource, str(problem)):
            log.warning(event_names.WATCH_RESTARTED, resource=resource, error=str(problem))

    def watch_denied(self, resource: ResourceName, why: str) -> None:
        """We may not watch a resource."""
        log.error(
            event_names.WATCH_REFUSED,
            resource=resource,
            error=why,
            remedy="grant get, list and watch on it to the scheduler's account",
        )

    def list_done(self, resource: ResourceName, objects: int, seconds: float) -> None:
        """Everything of a resource has been told."""
        log.info(
            event_names.WATCH_SYNCED,
            resource=resource,
            objects=objects,
            seconds=round(seconds, 3),
        )

    def object_malformed(self, resource: ResourceName, key: str, problem: str) -> None:
        """An object cannot be read."""
        log.warning(event_names.OBJECT_MALFORMED, resource=resource, object=key, problem=problem)

    # The comparison of the cache with a fresh list (scheduler.process.cache_comparer).

    def cache_compared(self, result: str) -> None:
        """A comparison ended: equal, drifted, or error where no list was to be had."""
        self.metrics.cache_compared(result)

    def cache_drifted(self, resource: ResourceName, kind: str, keys: Sequence[str]) -> None:
        """The cache had objects wrong: *kind* is missing, redundant or outdated."""
        self.metrics.cache_drifted(resource, kind, len(keys))
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
        if method == "WATCH":
            self.metrics.watch_opened(self.host, code)
        else:
            self.metrics.request_ended(method, self.host, code, seconds)

    def request_waited(self, method: str, seconds: float) -> None:
        """A request waited *seconds* for the rate limit."""
        verb = "GET" if method == "WATCH" else method
        self.metrics.request_waited(verb, self.host, seconds)

    def request_sized(self, method: str, sent: int, received: int) -> None:
        """A request was answered: so many bytes were its body, and so many the answer's."""
        self.metrics.request_sized(method, self.host, sent, received)

    # The lease (scheduler.kube.lease).

    def holder_changed(self, holder: str) -> None:
        """Somebody else holds the lease, or nobody does."""
        if holder != self.identity:
            log.info(event_names.LEASE_AWAITED, holder=holder or None)

    def request_failed(self, error: ApiError) -> None:
        """One try to get or renew the lease failed."""
        if self._news.is_new("lease", str(error)):
            log.warning(event_names.LEASE_AWAITED, error=str(error))

    def watch_refused(self, error: ApiError) -> None:
        """We may not watch the lease."""
        log.warning(
            event_names.LEASE_UNWATCHED,
            error=str(error),
            remedy="grant watch on it; until then it is asked for now and then",
        )

    # The loop.

    def loop_stalled(self, seconds: float) -> None:
        """The event loop came *seconds* late to something that was due."""
        self.metrics.loop_stalled(seconds)
        if seconds > _STALL_SECONDS:
            log.warning(event_names.LOOP_STALLED, seconds=round(seconds, 3))


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
