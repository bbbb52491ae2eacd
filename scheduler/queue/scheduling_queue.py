"""The scheduling queue as its callers see it: facts about pods go in, `pop` returns the next pod.

Source: ``pkg/scheduler/backend/queue/scheduling_queue.go``. There each queue has its own lock; here
one loop is the only caller, so nothing needs one.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
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
from scheduler.queue.foreign_nominations import ForeignNominations
from scheduler.queue.hints import Hints, ProfileRules, QueueingStrategy
from scheduler.queue.nominator import Nominator
from scheduler.queue.observer import SILENT, QueueObserver
from scheduler.queue.pod_heap import SortKey
from scheduler.queue.queue_settings import QueueSettings
from scheduler.queue.queue_state import READY, WAITING, Cause, QueueState
from scheduler.queue.queue_states import QueueStates
from scheduler.queue.queued_pod import MoveReason, QueuedPod

TIMEOUT_CHECK_SECONDS: Final = 30.0
"""Upstream looks for pods that have waited for too long as often."""

PODS_AT_ONCE: Final = 512
"""How many pods one call moves: a change can wake thousands, and sockets need service between."""
_ADD_LABEL: Final = UNSCHEDULABLE_POD_ADD.label
_UPDATE_LABEL: Final = UNSCHEDULABLE_POD_UPDATE.label
_DELETED: Final = MoveReason(Cause.DELETED)
_DONE: Final = MoveReason(Cause.DONE)


class SchedulingQueue:
    """Pods that wait for a node.

    Every pod of ours that is neither bound nor on its way to a node has exactly one state here.

    Args:
        rules: What plugins register about gates and events, by profile.
        sort_key: The order in which ready pods go.
        settings: How long pods wait.
        observer: Measures what happens.
    """

    def __init__(
        self,
        rules: Mapping[str, ProfileRules],
        sort_key: SortKey,
        settings: QueueSettings,
        observer: QueueObserver = SILENT,
    ) -> None:
        self._settings = settings
        self._observer = observer
        self._nominator = Nominator()
        self._foreign = ForeignNominations(self._nominator, settings.foreign_nomination_seconds)
        self._hints = Hints(rules, observer)
        self._states = QueueStates(rules, sort_key, settings, self._nominator, observer)
        self._arrivals = count()
        self._next_timeout_check: float | None = None
        self._pending_changes: deque[tuple[QueuedPod, Change, MoveReason]] = deque()
        self._reloaded: deque[QueuedPod] = deque()
        self._reloading = MoveReason(Cause.RELOADED)

    def __len__(self) -> int:
        """Return how many pods wait, those in flight not counted."""
        return len(self._states.queued)

    def __iter__(self) -> Iterator[QueuedPod]:
        """Yield the pods that wait, those in flight not among them, in the order of arrival."""
        return iter(tuple(self._states.queued.values()))

    # Facts about pods.

    def add(self, pod: Pod, now: float) -> None:
        """Add a new pod."""
        states = self._states
        if known := states.queued.get(pod.uid) or states.in_flight.pods.get(pod.uid):
            # Upstream would track it twice and drop one of the two when both are popped.
            self.update(known.pod, pod, now)
        else:
            reason = MoveReason(Cause.ADDED, _ADD_LABEL, now)
            states.make_ready(QueuedPod(pod, now, next(self._arrivals)), reason)

    def update(self, old: Pod, new: Pod, now: float) -> None:
        """Follow an update of a pod, which may make another attempt worthwhile.

        Updates of a pod that is on its way to a node must not come here: the queue has forgotten
        it, and would add it as a new one.
        """
        if old.uid != new.uid:
            # A pod of the same name, created again while the watch was broken.
            self.delete(old, now)
            self.add(new, now)
        elif new.uid in self._states.in_flight.pods:
            # The attempt goes on with the version it began with; `park` gets the newest.
            for event in pod_changes(old, new):
                self._states.in_flight.record(Change(event, old, new))
            self._on_freed(self._nominator.update(old, new), now)
        elif queued := self._states.queued.get(new.uid):
            self._update_waiting(queued, old, new, now)
        else:
            reason = MoveReason(Cause.UPDATED, _UPDATE_LABEL, now)
            self._states.make_ready(QueuedPod(new, now, next(self._arrivals)), reason)

    def delete(self, pod: Pod, now: float) -> None:
        """Forget a pod that is gone or bound; if it was nominated elsewhere, that capacity is free.

        A pod in flight stays until ``done``: its attempt cannot be recalled.
        """
        if queued := self._states.queued.get(pod.uid):
            self._count_rejectors(queued, -1)
            self._states.move(queued, None, _DELETED)
        self.withdraw(pod, now, placed_on=pod.node_name)

    # Deciding.

    @property
    def ready(self) -> bool:
        """Whether ``pop`` would return a pod."""
        early = self._states.backoff.first_to_pop_early
        return bool(self._states.active) or early() is not None

    def pop(self, now: float) -> QueuedPod | None:
        """Return the pod that goes next; None where none is ready.

        If none is active, a pod is popped before its backoff is over: an idle scheduler has nothing
        better to do (upstream's SchedulerPopFromBackoffQ).
        """
        # Each of these may make ready a pod that is more important than all that are active.
        while self._reloaded or self._pending_changes:
            self.catch_up()
        queued = self._states.active.first()
        if queued is None:
            queued = self._states.backoff.first_to_pop_early()
            if queued is None:
                return None
            self._observer.incoming("active", POP_FROM_BACKOFF_QUEUE)
        assert queued.initial_attempt is not None, f"ready, and never became so: {queued}"
        queued.attempts += 1
        if queued.rejected_by:
            self._count_rejectors(queued, -1)
        self._states.move(queued, QueueState.IN_FLIGHT, MoveReason(Cause.POPPED, "", now))
        return queued

    def done(self, uid: PodUid) -> None:
        """Forget a pod in flight: it is on its way to a node, or no longer ours."""
        if queued := self._states.in_flight.pods.get(uid):
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
            queued: What ``pop`` returned.
            pod: The pod's newest version.
            rejected_by: Plugins that rejected it; none where the attempt ended in an error.
            pending: Those of them whose hints move the pod without backoff.
            now: Monotonic seconds.

        Returns:
            Its new state.
        """
        if known := self._states.queued.get(pod.uid):
            # A fact added it again after `done`, while its binding failed: that is newer.
            assert known.state is not None, str(known)
            return known.state
        assert queued.state is None or self._states.in_flight.pods.get(pod.uid) is queued, (
            f"in flight is another pod than the one to park: {queued}"
        )
        queued.note_failure(pod, rejected_by, pending, now)
        # Of pods with equal timestamps, the one that was parked first goes first.
        queued.order = next(self._arrivals)
        self._count_rejectors(queued, 1)
        missed = self._states.in_flight.since_pop(pod.uid)
        strategy = self._hints.strategy_over(queued, missed)
        reason = MoveReason(Cause.PARKED, SCHEDULE_ATTEMPT_FAILURE, now)
        return self._states.requeue(queued, strategy, reason)

    # What may help pods that wait.

    def requeue_on(
        self, change: Change, now: float, *, only: Callable[[Pod], bool] | None = None
    ) -> None:
        """Requeue the pods which *change* could help (upstream's MoveAllToActiveOrBackoffQueue).

        *only* restricts them further. Where they are many, some are left for ``catch_up``.
        """
        registered = self._hints.registered_for(change.event)
        if not registered.rejectors and not change.event.wildcard:
            return
        self._states.in_flight.record(change)
        if candidates := self._candidates(change):
            reason = MoveReason(Cause.CHANGED, change.event.label, now)
            self._pending_changes.extend(
                (each, change, reason) for each in candidates if only is None or only(each.pod)
            )
            self.catch_up()

    def catch_up(self) -> bool:
        """Apply new rules and pending changes to some pods; return whether more pods are left.

        No pod is popped before all of it is done.
        """
        for _ in range(min(len(self._reloaded), PODS_AT_ONCE)):
            self._reload(self._reloaded.popleft(), self._reloading)
        if self._reloaded:
            return True
        for _ in range(min(len(self._pending_changes), PODS_AT_ONCE)):
            queued, change, reason = self._pending_changes.popleft()
            # A pod that moved meanwhile was judged by something newer than this change.
            if queued.state in WAITING:
                self._reconsider(queued, change, reason)
        return bool(self._pending_changes)

    def activate(self, uids: Iterable[PodUid], now: float) -> None:
        """Make pods ready and end their backoff, unless a gate keeps them out."""
        reason = MoveReason(Cause.ACTIVATED, FORCE_ACTIVATE.label, now)
        for uid in uids:
            if popped := self._states.in_flight.pods.get(uid):
                # If the attempt fails, `park` finds this record and requeues the pod.
                self._states.in_flight.record(Change(FORCE_ACTIVATE, None, popped.pod))
            elif (queued := self._states.queued.get(uid)) and queued.state is not QueueState.ACTIVE:
                self._states.make_ready(queued, reason)

    def flush(self, now: float) -> None:
        """End backoffs, waits for a change and foreign nominations whose time is over.

        At most PODS_AT_ONCE pods of a kind move; while more are due, ``next_flush`` is past.
        """
        if self.catch_up():
            return
        for nominee in self._foreign.expire(now):
            self._on_freed(nominee, now)
        reason = MoveReason(Cause.BACKED_OFF, BACKOFF_COMPLETE, now)
        for _ in range(PODS_AT_ONCE):
            queued = self._states.backoff.first_completed(now)
            if queued is None:
                break
            self._states.make_ready(queued, reason)
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
        """Replace the plugins' gates and hints: gates run again, no earlier rejection counts.

        *settings* count for pods that fail from now on. Where many wait, some are left for
        ``catch_up``.
        """
        # Changes were judged by the old plugins' hints; the reload requeues every pod anyway.
        self._pending_changes.clear()
        self._hints = Hints(rules, self._observer)
        self._settings = settings or self._settings
        self._states.replace_rules(rules, sort_key, self._settings)
        self._reloading = MoveReason(Cause.RELOADED, "RulesReplaced", now)
        self._reloaded = deque(self._states.queued.values())
        self.catch_up()

    # Nominations.

    def nominate(self, pod: Pod, order: NominationOrder, now: float) -> None:
        """Nominate a pod that was just decided about, as *order* says.

        Our nomination stays if *order* is to keep it, even where the pod's status does not show it
        yet. The pod itself is not requeued: its own nomination never counted against it.
        """
        if isinstance(order, Keep):
            self._nominator.refresh(pod)
        else:
            self._on_freed(self._nominator.add(pod, order), now, but=pod.uid)

    def withdraw(self, pod: Pod, now: float, *, placed_on: str = "") -> None:
        """Clear the nomination of a pod, and requeue pods that could use the capacity.

        None is requeued where the pod uses that capacity itself: it is *placed_on* the same node.
        """
        if given_up := self._nominator.delete(pod.uid, placed_on=placed_on):
            self._on_freed(given_up, now)

    def follow_foreign(self, pod: Pod, now: float) -> None:
        """Follow the nomination of another scheduler's pod that is not bound."""
        self._on_freed(self._foreign.follow(pod, now), now)

    def forget_foreign(self, pod: Pod, now: float) -> None:
        """Forget the nomination of another scheduler's pod that is bound or gone."""
        self._on_freed(self._foreign.forget(pod), now)

    def take_over(self, pod: Pod) -> None:
        """Forget what another scheduler nominated: *pod* is ours now, and `add` nominates it."""
        self._foreign.forget(pod)

    @property
    def foreign_nominations(self) -> int:
        """How many pods of other schedulers count on the nodes they are nominated to."""
        return len(self._foreign)

    def nominated_node(self, uid: PodUid) -> str:
        """Return the node that a pod is nominated to; empty where it is not."""
        return self._nominator.node_of.get(uid, "")

    def nominated_pods(self) -> dict[str, tuple[Pod, ...]]:
        """Return all nominated pods by node, those of other schedulers among them.

        A copy: an attempt reads it in slices, and nominations change in between.
        """
        return self._nominator.pods_on.copy()

    def own_nominees(self, node: str) -> list[Pod]:
        """Return the pods of this queue that are nominated to *node*, the earliest first.

        Only these are ours to withdraw: another scheduler's nomination is in its pod's status.
        """
        nominated = self._nominator.pods_on.get(node, ())
        return [pod for pod in nominated if self.find(pod.uid) is not None]

    # Queries.

    def find(self, uid: PodUid) -> QueuedPod | None:
        """Return what is known of a pod that waits or is in flight."""
        return self._states.queued.get(uid) or self._states.in_flight.pods.get(uid)

    def state_of(self, uid: PodUid) -> QueueState | None:
        """Return the state of a pod; None where the queue does not know it."""
        queued = self.find(uid)
        return queued.state if queued else None

    def counts(self) -> dict[str, int]:
        """Count the pods that wait, by state."""
        return self._states.counts()

    def oldest(self) -> float | None:
        """Return when the pod became ready that has been pending for longest; None without one."""
        since = (queued.initial_attempt for queued in self)
        return min((at for at in since if at is not None), default=None)

    def in_flight_counts(self) -> dict[str, int]:
        """Count what is kept for pods in flight: the pods themselves, and changes by label."""
        in_flight = self._states.in_flight
        return {"PodPopped": len(in_flight), **in_flight.count_by_label()}

    def check_invariants(self) -> None:
        """Raise AssertionError, with the pod's history, where something is not as it must be."""
        self._states.check_invariants()
        self._nominator.check_invariants()
        self._foreign.check_invariants()

    # Moves.

    def _update_waiting(self, queued: QueuedPod, old: Pod, new: Pod, now: float) -> None:
        queued.pod = new
        self._on_freed(self._nominator.update(old, new), now)
        if queued.state in READY:
            self._states.reposition(queued)
            return
        for event in pod_changes(old, new):
            reason = MoveReason(Cause.UPDATED, event.label, now)
            if self._reconsider(queued, Change(event, old, new), reason):
                break

    def _on_freed(self, nominee: Pod | None, now: float, *, but: PodUid | None = None) -> None:
        """Requeue pods that could use the capacity that was kept for *nominee*, if it is given up.

        Pods of higher priority did not count the nominee, so they gain nothing.
        """
        if nominee is not None:
            self.requeue_on(
                Change(ASSIGNED_POD_DELETE, nominee, None),
                now,
                only=lambda pod: pod.priority <= nominee.priority and pod.uid != but,
            )

    def _candidates(self, change: Change) -> list[QueuedPod]:
        if change.event.wildcard:
            # Gated pods are left out: only what opens their gate helps them.
            return list(self._states.unschedulable)
        registered = self._hints.registered_for(change.event)
        return [
            *self._states.unschedulable.waiting_for(registered.rejectors),
            *self._states.gated.waiting_for(registered.gates),
        ]

    def _reconsider(self, queued: QueuedPod, change: Change, reason: MoveReason) -> bool:
        """Requeue *queued* if *change* could help it; return whether it is ready now or later."""
        strategy = self._hints.strategy(queued, change)
        if strategy is QueueingStrategy.SKIP:
            return False
        return self._states.requeue(queued, strategy, reason) in READY

    def _reload(self, queued: QueuedPod, reason: MoveReason) -> None:
        """Run the new gates for *queued*, and requeue it if it was rejected."""
        if self._states.queued.get(queued.pod.uid) is not queued:
            return
        if queued.state not in READY:
            self._states.requeue(queued, QueueingStrategy.AFTER_BACKOFF, reason)
        elif self._states.gates.is_closed_for(queued):
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
            state = self._states.requeue(queued, QueueingStrategy.AFTER_BACKOFF, reason)
            queued.flushed = state in READY
        if overdue:
            self._states.in_flight.record(Change(UNSCHEDULABLE_TIMEOUT))

    def _count_rejectors(self, queued: QueuedPod, delta: int) -> None:
        for plugin in queued.rejected_by:
            self._observer.unschedulable_delta(plugin, queued.pod.spec.scheduler_name, delta)
