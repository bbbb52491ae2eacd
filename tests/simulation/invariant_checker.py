"""The invariants of one scheduler process, checked against an independent record of its facts.

An `InvariantChecker` accompanies one process. It records the facts that were applied, with none of
the scheduler's code, and compares cache, queue and requests with that record.
"""

from collections.abc import Callable, Collection
from typing import Final

from scheduler.errors import ApiError, Conflict, NotFound, Rejected
from scheduler.framework.decision import Preempt
from scheduler.framework.profile import Profile
from scheduler.loop.core import SchedulerCore
from scheduler.model.fact import Added, Deleted, Fact, Resource, Updated
from scheduler.model.meta import PodUid
from scheduler.model.node import Node
from scheduler.model.objects import PodDisruptionBudget
from scheduler.model.pod import Pod
from scheduler.model.trust import NODE_DISTRUST
from scheduler.queue.queue_state import QueueState
from tests.simulation.preemption_judge import Known, judge

_DECIDED: Final = frozenset({None, QueueState.IN_FLIGHT})
"""Queue states of a bound pod: none, or in flight while a Permit plugin lets it wait."""


class InvariantChecker:
    """What one scheduler process knows, and what must be true of it.

    Args:
        ours: The scheduler names of its profiles.
        effective: UID and node of every binding by this scheduler that took effect.
        exists: Returns whether the server still has a pod. A binding whose answer is lost reads the
            pod back, and so learns of its deletion before the watch delivers it.
    """

    def __init__(
        self,
        ours: Collection[str],
        effective: "set[tuple[str, str]]",
        exists: Callable[[Pod], bool],
    ) -> None:
        self._ours = ours
        self._effective = effective
        self._exists = exists
        self.pods: dict[PodUid, Pod] = {}
        self.nodes: dict[str, Node] = {}
        self._budgets: dict[str, PodDisruptionBudget] = {}
        self._preemptors_of: dict[str, list[Pod]] = {}
        self.posted: dict[PodUid, tuple[str, Pod]] = {}
        """The node each pod was posted to, until a fact confirms or ends it."""
        self.decided: set[tuple[str, str]] = set()
        """UID and node of every binding that was posted."""

    def record_fact(self, fact: Fact) -> None:
        """Note a fact that the scheduler applies now."""
        match fact:
            case Added(Resource.POD, Pod() as pod) | Updated(Resource.POD, _, Pod() as pod):
                self.pods[pod.uid] = pod
                if pod.node_name:
                    self.posted.pop(pod.uid, None)
            case Deleted(Resource.POD, Pod() as pod):
                self.pods.pop(pod.uid, None)
                self.posted.pop(pod.uid, None)
            case Added(Resource.NODE, Node() as node) | Updated(Resource.NODE, _, Node() as node):
                self.nodes[node.name] = node
            case Deleted(Resource.NODE, Node() as node):
                self.nodes.pop(node.name, None)
            case Added(new=PodDisruptionBudget() as budget):
                self._budgets[budget.metadata.name] = budget
            case Updated(new=PodDisruptionBudget() as budget):
                self._budgets[budget.metadata.name] = budget
            case Deleted(old=PodDisruptionBudget() as budget):
                self._budgets.pop(budget.metadata.name, None)
            case _:
                pass

    # Requests.

    def posting(self, key: str, uid: PodUid, name: str) -> None:
        """Check a binding that is about to be posted, for the pod *key*, to the node *name*."""
        pod = self.pods.get(uid) if uid else self._of_key(key)
        if pod is None:
            return  # it was deleted between decision and request
        self.decided.add((pod.uid, name))
        if pod.node_name or pod.terminating:
            return  # the server refuses such a binding itself
        earlier = self.posted.get(pod.uid)
        if earlier is not None and self._exists(pod):
            was = earlier[0]
            assert was == name or (pod.uid, was) not in self._effective, (
                f"{key} is posted to {name}, although it was posted to {was} before and is there"
            )
        if (pod.uid, name) not in self._effective:
            self._check_fit(pod, name)
        self.posted[pod.uid] = name, pod

    def answered(self, uid: PodUid, error: ApiError) -> None:
        """Note that a posted binding failed: a refused pod counts on its node no longer."""
        refused = isinstance(error, Conflict | NotFound | Rejected)
        if uid in self.posted and refused and (uid, self.posted[uid][0]) not in self._effective:
            del self.posted[uid]

    def preempting(
        self,
        decision: Preempt,
        profile: Profile,
        core: SchedulerCore,
        among: Collection[str] | None,
    ) -> None:
        """Check a preemption against what is known and assumed.

        Only pods of the schedulers *among* may be victims; None means of any.
        """
        placed = {pod.uid: pod for pod in core.cache.assumed()}
        placed |= {pod.uid: pod for pod in self.pods.values() if pod.node_name}
        known = Known(
            tuple(self.nodes.values()),
            tuple(placed.values()),
            tuple(self._budgets.values()),
            core.queue.nominated_pods(),
            tuple(core.cache.view().objects.all(NODE_DISTRUST)),
            among,
        )
        judge(decision, profile, known)
        for victim in decision.victims:
            self._preemptors_of.setdefault(victim.uid, []).append(decision.pod)

    def has_begun(self, decision: Preempt, core: SchedulerCore) -> None:
        """Assert that no pod of lower priority stays nominated to the node of a preemption."""
        if all(victim.terminating for victim in decision.victims):
            return
        for pod in core.queue.nominated_pods().get(decision.node, ()):
            ours = pod.spec.scheduler_name in self._ours
            assert not ours or pod.priority >= decision.pod.priority, (
                f"{pod.key} stays nominated to {decision.node}, where {decision.pod.key} goes"
            )

    def deleting(self, key: str, uid: PodUid) -> None:
        """Check the deletion of the pod *key* before it is sent."""
        assert uid, f"{key} is deleted without its UID"
        if uid not in self.pods:
            return  # it was deleted between decision and request
        for_whom = self._preemptors_of.get(uid, ())
        assert for_whom, f"{key} is to be evicted without a decision"
        assert any(self._waits(pod.uid) for pod in for_whom), (
            f"{key} is to be evicted, and no preemptor waits any more: "
            f"{', '.join(pod.key for pod in for_whom)}"
        )

    def _waits(self, uid: PodUid) -> bool:
        return self._is_pending(uid) and not self.pods[uid].terminating

    def _of_key(self, key: str) -> Pod | None:
        return next((pod for pod in self.pods.values() if pod.key == key), None)

    def _check_fit(self, pod: Pod, name: str) -> None:
        """Assert that *pod* fits beside everything that is known to be on the node."""
        node = self.nodes.get(name)
        assert node is not None, f"{pod.key} is posted to {name}, which is known to be gone"
        known = {each.uid: each for each in self.pods.values() if each.node_name == name}
        for uid, (where, other) in self.posted.items():
            if where == name and (uid, where) in self._effective and self._exists(other):
                known[uid] = other
        known[pod.uid] = pod
        for resource, amount in pod.requests.items():
            wanted = sum(each.requests.get(resource, 0) for each in known.values())
            there = node.allocatable.get(resource, 0)
            assert not amount or wanted <= there, (
                f"{pod.key} over-commits {name}: {wanted} {resource} of {there}, "
                f"beside {', '.join(sorted(each.key for each in known.values()))}"
            )
        assert len(known) <= node.allowed_pods, f"{pod.key} is one pod too many for {name}"

    # After every step.

    def check(self, core: SchedulerCore) -> None:
        """Assert that no pod is lost, and none is kept that is gone."""
        for uid, pod in self.pods.items():
            placed = core.cache.pod(uid)
            if pod.node_name:
                assert placed is not None, f"{pod.key} is bound and not counted"
                assert placed.node_name == pod.node_name, f"{pod.key} is counted elsewhere"
                state = core.queue.state_of(uid)
                assert state in _DECIDED, f"{pod.key} waits although it is bound"
            elif self._is_waiting(pod):
                assert placed or core.queue.state_of(uid), f"{pod.key} ({uid}) is lost"
        for queued in core.queue:
            assert self._is_pending(queued.pod.uid), f"waits although gone: {queued}"
        for pod in (preemption.pod for preemption in core.preemptions):
            here = self._is_pending(pod.uid)
            assert here, f"room is made for {pod.key} although it is gone or bound"
        for node, pods in core.queue.nominated_pods().items():
            for pod in pods:
                here = self._is_pending(pod.uid)
                assert here, f"{pod.key} is nominated to {node} although it is gone or bound"
                assumed = core.cache.is_assumed(pod.uid)
                assert not assumed, f"{pod.key} is nominated to {node} although it is assumed"

    def check_at_rest(self, core: SchedulerCore) -> None:
        """Assert that no binding, eviction or attempt is in flight."""
        assert core.binding.in_flight == 0, "a binding never ended"
        assert core.evictions.in_flight == 0, "an eviction never ended"
        assumed = sorted(pod.key for pod in core.cache.assumed())
        assert not assumed, f"assumed forever: {', '.join(assumed)}"
        assert core.queue.in_flight_counts()["PodPopped"] == 0, "in flight forever"
        bound = {uid for uid, pod in self.pods.items() if pod.node_name}
        assert core.cache.sizes()["pods"] == len(bound), "pods are counted that are gone"

    def _is_pending(self, uid: PodUid) -> bool:
        return uid in self.pods and not self.pods[uid].node_name

    def _is_waiting(self, pod: Pod) -> bool:
        return pod.spec.scheduler_name in self._ours and not pod.terminating
