"""Feature gates of dynamic resource allocation.

In: feature gates. Out: one flag for each part, for readers of slices and claims: as upstream, parts that are
off are ignored, or reported as disabled.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from kuberth.config.feature_gates import FeatureGates


class DeviceFeatures(NamedTuple):
    has_alternatives: bool = True
    """Requests may have prioritized lists of alternatives."""
    has_admin_access: bool = True
    """Devices may be allocated with admin access."""
    has_partitions: bool = True
    """Devices consume counters, and may have their own node selection."""
    has_taints: bool = True
    has_conditions: bool = True
    """Devices may need preparation (binding conditions)."""
    has_shares: bool = True
    """Devices may be shared by consumed capacity."""
    has_lists: bool = False
    """Attributes may be lists."""
    has_node_resources: bool = False
    """Devices may use resources of the node."""

    @classmethod
    def of(cls, gates: FeatureGates) -> DeviceFeatures:
        return cls(
            has_alternatives=gates.enabled("DRAPrioritizedList"),
            has_admin_access=gates.enabled("DRAAdminAccess"),
            has_partitions=gates.enabled("DRAPartitionableDevices"),
            has_taints=gates.enabled("DRADeviceTaints"),
            has_conditions=gates.enabled("DRADeviceBindingConditions")
            and gates.enabled("DRAResourceClaimDeviceStatus"),
            has_shares=gates.enabled("DRAConsumableCapacity"),
            has_lists=gates.enabled("DRAListTypeAttributes"),
            has_node_resources=gates.enabled("DRANodeAllocatableResources"),
        )

    @property
    def is_oldest(self) -> bool:
        """Whether upstream uses its oldest allocator, which has neither distinctAttribute nor bindsToNode."""
        return not (self.has_shares or self.has_conditions)


ALL_FEATURES: Final = DeviceFeatures()
"""The default settings."""
