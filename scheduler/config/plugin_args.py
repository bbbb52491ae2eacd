"""The arguments of the plugins that upstream knows.

Plugins receive them as they stand here; what is a Kubernetes object inside (affinity, label
selector) stays plain data, once its fields are known to exist, and gets its meaning in the plugin.

Source: ``kube-scheduler/config/v1/types_pluginargs.go`` and
``pkg/scheduler/apis/config/v1/defaults.go``.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

import msgspec

from scheduler.config.fields import Int32, Seconds

LEAST_ALLOCATED: Final = "LeastAllocated"
MOST_ALLOCATED: Final = "MostAllocated"
REQUESTED_TO_CAPACITY_RATIO: Final = "RequestedToCapacityRatio"


class Args(msgspec.Struct, frozen=True, rename="camel"):
    """Arguments, or a part of them."""


class DefaultPreemptionArgs(Args, frozen=True):
    """How many nodes preemption tries, and who may be evicted."""

    min_candidate_nodes_percentage: Int32 = 10
    """The share of the nodes to try at least, in percent, 0 to 100. Default: 10."""

    min_candidate_nodes_absolute: Int32 = 100
    """The number of nodes to try at least; the larger of both counts. Default: 100. Not both may be
    0."""

    preempt_foreign_pods: bool = True
    """Whether pods of other schedulers, named by none of the document's profiles, may be evicted,
    as kube-scheduler would; it does not know this field. Default: true."""


class InterPodAffinityArgs(Args, frozen=True):
    """How other pods' affinity counts."""

    hard_pod_affinity_weight: Int32 = 1
    """What a *required* affinity of an existing pod adds to a node's score, 0 to 100. Default:
    1."""

    ignore_preferred_terms_of_existing_pods: bool = False
    """Whether preferences of existing pods are left out unless the pod has affinity itself.
    Default: false."""


class NodeSelectorRequirement(Args, frozen=True):
    """A core/v1 NodeSelectorRequirement."""

    key: str = ""
    """The label or field."""

    operator: str = ""
    """In, NotIn, Exists, DoesNotExist, Gt or Lt."""

    values: tuple[str, ...] = ()
    """What it is compared with."""


class NodeSelectorTerm(Args, frozen=True):
    """A core/v1 NodeSelectorTerm: all of it must match."""

    match_expressions: tuple[NodeSelectorRequirement, ...] = ()
    """About labels. Default: none."""

    match_fields: tuple[NodeSelectorRequirement, ...] = ()
    """About fields. Default: none."""


class NodeSelector(Args, frozen=True):
    """A core/v1 NodeSelector."""

    node_selector_terms: tuple[NodeSelectorTerm, ...] = ()
    """Terms of which one must match; none matches nothing."""


class PreferredSchedulingTerm(Args, frozen=True):
    """A core/v1 PreferredSchedulingTerm."""

    weight: Int32 = 0
    """How much it counts."""

    preference: NodeSelectorTerm = NodeSelectorTerm()
    """What is preferred."""


class AddedAffinity(Args, frozen=True):
    """A core/v1 NodeAffinity, to be decoded strictly."""

    required: NodeSelector | None = msgspec.field(
        default=None, name="requiredDuringSchedulingIgnoredDuringExecution"
    )
    """Where pods must go. Default: anywhere."""

    preferred: tuple[PreferredSchedulingTerm, ...] = msgspec.field(
        default=(), name="preferredDuringSchedulingIgnoredDuringExecution"
    )
    """Where pods would rather go. Default: anywhere."""


class NodeAffinityArgs(Args, frozen=True):
    """Affinity for every pod of the profile."""

    added_affinity: dict[str, Any] | None = None
    """A core/v1 NodeAffinity that holds beside each pod's own. Default: none."""


class ResourceSpec(Args, frozen=True):
    """A resource that counts in a score."""

    name: str = ""
    """The resource, as in ``cpu``."""

    weight: int = 1
    """How much it counts beside the others, 1 to 100. Default: 1 (also for 0)."""


CPU_AND_MEMORY: Final = (ResourceSpec("cpu"), ResourceSpec("memory"))


class ShapePoint(Args, frozen=True):
    """One corner of a piecewise linear function."""

    utilization: Int32 = 0
    """How full, in percent, 0 to 100."""

    score: Int32 = 0
    """How good that is, 0 to 10."""


class RequestedToCapacityRatio(Args, frozen=True):
    """A function from utilisation to score."""

    shape: tuple[ShapePoint, ...] = ()
    """Its corners, by rising utilisation; at least one."""


class ScoringStrategy(Args, frozen=True):
    """Which use of a node's resources scores high."""

    type: str = ""
    """LeastAllocated spreads, MostAllocated packs, RequestedToCapacityRatio follows a shape; must
    be given."""

    resources: tuple[ResourceSpec, ...] = CPU_AND_MEMORY
    """The resources that count. Default: cpu and memory, 1 each (also for an empty list)."""

    requested_to_capacity_ratio: RequestedToCapacityRatio | None = None
    """The shape; with that type only."""


class NodeResourcesFitArgs(Args, frozen=True):
    """Which resources are compared, and how what is left is scored."""

    ignored_resources: tuple[str, ...] = ()
    """Extended resources that are not compared. Default: none."""

    ignored_resource_groups: tuple[str, ...] = ()
    """Prefixes before the slash of extended resources that are not compared. Default: none."""

    scoring_strategy: ScoringStrategy = ScoringStrategy(LEAST_ALLOCATED)
    """How nodes are scored. Default: LeastAllocated over cpu and memory."""


class NodeResourcesBalancedAllocationArgs(Args, frozen=True):
    """Which resources are to be used evenly."""

    resources: tuple[ResourceSpec, ...] = CPU_AND_MEMORY
    """The resources, each of weight 1. Default: cpu and memory."""


class SpreadConstraint(Args, frozen=True):
    """A core/v1 TopologySpreadConstraint, as far as a default one may go."""

    max_skew: Int32 = 0
    """How far domains may differ; positive."""

    topology_key: str = ""
    """The node label whose value is the domain; must be given."""

    when_unsatisfiable: str = ""
    """DoNotSchedule or ScheduleAnyway; must be given."""

    label_selector: dict[str, Any] | None = None
    """Must be absent: it is deduced for each pod from the services and owners that select it."""

    match_label_keys: tuple[str, ...] = ()
    """Labels of the pod whose values join the selector. Default: none."""

    min_domains: Int32 | None = None
    """Domains expected at least, with DoNotSchedule. Default: 1."""

    node_affinity_policy: str | None = None
    """Whether nodes outside the pod's affinity count: Honor leaves them out, Ignore does not.
    Default: Honor."""

    node_taints_policy: str | None = None
    """Whether nodes with untolerated taints count: Honor leaves them out, Ignore does not. Default:
    Ignore."""


class PodTopologySpreadArgs(Args, frozen=True):
    """How pods without constraints of their own are spread."""

    default_constraints: tuple[SpreadConstraint, ...] = ()
    """The constraints, with defaultingType List only. Default: none."""

    defaulting_type: str = "System"
    """System: over zones (skew 5) and hosts (skew 3), as a preference. List: as defaultConstraints
    say. Default: System."""


class VolumeBindingArgs(Args, frozen=True):
    """How long to wait for volumes."""

    bind_timeout_seconds: int = 600
    """How long binding the volumes of a pod may take. Default: 600."""

    shape: tuple[ShapePoint, ...] | None = None
    """Must be absent: the score by storage capacity is alpha upstream and not part of this
    build."""


class DynamicResourcesArgs(Args, frozen=True):
    """How long to search and wait for devices."""

    filter_timeout_seconds: Seconds = msgspec.field(default=10.0, name="filterTimeout")
    """How long the search may take on one node; 0: as long as it takes. Default: 10s."""

    binding_timeout_seconds: Seconds = msgspec.field(default=600.0, name="bindingTimeout")
    """How long devices may take to get ready before a pod is bound; at least 1s. Default: 600s."""


TYPED: Final[Mapping[str, type[Args]]] = MappingProxyType(
    {
        "DefaultPreemption": DefaultPreemptionArgs,
        "DynamicResources": DynamicResourcesArgs,
        "InterPodAffinity": InterPodAffinityArgs,
        "NodeAffinity": NodeAffinityArgs,
        "NodeResourcesBalancedAllocation": NodeResourcesBalancedAllocationArgs,
        "NodeResourcesFit": NodeResourcesFitArgs,
        "PodTopologySpread": PodTopologySpreadArgs,
        "VolumeBinding": VolumeBindingArgs,
    }
)
"""Arguments by plugin name; any other plugin gets the plain mapping it was configured with."""
