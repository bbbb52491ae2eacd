"""What each fact means for cache and queue.

Source: ``pkg/scheduler/eventhandlers.go``. Pods that are bound, by whomever, go to the cache;
pending pods of our profiles go to the queue; of those of others only counts where they mean to go.
They are remembered, though: the next configuration may have a profile for them.
"""

from collections import deque
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
from scheduler.model.trust import is_rejected_by_kubelet
from scheduler.preemption.evictions import Evictions
from scheduler.preemption.other_schedulers import OtherSchedulers
from scheduler.queue.scheduling_queue import PODS_AT_ONCE, SchedulingQueue

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
        ours: The scheduler names that our profiles answer to; kept up to date here, for all who
            look at it.
        evictions: Hear of pods that leave, pods that need no room any more, and nodes that vanish.
        neighbours: Hear what others do.
        condemned: Called for an assumed pod whose deletion has begun, with the pod.
        unreadable: Called for a pending pod of ours that cannot be read.
    """

    def __init__(
        self,
        cache: ClusterCache,
        queue: SchedulingQueue,
        ours: set[str],
        *,
        evictions: Evictions,
        other_schedulers: OtherSchedulers,
        on_assumed_pod_deleted: Callable[[Pod], None],
        unreadable: Callable[[Pod], None],
    ) -> None:
        self._cache = cache
        self._queue = queue
        self._ours = ours
        self._evictions = evictions
        self._other_schedulers = other_schedulers
        self._on_assumed_pod_deleted = on_assumed_pod_deleted
        self._unreadable = unreadable
        self._pending: dict[str, Pod] = {}
        self._leaving: deque[Pod] = deque()
        self._coming: deque[Pod] = deque()
        self.listed: set[ResourceName] = set()

    def newest(self, pod: Pod) -> Pod | None:
        """Return the newest version of a pending pod, or its successor of the same name."""
        return self._pending.get(pod.key)

    def leave(self, names: Collection[str]) -> int:
        """Serve pods of these *names* no longer, and return how many of them waited.

        Who has a node already is still bound. The rest is up to ``catch_up``.
        """
        self._ours.difference_update(names)
        left = self._pending_of(names)
        self._leaving.extend(left)
        return len(left)

    def serve(self, names: Collection[str]) -> int:
        """Serve pods of these *names* from now on, and return how many of them wait already.

        They are taken into the queue by ``catch_up``.
        """
        self._ours.update(names)
        found = self._pending_of(names)
        self._coming.extend(found)
        return len(found)

    def catch_up(self, now: float) -> bool:
        """Go on with what concerns many pods, a few at a time; tell whether more are left.

        Nothing is applied and nothing is popped before all is done.
        """
        if self._leaving:
            for _ in range(min(len(self._leaving), PODS_AT_ONCE)):
                pod = self._leaving.popleft()
                self._queue.delete(pod, now)
                self._evictions.abandon(pod)
                if not self._cache.is_assumed(pod.uid):
                    self._queue.follow_foreign(pod, now)
            return True
        if self._queue.catch_up():
            return True
        for _ in range(min(len(self._coming), PODS_AT_ONCE)):
            pod = self._coming.popleft()
            self._queue.take_over(pod)
            self._pending_added(pod, now)
        return bool(self._coming)

    def _pending_of(self, names: Collection[str]) -> list[Pod]:
        if not names:
            return []
        return [pod for pod in self._pending.values() if pod.spec.scheduler_name in names]

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
                self._apply_failed(fact, now)
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
                self._other_schedulers.vanished(old.name, now)

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

    def _apply_failed(self, fact: Added | Updated | Deleted, now: float) -> None:
        """Hear of a pod that a kubelet refused, once; what else fails is nobody's business here."""
        if isinstance(fact, Deleted) or not self._is_refusal(fact.new):
            return
        if isinstance(fact, Updated) and self._is_refusal(fact.old):
            return
        assert isinstance(fact.new, Pod)
        # What had failed before we came is history: it is no news, but it counts as long as it did.
        if Resource.FAILED_POD in self.listed:
            self._other_schedulers.refused(fact.new, now)
        else:
            self._other_schedulers.had_refused(fact.new, now)

    def _is_refusal(self, item: KubeObject) -> bool:
        return isinstance(item, Pod) and self._is_ours(item) and is_rejected_by_kubelet(item)

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
        elif self._concerns_us(pod):
            self._pending_added(pod, now)
        else:
            self._pending[pod.key] = pod
            self._queue.follow_foreign(pod, now)

    def _pod_updated(self, old: Pod, new: Pod, now: float) -> None:
        if old.node_name:
            self._cache.add_pod(new)
            for event in pod_changes(old, new):
                self._queue.note(Change(event, old, new), now)
            self._other_schedulers.updated(old, new, now)
        elif new.node_name:
            if self._is_ours(new):
                self._leave_queue(new, now)
            else:
                self._forget(new)
            self._assigned_added(new, now)
        elif self._concerns_us(old):
            self._pending_updated(old, new, now)
        else:
            self._pending[new.key] = new
            self._queue.follow_foreign(new, now)

    def _pod_deleted(self, pod: Pod, now: float) -> None:
        # A deletion that was not seen may be that of a pod we had bound meanwhile: it is assumed
        # then, and the end of an assumed pod is handled like that of any pending one.
        if pod.node_name:
            self._assigned_deleted(pod, now)
        elif self._concerns_us(pod):
            self._pending_deleted(pod, now)
        else:
            self._forget(pod)
            self._other_schedulers.gone(pod, now)

    def _assigned_added(self, pod: Pod, now: float) -> None:
        self._cache.add_pod(pod)
        self._queue.note(Change(ASSIGNED_POD_ADD, None, pod), now)
        self._other_schedulers.placed(pod, now)

    def _assigned_deleted(self, pod: Pod, now: float) -> None:
        placed = self._cache.remove_pod(pod.uid) or pod
        self._queue.note(Change(ASSIGNED_POD_DELETE, placed, None), now)
        self._evictions.left(placed)
        self._other_schedulers.gone(placed, now)

    def _pending_added(self, pod: Pod, now: float) -> None:
        self._pending[pod.key] = pod
        if pod.malformed:
            self._unreadable(pod)
        elif not self._cache.is_assumed(pod.uid):
            self._queue.add(pod, now)

    def _pending_updated(self, old: Pod, new: Pod, now: float) -> None:
        self._pending[new.key] = new
        if new.terminating and not old.terminating:
            self._evictions.abandon(new)
        if new.malformed:
            self._queue.delete(new, now)
            self._unreadable(new)
        elif self._cache.is_assumed(new.uid):
            if new.terminating and not old.terminating:
                self._on_assumed_pod_deleted(new)
        elif old.malformed:
            self._queue.add(new, now)
        else:
            self._queue.update(old, new, now)

    def _pending_deleted(self, pod: Pod, now: float) -> None:
        self._leave_queue(pod, now)
        if self._cache.is_assumed(pod.uid):
            self._on_assumed_pod_deleted(pod)

    def _leave_queue(self, pod: Pod, now: float) -> None:
        self._forget(pod)
        self._queue.delete(pod, now)
        self._evictions.abandon(pod)

    def _forget(self, pod: Pod) -> None:
        known = self._pending.get(pod.key)
        if known is not None and known.uid == pod.uid:
            del self._pending[pod.key]

    def _concerns_us(self, pod: Pod) -> bool:
        """Tell whether a pending pod is ours, or was when its node was chosen."""
        return self._is_ours(pod) or self._cache.is_assumed(pod.uid)

    def _is_ours(self, pod: Pod) -> bool:
        return pod.spec.scheduler_name in self._ours


def _thing(fact: Added | Updated | Deleted) -> KubeObject:
    return fact.old if isinstance(fact, Deleted) else fact.new
