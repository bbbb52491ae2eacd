"""What each fact means for cache and queue.

Source: ``pkg/scheduler/eventhandlers.go``.
"""

from collections.abc import Iterable
from typing import Final

from scheduler.cache.cluster_cache import ClusterCache
from scheduler.framework.cluster_event import (
    NODE_ADD,
    NODE_DELETE,
    Action,
    Change,
    ClusterEvent,
    node_changes,
)
from scheduler.loop.pod_handlers import PodHandlers
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
from scheduler.preemption.other_schedulers import OtherSchedulers
from scheduler.preemption.preemptors import Preemptors
from scheduler.queue.scheduling_queue import SchedulingQueue
from scheduler.reporting.clock import Clock
from scheduler.reporting.telemetry import Telemetry

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
        pods: Handles facts about pods.
        preemptors: Give up when their node is removed.
        other_schedulers: Draws conclusions from pods that a kubelet rejected.
    """

    def __init__(
        self,
        *,
        cache: ClusterCache,
        queue: SchedulingQueue,
        pods: PodHandlers,
        preemptors: Preemptors,
        other_schedulers: OtherSchedulers,
        telemetry: Telemetry,
        clock: Clock,
    ) -> None:
        self._cache = cache
        self._queue = queue
        self._pods = pods
        self._preemptors = preemptors
        self._other_schedulers = other_schedulers
        self._telemetry = telemetry
        self._clock = clock
        self._listed: set[ResourceName] = set()
        self._awaited: frozenset[ResourceName] = frozenset()

    @property
    def synced(self) -> bool:
        """Whether every resource that decisions need has been listed and applied."""
        return self._awaited <= self._listed

    def await_listing(self, resources: Iterable[ResourceName]) -> None:
        """Be synced only once these *resources* have been listed as well."""
        self._awaited = self._awaited.union(resources)

    def apply(self, fact: Fact, now: float) -> None:
        """Bring cache and queue up to date with *fact*."""
        if isinstance(fact, Listed):
            self._listed.add(fact.resource)
        elif fact.resource == Resource.POD:
            self._pods.apply(fact, now)
        elif fact.resource == Resource.NODE:
            self._apply_node(fact, now)
        elif fact.resource == Resource.FAILED_POD:
            self._apply_failed(fact, now)
        else:
            self._apply_object(fact, now)
        self._telemetry.applied(fact, self._clock.now() - now)

    def catch_up(self, now: float) -> bool:
        """Go on with what a fact or a reload began for many pods; tell whether more are left."""
        return self._pods.catch_up(now)

    def next_change(self) -> float | None:
        """Return when time alone changes something next."""
        return self._other_schedulers.next_change()

    def pass_time(self, now: float) -> bool:
        """Apply what time alone has changed; tell whether there was anything."""
        due = self._other_schedulers.next_change()
        if due is None or due > now:
            return False
        self._other_schedulers.pass_time(now)
        return True

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
                self._preemptors.node_removed(old.name)
                self._other_schedulers.node_removed(old.name, now)

    def _apply_failed(self, fact: Added | Updated | Deleted, now: float) -> None:
        """Take in a pod that a kubelet rejected, once; other failed pods concern nobody here."""
        if isinstance(fact, Deleted) or not self._is_rejection(fact.new):
            return
        if isinstance(fact, Updated) and self._is_rejection(fact.old):
            return
        assert isinstance(fact.new, Pod), f"{fact.resource} brought a {type(fact.new).__name__}"
        if Resource.FAILED_POD in self._listed:
            self._other_schedulers.kubelet_rejected(fact.new, now)
        else:
            # It failed before this process started: no news, but the node is distrusted from then.
            self._other_schedulers.kubelet_had_rejected(fact.new, now)

    def _is_rejection(self, item: KubeObject) -> bool:
        return isinstance(item, Pod) and self._pods.is_ours(item) and is_rejected_by_kubelet(item)

    def _apply_object(self, fact: Added | Updated | Deleted, now: float) -> None:
        """Keep a small object, and wake the pods that wait for one like it."""
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
            self._queue.note(change, now)
