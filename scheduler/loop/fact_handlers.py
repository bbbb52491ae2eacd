"""What each fact means for cache and queue.

Source: ``pkg/scheduler/eventhandlers.go``. Pods that are bound, by whichever scheduler, enter the
cache; pending pods of our profiles enter the queue; of those of other schedulers only the
nomination counts.
"""

from collections import deque
from collections.abc import Collection, Iterable
from typing import Final, assert_never

from scheduler.binding.binding_cycle import BindingCycle
from scheduler.cache.cluster_cache import ClusterCache
from scheduler.cache.pending_pods import PendingPods
from scheduler.framework.cluster_event import (
    ASSIGNED_POD_ADD,
    ASSIGNED_POD_DELETE,
    NODE_ADD,
    NODE_DELETE,
    Action,
    Change,
    ClusterEvent,
    node_changes,
    pod_changes,
)
from scheduler.model.fact import (
    Added,
    Deleted,
    Fact,
    KubeObject,
    Listed,
    Resource,
    ResourceName,
    Updated,
)
from scheduler.model.node import Node
from scheduler.model.objects import CustomObject
from scheduler.model.pod import Pod
from scheduler.model.pod_size import excess
from scheduler.model.trust import is_rejected_by_kubelet
from scheduler.preemption.other_schedulers import OtherSchedulers
from scheduler.preemption.preemptors import Preemptors
from scheduler.queue.scheduling_queue import PODS_AT_ONCE, SchedulingQueue
from scheduler.reporting.failure_handler import FailureHandler

STORAGE: Final = frozenset(
    {
        Resource.PERSISTENT_VOLUME_CLAIM,
        Resource.PERSISTENT_VOLUME,
        Resource.STORAGE_CLASS,
        Resource.CSI_NODE,
        Resource.CSI_DRIVER,
        Resource.CSI_STORAGE_CAPACITY,
        Resource.VOLUME_ATTACHMENT,
    }
)
"""Of the small objects, those whose changes can help a pod; the others are only looked up."""


class FactHandlers:
    """Applies facts, one at a time, to cache and queue.

    Args:
        pending: The newest version of every pod without a node.
        preemptors: Moves preemptions on when victims are gone or a node is removed.
        other_schedulers: Draws conclusions from what others place and kubelets reject.
        binding: Frees the node of assumed pods whose deletion has begun.
        failures: Reports pods that cannot be read, or ask too much.
        pod_entries_maximum: How much a pod may ask; see `pod_size`.
    """

    def __init__(
        self,
        *,
        cache: ClusterCache,
        queue: SchedulingQueue,
        pending: PendingPods,
        preemptors: Preemptors,
        other_schedulers: OtherSchedulers,
        binding: BindingCycle,
        failures: FailureHandler,
        pod_entries_maximum: int,
    ) -> None:
        self._cache = cache
        self._queue = queue
        self._pending = pending
        self._preemptors = preemptors
        self._other_schedulers = other_schedulers
        self._binding = binding
        self._failures = failures
        self._pod_entries_maximum = pod_entries_maximum
        self._listed: set[ResourceName] = set()
        self._awaited: frozenset[ResourceName] = frozenset()
        self._dismissed: deque[Pod] = deque()
        self._adopted: deque[Pod] = deque()

    @property
    def synced(self) -> bool:
        """Whether every resource that decisions need has been listed and applied."""
        return self._awaited <= self._listed

    def await_listing(self, resources: Iterable[ResourceName]) -> None:
        """Require these *resources* too to be listed before pods are popped."""
        self._awaited = self._awaited.union(resources)

    def apply(self, fact: Fact, now: float) -> None:
        """Bring cache and queue up to date with *fact*."""
        match fact:
            case Listed(resource):
                self._listed.add(resource)
            case Added(Resource.POD, Pod() as new):
                self._pod_added(new, now)
            case Updated(Resource.POD, Pod() as old, Pod() as new):
                self._pod_updated(old, new, now)
            case Deleted(Resource.POD, Pod() as old):
                self._pod_deleted(old, now)
            case Added() | Updated() | Deleted() if fact.resource == Resource.NODE:
                self._apply_node(fact, now)
            case Added() | Updated() | Deleted() if fact.resource == Resource.FAILED_POD:
                self._apply_failed(fact, now)
            case Added() | Updated() | Deleted():
                self._apply_object(fact, now)
            case _:
                assert_never(fact)

    # A changed configuration.

    def dismiss(self, names: Collection[str]) -> int:
        """Schedule pods of these *names* no longer, and return how many of them wait.

        Pods that have a node already are still bound. ``catch_up`` does the rest.
        """
        pods = self._pending.remove_names(names)
        self._dismissed.extend(pods)
        return len(pods)

    def adopt(self, names: Collection[str]) -> int:
        """Schedule pods of these *names* from now on, and return how many of them wait already.

        ``catch_up`` adds them to the queue.
        """
        pods = self._pending.add_names(names)
        self._adopted.extend(pods)
        return len(pods)

    def catch_up(self, now: float) -> bool:
        """Continue work on many pods, PODS_AT_ONCE at a time; return whether some is left.

        No fact is applied and no pod is popped before all of it is done: both would see a cluster
        to which one fact is applied by half.
        """
        if self._dismissed:
            for _ in range(min(len(self._dismissed), PODS_AT_ONCE)):
                pod = self._dismissed.popleft()
                self._queue.delete(pod, now)
                self._preemptors.abandon(pod)
                if not self._cache.is_assumed(pod.uid):
                    self._queue.follow_foreign(pod, now)
            return True
        if self._queue.catch_up():
            return True
        for _ in range(min(len(self._adopted), PODS_AT_ONCE)):
            pod = self._adopted.popleft()
            self._queue.take_over(pod)
            self._pending_added(pod, now)
        return bool(self._adopted)

    # Bans that end.

    def next_expiry(self) -> float | None:
        """Return when the next ban or trial of a node ends."""
        return self._other_schedulers.next_expiry()

    def expire_bans(self, now: float) -> bool:
        """End bans and trials whose time is over; return whether there was any."""
        due = self._other_schedulers.next_expiry()
        if due is None or due > now:
            return False
        self._other_schedulers.expire_bans(now)
        return True

    # Pods.

    def _pod_added(self, pod: Pod, now: float) -> None:
        if pod.node_name:
            self._assigned_added(pod, now)
        elif self._concerns_us(pod):
            self._pending_added(pod, now)
        else:
            self._pending.put(pod)
            self._queue.follow_foreign(pod, now)

    def _pod_updated(self, old: Pod, new: Pod, now: float) -> None:
        if old.node_name:
            self._cache.add_pod(new)
            for event in pod_changes(old, new):
                self._queue.requeue_on(Change(event, old, new), now)
            if new.terminating and not old.terminating:
                self._preemptors.pod_terminates(new)
            self._other_schedulers.pod_updated(old, new, now)
        elif new.node_name:
            if self._pending.is_ours(new):
                self._remove_from_queue(new, now)
            else:
                self._pending.drop(new)
            self._assigned_added(new, now)
        elif self._concerns_us(old):
            self._pending_updated(old, new, now)
        else:
            self._pending.put(new)
            self._queue.follow_foreign(new, now)

    def _pod_deleted(self, pod: Pod, now: float) -> None:
        # The last version that was seen may be pending although we have bound the pod meanwhile.
        # It is assumed then, and its end is handled like that of any pending pod.
        if pod.node_name:
            placed = self._cache.remove_pod(pod.uid) or pod
            self._queue.requeue_on(Change(ASSIGNED_POD_DELETE, placed, None), now)
            self._preemptors.pod_left(placed)
            self._other_schedulers.pod_left(placed, now)
        elif self._concerns_us(pod):
            self._remove_from_queue(pod, now)
            if self._cache.is_assumed(pod.uid):
                self._binding.on_assumed_pod_deleted(pod)
        else:
            self._pending.drop(pod)
            self._other_schedulers.pod_left(pod, now)

    def _assigned_added(self, pod: Pod, now: float) -> None:
        self._cache.add_pod(pod)
        self._binding.watch_lag.confirmed(pod.uid, now)
        self._queue.requeue_on(Change(ASSIGNED_POD_ADD, None, pod), now)
        if pod.terminating:  # it was assumed, and evicted before its binding was reported
            self._preemptors.pod_terminates(pod)
        self._other_schedulers.pod_placed(pod, now)

    def _pending_added(self, pod: Pod, now: float) -> None:
        self._pending.put(pod)
        if why := self._why_kept_out(pod):
            self._failures.report_kept_out(pod, why)
        elif not self._cache.is_assumed(pod.uid):
            self._queue.add(pod, now)

    def _pending_updated(self, old: Pod, new: Pod, now: float) -> None:
        self._pending.put(new)
        deletion_began = new.terminating and not old.terminating
        if deletion_began:
            self._preemptors.abandon(new)
        if why := self._why_kept_out(new):
            self._queue.delete(new, now)
            self._failures.report_kept_out(new, why)
        elif self._cache.is_assumed(new.uid):
            if deletion_began:
                self._binding.on_assumed_pod_deleted(new)
        elif self._why_kept_out(old):
            self._queue.add(new, now)
        else:
            self._queue.update(old, new, now)

    def _why_kept_out(self, pod: Pod) -> str:
        """Return why a pending pod does not enter the queue; empty if it does."""
        if pod.malformed:
            return f"the pod cannot be read: {pod.malformed}"
        if why := excess(pod, self._pod_entries_maximum):
            return f"the pod asks too much: {why}"
        return ""

    def _remove_from_queue(self, pod: Pod, now: float) -> None:
        self._pending.drop(pod)
        self._queue.delete(pod, now)
        self._preemptors.abandon(pod)

    def _concerns_us(self, pod: Pod) -> bool:
        """Tell whether a pending pod is ours, or was when its node was chosen."""
        return self._pending.is_ours(pod) or self._cache.is_assumed(pod.uid)

    # Other objects.

    def _apply_node(self, fact: Added | Updated | Deleted, now: float) -> None:
        match fact:
            case Added(new=Node() as new):
                self._cache.add_node(new)
                self._queue.requeue_on(Change(NODE_ADD, None, new), now)
            case Updated(old=Node() as old, new=Node() as new):
                self._cache.update_node(new)
                for event in node_changes(old, new):
                    self._queue.requeue_on(Change(event, old, new), now)
            case Deleted(old=Node() as old):
                self._queue.requeue_on(Change(NODE_DELETE, old, None), now)
                self._cache.remove_node(old.name)
                self._preemptors.node_removed(old.name)
                self._other_schedulers.node_removed(old.name, now)

    def _apply_failed(self, fact: Added | Updated | Deleted, now: float) -> None:
        """Note a pod that a kubelet rejected, once; other failed pods mean nothing here."""
        if isinstance(fact, Deleted) or not self._is_rejection(fact.new):
            return
        if isinstance(fact, Updated) and self._is_rejection(fact.old):
            return
        assert isinstance(fact.new, Pod), f"{fact.resource} brought a {type(fact.new).__name__}"
        if Resource.FAILED_POD in self._listed:
            self._other_schedulers.kubelet_rejected(fact.new, now)
        else:
            # The pod failed before this process started. It is not counted
            # again: the ban alone is set, as of the moment of the rejection.
            self._other_schedulers.kubelet_had_rejected(fact.new, now)

    def _is_rejection(self, item: KubeObject) -> bool:
        return (
            isinstance(item, Pod) and self._pending.is_ours(item) and is_rejected_by_kubelet(item)
        )

    def _apply_object(self, fact: Added | Updated | Deleted, now: float) -> None:
        """Store an object that is neither pod nor node; requeue pods that it could help."""
        match fact:
            case Added(resource, new):
                self._cache.put(resource, new)
                change = Change(ClusterEvent(resource, Action.ADD), None, new)
            case Updated(resource, old, new):
                self._cache.put(resource, new)
                change = Change(ClusterEvent(resource, Action.UPDATE), old, new)
            case Deleted(resource, old):
                self._cache.drop(resource, old)
                change = Change(ClusterEvent(resource, Action.DELETE), old, None)
        item = change.old if change.new is None else change.new
        if fact.resource in STORAGE or isinstance(item, CustomObject):
            self._queue.requeue_on(change, now)
