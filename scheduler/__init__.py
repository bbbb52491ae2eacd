"""py-scheduler: a Kubernetes scheduler beside the one the cluster has.

Pods that say ``schedulerName: py-scheduler`` are placed by it. What happens to one, in order:

1. A watch tells that the pod exists. It enters the queue, unless a plugin's ``pre_enqueue`` keeps
   it out.
2. When it is the pod's turn (``sort_key``), all that was told meanwhile is applied first; then the
   pod and a view of all nodes, a NodeTable, go into one pure function.
3. ``pre_filter`` and ``filter`` plugins say which nodes cannot take it, and why. Every node is
   judged.
4. If none is left, ``post_filter`` plugins may propose to make room. Otherwise the pod is parked
   with the reasons, in its PodScheduled condition and in an event, until something changes that one
   of the plugins that refused it is waiting for (``requeue_on``), or for five minutes.
5. ``score`` plugins rank the nodes that are left from 0 to 100. Weighted sums decide; equal nodes
   are told apart by a mix of pod and node, the same every time.
6. The pod is assumed to be on the best node, so that the next pod already finds the place taken;
   ``reserve``, ``permit`` and ``pre_bind`` plugins have their say; then the binding is posted.
7. The watch tells that the pod is bound: the assumption is confirmed.

A plugin is a class with a ``name`` and some of these methods; it inherits nothing and answers for
all nodes at once. The names below are what it may import, with ``scheduler.testing`` for its tests.
Nothing else is promised to stay. ``docs/plugins.md`` has the whole contract.
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
from scheduler.model.selectors import Requirement, Selector
from scheduler.model.taints import Taint, Toleration
from scheduler.snapshot.domains import NO_DOMAIN, DomainCounts
from scheduler.snapshot.node_table import NodeTable
from scheduler.snapshot.pod_sets import PodSet
from scheduler.version import __version__

__all__ = [  # noqa: RUF022 - by purpose, so that a reader finds what goes together
    # What a plugin is given.
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
    # How it is asked about one node at a time.
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
    # What could help the pods it refused.
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
    # What it answers about the pod, before and after.
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
    # How it makes room.
    "Candidate",
    "Diagnosis",
    "FilterQuestion",
    "Proposal",
    "Refusal",
    "Verdict",
    # The points it can serve, for type checkers; nobody has to inherit them.
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
    # What can go wrong.
    "ConfigurationError",
    "MalformedObject",
    "PluginError",
    "SchedulerError",
    "StaleView",
    "__version__",
]
