"""Judging a preemption: was it needed, are its victims the right ones, are budgets respected?

The rules are those of kube-scheduler's default preemption, asked one node and one pod at a time of
a cluster that is built anew from what was known: nothing here knows how the plugin searches.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from scheduler.cache.cluster_cache import ClusterCache
from scheduler.cycle.scheduling import Attempt, nominated_rows
from scheduler.framework.decision import Preempt
from scheduler.framework.filtering import filter_nodes, run_pre_filters
from scheduler.framework.observer import SILENT
from scheduler.framework.profile import Profile
from scheduler.model.fact import KubeObject
from scheduler.model.node import Node
from scheduler.model.objects import PodDisruptionBudget
from scheduler.model.pod import Pod
from scheduler.model.selectors import compile_selector
from scheduler.model.trust import NODE_DISTRUST


@dataclass(frozen=True, slots=True)
class Known:
    """What the scheduler knew when it decided.

    Args:
        placed: Pods with a node, told or assumed.
        nominated: Pods by the node that they are nominated to.
        distrust: What NodeTrust holds against nodes.
        among: The schedulers whose pods may have to go; None for any.
    """

    nodes: Sequence[Node]
    placed: Sequence[Pod]
    budgets: Sequence[PodDisruptionBudget]
    nominated: Mapping[str, Sequence[Pod]]
    distrust: Sequence[KubeObject]
    among: Collection[str] | None


def judge(decision: Preempt, profile: Profile, known: Known) -> None:
    """Hold a decision to make room against what was known.

    Raises:
        AssertionError: If a victim goes without need, or another one should have gone, or a budget
            is violated that need not be.
    """
    pod, node = decision.pod, decision.node
    world = _World(pod, profile, known)
    for victim in decision.victims:
        assert victim.node_name == node, f"{victim.key} has to go, and is not on {node}"
        whose = victim.spec.scheduler_name
        spared = known.among is not None and whose not in known.among
        assert not spared, f"{victim.key} has to go, which is of {whose}"
        assert victim.priority < pod.priority, (
            f"{victim.key} has to go for {pod.key}, which is no more important"
        )
    roomy = world.feasible()
    assert not roomy, f"{pod.key} evicts, although it fits on {', '.join(sorted(roomy))}"
    _judge_need(decision, world)
    _judge_order(decision, world)
    _judge_budgets(decision, world)


def _judge_need(decision: Preempt, world: "_World") -> None:
    """Assert that no victim could stay."""
    with world.without(decision.victims):
        assert decision.node in world.feasible(), (
            f"{decision.pod.key} would not fit on {decision.node} without {_names(decision)}"
        )
    for victim in decision.victims:
        with world.without(other for other in decision.victims if other.uid != victim.uid):
            assert decision.node not in world.feasible(), (
                f"{victim.key} has to go without need: {decision.pod.key} fits beside it"
            )


def _judge_order(decision: Preempt, world: "_World") -> None:
    """Assert that the more important pods stay: those that budgets protect, then the others."""
    protected, free = world.lower(decision.node)
    order = (*protected, *free)
    going: list[Pod] = []
    for turn, each in enumerate(order, start=1):
        with world.without((*going, *order[turn:])):
            if decision.node not in world.feasible():
                going.append(each)
    assert {pod.uid for pod in decision.victims} == {pod.uid for pod in going}, (
        f"for {decision.pod.key} on {decision.node} {_names(decision)} have to go, "
        f"where less important ones would do: {', '.join(pod.key for pod in going)}"
    )


def _judge_budgets(decision: Preempt, world: "_World") -> None:
    """Assert that budgets are violated only where no node could do without.

    A node counts if it could take the pod with all the less important ones gone. One that could
    not, since the pod wants to be near some of them, is no candidate by upstream's rule.
    """
    protected, _ = world.lower(decision.node)
    shielded = {pod.uid for pod in protected}
    violated = [victim.key for victim in decision.victims if victim.uid in shielded]
    if not violated:
        return
    for node in world.nodes:
        kept, free = world.lower(node)
        with world.without((*kept, *free)):
            candidate = node in world.feasible()
        with world.without(free):
            assert not free or not candidate or node not in world.feasible(), (
                f"{', '.join(violated)} have to go against a budget for {decision.pod.key}, "
                f"which {node} could take without"
            )


def _names(decision: Preempt) -> str:
    return ", ".join(sorted(victim.key for victim in decision.victims))


class _World:
    """A cluster with everything in it that was known, for one pod to be tried in."""

    def __init__(self, pod: Pod, profile: Profile, known: Known) -> None:
        self._pod = pod
        self._profile = profile
        self._known = known
        self._cache = ClusterCache()
        for node in known.nodes:
            self._cache.add_node(node)
        for placed in known.placed:
            self._cache.add_pod(placed)
        for each in known.distrust:
            self._cache.put(NODE_DISTRUST, each)

    @property
    def nodes(self) -> list[str]:
        return [node.name for node in self._known.nodes]

    @contextmanager
    def without(self, gone: Iterable[Pod]) -> Iterator[None]:
        """Let some pods be gone for a while."""
        taken_out = tuple(gone)
        for pod in taken_out:
            self._cache.remove_pod(pod.uid)
        yield
        for pod in taken_out:
            self._cache.add_pod(pod)

    def feasible(self) -> set[str]:
        """Return the nodes that could take the pod."""
        nodes = self._cache.view()
        narrowed = run_pre_filters(self._profile.pre_filter, self._pod, nodes, SILENT)
        if narrowed.refused is not None:
            return set()
        attempt = Attempt(self._profile, self._pod, nodes, self._known.nominated)
        rows = nominated_rows(attempt, nodes)
        found = filter_nodes(self._profile, narrowed, self._pod, nodes, rows, SILENT)
        return {nodes.names[row] for row in found.feasible.nonzero()[0].tolist()}

    def lower(self, node: str) -> tuple[list[Pod], list[Pod]]:
        """Return who could go from *node*, the most important first: protected ones, and others.

        What budgets allow is used up by the most important.
        """
        lower = [
            pod
            for pod in self._known.placed
            if pod.node_name == node
            and pod.priority < self._pod.priority
            and (self._known.among is None or pod.spec.scheduler_name in self._known.among)
        ]
        left = {
            budget.metadata.name: budget.status.disruptions_allowed
            for budget in self._known.budgets
        }
        protected: list[Pod] = []
        free: list[Pod] = []
        for pod in sorted(lower, key=_importance):
            about = [
                budget.metadata.name for budget in self._known.budgets if _is_about(budget, pod)
            ]
            for name in about:
                left[name] -= 1
            (protected if any(left[name] < 0 for name in about) else free).append(pod)
        return protected, free


def _is_about(budget: PodDisruptionBudget, pod: Pod) -> bool:
    return compile_selector(budget.spec.selector, "spec.selector").matches(pod.labels)


def _importance(pod: Pod) -> tuple[int, str, str, str]:
    created = pod.metadata.creation_timestamp or "~"
    return -pod.priority, pod.status.start_time or "~", created, pod.uid
