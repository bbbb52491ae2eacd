"""The door of the queue: every fact about a waiting pod comes in here, and the next pod comes out.

Source: ``pkg/scheduler/backend/queue/scheduling_queue.go``. There each queue has its own lock; here
one loop is the only caller, so nothing needs one.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import count, islice
from typing import Final

from scheduler.framework.cluster_event import (
    ASSIGNED_POD_DELETE,
    BACKOFF_COMPLETE,
    FORCE_ACTIVATE,
    POP_FROM_BACKOFF_QUEUE,
    SCHEDULE_ATTEMPT_FAILURE,
    UNSCHEDULABLE_POD_ADD,
    UNSCHEDULABLE_POD_UPDATE,
    UNSCHEDULABLE_TIMEOUT,
    Change,
    pod_changes,
)
from scheduler.framework.decision import Keep, NominationOrder
from scheduler.model.meta import PodUid
from scheduler.model.pod import Pod
from scheduler.queue.active_queue import SortKey
from scheduler.queue.foreign_nominations import ForeignNominations
from scheduler.queue.gates import Gates
from scheduler.queue.hints import Hints, ProfileRules, Verdict
from scheduler.queue.nominator import Nominator
from scheduler.queue.observer import SILENT, QueueObserver
from scheduler.queue.queue_state import READY, WAITING, Cause, QueueState
from scheduler.queue.queue_states import QueueStates
from scheduler.queue.queued_pod import MoveReason, QueuedPod

TIMEOUT_CHECK_SECONDS: Final = 30.0
PODS_AT_ONCE: Final = 512
"""How many pods one call moves, where a single change can wake thousands: some milliseconds."""
_ADD_LABEL: Final = UNSCHEDULABLE_POD_ADD.label
_UPDATE_LABEL: Final = UNSCHEDULABLE_POD_UPDATE.label
_RELOAD_LABEL: Final = "RulesReplaced"
_DELETED: Final = MoveReason(Cause.DELETED)
_DONE: Final = MoveReason(Cause.DONE)


@dataclass(frozen=True)
class QueueSettings:
    """How long pods wait."""

    initial_backoff_seconds: float = 1.0
    """The wait after a pod's first failed attempt; each further failure doubles it."""

    maximum_backoff_seconds: float = 10.0
    """The longest wait; 0 means never to wait."""

    unschedulable_seconds: float = 300.0
    """How long a pod waits for a change before it is tried again without one."""

    foreign_nomination_seconds: float = 600.0
    """How long a nomination of another scheduler's pod counts; 0 means never."""


class SchedulingQueue:
    """Pods that wait for a node.

    Every pod of ours that is neither bound nor on its way to a node is in exactly one place.

    Args:
        rules: What plugins say about gates and events, by profile.
        sort_key: The order in which ready pods go.
        settings: How long pods wait.
        observer: Hears what happens.
    """

    def __init__(
        self,
        rules: Mapping[str, ProfileRules],
        sort_key: SortKey,
        settings: QueueSettings,
        observer: QueueObserver = SILENT,
    ) -> None:
        self._nominator = Nominator()
        self._foreign = ForeignNominations(self._nominator, settings.foreign_nomination_seconds)
        self._settings = settings
        self._observer = observer
        self._hints, self._gates = Hints(rules, observer), Gates(rules, observer)
        self._states = QueueStates(
            sort_key, settings.initial_backoff_seconds, settings.maximum_backoff_seconds, observer
        )
        self._arrivals = count()
        self._next_timeout_check: float | None = None
        self._pending_changes: deque[tuple[QueuedPod, Change, MoveReason]] = deque()
        self._reloaded: deque[QueuedPod] = deque()
        self._reloading = MoveReason(Cause.RELOADED)

    def __len__(self) -> int:
        """Return how many pods wait, those in flight not counted."""
        return len(self._states.queued)

    def __iter__(self) -> Iterator[QueuedPod]:
        """Yield the pods that wait, those in flight not among them, in the order of coming."""
        return iter(tuple(self._states.queued.values()))

    # Facts about pods.

    def add(self, pod: Pod, now: float) -> None:
        """Take in a new pod."""
        if known := self.find(pod.uid):
            # Upstream would track it twice and drop one of the two when both are popped.
            self.update(known.pod, pod, now)
        else:
            self._admit(pod, MoveReason(Cause.ADDED, _ADD_LABEL, now))

    def update(self, old: Pod, new: Pod, now: float) -> None:
        """Take in a newer version of a pod, which may make it worth another attempt.

        A pod that is on its way to a node must not be told: it would be taken for a new one.
        """
        if old.uid != new.uid:
            self.delete(old, now)
            self.add(new, now)
        elif new.uid in self._states.in_flight:
            self._update_in_flight(old, new, now)
        elif queued := self._states.queued.get(new.uid):
            self._update_waiting(queued, old, new, now)
        else:
            self._admit(new, MoveReason(Cause.UPDATED, _UPDATE_LABEL, now))

    def delete(self, pod: Pod, now: float) -> None:
        """Forget a pod that is gone or bound; if it was nominated elsewhere, that room is free.

        In flight it stays with whoever decides about it, who says ``done``.
        """
        if queued := self._states.queued.get(pod.uid):
            self._count_rejectors(queued, -1)
            self._states.move(queued, None, _DELETED)
        self.withdraw(pod, now, placed_on=pod.node_name)

    # Deciding.

    @property
    def ready(self) -> bool:
        """Whether ``pop`` would hand out a pod."""
        return (
            self._states.active.first() is not None
            or self._states.backoff.first_to_fetch_early() is not None
        )

    def pop(self, now: float) -> QueuedPod | None:
        """Hand out the pod that goes next; None where none is ready.

        Where nothing is ready, a pod that should wait longer goes early.
        """
        while self.catch_up():
            pass
        queued = self._states.active.first()
        if queued is None:
            queued = self._states.backoff.first_to_fetch_early()
            if queued is None:
                return None
            self._observer.incoming("active", POP_FROM_BACKOFF_QUEUE)
        queued.attempts += 1
        self._count_rejectors(queued, -1)
        self._states.move(queued, QueueState.IN_FLIGHT, MoveReason(Cause.POPPED, "", now))
        return queued

    def done(self, uid: PodUid) -> None:
        """Note that a pod is decided: it goes to a node, or is no longer ours."""
        if queued := self._states.in_flight.get(uid):
            self._states.move(queued, None, _DONE)

    def park(
        self,
        queued: QueuedPod,
        pod: Pod,
        *,
        rejected_by: frozenset[str],
        pending: frozenset[str] = frozenset(),
        now: float,
    ) -> QueueState:
        """Take back a pod whose attempt ended without a node, or whose binding failed.

        Args:
            queued: What ``pop`` handed out.
            pod: The pod's newest version.
            rejected_by: Plugins that turned it away; none where the attempt ended in an error.
            pending: Those of them that want to hear of it again without delay.
            now: Monotonic seconds.

        Returns:
            Where it waits now.
        """
        if known := self._states.queued.get(pod.uid):
            # It came back by another way, and that is the newer story.
            assert known.state is not None, str(known)
            return known.state
        queued.note_failure(pod, rejected_by, pending, now)
        queued.order = next(self._arrivals)
        self._count_rejectors(queued, 1)
        verdict = self._hints.verdict_over(queued, self._states.in_flight.since_pop(pod.uid))
        return self._requeue(
            queued, verdict, MoveReason(Cause.PARKED, SCHEDULE_ATTEMPT_FAILURE, now)
        )

    # What may help pods that wait.

    def note(
        self, change: Change, now: float, *, only: Callable[[Pod], bool] | None = None
    ) -> None:
        """Requeue the pods which *change* could help, of those that *only* picks.

        Where these are many, some are left for ``catch_up``.
        """
        match = self._hints.match(change.event)
        if not match.rejectors and not change.event.wildcard:
            return
        self._states.in_flight.record(change)
        if candidates := self._candidates(change):
            reason = MoveReason(Cause.CHANGED, change.event.label, now)
            self._pending_changes.extend(
                (queued, change, reason)
                for queued in candidates
                if only is None or only(queued.pod)
            )
            self.catch_up()

    def catch_up(self) -> bool:
        """Go on with new rules and changes, a few pods at a time; tell whether more are left.

        Nothing is popped before all is done. What moves a pod by another way meanwhile is newer
        than the change, and stands.
        """
        for _ in range(min(len(self._reloaded), PODS_AT_ONCE)):
            self._reload(self._reloaded.popleft(), self._reloading)
        if self._reloaded:
            return True
        for _ in range(min(len(self._pending_changes), PODS_AT_ONCE)):
            queued, change, reason = self._pending_changes.popleft()
            if queued.state in WAITING:
                self._reconsider(queued, change, reason)
        return bool(self._pending_changes)

    def nominate(self, pod: Pod, order: NominationOrder, now: float) -> None:
        """Nominate a pod that was just decided about, as *order* says.

        What is kept is what we know of, which the pod's status may not tell yet. Who was refused
        for the sake of a nomination that ends by that is requeued: not the pod itself, which was
        never in its own way.
        """
        if isinstance(order, Keep):
            self._nominator.refresh(pod)
        else:
            self._note_freed(self._nominator.add(pod, order), now, but=pod.uid)

    def withdraw(self, pod: Pod, now: float, *, placed_on: str = "") -> None:
        """End the nomination of a pod, and requeue who was refused for its sake.

        Nobody is where the pod takes up that room: it is *placed_on* the node.
        """
        self._note_freed(self._nominator.delete(pod.uid, placed_on=placed_on), now)

    def follow_foreign(self, pod: Pod, now: float) -> None:
        """Follow the nomination of another scheduler's pod that is not bound."""
        self._note_freed(self._foreign.follow(pod, now), now)

    def forget_foreign(self, pod: Pod, now: float) -> None:
        """Forget the nomination of another scheduler's pod that is bound or gone."""
        self._note_freed(self._foreign.forget(pod), now)

    def take_over(self, pod: Pod) -> None:
        """Forget what another scheduler nominated: *pod* is ours now, and `add` nominates it."""
        self._foreign.forget(pod)

    def activate(self, uids: Iterable[PodUid], now: float) -> None:
        """Make pods ready, their backoff cut short; gates still count."""
        reason = MoveReason(Cause.ACTIVATED, FORCE_ACTIVATE.label, now)
        for uid in uids:
            if flying := self._states.in_flight.get(uid):
                self._states.in_flight.record(Change(FORCE_ACTIVATE, None, flying.pod))
            elif (queued := self._states.queued.get(uid)) and queued.state is not QueueState.ACTIVE:
                self._to_active(queued, reason)

    def flush(self, now: float) -> None:
        """End what has lasted long enough: backoffs, waits for a change, foreign nominations.

        Of many pods only a part moves, and ``next_flush`` is now.
        """
        if self.catch_up():
            return
        for nominee in self._foreign.expire(now):
            self._note_freed(nominee, now)
        reason = MoveReason(Cause.BACKED_OFF, BACKOFF_COMPLETE, now)
        for _ in range(PODS_AT_ONCE):
            queued = self._states.backoff.first_completed(now)
            if queued is None:
                break
            self._to_active(queued, reason)
        if self._next_timeout_check is None or now >= self._next_timeout_check:
            self._flush_unschedulable(now)

    def next_flush(self, now: float) -> float | None:
        """Return when ``flush`` is due at the latest; None where only a change can help."""
        dues = [self._states.backoff.next_completion(), self._foreign.next_expiry()]
        if self._states.unschedulable:
            dues.append(now if self._next_timeout_check is None else self._next_timeout_check)
        return min((due for due in dues if due is not None), default=None)

    def replace_rules(
        self,
        rules: Mapping[str, ProfileRules],
        now: float,
        *,
        sort_key: SortKey | None = None,
        settings: QueueSettings | None = None,
    ) -> None:
        """Go on with other plugins: gates are asked again, rejections get another chance.

        *settings* count for pods that fail from now on. Where many wait, some are left for
        ``catch_up``.
        """
        self._pending_changes.clear()
        self._hints, self._gates = Hints(rules, self._observer), Gates(rules, self._observer)
        if settings is not None:
            self._settings = settings
            self._states.backoff.adjust(
                settings.initial_backoff_seconds, settings.maximum_backoff_seconds
            )
        if sort_key is not None:
            self._states.reorder(sort_key)
        self._reloading = MoveReason(Cause.RELOADED, _RELOAD_LABEL, now)
        self._reloaded = deque(self._states.queued.values())
        self.catch_up()

    # Queries.

    @property
    def foreign_nominations(self) -> int:
        """How many pods of other schedulers count on the nodes they are nominated to."""
        return len(self._foreign)

    def nominated_node(self, uid: PodUid) -> str:
        """Return the node that a pod is nominated to; empty where it is not."""
        return self._nominator.node_of(uid)

    def nominated_pods(self) -> dict[str, tuple[Pod, ...]]:
        """Return all nominated pods by node, those of other schedulers among them."""
        return self._nominator.by_node()

    def own_nominees(self, node: str) -> list[Pod]:
        """Return the pods of this queue that are nominated to *node*, the earliest first.

        Only these are ours to withdraw: another scheduler's nomination is in its pod's status.
        """
        return [pod for pod in self._nominator.for_node(node) if self.find(pod.uid) is not None]

    def find(self, uid: PodUid) -> QueuedPod | None:
        """Return what is known of a pod that waits or is in flight."""
        return self._states.find(uid)

    def state_of(self, uid: PodUid) -> QueueState | None:
        """Return where a pod is."""
        queued = self.find(uid)
        return queued.state if queued else None

    def counts(self) -> dict[str, int]:
        """Count the pods that wait, by place."""
        return self._states.counts()

    def oldest(self) -> float | None:
        """Return when the pod became ready that has been pending for longest; None without one."""
        since = (queued.initial_attempt for queued in self)
        return min((at for at in since if at is not None), default=None)

    def in_flight_counts(self) -> dict[str, int]:
        """Count what is kept for pods in flight: the pods themselves, and changes by label."""
        return {"PodPopped": len(self._states.in_flight), **self._states.in_flight.count_column()}

    def check_invariants(self) -> None:
        """Raise AssertionError, with the pod's story, where something is not as it must be."""
        self._states.check_invariants()
        self._nominator.check_invariants()

    # Who goes where.

    def _admit(self, pod: Pod, reason: MoveReason) -> None:
        self._to_active(QueuedPod(pod, reason.now, next(self._arrivals)), reason)

    def _update_in_flight(self, old: Pod, new: Pod, now: float) -> None:
        # The attempt goes on with the version it began with; who parks the pod brings the newest.
        for event in pod_changes(old, new):
            self._states.in_flight.record(Change(event, old, new))
        self._follow_nomination(old, new, now)

    def _update_waiting(self, queued: QueuedPod, old: Pod, new: Pod, now: float) -> None:
        queued.pod = new
        self._follow_nomination(old, new, now)
        if queued.state in READY:
            self._states.put_in_order(queued)
            return
        for event in pod_changes(old, new):
            reason = MoveReason(Cause.UPDATED, event.label, now)
            if self._reconsider(queued, Change(event, old, new), reason):
                break

    def _follow_nomination(self, old: Pod, new: Pod, now: float) -> None:
        self._note_freed(self._nominator.update(old, new), now)

    def _note_freed(self, nominee: Pod | None, now: float, *, but: PodUid | None = None) -> None:
        """Requeue pods that could use the capacity that was kept for *nominee*, if it is given up.

        That counted for pods of no higher priority.
        """
        if nominee is not None:
            self.note(
                Change(ASSIGNED_POD_DELETE, nominee, None),
                now,
                only=lambda pod: pod.priority <= nominee.priority and pod.uid != but,
            )

    def _candidates(self, change: Change) -> list[QueuedPod]:
        if change.event.wildcard:
            return list(self._states.unschedulable)
        match = self._hints.match(change.event)
        return [
            *self._states.unschedulable.waiting_for(match.rejectors),
            *self._states.gated.waiting_for(match.gates),
        ]

    def _reconsider(self, queued: QueuedPod, change: Change, reason: MoveReason) -> bool:
        """Requeue *queued* if *change* could help it; tell whether it is ready now or later."""
        verdict = self._hints.verdict(queued, change)
        if verdict is Verdict.WAIT:
            return False
        return self._requeue(queued, verdict, reason) in READY

    def _reload(self, queued: QueuedPod, reason: MoveReason) -> None:
        """Ask the new gates about *queued*, and give it another chance where it was rejected."""
        if self._states.queued.get(queued.pod.uid) is not queued:
            return
        if queued.state not in READY:
            self._requeue(queued, Verdict.AFTER_BACKOFF, reason)
        elif self._gates.closed_for(queued):
            self._states.move(queued, QueueState.GATED, reason)

    def _flush_unschedulable(self, now: float) -> None:
        limit = now - self._settings.unschedulable_seconds
        waiting = (queued for queued in self._states.unschedulable if queued.timestamp < limit)
        overdue = list(islice(waiting, PODS_AT_ONCE))
        if len(overdue) < PODS_AT_ONCE:
            self._next_timeout_check = now + TIMEOUT_CHECK_SECONDS
        reason = MoveReason(Cause.TIMED_OUT, UNSCHEDULABLE_TIMEOUT.label, now)
        for queued in overdue:
            # Upstream marks gated pods too, although the flush does not move them.
            state = self._requeue(queued, Verdict.AFTER_BACKOFF, reason)
            queued.flushed = state in READY
        if overdue:
            self._states.in_flight.record(Change(UNSCHEDULABLE_TIMEOUT))

    def _requeue(self, queued: QueuedPod, verdict: Verdict, reason: MoveReason) -> QueueState:
        backoff = self._states.backoff
        if verdict is Verdict.WAIT:
            self._states.move(queued, QueueState.UNSCHEDULABLE, reason)
        elif verdict is Verdict.AFTER_BACKOFF and backoff.waiting(queued, reason.now):
            self._to_backoff(queued, reason)
        else:
            self._to_active(queued, reason)
        assert queued.state is not None, str(queued)
        return queued.state

    def _to_active(self, queued: QueuedPod, reason: MoveReason) -> None:
        # What is backing off has passed the gates on its way there.
        if queued.state is not QueueState.BACKOFF and self._gates.closed_for(queued):
            self._states.move(queued, QueueState.GATED, reason)
            return
        if queued.initial_attempt is None:
            queued.initial_attempt = reason.now
            if queued.pod.nominated_node:
                self._nominator.add(queued.pod)
        self._states.move(queued, QueueState.ACTIVE, reason)

    def _to_backoff(self, queued: QueuedPod, reason: MoveReason) -> None:
        closed = self._gates.closed_for(queued)
        self._states.move(queued, QueueState.GATED if closed else QueueState.BACKOFF, reason)

    def _count_rejectors(self, queued: QueuedPod, delta: int) -> None:
        for plugin in queued.rejected_by:
            self._observer.unschedulable_delta(plugin, queued.pod.spec.scheduler_name, delta)
