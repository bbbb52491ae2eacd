"""Preemptions under way: how far each is, and which victims it waits for.

While victims are being evicted, a gate keeps the preemptor out of the queue: an attempt that begins
as soon as the first victim is gone would choose victims again.

Nothing here outlives the process, so the preemptor's status names the node before the first victim
is evicted. After a restart the preemptor is nominated there, and its next attempt evicts the rest.

Source: ``pkg/scheduler/framework/preemption/executor.go``.
"""

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from scheduler.cache.cluster_cache import ClusterCache
from scheduler.framework.rejection import Gate
from scheduler.model.meta import PodUid
from scheduler.model.pod import Pod
from scheduler.model.state_machine import Row, Transitions

WAITING: Final = "waiting for the preemption for this pod to be finished"


class State(StrEnum):
    """How far a preemption is."""

    EVICTING = "evicting"
    LAST = "last"
    LEAVING = "leaving"
    PAUSED = "paused"


class Cause(StrEnum):
    """What moves a preemption on."""

    BEGUN = "a preemption is decided"
    LAST_IS_NEXT = "all victims but one are evicted"
    EVICTED = "all victims are evicted"
    FAILED = "an eviction fails"
    VICTIMS_GONE = "the last victim is gone"
    RESUMED = "a second has passed"
    REPLACED = "another preemption is decided for the pod"
    ABANDONED = "the pod is bound, deleted or no longer ours"
    NODE_REMOVED = "the node is removed"


_ANY: Final = tuple(State)

TRANSITIONS: Final = Transitions(
    Row(
        None,
        Cause.BEGUN,
        State.EVICTING,
        State.LEAVING,
        note="leaving: all victims terminate already",
    ),
    Row(State.EVICTING, Cause.LAST_IS_NEXT, State.LAST),
    Row(State.EVICTING, Cause.EVICTED, State.LEAVING, note="no victim was bound yet"),
    Row(State.LAST, Cause.EVICTED, State.LEAVING),
    Row((State.EVICTING, State.LAST), Cause.FAILED, State.PAUSED),
    Row((State.LAST, State.LEAVING), Cause.VICTIMS_GONE, None, note="the pod is activated"),
    Row(State.PAUSED, Cause.RESUMED, None, note="the pod is activated"),
    Row((State.LAST, State.LEAVING), Cause.REPLACED, None, note="and begins anew"),
    Row(_ANY, Cause.ABANDONED, None, note="victims that are not evicted yet are spared"),
    Row(_ANY, Cause.NODE_REMOVED, None, note="victims that are not evicted yet are spared"),
)
"""The gate is closed in *evicting* and *paused*, and in *last* until the last victim terminates:
the watch may report that before the answer to the eviction arrives."""


@dataclass(slots=True, eq=False)
class Preemption:
    """One preemption.

    Args:
        pod: The preemptor.
        started: Monotonic seconds.
        remaining: UIDs of the victims that are still on the node.
        state: None once it is over.
        last: The victim that is evicted last, from the state *last* on.
        problems: Why victims could not be evicted.
    """

    pod: Pod
    node: str
    started: float
    remaining: set[PodUid]
    state: State | None = None
    last: Pod | None = None
    problems: list[str] = field(default_factory=list)

    @property
    def is_wanted(self) -> bool:
        """Whether the capacity is still needed."""
        return self.state is not None

    def move(self, cause: Cause, new: State | None) -> None:
        """Change the state, which the table must allow."""
        self.state = TRANSITIONS.move(self.state, cause, new, self.pod.key)


@dataclass(slots=True, eq=False)
class Victim:
    """A pod whose capacity one preemption needs, or several.

    Args:
        awaited_by: UIDs of the preemptors.
        is_evicted: Whether the API server took the eviction: once is enough.
        lock: Held by the task that evicts it; the tasks of other preemptions wait for its result.
    """

    awaited_by: set[PodUid] = field(default_factory=set)
    is_evicted: bool = False
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)


class Preemptions:
    """All preemptions under way, by the UID of the preemptor, and their victims.

    Args:
        cache: Has the newest version of each victim.
    """

    def __init__(self, cache: ClusterCache) -> None:
        self._cache = cache
        self._by_preemptor: dict[PodUid, Preemption] = {}
        self._victims: dict[PodUid, Victim] = {}

    def __iter__(self) -> Iterator[Preemption]:
        return iter(self._by_preemptor.values())

    def holds_back(self, pod: Pod) -> bool:
        """Tell whether the gate keeps *pod* out of the queue."""
        preemption = self._by_preemptor.get(pod.uid)
        if preemption is None or preemption.state is State.LEAVING:
            return False
        if preemption.state is not State.LAST:
            return True
        assert preemption.last is not None, f"{pod.key} waits for a last victim that is not named"
        # A watch that lags behind a list may report a victim again that is gone: it counts as gone.
        uid = preemption.last.uid
        last = self._cache.pod(uid) if uid in preemption.remaining else None
        return last is not None and not last.terminating

    def is_current(self, preemption: Preemption) -> bool:
        """Tell whether *preemption* is under way, and not over or replaced."""
        return self._by_preemptor.get(preemption.pod.uid) is preemption

    def victim(self, uid: PodUid) -> Victim | None:
        """Return what is known of a victim; None once it is gone or spared."""
        return self._victims.get(uid)

    def newest(self, victims: Sequence[Pod]) -> list[Pod]:
        """Return *victims* as the cache knows them now."""
        return [self._cache.pod(victim.uid) or victim for victim in victims]

    def begin(self, pod: Pod, node: str, victims: Sequence[Pod], started: float) -> Preemption:
        """Begin a preemption; one for the same pod that was under way is replaced."""
        assert not self.holds_back(pod), f"{pod.key} was admitted before its victims were evicted"
        self.end(pod.uid, Cause.REPLACED)
        preemption = Preemption(pod, node, started, {victim.uid for victim in victims})
        all_terminate = all(victim.terminating for victim in victims)
        preemption.move(Cause.BEGUN, State.LEAVING if all_terminate else State.EVICTING)
        assert pod.uid not in preemption.remaining, f"{pod.key} is its own victim"
        self._by_preemptor[pod.uid] = preemption
        for uid in preemption.remaining:
            self._victims.setdefault(uid, Victim()).awaited_by.add(pod.uid)
        return preemption

    def pod_left(self, gone: Pod) -> list[Preemption]:
        """Note that a pod has left its node, and return the preemptions that waited for it."""
        awaiting = self.awaiting(gone.uid)
        self._victims.pop(gone.uid, None)
        for preemption in awaiting:
            assert gone.uid in preemption.remaining, (
                f"{gone.key} is no victim of {preemption.pod.key}"
            )
            preemption.remaining.discard(gone.uid)
        return awaiting

    def awaiting(self, uid: PodUid) -> list[Preemption]:
        """Return the preemptions that wait for a pod to leave, in the order of their pods' UIDs."""
        victim = self._victims.get(uid)
        # Sorted, since a set has another order in each process and a simulated run must have one.
        return [self._by_preemptor[each] for each in sorted(victim.awaited_by)] if victim else []

    def all_terminate(self, preemption: Preemption) -> bool:
        """Tell whether each victim is gone or known to terminate."""
        known = (self._cache.pod(uid) for uid in preemption.remaining)
        return all(victim is None or victim.terminating for victim in known)

    def on_node(self, node: str) -> list[Preemption]:
        """Return the preemptions on *node*."""
        return [each for each in self._by_preemptor.values() if each.node == node]

    def end(self, uid: PodUid, cause: Cause) -> None:
        """End the preemption for a pod, if there is one; no victim waits to be evicted for it."""
        preemption = self._by_preemptor.pop(uid, None)
        if preemption is None:
            return
        preemption.move(cause, None)
        for each in preemption.remaining:
            if (victim := self._victims.get(each)) is not None:
                assert uid in victim.awaited_by, f"{uid} does not wait for its victim {each}"
                victim.awaited_by.discard(uid)
                if not victim.awaited_by:
                    del self._victims[each]

    def check_invariants(self) -> None:
        """Assert that each preemption and its victims refer to each other."""
        for uid, preemption in self._by_preemptor.items():
            assert preemption.state is not None, f"{preemption.pod.key} is kept though it is over"
            for each in preemption.remaining:
                assert uid in self._victims[each].awaited_by, f"{each} does not know {uid}"
        for uid, victim in self._victims.items():
            assert victim.awaited_by, f"the victim {uid} is kept for nobody"


class EvictionGate:
    """A gate in the name of DefaultPreemption, which keeps preemptors out of the queue.

    Upstream passes each deletion to the queueing hints of these pods, and with thousands of victims
    that is as many calls for as many pods. Here they need none: a preemptor is activated as soon as
    its gate opens.
    """

    name = "DefaultPreemption"
    requeue_on = ()

    def __init__(self, preemptions: Preemptions) -> None:
        self._preemptions = preemptions

    def pre_enqueue(self, pod: Pod) -> Gate | None:
        """Keep *pod* out until its victims have been evicted."""
        return Gate(WAITING) if self._preemptions.holds_back(pod) else None
