"""The pods of each state, and the only way from one state to another: through the gates."""

from collections.abc import Iterator, Mapping
from typing import Protocol

from scheduler.framework.plugin import PreEnqueuePlugin
from scheduler.framework.rejection import Gate
from scheduler.model.meta import PodUid
from scheduler.queue.backoff_queue import BackoffQueue
from scheduler.queue.hints import ProfileRules, QueueingStrategy
from scheduler.queue.in_flight import InFlight
from scheduler.queue.nominator import Nominator
from scheduler.queue.observer import QueueObserver
from scheduler.queue.pod_heap import PodHeap, SortKey
from scheduler.queue.queue_settings import QueueSettings
from scheduler.queue.queue_state import TRANSITIONS, WAITING, QueueState
from scheduler.queue.queued_pod import HISTORY_LENGTH, MoveReason, QueuedPod
from scheduler.queue.unschedulable_pods import UnschedulablePods


class _Store(Protocol):
    """The pods of one state."""

    def __len__(self) -> int: ...
    def __contains__(self, uid: PodUid) -> bool: ...
    def __iter__(self) -> Iterator[QueuedPod]: ...
    def add(self, queued: QueuedPod) -> None: ...
    def remove(self, uid: PodUid) -> bool: ...


class Gates:
    """The gates of all profiles: PreEnqueue plugins, which keep a pod out of the queue."""

    def __init__(self, rules: Mapping[str, ProfileRules], observer: QueueObserver) -> None:
        self._rules = rules
        self._observer = observer

    def is_closed_for(self, queued: QueuedPod) -> bool:
        """Run the gates for *queued*; return whether one keeps it out, and note which one."""
        profile = queued.pod.spec.scheduler_name
        rules = self._rules.get(profile)
        gates = rules.gates if rules else ()
        if queued.gated_by:
            # The gate that was closed last time most likely still is.
            gates = sorted(gates, key=lambda plugin: plugin.name != queued.gated_by)
        began = self._observer.began()
        for plugin in gates:
            try:
                gate = plugin.pre_enqueue(queued.pod)
            except Exception as problem:  # noqa: BLE001 - a bug keeps the plugin's pods out, no more
                gate = Gate(f"plugin {plugin.name!r} raised {problem!r}")
            if gate is not None:
                self._close(queued, plugin, gate)
                break
        else:
            queued.gated_by = queued.gate_reason = ""
        if rules:
            self._observer.pre_enqueue(profile, began)
        return bool(queued.gated_by)

    def _close(self, queued: QueuedPod, plugin: PreEnqueuePlugin, gate: Gate) -> None:
        assert plugin.name, "a gate without a name would look open"
        queued.gated_by, queued.gate_reason = plugin.name, gate.reason
        if plugin.name not in queued.rejected_by:
            queued.rejected_by |= {plugin.name}
            profile = queued.pod.spec.scheduler_name
            self._observer.unschedulable_delta(plugin.name, profile, 1)


class QueueStates:
    """Every pod that the queue knows, in exactly one state.

    The queue reads the stores; `move` alone writes them.

    Args:
        rules: The gates of each profile.
        sort_key: The order in which ready pods go.
        settings: The backoff of pods that fail.
        nominator: Gets the nomination of a pod's status when the pod becomes ready.
        observer: Counts the pods that enter a state.
    """

    def __init__(
        self,
        rules: Mapping[str, ProfileRules],
        sort_key: SortKey,
        settings: QueueSettings,
        nominator: Nominator,
        observer: QueueObserver,
    ) -> None:
        self._nominator = nominator
        self._observer = observer
        self.gates = Gates(rules, observer)
        self.queued: dict[PodUid, QueuedPod] = {}
        """All pods but those in flight, in the order of arrival."""
        self.active = PodHeap(sort_key)
        self.backoff = BackoffQueue(
            settings.initial_backoff_seconds, settings.maximum_backoff_seconds, sort_key
        )
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

    def make_ready(self, queued: QueuedPod, reason: MoveReason) -> None:
        """Move *queued* to active, unless a gate keeps it out."""
        # A pod that is backing off has passed the gates on its way there.
        if queued.state is not QueueState.BACKOFF and self.gates.is_closed_for(queued):
            self.move(queued, QueueState.GATED, reason)
            return
        if queued.initial_attempt is None:
            queued.initial_attempt = reason.now
            # Upstream nominates here too: a gated pod must not keep capacity that it can't use.
            if queued.pod.nominated_node:
                self._nominator.add(queued.pod)
        self.move(queued, QueueState.ACTIVE, reason)

    def requeue(
        self, queued: QueuedPod, strategy: QueueingStrategy, reason: MoveReason
    ) -> QueueState:
        """Move *queued* as *strategy* says, and return its new state."""
        if strategy is QueueingStrategy.SKIP:
            # An attempt that ended in an error has no rejector: no event would ever move the pod.
            assert queued.rejected_by, f"would wait for nothing: {queued}"
            self.move(queued, QueueState.UNSCHEDULABLE, reason)
        elif strategy is QueueingStrategy.IMMEDIATELY or not self.backoff.is_waiting(
            queued, reason.now
        ):
            self.make_ready(queued, reason)
        else:
            # Backoff ends without another run of the gates, so they run now.
            closed = self.gates.is_closed_for(queued)
            self.move(queued, QueueState.GATED if closed else QueueState.BACKOFF, reason)
        assert queued.state is not None, str(queued)
        return queued.state

    def move(self, queued: QueuedPod, new: QueueState | None, reason: MoveReason) -> None:
        """Carry out one row of the transition table."""
        uid, old = queued.pod.uid, queued.state
        queued.state = TRANSITIONS.move(old, reason.cause, new, queued)
        queued.history.append((reason, new))
        if len(queued.history) > HISTORY_LENGTH:
            del queued.history[0]
        # Out of the old store before into the new one: an index must not show a pod in two states.
        if old is not None:
            found = self._stores[old].remove(uid)
            assert found, f"not where its state says: {queued}"
        if new is None or new is QueueState.IN_FLIGHT:
            self.queued.pop(uid, None)
        else:
            self.queued[uid] = queued
        if new is not None:
            self._stores[new].add(queued)
        if new is QueueState.ACTIVE or new is QueueState.BACKOFF:
            self._observer.incoming(new.value, reason.label)
        elif new in WAITING and old not in WAITING:
            # Upstream's metric counts gated pods among the unschedulable.
            self._observer.incoming(QueueState.UNSCHEDULABLE.value, reason.label)

    def reposition(self, queued: QueuedPod) -> None:
        """Sort *queued* in again after an update; its state stays."""
        assert queued.state is not None, str(queued)
        self._stores[queued.state].add(queued)

    def replace_rules(
        self, rules: Mapping[str, ProfileRules], sort_key: SortKey | None, settings: QueueSettings
    ) -> None:
        """Replace the gates, the backoff of later failures and, where one is given, the order."""
        self.gates = Gates(rules, self._observer)
        self.backoff.adjust(settings.initial_backoff_seconds, settings.maximum_backoff_seconds)
        if sort_key is not None:
            self.active.reorder(sort_key)
            self.backoff.reorder(sort_key)

    def counts(self) -> dict[str, int]:
        """Count the pods by state, those in flight left out."""
        return {
            state.value: len(store)
            for state, store in self._stores.items()
            if state is not QueueState.IN_FLIGHT
        }

    def check_invariants(self) -> None:
        """Raise AssertionError, with the pod's history, where a pod is not as its state says."""
        for state, store in self._stores.items():
            for queued in store:
                assert queued.state is state, f"found {state}: {queued}"
                assert bool(queued.gated_by) == (state is QueueState.GATED), str(queued)
                known = state is QueueState.IN_FLIGHT or self.queued.get(queued.pod.uid) is queued
                assert known, f"unknown to the queue: {queued}"
        for uid, queued in self.queued.items():
            states = [state for state, store in self._stores.items() if uid in store]
            assert states == [queued.state], f"in {states}: {queued}"
        waiting = sum(self.counts().values())
        assert waiting == len(self.queued), f"{waiting} pods are stored, {len(self.queued)} known"
        assert self.in_flight or not self.in_flight.logged, "changes are kept for no pod"


def _rejectors(queued: QueuedPod) -> list[tuple[str, str]]:
    profile = queued.pod.spec.scheduler_name
    return [(profile, plugin) for plugin in queued.rejected_by]
