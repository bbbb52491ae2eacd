"""The public names, as plugin authors use them: type-checked by ``mypy``, never run.

A change that breaks a line here breaks somebody's plugin.
"""

from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from scheduler import (
    ANY,
    ASSIGNED_POD,
    MAX_NODE_SCORE,
    NODE,
    POD,
    PROPORTIONAL,
    REVERSED,
    Action,
    Allow,
    Candidate,
    Change,
    ClusterEvent,
    Diagnosis,
    Effect,
    Failure,
    FilterPlugin,
    FilterQuestion,
    Gate,
    Node,
    NodeMask,
    NodeTable,
    Normalize,
    Only,
    Patch,
    PermitAnswer,
    PermitPlugin,
    Pod,
    PodSet,
    PostBinding,
    PostFilterPlugin,
    PreBindPlugin,
    PreEnqueuePlugin,
    PreFilterAnswer,
    PreFilterPlugin,
    Proposal,
    QueueSortPlugin,
    Refusal,
    Refused,
    Reject,
    Rejection,
    Requeue,
    Requirement,
    ReservePlugin,
    Resource,
    ScorePlugin,
    Scores,
    Selector,
    Skip,
    Wait,
    WaitUntil,
)
from scheduler.testing import check_plugin, make_node, make_pod, make_table


def may_help(pod: Pod, change: Change) -> bool:
    return isinstance(change.new, Node) and change.new.name == pod.nominated_node


class EveryPoint:
    name = "EveryPoint"
    node_local = True
    needs = (Resource.SERVICE, "node.annotations")
    normalize = PROPORTIONAL
    requeue_on = (
        Requeue(ClusterEvent(NODE, Action.ADD | Action.UPDATE_NODE_LABEL), may_help),
        Requeue(ClusterEvent(ASSIGNED_POD, Action.DELETE)),
        Requeue(ClusterEvent(POD, Action.UPDATE_POD_LABEL)),
        Requeue(ClusterEvent(ANY, Action.ALL)),
    )

    def __init__(self, *, label: str = "disk") -> None:
        self._label = label

    def pre_enqueue(self, pod: Pod) -> Gate | None:
        return Gate("not yet") if pod.spec.scheduling_gates else None

    def sort_key(self, pod: Pod) -> tuple[int, ...]:
        return (-pod.priority, len(pod.name))

    def pre_filter(self, pod: Pod, nodes: NodeTable) -> PreFilterAnswer:
        if pod.node_name:
            return Only(frozenset({pod.node_name}))
        if not pod.labels:
            return Skip()
        return Refused("no", resolvable=False) if nodes.cluster.pod_count.sum() > 9 else None

    def filter(self, pod: Pod, nodes: NodeTable) -> Iterator[Rejection | Failure]:
        wanted: NodeMask = nodes.labelled(self._label, "ssd") & ~nodes.unschedulable
        free = nodes.allocatable("cpu") - nodes.requested("cpu")
        yield Rejection(~wanted, "node(s) had no ssd", resolvable=False)
        yield Rejection(free < pod.requests.get("cpu", 0), "Insufficient cpu", free > 0)
        yield Failure(np.zeros(len(nodes), dtype=np.bool_), "cannot tell")

    def score(self, pod: Pod, nodes: NodeTable) -> Scores | None:
        web = PodSet(
            frozenset({pod.namespace}), Selector((Requirement("app", "In", frozenset({"web"})),))
        )
        counts = nodes.count_domains("zone", web, ~nodes.cluster.unschedulable)
        return counts.least - counts.here + nodes.count(web)

    def post_filter(
        self, pod: Pod, nodes: NodeTable, diagnosis: Diagnosis, ask: FilterQuestion
    ) -> Proposal | Refusal:
        after = ask(pod, nodes.each(removing={0: nodes.pods_on(0)}))
        if not after.feasible.any() or after.failures:
            return Refusal(diagnosis.message, stop=True)
        chosen = Candidate(nodes.names[0], nodes.pods_on(0))
        return Proposal(chosen, (chosen,))

    def reserve(self, pod: Pod, node: str, nodes: NodeTable) -> Reject | Failure | None:
        row = nodes.row_of(node)
        return Reject(f"{pod.key}: {node} is gone") if row is None else None

    def unreserve(self, pod: Pod, node: str) -> None:
        pass

    def permit(self, pod: Pod, node: str, waiting: Sequence[Pod]) -> PermitAnswer:
        return Allow() if len(waiting) > 1 else Wait(30.0, f"{pod.key} on {node}")

    def pre_bind(self, pod: Pod, node: str, nodes: NodeTable) -> Iterable[Effect]:
        yield Patch("/api/v1/nodes/x", {"metadata": {}}, undo=None)
        yield WaitUntil(lambda nodes: len(nodes) > 0, 5.0, "the truth")
        yield PostBinding({"chosen": node})


class TenLines:
    name = "TenLines"

    def score(self, pod: Pod, nodes: NodeTable) -> Scores:
        return MAX_NODE_SCORE * nodes.labelled("lifecycle", "spot")


class NormalizesItself:
    name = "NormalizesItself"

    def score(self, pod: Pod, nodes: NodeTable) -> Scores:
        return nodes.nonzero_requested("memory") // 2**20

    def normalize(self, scores: Scores, pod: Pod, nodes: NodeTable) -> Scores:
        return REVERSED(scores, pod, nodes)


SCORES: tuple[ScorePlugin, ...] = (EveryPoint(), TenLines(), NormalizesItself())
GATE: PreEnqueuePlugin = EveryPoint()
ORDER: QueueSortPlugin = EveryPoint()
NARROW: PreFilterPlugin = EveryPoint()
FILTER: FilterPlugin = EveryPoint()
ROOM: PostFilterPlugin = EveryPoint()
NOTE: ReservePlugin = EveryPoint()
PERMIT: PermitPlugin = EveryPoint()
PREPARE: PreBindPlugin = EveryPoint()
HELPERS: tuple[Normalize, ...] = (PROPORTIONAL, REVERSED, NormalizesItself().normalize)

check_plugin(EveryPoint(label="x"), pods=[make_pod("a", priority=3)], nodes=[make_node("n")])
TABLE: NodeTable = make_table(make_node("n"), placed=[make_pod("b", node="n")])
