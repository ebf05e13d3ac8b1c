"""The resource.k8s.io group (v1): device claims, claim templates, slices with devices, and device classes."""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from typing import Any

import msgspec

from kuberth.api.meta import Condition, ObjectMeta
from kuberth.api.nodes import NodeSelector
from kuberth.api.references import QuantityValue, ResourceList
from kuberth.api.wire import Wire, always

API_VERSION = "resource.k8s.io/v1"


# Devices


class DeviceAttribute(Wire):
    """Exactly one of the values is set."""

    int_value: int | None = msgspec.field(default=None, name="int")
    bool_value: bool | None = msgspec.field(default=None, name="bool")
    string_value: str | None = msgspec.field(default=None, name="string")
    version_value: str | None = msgspec.field(default=None, name="version")
    int_values: tuple[int, ...] | None = msgspec.field(default=None, name="ints")
    bool_values: tuple[bool, ...] | None = msgspec.field(default=None, name="bools")
    string_values: tuple[str, ...] | None = msgspec.field(default=None, name="strings")
    version_values: tuple[str, ...] | None = msgspec.field(default=None, name="versions")


class CapacityRequestPolicyRange(Wire):
    min: QuantityValue | None = None
    max: QuantityValue | None = None
    step: QuantityValue | None = None


class CapacityRequestPolicy(Wire):
    default: QuantityValue | None = None
    valid_values: tuple[QuantityValue, ...] = ()
    valid_range: CapacityRequestPolicyRange | None = None


class DeviceCapacity(Wire):
    value: QuantityValue = "0"
    request_policy: CapacityRequestPolicy | None = None


class DeviceCounter(Wire):
    value: QuantityValue = "0"


class CounterSet(Wire):
    name: str = ""
    counters: Mapping[str, DeviceCounter] = msgspec.field(default_factory=dict)


class DeviceCounterConsumption(Wire):
    counter_set: str = ""
    counters: Mapping[str, DeviceCounter] = msgspec.field(default_factory=dict)


class DeviceTaint(Wire):
    key: str = ""
    value: str = ""
    effect: str = ""
    time_added: datetime.datetime | None = None


class NodeAllocatableResourceMapping(Wire):
    """The amount of a resource of the node that a device uses: per allocation, or per unit of a capacity."""

    capacity_key: str | None = None
    allocation_multiplier: QuantityValue | None = None


class Device(Wire):
    name: str = ""
    attributes: Mapping[str, DeviceAttribute] = msgspec.field(default_factory=dict)
    capacity: Mapping[str, DeviceCapacity] = msgspec.field(default_factory=dict)
    consumes_counters: tuple[DeviceCounterConsumption, ...] = ()
    node_name: str | None = None
    node_selector: NodeSelector | None = None
    all_nodes: bool | None = None
    taints: tuple[DeviceTaint, ...] = ()
    binds_to_node: bool = False
    binding_conditions: tuple[str, ...] | None = None
    binding_failure_conditions: tuple[str, ...] | None = None
    allow_multiple_allocations: bool | None = None
    node_allocatable_resource_mappings: Mapping[str, NodeAllocatableResourceMapping] = msgspec.field(
        default_factory=dict
    )


class ResourcePool(Wire):
    name: str = ""
    generation: int = 0
    resource_slice_count: int = 0


class ResourceSliceSpec(Wire):
    driver: str = ""
    pool: ResourcePool = ResourcePool()
    node_name: str | None = None
    node_selector: NodeSelector | None = None
    all_nodes: bool | None = None
    devices: tuple[Device, ...] = ()
    per_device_node_selection: bool | None = None
    shared_counters: tuple[CounterSet, ...] = ()


class ResourceSlice(Wire):
    api_version: str = always(API_VERSION)
    kind: str = always("ResourceSlice")
    metadata: ObjectMeta = ObjectMeta()
    spec: ResourceSliceSpec = ResourceSliceSpec()


class DeviceTaintSelector(Wire):
    """Selects devices; an unset field matches all."""

    driver: str | None = None
    pool: str | None = None
    device: str | None = None


class DeviceTaintRuleSpec(Wire):
    device_selector: DeviceTaintSelector | None = None
    taint: DeviceTaint = DeviceTaint()


class DeviceTaintRule(Wire):
    """A taint for devices that does not come from their driver."""

    api_version: str = always("resource.k8s.io/v1beta2")
    kind: str = always("DeviceTaintRule")
    metadata: ObjectMeta = ObjectMeta()
    spec: DeviceTaintRuleSpec = DeviceTaintRuleSpec()


# Requests


class CELDeviceSelector(Wire):
    expression: str = ""


class DeviceSelectorSpec(Wire):
    cel: CELDeviceSelector | None = None


class DeviceToleration(Wire):
    key: str = ""
    operator: str = ""
    value: str = ""
    effect: str = ""
    toleration_seconds: int | None = None


class CapacityRequirements(Wire):
    requests: ResourceList = msgspec.field(default_factory=dict)


class ExactDeviceRequest(Wire):
    device_class_name: str = ""
    selectors: tuple[DeviceSelectorSpec, ...] = ()
    allocation_mode: str = ""
    count: int = 0
    admin_access: bool | None = None
    tolerations: tuple[DeviceToleration, ...] = ()
    capacity: CapacityRequirements | None = None


class DeviceSubRequest(Wire):
    """An alternative of a prioritised list."""

    name: str = ""
    device_class_name: str = ""
    selectors: tuple[DeviceSelectorSpec, ...] = ()
    allocation_mode: str = ""
    count: int = 0
    tolerations: tuple[DeviceToleration, ...] = ()
    capacity: CapacityRequirements | None = None


class DeviceRequest(Wire):
    name: str = ""
    exactly: ExactDeviceRequest | None = None
    first_available: tuple[DeviceSubRequest, ...] = ()


class DeviceConstraint(Wire):
    requests: tuple[str, ...] = ()
    match_attribute: str | None = None
    distinct_attribute: str | None = None


class OpaqueDeviceConfiguration(Wire):
    """Parameters that only the driver understands."""

    driver: str = ""
    parameters: Any = None


class DeviceClaimConfiguration(Wire):
    requests: tuple[str, ...] = ()
    opaque: OpaqueDeviceConfiguration | None = None


class DeviceClaim(Wire):
    requests: tuple[DeviceRequest, ...] = ()
    constraints: tuple[DeviceConstraint, ...] = ()
    config: tuple[DeviceClaimConfiguration, ...] = ()


class ResourceClaimSpec(Wire):
    devices: DeviceClaim = DeviceClaim()


# Allocations


class DeviceRequestAllocationResult(Wire):
    request: str = ""
    driver: str = ""
    pool: str = ""
    device: str = ""
    admin_access: bool | None = None
    tolerations: tuple[DeviceToleration, ...] = ()
    binding_conditions: tuple[str, ...] = ()
    binding_failure_conditions: tuple[str, ...] = ()
    share_id: str | None = msgspec.field(default=None, name="shareID")
    consumed_capacity: ResourceList = msgspec.field(default_factory=dict)


class DeviceAllocationConfiguration(Wire):
    source: str = ""
    requests: tuple[str, ...] = ()
    opaque: OpaqueDeviceConfiguration | None = None


class DeviceAllocationResult(Wire):
    results: tuple[DeviceRequestAllocationResult, ...] = ()
    config: tuple[DeviceAllocationConfiguration, ...] = ()


class AllocationResult(Wire):
    # Written even if it is empty: an allocation without devices is an allocation.
    devices: DeviceAllocationResult = msgspec.field(default_factory=DeviceAllocationResult)
    node_selector: NodeSelector | None = None
    allocation_timestamp: datetime.datetime | None = None


class ResourceClaimConsumerReference(Wire):
    api_group: str = ""
    resource: str = ""
    name: str = ""
    uid: str = ""


class AllocatedDeviceStatus(Wire):
    """The status of an allocated device, as its driver reports it."""

    driver: str = ""
    pool: str = ""
    device: str = ""
    share_id: str | None = msgspec.field(default=None, name="shareID")
    conditions: tuple[Condition, ...] = ()
    data: Any = None
    network_data: Any = None


class ResourceClaimStatus(Wire):
    allocation: AllocationResult | None = None
    reserved_for: tuple[ResourceClaimConsumerReference, ...] = ()
    devices: tuple[AllocatedDeviceStatus, ...] = ()


class ResourceClaim(Wire):
    api_version: str = always(API_VERSION)
    kind: str = always("ResourceClaim")
    metadata: ObjectMeta = ObjectMeta()
    spec: ResourceClaimSpec = ResourceClaimSpec()
    status: ResourceClaimStatus = ResourceClaimStatus()


class ResourceClaimTemplateSpec(Wire):
    metadata: ObjectMeta = ObjectMeta()
    spec: ResourceClaimSpec = ResourceClaimSpec()


class ResourceClaimTemplate(Wire):
    api_version: str = always(API_VERSION)
    kind: str = always("ResourceClaimTemplate")
    metadata: ObjectMeta = ObjectMeta()
    spec: ResourceClaimTemplateSpec = ResourceClaimTemplateSpec()


# Classes


class DeviceClassConfiguration(Wire):
    opaque: OpaqueDeviceConfiguration | None = None


class DeviceClassSpec(Wire):
    selectors: tuple[DeviceSelectorSpec, ...] = ()
    config: tuple[DeviceClassConfiguration, ...] = ()
    extended_resource_name: str | None = None


class DeviceClass(Wire):
    api_version: str = always(API_VERSION)
    kind: str = always("DeviceClass")
    metadata: ObjectMeta = ObjectMeta()
    spec: DeviceClassSpec = DeviceClassSpec()
