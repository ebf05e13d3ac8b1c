"""Slices in the form that the allocator uses, parsed once, on arrival; and pools as a node sees them.

In: ResourceSlices, and DeviceTaintRules, which add taints to devices. Out: the devices with the data for
selectors, counters and capacities; and of the slices that concern a node a valid `DevicePool`, one with a
problem, or None if a newer generation is being published. A slice with an invalid quantity has a `problem`,
and none of its devices is allocated.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from msgspec.structs import replace

from kuberth.api.core import NodeSelector
from kuberth.api.quantity import Quantity, format_quantity, parse
from kuberth.api.resource import (
    CapacityRequestPolicy,
    Device,
    DeviceAttribute,
    DeviceCapacity,
    DeviceTaint,
    DeviceTaintRule,
    NodeAllocatableResourceMapping,
    ResourceSlice,
)
from kuberth.api.selectors import CompiledNodeSelector, compile_node_selector
from kuberth.cel import AttributeValue, DeviceContent
from kuberth.errors import QuantityError
from kuberth.plugins.devices.features import ALL_FEATURES, DeviceFeatures

PoolId = tuple[str, str]
"""Driver and pool."""
DeviceId = tuple[str, str, str]
"""Driver, pool and device."""
Counters = Mapping[str, Mapping[str, Quantity]]
"""By counter set, then by counter."""

_ATTRIBUTE_KINDS: Final = ("int", "bool", "string", "version")
_PREVENTING: Final = frozenset({"NoSchedule", "NoExecute"})


class DeviceReach(NamedTuple):
    """Where a slice or a device can be used; nowhere if nothing is set."""

    node_name: str
    everywhere: bool
    selector: CompiledNodeSelector | None

    @classmethod
    def of(cls, node_name: str | None, everywhere: bool | None, selector: NodeSelector | None) -> DeviceReach:
        compiled = None if selector is None else compile_node_selector(selector)
        return cls(node_name or "", bool(everywhere), compiled)

    @property
    def is_set(self) -> bool:
        return bool(self.node_name or self.everywhere or self.selector is not None)


class RequestPolicy(NamedTuple):
    """The valid requests for a capacity."""

    default: Quantity | None
    valid_values: tuple[Quantity, ...]
    has_range: bool
    min: Quantity | None
    max: Quantity | None
    step: Quantity | None


class OfferedCapacity(NamedTuple):
    """One capacity of a device."""

    value: Quantity
    policy: RequestPolicy | None


class TakenResource(NamedTuple):
    """A node resource that a device uses."""

    resource: str
    capacity_key: str
    """The capacity whose consumed units each use the resource; "": the device itself uses it."""
    multiplier: Quantity | None


_NO_CAPACITIES: Final[Mapping[str, OfferedCapacity]] = {}


class KnownDevice:
    """One device of a slice."""

    __slots__ = (
        "_content",
        "attributes",
        "capacities",
        "consumes",
        "has_policies",
        "id",
        "is_given",
        "is_shareable",
        "preventing_taints",
        "reach",
        "slice",
        "spec",
        "takes",
    )

    def __init__(self, spec: Device, slice_: KnownSlice) -> None:
        """Raises QuantityError for an invalid quantity."""
        self.spec = spec
        self.slice = slice_
        self.id: DeviceId = (*slice_.pool_id, spec.name)
        features = slice_.features
        self.is_shareable = features.has_shares and bool(spec.allow_multiple_allocations)
        """Whether several claims may share it."""
        self.attributes = spec.attributes
        self.capacities: Mapping[str, OfferedCapacity] = _NO_CAPACITIES
        self.has_policies = False
        """Whether some capacity has a request policy."""
        if spec.capacity:
            self.capacities = {name: _capacity(capacity) for name, capacity in spec.capacity.items()}
            policies = (known.policy for known in self.capacities.values())
            self.has_policies = features.has_shares and any(policy is not None for policy in policies)
        self.consumes: tuple[tuple[str, tuple[tuple[str, Quantity], ...]], ...] = ()
        if spec.consumes_counters:
            self.consumes = tuple(
                (each.counter_set, tuple((name, parse(taken.value)) for name, taken in each.counters.items()))
                for each in spec.consumes_counters
            )
        self.preventing_taints: tuple[DeviceTaint, ...] = ()
        if spec.taints and features.has_taints:
            self.preventing_taints = tuple(taint for taint in spec.taints if taint.effect in _PREVENTING)
        self.is_given = features.has_conditions or not spec.binding_conditions
        """Whether any request can be allocated it."""
        self.takes: tuple[TakenResource, ...] = ()
        """The node resources that it uses."""
        if features.has_node_resources and spec.node_allocatable_resource_mappings:
            self.takes = _takes(spec.node_allocatable_resource_mappings)
        self.reach: DeviceReach | None = None
        """The device's node selection; None: that of the slice."""
        if slice_.is_per_device:
            self.reach = DeviceReach.of(spec.node_name, spec.all_nodes, spec.node_selector)
        self._content: DeviceContent | None = None

    @property
    def content(self) -> DeviceContent:
        """The data that selectors read; created on first use, since there can be thousands of slices."""
        if self._content is None:
            spec, lists = self.spec, self.slice.features.has_lists
            self._content = DeviceContent(
                self.slice.pool_id[0],
                attributes={name: _attribute(value, lists=lists) for name, value in spec.attributes.items()},
                capacity={name: format_quantity(known.value) for name, known in self.capacities.items()},
                allow_multiple_allocations=bool(spec.allow_multiple_allocations),
            )
        return self._content

    @property
    def node_selector(self) -> NodeSelector | None:
        """The selector of the nodes that can use the device."""
        spec = self.slice.spec
        return self.spec.node_selector if spec.per_device_node_selection else spec.node_selector

    @property
    def node_name(self) -> str | None:
        spec = self.slice.spec
        return self.spec.node_name if spec.per_device_node_selection else spec.node_name


class KnownSlice:
    """One ResourceSlice."""

    def __init__(self, slice_: ResourceSlice, features: DeviceFeatures = ALL_FEATURES) -> None:
        spec = slice_.spec
        self.features = features
        self.name = slice_.metadata.name
        self.spec = spec
        self.pool_id: PoolId = (spec.driver, spec.pool.name)
        self.generation = spec.pool.generation
        self.is_per_device = bool(spec.per_device_node_selection)
        self.reach = DeviceReach.of(spec.node_name, spec.all_nodes, spec.node_selector)
        self.problem = ""
        self.counters: tuple[tuple[str, Mapping[str, Quantity]], ...] = ()
        self.devices: tuple[KnownDevice, ...] = ()
        try:
            self.counters = tuple(
                (each.name, {name: parse(counter.value) for name, counter in each.counters.items()})
                for each in spec.shared_counters
            )
            self.devices = tuple(KnownDevice(device, self) for device in spec.devices)
        except QuantityError as exc:
            self.problem = f"slice {self.name}: {exc}"

    @property
    def is_read(self) -> bool:
        """Whether any of its devices can be allocated."""
        spec = self.spec
        return self.features.has_partitions or (
            spec.per_device_node_selection is None and not spec.shared_counters
        )

    @property
    def is_local(self) -> bool:
        """Whether it concerns only the node that it names."""
        return bool(self.reach.node_name) and not self.spec.shared_counters


def _parsed(text: str | int | float | None) -> Quantity | None:
    return None if text is None else parse(text)


def _takes(mappings: Mapping[str, NodeAllocatableResourceMapping]) -> tuple[TakenResource, ...]:
    return tuple(
        TakenResource(resource, mapping.capacity_key or "", _parsed(mapping.allocation_multiplier))
        for resource, mapping in sorted(mappings.items())
    )


def _capacity(capacity: DeviceCapacity) -> OfferedCapacity:
    policy = capacity.request_policy
    return OfferedCapacity(parse(capacity.value), None if policy is None else _policy(policy))


def _policy(policy: CapacityRequestPolicy) -> RequestPolicy:
    limits = policy.valid_range
    lowest, highest, step = (None, None, None) if limits is None else (limits.min, limits.max, limits.step)
    return RequestPolicy(
        _parsed(policy.default),
        tuple(map(parse, policy.valid_values)),
        limits is not None,
        _parsed(lowest),
        _parsed(highest),
        _parsed(step),
    )


def _attribute(attribute: DeviceAttribute, *, lists: bool) -> AttributeValue:
    for kind in _ATTRIBUTE_KINDS if lists else ():
        if (values := getattr(attribute, f"{kind}_values")) is not None:
            return f"{kind}s", values
    return attribute_value(attribute) or ("unknown", "")


def attribute_value(attribute: DeviceAttribute) -> AttributeValue | None:
    """The kind and the value; None for a kind of attribute that is not known here: it equals nothing."""
    if attribute.int_value is not None:
        return "int", attribute.int_value
    if attribute.bool_value is not None:
        return "bool", attribute.bool_value
    if attribute.string_value is not None:
        return "string", attribute.string_value
    return None if attribute.version_value is None else ("version", attribute.version_value)


@dataclass(slots=True, eq=False)
class DevicePool:
    """A pool as a node sees it. Read-only: allocations are stored elsewhere."""

    id: PoolId
    devices: Sequence[KnownDevice] = ()
    """The slices that concern the node, in the order in which they are tried."""
    reachable: Sequence[bool] = ()
    """The devices that the node can use; slices may state this per device."""
    others: Sequence[KnownDevice] = ()
    """Devices of the same pool for other nodes, which consume the same counters."""
    counters: Counters = field(default_factory=dict)
    invalid_reason: str = ""
    is_incomplete: bool = False
    """Whether the driver is still publishing the pool."""

    @property
    def has_binding_conditions(self) -> bool:
        return any(device.spec.binding_conditions is not None for device in self.devices)

    @property
    def is_usable(self) -> bool:
        return not (self.is_incomplete or self.invalid_reason)


def pool_of(
    pool_id: PoolId, relevant: Sequence[tuple[KnownSlice, Sequence[bool]]], everything: Iterable[KnownSlice]
) -> DevicePool | None:
    """`relevant`: the slices that concern the node, each with the devices that the node can use."""
    newest = max(slice_.generation for slice_, _ in relevant)
    current = sorted(
        ((slice_, reachable) for slice_, reachable in relevant if slice_.generation == newest),
        key=lambda each: each[0].name.encode(),
    )
    # Drivers write the same count into all slices. If not, upstream uses any one; we use the first by name.
    expected = current[0][0].spec.pool
    others: list[KnownSlice] = []
    if len(current) != expected.resource_slice_count:
        everything = list(everything)
        if any(slice_.generation > newest for slice_ in everything):
            return None
        everything = [slice_ for slice_ in everything if slice_.generation == newest]
        if len(everything) != expected.resource_slice_count:
            return DevicePool(pool_id, is_incomplete=True)
        seen = {slice_.name for slice_, _ in current}
        others = [slice_ for slice_ in everything if slice_.name not in seen]
    slices = [slice_ for slice_, _ in current]
    counters, problem = _valid_counters(slices, others)
    if problem:
        return DevicePool(pool_id, invalid_reason=problem)
    return DevicePool(
        pool_id,
        devices=tuple(device for slice_ in slices if not slice_.counters for device in slice_.devices),
        reachable=tuple(can for slice_, reachable in current if not slice_.counters for can in reachable),
        others=tuple(device for slice_ in others for device in slice_.devices),
        counters=counters,
    )


def _valid_counters(slices: Sequence[KnownSlice], others: Sequence[KnownSlice]) -> tuple[Counters, str]:
    """The counters of a pool, or the problem with it."""
    counters: dict[str, Mapping[str, Quantity]] = {}
    names: set[str] = set()
    for slice_ in (*slices, *others):
        if slice_.problem:
            return {}, slice_.problem
    for slice_ in slices:
        for device in () if slice_.counters else slice_.devices:
            if device.spec.name in names:
                return {}, f"duplicate device name {device.spec.name}"
            names.add(device.spec.name)
    if not slices[0].features.has_partitions:
        return {}, ""
    for slice_ in slices:
        for name, amounts in slice_.counters:
            if name in counters:
                return {}, f"duplicate counter set name {name}"
            counters[name] = amounts
    for slice_ in (*slices, *others):
        for device in slice_.devices:
            for name, taken in device.consumes:
                if name not in counters:
                    return {}, f"counter set {name} not found"
                for counter, _amount in taken:
                    if counter not in counters[name]:
                        return {}, f"counter {counter} not found in counter set {name}"
    return counters, ""


def is_meant(rule: DeviceTaintRule, driver: str, pool: str, device: str) -> bool:
    """Whether a rule applies to this device; fields that it does not set match any device."""
    wanted = rule.spec.device_selector
    return wanted is None or (
        wanted.driver in (None, driver) and wanted.pool in (None, pool) and wanted.device in (None, device)
    )


def tainted(slice_: ResourceSlice, rules: Iterable[DeviceTaintRule]) -> ResourceSlice:
    """The slice with the taints that rules add to its devices."""
    spec = slice_.spec
    added: dict[int, list[DeviceTaint]] = {}
    for rule in rules:
        for place, device in enumerate(spec.devices):
            if is_meant(rule, spec.driver, spec.pool.name, device.name):
                added.setdefault(place, []).append(rule.spec.taint)
    if not added:
        return slice_
    devices = tuple(
        replace(device, taints=(*device.taints, *added.get(place, ())))
        for place, device in enumerate(spec.devices)
    )
    return replace(slice_, spec=replace(spec, devices=devices))
