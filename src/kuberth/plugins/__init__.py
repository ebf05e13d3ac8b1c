"""The plugins that ship with Kuberth, under kube-scheduler's names.

On a pod's way these decide: each is asked by the framework's runner at its extension points. Only the
registry here knows them; no other package imports a plugin.
"""

from __future__ import annotations

from kuberth.framework.registry import Registry
from kuberth.plugins.default_binder import DefaultBinder
from kuberth.plugins.default_preemption import DefaultPreemption
from kuberth.plugins.dynamic_resources import DynamicResources
from kuberth.plugins.image_locality import ImageLocality
from kuberth.plugins.inter_pod_affinity import InterPodAffinity
from kuberth.plugins.node_affinity import NodeAffinity
from kuberth.plugins.node_declared_features import NodeDeclaredFeatures
from kuberth.plugins.node_name import NodeName
from kuberth.plugins.node_ports import NodePorts
from kuberth.plugins.node_resources import NodeResourcesBalancedAllocation, NodeResourcesFit
from kuberth.plugins.node_unschedulable import NodeUnschedulable
from kuberth.plugins.node_volume_limits import NodeVolumeLimits
from kuberth.plugins.pod_topology_spread import PodTopologySpread
from kuberth.plugins.priority_sort import PrioritySort
from kuberth.plugins.scheduling_gates import SchedulingGates
from kuberth.plugins.taint_toleration import TaintToleration
from kuberth.plugins.volume_binding import VolumeBinding
from kuberth.plugins.volume_restrictions import VolumeRestrictions
from kuberth.plugins.volume_zone import VolumeZone

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
)


def in_tree_registry() -> Registry:
    """A fresh registry of all plugins that ship with Kuberth."""
    registry = Registry()
    for plugin in IN_TREE:
        registry.register_class(plugin, origin="kuberth")
    return registry
