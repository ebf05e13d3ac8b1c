"""Constraints between the devices of a claim: the same attribute value for all, or distinct ones.

In: devices, as they are chosen and put back. Out: whether the next one satisfies the constraint.
"""

from __future__ import annotations

from typing import Protocol

from kuberth.api.resource import DeviceAttribute, DeviceConstraint
from kuberth.plugins.devices.slices import KnownDevice
from kuberth.plugins.dynamic_resources.allocator.demand import WantedRequest

Value = tuple[str, object]
"""The kind and the value of an attribute."""


class PickConstraint(Protocol):
    def add(self, request: WantedRequest, device: KnownDevice) -> bool:
        """Add the device; False if it would violate the constraint, and was not added."""
        ...

    def remove(self, request: WantedRequest, device: KnownDevice) -> None:
        """Undo the last successful `add` of this device."""
        ...

    def concerns(self, request: WantedRequest) -> bool: ...


def constraint_of(constraint: DeviceConstraint) -> PickConstraint:
    if constraint.match_attribute is not None:
        return MatchAttribute(constraint.requests, constraint.match_attribute)
    return DistinctAttribute(constraint.requests, constraint.distinct_attribute or "")


def attribute_of(device: KnownDevice, name: str) -> DeviceAttribute | None:
    """The attribute by its full name; drivers may omit their own domain."""
    found = device.attributes.get(name)
    if found is not None:
        return found
    domain, slash, bare = name.partition("/")
    return device.attributes.get(bare) if slash and domain == device.id[0] else None


def value_of(attribute: DeviceAttribute) -> Value | None:
    """None for an unknown kind of attribute, which equals nothing."""
    if attribute.string_value is not None:
        return "string", attribute.string_value
    if attribute.int_value is not None:
        return "int", attribute.int_value
    if attribute.bool_value is not None:
        return "bool", attribute.bool_value
    if attribute.version_value is not None:
        return "version", attribute.version_value
    return None


class _OnRequests:
    __slots__ = ("_requests", "attribute")

    def __init__(self, requests: tuple[str, ...], attribute: str) -> None:
        self._requests = frozenset(requests)
        self.attribute = attribute

    def concerns(self, request: WantedRequest) -> bool:
        return (
            not self._requests
            or request.sub_name in self._requests
            or (request.parent is not None and request.parent in self._requests)
        )


class MatchAttribute(_OnRequests):
    """All devices must have the same value."""

    __slots__ = ("_devices", "_value")

    def __init__(self, requests: tuple[str, ...], attribute: str) -> None:
        super().__init__(requests, attribute)
        self._devices = 0
        self._value: Value | None = None

    def add(self, request: WantedRequest, device: KnownDevice) -> bool:
        if not self.concerns(request):
            return True
        attribute = attribute_of(device, self.attribute)
        if attribute is None:
            return False
        value = value_of(attribute)
        if self._devices == 0:
            self._value = value
        elif value is None or value != self._value:
            return False
        self._devices += 1
        return True

    def remove(self, request: WantedRequest, device: KnownDevice) -> None:
        if self.concerns(request):
            self._devices -= 1


class DistinctAttribute(_OnRequests):
    """Devices must have different values.

    As upstream, only the last device of every request is compared, and none of a request whose device was put
    back.
    """

    __slots__ = ("_by_request", "_devices")

    def __init__(self, requests: tuple[str, ...], attribute: str) -> None:
        super().__init__(requests, attribute)
        self._devices = 0
        self._by_request: dict[str, Value | None] = {}

    def add(self, request: WantedRequest, device: KnownDevice) -> bool:
        if not self.concerns(request):
            return True
        attribute = attribute_of(device, self.attribute)
        if attribute is None:
            return False
        value = value_of(attribute)
        if self._devices and self._by_request and (value is None or value in self._by_request.values()):
            return False
        self._by_request[_base(request)] = value
        self._devices += 1
        return True

    def remove(self, request: WantedRequest, device: KnownDevice) -> None:
        if self.concerns(request):
            self._by_request.pop(_base(request), None)
            self._devices -= 1


def _base(request: WantedRequest) -> str:
    return request.name if request.parent is None else request.parent
