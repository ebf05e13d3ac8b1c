"""The arguments of the in-tree plugins, one struct per plugin, with Kubernetes' defaults.

In: what `decoding` finds under `pluginConfig[].args`. Out: the argument of a plugin's constructor.
"""

from __future__ import annotations

from datetime import timedelta

from msgspec import Struct

from kuberth.api.core import NodeAffinity, TopologySpreadConstraint
from kuberth.config.types import Int32, Int64

MAX_CUSTOM_SCORE = 10
"""The maximum score in a `shape`; plugins scale it to 100."""

FILTER_TIMEOUT = timedelta(seconds=10)
BINDING_TIMEOUT = timedelta(minutes=10)


class ResourceSpec(Struct, frozen=True, kw_only=True, rename="camel"):
    name: str
    weight: Int64 = 1


class UtilizationShapePoint(Struct, frozen=True, kw_only=True, rename="camel"):
    utilization: Int32 = 0
    score: Int32 = 0


class RequestedToCapacityRatioParam(Struct, frozen=True, kw_only=True, rename="camel"):
    shape: tuple[UtilizationShapePoint, ...] = ()


CPU_AND_MEMORY = (ResourceSpec(name="cpu"), ResourceSpec(name="memory"))


class ScoringStrategy(Struct, frozen=True, kw_only=True, rename="camel"):
    # Kubernetes has no default for the type of an explicit strategy: it is required.
    type: str = ""
    resources: tuple[ResourceSpec, ...] = ()
    requested_to_capacity_ratio: RequestedToCapacityRatioParam | None = None


class DefaultPreemptionArgs(Struct, frozen=True, kw_only=True, rename="camel"):
    min_candidate_nodes_percentage: Int32 = 10
    min_candidate_nodes_absolute: Int32 = 100


class InterPodAffinityArgs(Struct, frozen=True, kw_only=True, rename="camel"):
    hard_pod_affinity_weight: Int32 = 1
    ignore_preferred_terms_of_existing_pods: bool = False


class NodeResourcesFitArgs(Struct, frozen=True, kw_only=True, rename="camel"):
    ignored_resources: tuple[str, ...] = ()
    ignored_resource_groups: tuple[str, ...] = ()
    scoring_strategy: ScoringStrategy = ScoringStrategy(type="LeastAllocated", resources=CPU_AND_MEMORY)


class PodTopologySpreadArgs(Struct, frozen=True, kw_only=True, rename="camel"):
    default_constraints: tuple[TopologySpreadConstraint, ...] = ()
    defaulting_type: str = "System"


class NodeResourcesBalancedAllocationArgs(Struct, frozen=True, kw_only=True, rename="camel"):
    resources: tuple[ResourceSpec, ...] = CPU_AND_MEMORY


class VolumeBindingArgs(Struct, frozen=True, kw_only=True, rename="camel"):
    bind_timeout_seconds: Int64 = 600
    # Only with StorageCapacityScoring, which also brings the default.
    shape: tuple[UtilizationShapePoint, ...] = ()


class NodeAffinityArgs(Struct, frozen=True, kw_only=True, rename="camel"):
    added_affinity: NodeAffinity | None = None


class DynamicResourcesArgs(Struct, frozen=True, kw_only=True, rename="camel"):
    # None if the feature gate is off, else `FILTER_TIMEOUT` and `BINDING_TIMEOUT`.
    filter_timeout: timedelta | None = None
    binding_timeout: timedelta | None = None
