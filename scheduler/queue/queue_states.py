"""The places of the queue: what holds the pods of each, and the one way from one to another."""

from collections.abc import Iterator
from typing import Protocol

from scheduler.model.meta import PodUid
from scheduler.queue.active_queue import ActiveQueue, Order, SortKey
from scheduler.queue.backoff_queue import BackoffQueue
from scheduler.queue.in_flight import InFlight
from scheduler.queue.observer import QueueObserver
from scheduler.queue.queue_state import TRANSITIONS, WAITING, QueueState
from scheduler.queue.queued_pod import MoveReason, QueuedPod
from scheduler.queue.unschedulable_pods import UnschedulablePods


class _Store(Protocol):
    """What holds the pods of one state."""

    def __len__(self) -> int: ...
    def __contains__(self, uid: PodUid) -> bool: ...
    def __iter__(self) -> Iterator[QueuedPod]: ...
    def add(self, queued: QueuedPod) -> None: ...
    def remove(self, uid: PodUid) -> bool: ...


class QueueStates:
    """Every pod that the queue knows, in exactly one state.

    Whoever asks may look into the stores; pods come, move and go by `move` alone.

    Args:
        sort_key: The order in which ready pods go.
        initial_seconds: The backoff after the first failure.
        maximum_seconds: The longest backoff.
        observer: Hears of every pod that comes to another state.
    """

    def __init__(
        self,
        sort_key: SortKey,
        initial_seconds: float,
        maximum_seconds: float,
        observer: QueueObserver,
    ) -> None:
        self._observer = observer
        self._order = Order(sort_key)
        self.queued: dict[PodUid, QueuedPod] = {}
        """All pods but those in flight, in the order of coming."""
        self.active = ActiveQueue(self._order)
        self.backoff = BackoffQueue(initial_seconds, maximum_seconds, self._order)
        self.unschedulable = UnschedulablePods(_rejectors)
        self.gated = UnschedulablePods(lambda queued: (queued.gated_by,))
        self.in_flight = InFlight()
        self._stores: dict[QueueState, _Store] = {
            QueueState.ACTIVE: self.active,
            QueueState.BACKOFF: self.backoff,
            QueueState.UNSCHEDULABLE: self.unschedulable,
            QueueState.GATED: self.gated,
            QueueState.IN_FLIGHT: self.in_flight,
        }

    def find(self, uid: PodUid) -> QueuedPod | None:
        """Return a pod wherever it is."""
        return self.queued.get(uid) or self.in_flight.get(uid)

    def counts(self) -> dict[str, int]:
        """Count the pods by state, those in flight left out."""
        return {
            state.value: len(store)
            for state, store in self._stores.items()
            if state is not QueueState.IN_FLIGHT
        }

    def move(self, queued: QueuedPod, new: QueueState | None, reason: MoveReason) -> None:
        """Carry out one row of the transition table."""
        uid, old = queued.pod.uid, queued.state
        TRANSITIONS.move(old, reason.cause, new, queued)
        if old is not None:
            found = self._stores[old].remove(uid)
            assert found, f"not where it was: {queued}"
        queued.move(new, reason)
        if new is None or new is QueueState.IN_FLIGHT:
            self.queued.pop(uid, None)
        else:
            self.queued[uid] = queued
        if new is not None:
            self._stores[new].add(queued)
            self._tell(old, new, reason.label)

    def put_in_order(self, queued: QueuedPod) -> None:
        """Note that *queued*, which stays where it is, may go earlier or later than before."""
        assert queued.state is not None, str(queued)
        self._stores[queued.state].add(queued)

    def reorder(self, sort_key: SortKey) -> None:
        """Let *sort_key* tell the order in which ready pods go."""
        self._order.sort_key = sort_key
        self.active.reorder()
        self.backoff.reorder()

    def check_invariants(self) -> None:
        """Raise AssertionError, with the pod's story, where a pod is not as its state says."""
        for state, store in self._stores.items():
            for queued in store:
                assert queued.state is state, f"found {state}: {queued}"
                assert bool(queued.gated_by) == (state is QueueState.GATED), str(queued)
                home = state is QueueState.IN_FLIGHT or self.queued.get(queued.pod.uid) is queued
                assert home, f"unknown to the queue: {queued}"
        for uid, queued in self.queued.items():
            homes = [state for state, store in self._stores.items() if uid in store]
            assert homes == [queued.state], f"in {homes}: {queued}"
        assert self.in_flight or not self.in_flight.logged, "changes are kept for nobody"

    def _tell(self, old: QueueState | None, new: QueueState, label: str) -> None:
        """Report a move to the observer, which counts gated pods among the unschedulable."""
        if new is QueueState.ACTIVE or new is QueueState.BACKOFF:
            self._observer.incoming(new.value, label)
        elif new is not QueueState.IN_FLIGHT and old not in WAITING:
            self._observer.incoming(QueueState.UNSCHEDULABLE.value, label)


def _rejectors(queued: QueuedPod) -> list[tuple[str, str]]:
    profile = queued.pod.spec.scheduler_name
    return [(profile, plugin) for plugin in queued.rejected_by]
