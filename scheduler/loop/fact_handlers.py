"""What each fact means for cache and queue.

Source: ``pkg/scheduler/eventhandlers.go``. Pods that are bound, by whomever, go to the cache;
pending pods of our profiles go to the queue; everything else about pods is none of our business.
"""

from collections.abc import Callable, Collection
from typing import Final, assert_never

from scheduler.cache.cluster_cache import ClusterCache
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
from scheduler.loop.evictions import Evictions
from scheduler.loop.telemetry import Telemetry
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
from scheduler.queue.scheduling_queue import SchedulingQueue

KUBELET_REJECTIONS: Final = frozenset(
    {
        "OutOfcpu",
        "OutOfmemory",
        "OutOfpods",
        "OutOfephemeral-storage",
        "NodeAffinity",
        "NodeName",
        "NodePorts",
        "TaintToleration",
        "UnexpectedAdmissionError",
    }
)


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
        ours: The scheduler names that our profiles answer to.
        evictions: Hear of pods that leave, pods that need no room any more, and nodes that vanish.
        condemned: Called for an assumed pod whose deletion has begun, with the pod.
        unreadable: Called for a pending pod of ours that cannot be read.
    """

    def __init__(
        self,
        cache: ClusterCache,
        queue: SchedulingQueue,
        ours: Collection[str],
        telemetry: Telemetry,
        *,
        evictions: Evictions,
        condemned: Callable[[Pod], None],
        unreadable: Callable[[Pod], None],
    ) -> None:
        self._cache = cache
        self._queue = queue
        self._ours = ours
        self._telemetry = telemetry
        self._evictions = evictions
        self._condemned = condemned
        self._unreadable = unreadable
        self._pending: dict[str, Pod] = {}
        self.listed: set[ResourceName] = set()

    def newest(self, pod: Pod) -> Pod | None:
        """Return the newest version of a pending pod, or its successor of the same name."""
        return self._pending.get(pod.key)

    def apply(self, fact: Fact, now: float) -> None:
        """Bring cache and queue up to date with *fact*."""
        match fact:
            case Listed(resource):
                self.listed.add(resource)
            case Added() | Updated() | Deleted():
                self._apply_change(fact, now)
            case _:
                assert_never(fact)

    def _apply_change(self, fact: Added | Updated | Deleted, now: float) -> None:
        match fact.resource:
            case Resource.POD:
                self._apply_pod(fact, now)
            case Resource.NODE:
                self._apply_node(fact, now)
            case Resource.FAILED_POD:
                self._apply_failed(fact)
            case _:
                self._apply_object(fact)
                if fact.resource in STORAGE or isinstance(_thing(fact), CustomObject):
                    self._note_object(fact, now)

    # Nodes.

    def _apply_node(self, fact: Added | Updated | Deleted, now: float) -> None:
        match fact:
            case Added(new=Node() as new):
                self._cache.add_node(new)
                self._queue.note(Change(NODE_ADD, None, new), now)
            case Updated(old=Node() as old, new=Node() as new):
                self._cache.update_node(new)
                for event in node_changes(old, new):
                    self._queue.note(Change(event, old, new), now)
            case Deleted(old=Node() as old):
                self._queue.note(Change(NODE_DELETE, old, None), now)
                self._cache.remove_node(old.name)
                self._evictions.node_vanished(old.name)

    def _apply_object(self, fact: Added | Updated | Deleted) -> None:
        match fact:
            case Added(resource, new) | Updated(resource, _, new):
                self._cache.put(resource, new)
            case Deleted(resource, old):
                self._cache.drop(resource, old)

    def _note_object(self, fact: Added | Updated | Deleted, now: float) -> None:
        """Tell the queue: some plugin may wait for the object."""
        match fact:
            case Added(resource, new):
                self._queue.note(Change(ClusterEvent(resource, Action.ADD), None, new), now)
            case Updated(resource, old, new):
                self._queue.note(Change(ClusterEvent(resource, Action.UPDATE), old, new), now)
            case Deleted(resource, old):
                self._queue.note(Change(ClusterEvent(resource, Action.DELETE), old, None), now)

    def _apply_failed(self, fact: Added | Updated | Deleted) -> None:
        # What had failed before we came is history; only what is refused from now on is news.
        if isinstance(fact, Deleted) or Resource.FAILED_POD not in self.listed:
            return
        pod: KubeObject = fact.new
        if isinstance(pod, Pod) and pod.status.reason in KUBELET_REJECTIONS and self._is_ours(pod):
            self._telemetry.kubelet_rejected(pod)

    # Pods.

    def _apply_pod(self, fact: Added | Updated | Deleted, now: float) -> None:
        match fact:
            case Added(new=Pod() as new):
                self._pod_added(new, now)
            case Updated(old=Pod() as old, new=Pod() as new):
                self._pod_updated(old, new, now)
            case Deleted(old=Pod() as old):
                self._pod_deleted(old, now)

    def _pod_added(self, pod: Pod, now: float) -> None:
        if pod.node_name:
            self._assigned_added(pod, now)
        elif self._is_ours(pod):
            self._pending_added(pod, now)

    def _pod_updated(self, old: Pod, new: Pod, now: float) -> None:
        if old.node_name:
            self._cache.add_pod(new)
            for event in pod_changes(old, new):
                self._queue.note(Change(event, old, new), now)
        elif new.node_name:
            self._assigned_added(new, now)
            if self._is_ours(new):
                self._leave_queue(new)
        elif self._is_ours(old):
            self._pending_updated(old, new, now)

    def _pod_deleted(self, pod: Pod, now: float) -> None:
        # A deletion that was not seen may be that of a pod we had bound meanwhile: it is assumed
        # then, and the end of an assumed pod is handled like that of any pending one.
        if pod.node_name:
            self._assigned_deleted(pod, now)
        elif self._is_ours(pod):
            self._pending_deleted(pod, now)

    def _assigned_added(self, pod: Pod, now: float) -> None:
        self._cache.add_pod(pod)
        self._queue.note(Change(ASSIGNED_POD_ADD, None, pod), now)

    def _assigned_deleted(self, pod: Pod, now: float) -> None:
        placed = self._cache.remove_pod(pod.uid) or pod
        self._queue.note(Change(ASSIGNED_POD_DELETE, placed, None), now)
        self._evictions.left(placed)

    def _pending_added(self, pod: Pod, now: float) -> None:
        self._pending[pod.key] = pod
        if pod.malformed:
            self._unreadable(pod)
        elif not self._cache.is_assumed(pod.uid):
            self._queue.add(pod, now)

    def _pending_updated(self, old: Pod, new: Pod, now: float) -> None:
        self._pending[new.key] = new
        if new.malformed:
            self._queue.delete(new)
            self._unreadable(new)
        elif self._cache.is_assumed(new.uid):
            if new.terminating and not old.terminating:
                self._condemned(new)
        elif old.malformed:
            self._queue.add(new, now)
        else:
            self._queue.update(old, new, now)
            self._note_nomination(old, new, now)

    def _note_nomination(self, old: Pod, new: Pod, now: float) -> None:
        """Wake who waited for room that a nomination held and gives up: none more important."""
        if old.nominated_node and new.nominated_node != old.nominated_node:
            self._queue.note(
                Change(ASSIGNED_POD_DELETE, old, None),
                now,
                only=lambda pod: pod.priority <= old.priority,
            )

    def _pending_deleted(self, pod: Pod, now: float) -> None:
        self._leave_queue(pod)
        if self._cache.is_assumed(pod.uid):
            self._condemned(pod)
        elif pod.nominated_node:
            self._queue.note(
                Change(ASSIGNED_POD_DELETE, pod, None),
                now,
                only=lambda other: other.priority <= pod.priority,
            )

    def _leave_queue(self, pod: Pod) -> None:
        known = self._pending.get(pod.key)
        if known is not None and known.uid == pod.uid:
            del self._pending[pod.key]
        self._queue.delete(pod)
        self._evictions.abandon(pod)

    def _is_ours(self, pod: Pod) -> bool:
        return pod.spec.scheduler_name in self._ours


def _thing(fact: Added | Updated | Deleted) -> KubeObject:
    return fact.old if isinstance(fact, Deleted) else fact.new
