"""The plugins that come with the scheduler: upstream's rules, one module or folder each.

No plugin imports another one. What several of them need (node selectors, resource use, counts by
domain) is in the rooms below. Each module names the upstream file whose rules it implements, and
says where a rule differs on purpose. A queueing hint that gets no object wakes the pod, as
upstream's do.

This room imports config, errors, framework, model and snapshot. It is imported by explain,
out_of_tree and reload.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from scheduler.plugins.default_binder import DefaultBinder
from scheduler.plugins.default_preemption import DefaultPreemption
from scheduler.plugins.dynamic_resources import DynamicResources
from scheduler.plugins.image_locality import ImageLocality
from scheduler.plugins.inter_pod_affinity import InterPodAffinity
from scheduler.plugins.node_affinity import NodeAffinity
from scheduler.plugins.node_declared_features import NodeDeclaredFeatures
from scheduler.plugins.node_name import NodeName
from scheduler.plugins.node_ports import NodePorts
from scheduler.plugins.node_resources_balanced_allocation import NodeResourcesBalancedAllocation
from scheduler.plugins.node_resources_fit import NodeResourcesFit
from scheduler.plugins.node_trust import NodeTrust
from scheduler.plugins.node_unschedulable import NodeUnschedulable
from scheduler.plugins.node_volume_limits import NodeVolumeLimits
from scheduler.plugins.pod_topology_spread import PodTopologySpread
from scheduler.plugins.priority_sort import PrioritySort
from scheduler.plugins.scheduling_gates import SchedulingGates
from scheduler.plugins.taint_toleration import TaintToleration
from scheduler.plugins.unsupported_features import UnsupportedFeatures
from scheduler.plugins.volume_binding import VolumeBinding
from scheduler.plugins.volume_restrictions import VolumeRestrictions
from scheduler.plugins.volume_zone import VolumeZone

IN_TREE: Final[Mapping[str, type]] = MappingProxyType(
    {
        plugin.name: plugin
        for plugin in (
            UnsupportedFeatures,
            NodeTrust,
            SchedulingGates,
            PrioritySort,
            NodeUnschedulable,
            NodeName,
            TaintToleration,
            NodeAffinity,
            NodePorts,
            NodeResourcesFit,
            VolumeRestrictions,
            NodeVolumeLimits,
            VolumeBinding,
            VolumeZone,
            PodTopologySpread,
            InterPodAffinity,
            DynamicResources,
            DefaultPreemption,
            NodeResourcesBalancedAllocation,
            ImageLocality,
            DefaultBinder,
            NodeDeclaredFeatures,
        )
    }
)
"""Every plugin by name, in upstream's default order; plugins that upstream lacks come first."""
