"""Other schedulers that bind pods to the same nodes, and kubelets that reject bound pods.

Neither coordinates with us, so what they do is inferred from pods: which ones others bind to freed
capacity, and which of ours a kubelet rejected. The resulting bans enter cache and queue like facts.
"""

from collections.abc import Callable, Iterable

from scheduler.cache.cluster_cache import ClusterCache
from scheduler.cache.pending_pods import PendingPods
from scheduler.cache.trust_ledger import TrustLedger
from scheduler.framework.cluster_event import Action, Change, ClusterEvent
from scheduler.model.fact import Added, Deleted, Updated
from scheduler.model.pod import Pod
from scheduler.model.trust import (
    CAPACITY_TAKEN,
    NODE_DISTRUST,
    is_admitted,
    kubelet_rejection,
    owner_of,
    rejected_at,
)
from scheduler.preemption.freed_capacity import FreedCapacities, FreedCapacity
from scheduler.queue.scheduling_queue import SchedulingQueue
from scheduler.reporting.clock import Clock
from scheduler.reporting.telemetry import Telemetry


class OtherSchedulers:
    """Infers from bound and failed pods which nodes to avoid, and which nominations are over.

    Args:
        pending: Has the scheduler names that are ours.
        freed: Has the capacity that others may take.
        may_act: Returns whether this process leads right now.
    """

    def __init__(
        self,
        *,
        cache: ClusterCache,
        queue: SchedulingQueue,
        pending: PendingPods,
        freed: FreedCapacities,
        telemetry: Telemetry,
        may_act: Callable[[], bool],
        clock: Clock,
    ) -> None:
        self._cache = cache
        self._queue = queue
        self._pending = pending
        self._freed = freed
        self._telemetry = telemetry
        self._may_act = may_act
        self._clock = clock
        self.ledger = TrustLedger()

    # Bans that end.

    def next_expiry(self) -> float | None:
        """Return when the next ban or trial of a node ends."""
        return self.ledger.next_expiry()

    def expire_bans(self, now: float) -> None:
        """End the bans and trials whose time is over."""
        self._apply(self.ledger.expire(now), now)

    # Pods on nodes.

    def pod_placed(self, pod: Pod, now: float) -> None:
        """Note a pod that was bound, by whichever scheduler."""
        if not self._pending.is_ours(pod):
            self._freed.pod_came(pod)
            self._queue.forget_foreign(pod, now)
        elif is_admitted(pod):
            self._note_admitted(pod, now)

    def pod_updated(self, old: Pod, new: Pod, now: float) -> None:
        """Note a new version of a bound pod, whichever scheduler bound it."""
        if is_admitted(new) and not is_admitted(old):
            self._note_admitted(new, now)

    def pod_left(self, pod: Pod, now: float) -> None:
        """Note that a bound pod, or a pending one of another scheduler, is gone."""
        self._freed.pod_left(pod)
        self._queue.forget_foreign(pod, now)

    def node_removed(self, node: str, now: float) -> None:
        """Forget what is known of a node that was removed: its successor is another node."""
        self._freed.node_removed(node)
        self._apply(self.ledger.forget_node(node), now)

    # Trust.

    def kubelet_rejected(self, pod: Pod, now: float) -> None:
        """Note that a kubelet rejected a pod of ours just now."""
        # Every replica watches pods. Only the leader counts: the metric is summed over replicas.
        if self._may_act():
            self._telemetry.kubelet_rejected(pod)
        self._distrust(pod, pod.node_name, kubelet_rejection(pod), now)

    def kubelet_had_rejected(self, pod: Pod, now: float) -> None:
        """Note that a kubelet rejected a pod of ours before this process started.

        How long ago is known from the pod's stamp alone: the only decision that uses the time of
        day. A clock that is off makes the distrust end earlier or later by as much.
        """
        at = rejected_at(pod)
        if at is not None:
            began = now - max(0.0, self._clock.time_of_day() - at)
            self._apply(
                self.ledger.ban(owner_of(pod), pod.node_name, kubelet_rejection(pod), began), now
            )
            self._apply(self.ledger.expire(now), now)

    def possibly_taken(self, pod: Pod) -> FreedCapacity | None:
        """Return the capacity freed for *pod*, if pods of others came there meanwhile."""
        return self._freed.possibly_taken(pod.uid)

    def decided(self, pod: Pod, node: str) -> None:
        """Note the node that is chosen for *pod*, empty if none."""
        self._freed.decided(pod.uid, node)

    def capacity_taken(self, pod: Pod, freed: FreedCapacity, now: float) -> None:
        """Note that others took the capacity *freed* for a pod."""
        self._freed.forget(pod.uid)
        self._telemetry.preemption_undone(pod, freed.node, tuple(freed.taken_by.values()))
        self._distrust(pod, freed.node, CAPACITY_TAKEN, now)

    def _note_admitted(self, pod: Pod, now: float) -> None:
        """Wake the owner's next pod, where a node on trial takes them one at a time."""
        if distrust := self.ledger.on_trial(owner_of(pod), pod.node_name):
            event = ClusterEvent(NODE_DISTRUST, Action.UPDATE)
            self._queue.requeue_on(Change(event, distrust, distrust), now)

    def _distrust(self, pod: Pod, node: str, why: str, now: float) -> None:
        owner = owner_of(pod)
        changes = self.ledger.ban(owner, node, why, now)
        self._apply(changes, now)
        until = self.ledger.until(owner, node)
        if changes and until is not None:
            self._telemetry.node_distrusted(pod, node, why, until - now)

    def _apply(self, changes: Iterable[Added | Updated | Deleted], now: float) -> None:
        for change in changes:
            match change:
                case Added(resource, new):
                    self._cache.put(resource, new)
                case Updated(resource, old, new):
                    self._cache.put(resource, new)
                    event = ClusterEvent(resource, Action.UPDATE)
                    self._queue.requeue_on(Change(event, old, new), now)
                case Deleted(resource, old):
                    self._cache.drop(resource, old)
                    event = ClusterEvent(resource, Action.DELETE)
                    self._queue.requeue_on(Change(event, old, None), now)
