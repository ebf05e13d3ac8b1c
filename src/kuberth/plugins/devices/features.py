"""Which parts of dynamic resource allocation are switched on.

In: feature gates. Out: one flag a part, for readers of slices and claims: what is off is not read, or
said to be off, as upstream does.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from kuberth.config.feature_gates import FeatureGates


class DeviceFeatures(NamedTuple):
    has_alternatives: bool = True
    """Requests may have prioritised lists of alternatives."""
    has_admin_access: bool = True
    """Devices are given for administration."""
    has_partitions: bool = True
    """Devices draw on counters, and may say for themselves where they can be used."""
    has_taints: bool = True
    has_conditions: bool = True
    """Devices that have to be made ready are given, and waited for."""
    has_shares: bool = True
    """Devices are shared, by what is consumed of their capacity."""
    has_lists: bool = False
    """Attributes may be lists."""
    has_node_resources: bool = False
    """Devices take something of the node's own resources."""

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
        """Whether upstream takes its oldest search: it knows no distinctAttribute and no bindsToNode."""
        return not (self.has_shares or self.has_conditions)


ALL_FEATURES: Final = DeviceFeatures()
"""What is on by default."""
