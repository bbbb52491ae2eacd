"""What others do on our nodes: schedulers that fill them too, kubelets that have the last word.

Nobody coordinates with us, so what they do is read from pods: where they nominate and place theirs,
and which of ours a kubelet refused. What follows is told to cache and queue as facts are.
"""

from collections.abc import Callable, Collection, Iterable

from scheduler.cache.cluster_cache import ClusterCache
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
from scheduler.reporting.telemetry import Telemetry


class OtherSchedulers:
    """Draws the conclusions.

    Args:
        ours: The scheduler names that our profiles answer to.
        rooms: Hears who is placed where.
        may_act: Tells whether this process leads right now.
        wall_seconds: The time of day, in seconds since 1970.
    """

    def __init__(
        self,
        *,
        cache: ClusterCache,
        queue: SchedulingQueue,
        ours: Collection[str],
        rooms: FreedCapacities,
        telemetry: Telemetry,
        may_act: Callable[[], bool],
        wall_seconds: Callable[[], float],
    ) -> None:
        self._cache = cache
        self._queue = queue
        self._ours = ours
        self._rooms = rooms
        self._telemetry = telemetry
        self._may_act = may_act
        self._wall_seconds = wall_seconds
        self.ledger = TrustLedger()

    # Time.

    def next_change(self) -> float | None:
        """Return when time alone will change something."""
        return self.ledger.next_change()

    def pass_time(self, now: float) -> None:
        """Let end what was to last for a while."""
        self._apply(self.ledger.expire(now), now)

    # Pods of other schedulers.

    def placed(self, pod: Pod, now: float) -> None:
        """Take in a pod that was bound, by whomever."""
        if pod.spec.scheduler_name not in self._ours:
            self._rooms.arrived(pod)
            self._queue.forget_foreign(pod, now)
        elif is_admitted(pod):
            self._note_let_in(pod, now)

    def updated(self, old: Pod, new: Pod, now: float) -> None:
        """Take in a new version of a bound pod, of whomever."""
        if is_admitted(new) and not is_admitted(old):
            self._note_let_in(new, now)

    def gone(self, pod: Pod, now: float) -> None:
        """Note that a pod of another scheduler is gone."""
        self._rooms.left(pod)
        self._queue.forget_foreign(pod, now)

    # Trust.

    def refused(self, pod: Pod, now: float) -> None:
        """Note that a kubelet refused a pod of ours just now."""
        # All replicas learn from it; one of them counts it, or the sum over them would be too high.
        if self._may_act():
            self._telemetry.kubelet_rejected(pod)
        self._distrust(pod, pod.node_name, kubelet_rejection(pod), now)

    def had_refused(self, pod: Pod, now: float) -> None:
        """Note that a kubelet had refused a pod of ours before this process listened."""
        at = rejected_at(pod)
        if at is not None:
            began = now - max(0.0, self._wall_seconds() - at)
            self._apply(
                self.ledger.ban(owner_of(pod), pod.node_name, kubelet_rejection(pod), began), now
            )
            self._apply(self.ledger.expire(now), now)

    def _note_let_in(self, pod: Pod, now: float) -> None:
        """Let the next one try as well, where pods of the owner go one at a time."""
        if held := self.ledger.on_trial(owner_of(pod), pod.node_name):
            event = ClusterEvent(NODE_DISTRUST, Action.UPDATE)
            self._queue.note(Change(event, held, held), now)

    def undone(self, pod: Pod, room: FreedCapacity, now: float) -> None:
        """Note that others took the room that was made for *pod*."""
        self._rooms.forget(pod.uid)
        self._telemetry.preemption_undone(pod, room.node, tuple(room.taken_by.values()))
        self._distrust(pod, room.node, CAPACITY_TAKEN, now)

    def vanished(self, node: str, now: float) -> None:
        """Note that a node is no more; what was held against it went with it."""
        self._rooms.vanished(node)
        self._apply(self.ledger.forget_node(node), now)

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
                    self._queue.note(Change(event, old, new), now)
                case Deleted(resource, old):
                    self._cache.drop(resource, old)
                    event = ClusterEvent(resource, Action.DELETE)
                    self._queue.note(Change(event, old, None), now)
