"""What facts about pods mean for cache and queue.

Source: ``pkg/scheduler/eventhandlers.go``. Pods that are bound, by whichever scheduler, enter the
cache; pending pods of our profiles enter the queue; of those of other schedulers only the
nomination counts.
"""

from collections import deque
from collections.abc import Collection

from scheduler.binding.binding_cycle import BindingCycle
from scheduler.cache.cluster_cache import ClusterCache
from scheduler.cache.pending_pods import PendingPods
from scheduler.framework.cluster_event import (
    ASSIGNED_POD_ADD,
    ASSIGNED_POD_DELETE,
    Change,
    pod_changes,
)
from scheduler.model.fact import Added, Deleted, Updated
from scheduler.model.pod import Pod
from scheduler.preemption.other_schedulers import OtherSchedulers
from scheduler.preemption.preemptors import Preemptors
from scheduler.queue.scheduling_queue import PODS_AT_ONCE, SchedulingQueue
from scheduler.reporting.failure_handler import FailureHandler


class PodHandlers:
    """Applies facts about pods, one at a time.

    Args:
        pending: The newest version of every pod without a node.
        preemptors: Wait for pods to leave.
        other_schedulers: Draws conclusions from what others place.
        binding: Gives up assumed pods whose deletion has begun.
        failures: Reports pods that cannot be read.
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
    ) -> None:
        self._cache = cache
        self._queue = queue
        self._pending = pending
        self._preemptors = preemptors
        self._other_schedulers = other_schedulers
        self._binding = binding
        self._failures = failures
        self._dismissed: deque[Pod] = deque()
        self._adopted: deque[Pod] = deque()

    def is_ours(self, pod: Pod) -> bool:
        """Tell whether one of our profiles has the pod's scheduler name."""
        return self._pending.is_ours(pod)

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
        """Go on with what concerns many pods, a few at a time; tell whether more are left.

        Nothing is applied and nothing is popped before all is done.
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

    # Facts.

    def apply(self, fact: Added | Updated | Deleted, now: float) -> None:
        """Bring cache and queue up to date with *fact*, which is about a pod."""
        match fact:
            case Added(new=Pod() as new):
                self._added(new, now)
            case Updated(old=Pod() as old, new=Pod() as new):
                self._updated(old, new, now)
            case Deleted(old=Pod() as old):
                self._deleted(old, now)

    def _added(self, pod: Pod, now: float) -> None:
        if pod.node_name:
            self._assigned_added(pod, now)
        elif self._concerns_us(pod):
            self._pending_added(pod, now)
        else:
            self._pending.put(pod)
            self._queue.follow_foreign(pod, now)

    def _updated(self, old: Pod, new: Pod, now: float) -> None:
        if old.node_name:
            self._cache.add_pod(new)
            for event in pod_changes(old, new):
                self._queue.note(Change(event, old, new), now)
            self._other_schedulers.pod_updated(old, new, now)
        elif new.node_name:
            if self._pending.is_ours(new):
                self._leave_queue(new, now)
            else:
                self._pending.drop(new)
            self._assigned_added(new, now)
        elif self._concerns_us(old):
            self._pending_updated(old, new, now)
        else:
            self._pending.put(new)
            self._queue.follow_foreign(new, now)

    def _deleted(self, pod: Pod, now: float) -> None:
        # The last version that was seen may be pending although we have bound the pod meanwhile.
        # It is assumed then, and its end is handled like that of any pending pod.
        if pod.node_name:
            placed = self._cache.remove_pod(pod.uid) or pod
            self._queue.note(Change(ASSIGNED_POD_DELETE, placed, None), now)
            self._preemptors.pod_left(placed)
            self._other_schedulers.pod_left(placed, now)
        elif self._concerns_us(pod):
            self._leave_queue(pod, now)
            if self._cache.is_assumed(pod.uid):
                self._binding.on_assumed_pod_deleted(pod)
        else:
            self._pending.drop(pod)
            self._other_schedulers.pod_left(pod, now)

    def _assigned_added(self, pod: Pod, now: float) -> None:
        self._cache.add_pod(pod)
        self._queue.note(Change(ASSIGNED_POD_ADD, None, pod), now)
        self._other_schedulers.pod_placed(pod, now)

    def _pending_added(self, pod: Pod, now: float) -> None:
        self._pending.put(pod)
        if pod.malformed:
            self._failures.report_malformed(pod)
        elif not self._cache.is_assumed(pod.uid):
            self._queue.add(pod, now)

    def _pending_updated(self, old: Pod, new: Pod, now: float) -> None:
        self._pending.put(new)
        deletion_began = new.terminating and not old.terminating
        if deletion_began:
            self._preemptors.abandon(new)
        if new.malformed:
            self._queue.delete(new, now)
            self._failures.report_malformed(new)
        elif self._cache.is_assumed(new.uid):
            if deletion_began:
                self._binding.on_assumed_pod_deleted(new)
        elif old.malformed:
            self._queue.add(new, now)
        else:
            self._queue.update(old, new, now)

    def _leave_queue(self, pod: Pod, now: float) -> None:
        self._pending.drop(pod)
        self._queue.delete(pod, now)
        self._preemptors.abandon(pod)

    def _concerns_us(self, pod: Pod) -> bool:
        """Tell whether a pending pod is ours, or was when its node was chosen."""
        return self._pending.is_ours(pod) or self._cache.is_assumed(pod.uid)
