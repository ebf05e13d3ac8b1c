"""The plugins that ship with Kuberth, under kube-scheduler's names.

On a pod's way these decide: each is asked by the framework's runner at its extension points. Only the
registry here knows them; no other package imports a plugin.
"""

from __future__ import annotations

from kuberth.framework.registry import Registry
from kuberth.plugins.default_binder.plugin import DefaultBinder
from kuberth.plugins.default_preemption.plugin import DefaultPreemption
from kuberth.plugins.dynamic_resources.plugin import DynamicResources
from kuberth.plugins.gang_scheduling.plugin import GangScheduling
from kuberth.plugins.image_locality.plugin import ImageLocality
from kuberth.plugins.inter_pod_affinity.plugin import InterPodAffinity
from kuberth.plugins.node_affinity.plugin import NodeAffinity
from kuberth.plugins.node_declared_features.plugin import NodeDeclaredFeatures
from kuberth.plugins.node_name.plugin import NodeName
from kuberth.plugins.node_ports.plugin import NodePorts
from kuberth.plugins.node_resources_balanced_allocation.plugin import NodeResourcesBalancedAllocation
from kuberth.plugins.node_resources_fit.plugin import NodeResourcesFit
from kuberth.plugins.node_unschedulable.plugin import NodeUnschedulable
from kuberth.plugins.node_volume_limits.plugin import NodeVolumeLimits
from kuberth.plugins.pod_group_pods_count.plugin import PodGroupPodsCount
from kuberth.plugins.pod_topology_spread.plugin import PodTopologySpread
from kuberth.plugins.priority_sort.plugin import PrioritySort
from kuberth.plugins.scheduling_gates.plugin import SchedulingGates
from kuberth.plugins.taint_toleration.plugin import TaintToleration
from kuberth.plugins.topology_placement_generator.plugin import TopologyPlacementGenerator
from kuberth.plugins.volume_binding.plugin import VolumeBinding
from kuberth.plugins.volume_restrictions.plugin import VolumeRestrictions
from kuberth.plugins.volume_zone.plugin import VolumeZone

IN_TREE = (
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
    GangScheduling,
    TopologyPlacementGenerator,
    PodGroupPodsCount,
)


def in_tree_registry() -> Registry:
    """A fresh registry of all plugins that ship with Kuberth."""
    registry = Registry()
    for plugin in IN_TREE:
        registry.register_class(plugin, origin="kuberth")
    return registry
