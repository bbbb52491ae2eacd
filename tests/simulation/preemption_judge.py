"""Checks a preemption: is it needed, are its victims the right ones, are budgets respected?

The rules are those of kube-scheduler's default preemption, evaluated one node and one pod at a time
in a cluster that is rebuilt from what was known. The plugin's own search is not used: a mistake
in it would hide itself.
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
        placed: Pods with a node, bound or assumed.
        nominated: Pods by the node that they are nominated to.
        distrust: What NodeTrust holds against nodes.
        among: The schedulers whose pods may be victims; None for any.
    """

    nodes: Sequence[Node]
    placed: Sequence[Pod]
    budgets: Sequence[PodDisruptionBudget]
    nominated: Mapping[str, Sequence[Pod]]
    distrust: Sequence[KubeObject]
    among: Collection[str] | None


def judge(decision: Preempt, profile: Profile, known: Known) -> None:
    """Check a preemption against what was known.

    Raises:
        AssertionError: If a victim is not needed, or another pod should have been the victim, or a
            budget is violated that need not be.
    """
    pod, node = decision.pod, decision.node
    cluster = _Cluster(pod, profile, known)
    for victim in decision.victims:
        assert victim.node_name == node, f"{victim.key} has to go, and is not on {node}"
        whose = victim.spec.scheduler_name
        spared = known.among is not None and whose not in known.among
        assert not spared, f"{victim.key} has to go, which is of {whose}"
        assert victim.priority < pod.priority, (
            f"{victim.key} has to go for {pod.key}, which is no more important"
        )
    feasible = cluster.feasible()
    assert not feasible, f"{pod.key} evicts, although it fits on {', '.join(sorted(feasible))}"
    _judge_need(decision, cluster)
    _judge_order(decision, cluster)
    _judge_budgets(decision, cluster)


def _judge_need(decision: Preempt, cluster: "_Cluster") -> None:
    """Assert that the pod fits without the victims, and not with any one of them."""
    with cluster.without(decision.victims):
        assert decision.node in cluster.feasible(), (
            f"{decision.pod.key} would not fit on {decision.node} without {_names(decision)}"
        )
    for victim in decision.victims:
        with cluster.without(other for other in decision.victims if other.uid != victim.uid):
            assert decision.node not in cluster.feasible(), (
                f"{victim.key} has to go without need: {decision.pod.key} fits beside it"
            )


def _judge_order(decision: Preempt, cluster: "_Cluster") -> None:
    """Assert that victims are chosen in upstream's order.

    Pods are reprieved from the most important down: those that budgets protect, then the others.
    """
    protected, free = cluster.lower(decision.node)
    order = (*protected, *free)
    going: list[Pod] = []
    for turn, each in enumerate(order, start=1):
        with cluster.without((*going, *order[turn:])):
            if decision.node not in cluster.feasible():
                going.append(each)
    assert {pod.uid for pod in decision.victims} == {pod.uid for pod in going}, (
        f"for {decision.pod.key} on {decision.node} {_names(decision)} have to go, "
        f"where less important ones would do: {', '.join(pod.key for pod in going)}"
    )


def _judge_budgets(decision: Preempt, cluster: "_Cluster") -> None:
    """Assert that budgets are violated only if every candidate node needs that.

    A node is a candidate if it could take the pod without all pods of lower priority. Where the pod
    has affinity to one of those it could not, and upstream does not consider the node.
    """
    protected, _ = cluster.lower(decision.node)
    shielded = {pod.uid for pod in protected}
    violated = [victim.key for victim in decision.victims if victim.uid in shielded]
    if not violated:
        return
    for node in cluster.nodes:
        kept, free = cluster.lower(node)
        with cluster.without((*kept, *free)):
            candidate = node in cluster.feasible()
        with cluster.without(free):
            assert not free or not candidate or node not in cluster.feasible(), (
                f"{', '.join(violated)} have to go against a budget for {decision.pod.key}, "
                f"which {node} could take without"
            )


def _names(decision: Preempt) -> str:
    return ", ".join(sorted(victim.key for victim in decision.victims))


class _Cluster:
    """A cluster of all that was known, in which one pod is tried."""

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
        """Remove some pods for the duration of the context."""
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
        """Return the potential victims on *node*, most important first: protected ones, and others.

        The most important pods use up what budgets allow, as upstream has it.
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
