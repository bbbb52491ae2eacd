"""py-scheduler: a Kubernetes scheduler that runs beside the cluster's own one.

It schedules pods with ``schedulerName: py-scheduler``. These are the steps for one pod:

1. A watch event adds the pod. It enters the queue, unless a plugin's ``pre_enqueue`` keeps it out.
2. The queue pops the pod with the smallest ``sort_key``. All facts that came in meanwhile are
   applied first; then the pod and a view of all nodes, a NodeTable, go into one pure function.
3. ``pre_filter`` and ``filter`` plugins reject the nodes that cannot take it, with reasons. Every
   node is judged.
4. If no node is feasible, ``post_filter`` plugins may propose a preemption. Otherwise the pod is
   parked with the reasons, in its PodScheduled condition and in an event, until an event that one
   of the rejecting plugins registered for (``requeue_on``), or for five minutes.
5. ``score`` plugins rank the feasible nodes from 0 to 100. Weighted sums decide; a hash of pod and
   node breaks ties, so that the same pod on the same nodes gives the same answer.
6. The pod is assumed on the best node, so that the next pod is decided with its requests counted.
   ``reserve``, ``permit`` and ``pre_bind`` plugins run; then the binding is posted.
7. A watch event shows that the pod is bound: the assumption is confirmed.

A plugin is a class with a ``name`` and some of these methods; it inherits nothing and judges all
nodes at once. It may import the names below, and ``scheduler.testing`` for its tests; all other
names may change in any version. ``docs/plugins.md`` has the whole contract.
"""

from scheduler.errors import (
    ConfigurationError,
    MalformedObject,
    PluginError,
    SchedulerError,
    StaleView,
)
from scheduler.framework.cluster_event import (
    ANY,
    ASSIGNED_POD,
    NODE,
    POD,
    UNSCHEDULABLE_POD,
    Action,
    Change,
    ClusterEvent,
    Hint,
    Requeue,
)
from scheduler.framework.diagnosis import Diagnosis, Verdict
from scheduler.framework.effects import Assume, Effect, Patch, PostBinding, WaitUntil
from scheduler.framework.normalize import MIN_MAX, PROPORTIONAL, REVERSED, MinMax, Proportional
from scheduler.framework.per_node import NodeAmounts, NodeRow, per_node
from scheduler.framework.plugin import (
    FilterPlugin,
    FilterQuestion,
    Normalize,
    PermitPlugin,
    Plugin,
    PostFilterPlugin,
    PreBindPlugin,
    PreEnqueuePlugin,
    PreFilterPlugin,
    QueueSortPlugin,
    ReservePlugin,
    ScorePlugin,
)
from scheduler.framework.rejection import (
    MAX_NODE_SCORE,
    Allow,
    Candidate,
    Failure,
    Gate,
    NodeMask,
    Only,
    PermitAnswer,
    PreFilterAnswer,
    Proposal,
    Refusal,
    Refused,
    Reject,
    Rejection,
    Scores,
    Skip,
    Wait,
)
from scheduler.model.fact import Resource
from scheduler.model.node import Node
from scheduler.model.objects import CustomObject
from scheduler.model.pod import Pod
from scheduler.model.pod_set import PodSet
from scheduler.model.selectors import Requirement, Selector
from scheduler.model.taints import Taint, Toleration
from scheduler.snapshot.domains import NO_DOMAIN, DomainCounts
from scheduler.snapshot.node_table import NodeTable
from scheduler.version import __version__

__all__ = [  # noqa: RUF022 - by purpose, so that a reader finds what goes together
    # What a plugin receives.
    "NO_DOMAIN",
    "CustomObject",
    "DomainCounts",
    "Node",
    "NodeTable",
    "Pod",
    "PodSet",
    "Requirement",
    "Resource",
    "Selector",
    "Taint",
    "Toleration",
    # What it answers about nodes.
    "MAX_NODE_SCORE",
    "Failure",
    "NodeMask",
    "Only",
    "PreFilterAnswer",
    "Refused",
    "Rejection",
    "Scores",
    "Skip",
    # How it judges one node at a time.
    "NodeAmounts",
    "NodeRow",
    "per_node",
    # How its scores become 0 to 100.
    "MIN_MAX",
    "PROPORTIONAL",
    "REVERSED",
    "MinMax",
    "Normalize",
    "Proportional",
    # Which events could help the pods that it rejected.
    "ANY",
    "ASSIGNED_POD",
    "NODE",
    "POD",
    "UNSCHEDULABLE_POD",
    "Action",
    "Change",
    "ClusterEvent",
    "Hint",
    "Requeue",
    # What it answers about the pod, before nodes are judged and after one is chosen.
    "Allow",
    "Gate",
    "PermitAnswer",
    "Reject",
    "Wait",
    # What it wants done before the pod is bound.
    "Effect",
    "Assume",
    "Patch",
    "PostBinding",
    "WaitUntil",
    # How it preempts.
    "Candidate",
    "Diagnosis",
    "FilterQuestion",
    "Proposal",
    "Refusal",
    "Verdict",
    # The extension points, for type checkers; a plugin need not inherit them.
    "FilterPlugin",
    "PermitPlugin",
    "Plugin",
    "PostFilterPlugin",
    "PreBindPlugin",
    "PreEnqueuePlugin",
    "PreFilterPlugin",
    "QueueSortPlugin",
    "ReservePlugin",
    "ScorePlugin",
    # Exceptions.
    "ConfigurationError",
    "MalformedObject",
    "PluginError",
    "SchedulerError",
    "StaleView",
    "__version__",
]
