"""The in-tree plugins: one row per plugin.

In: nothing. Out: the properties of each in configurations, and the default profile. `kuberth.plugins` finds
the classes by the names in this table.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from msgspec import Struct

from kuberth.config import plugin_args


class InTreePlugin(NamedTuple):
    """An in-tree plugin."""

    points: tuple[str, ...]
    """The extension points of its class; repeated here because a configuration is validated without importing
    plugins."""
    args: type[Struct] | None = None
    """The type of its arguments; None if it has none."""
    weight: int = 0
    """The plugin's weight in the default profile."""
    gate: str | None = None
    """The feature gate that the plugin needs in the default profile; None: always included."""


_FILTERING = ("preFilter", "filter")
_FILTERING_AND_SCORING = ("preFilter", "filter", "preScore", "score")

# In the order of the default profile. DynamicResources comes before DefaultPreemption because releasing an
# unused claim is cheaper than evicting a pod, and PostFilter stops at the first plugin that helps.
IN_TREE_PLUGINS: Mapping[str, InTreePlugin] = {
    "SchedulingGates": InTreePlugin(("preEnqueue",), gate="PodSchedulingReadiness"),
    "PrioritySort": InTreePlugin(("queueSort",)),
    "NodeUnschedulable": InTreePlugin(("filter",)),
    "NodeName": InTreePlugin(("filter",)),
    "TaintToleration": InTreePlugin(("filter", "preScore", "score"), weight=3),
    "NodeAffinity": InTreePlugin(_FILTERING_AND_SCORING, plugin_args.NodeAffinityArgs, weight=2),
    "NodePorts": InTreePlugin(_FILTERING),
    "NodeResourcesFit": InTreePlugin(
        (*_FILTERING_AND_SCORING, "placementScore"), plugin_args.NodeResourcesFitArgs, weight=1
    ),
    "VolumeRestrictions": InTreePlugin(_FILTERING),
    "NodeVolumeLimits": InTreePlugin(_FILTERING),
    "VolumeBinding": InTreePlugin(
        ("preFilter", "filter", "reserve", "preBind", "preScore", "score"), plugin_args.VolumeBindingArgs
    ),
    "VolumeZone": InTreePlugin(_FILTERING),
    "PodTopologySpread": InTreePlugin(_FILTERING_AND_SCORING, plugin_args.PodTopologySpreadArgs, weight=2),
    "InterPodAffinity": InTreePlugin(_FILTERING_AND_SCORING, plugin_args.InterPodAffinityArgs, weight=2),
    "DynamicResources": InTreePlugin(
        ("preEnqueue", "preFilter", "filter", "postFilter", "score", "reserve", "preBind"),
        plugin_args.DynamicResourcesArgs,
        weight=2,
        gate="DynamicResourceAllocation",
    ),
    "DefaultPreemption": InTreePlugin(("preEnqueue", "postFilter"), plugin_args.DefaultPreemptionArgs),
    "NodeResourcesBalancedAllocation": InTreePlugin(
        ("preScore", "score"), plugin_args.NodeResourcesBalancedAllocationArgs, weight=1
    ),
    "ImageLocality": InTreePlugin(("score",), weight=1),
    "DefaultBinder": InTreePlugin(("bind",)),
    "NodeDeclaredFeatures": InTreePlugin(_FILTERING, gate="NodeDeclaredFeatures"),
    "GangScheduling": InTreePlugin(("preEnqueue", "permit"), gate="GangScheduling"),
    "TopologyPlacementGenerator": InTreePlugin(
        ("placementGenerate",), gate="TopologyAwareWorkloadScheduling"
    ),
    "PodGroupPodsCount": InTreePlugin(("placementScore",), weight=1, gate="TopologyAwareWorkloadScheduling"),
}

IN_TREE_POINTS: Mapping[str, tuple[str, ...]] = {name: row.points for name, row in IN_TREE_PLUGINS.items()}
IN_TREE_ARGS: Mapping[str, type[Struct]] = {
    name: row.args for name, row in IN_TREE_PLUGINS.items() if row.args is not None
}
