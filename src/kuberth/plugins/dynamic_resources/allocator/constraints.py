"""Constraints between the devices of a claim: the same attribute value for all, or distinct ones.

In: devices, as they are chosen and put back. Out: whether the next one satisfies the constraint.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

from kuberth.api.resource import DeviceAttribute, DeviceConstraint
from kuberth.cel import AttributeValue
from kuberth.plugins.devices.slices import KnownDevice, attribute_value
from kuberth.plugins.dynamic_resources.allocator.demand import WantedRequest


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


class PickConstraint(ABC):
    """A constraint on the devices of some requests; of all requests if it names none."""

    __slots__ = ("_devices", "_requests", "attribute")

    def __init__(self, requests: tuple[str, ...], attribute: str) -> None:
        self._requests = frozenset(requests)
        self.attribute = attribute
        self._devices = 0

    def concerns(self, request: WantedRequest) -> bool:
        return (
            not self._requests
            or request.sub_name in self._requests
            or (request.parent is not None and request.parent in self._requests)
        )

    def add(self, request: WantedRequest, device: KnownDevice) -> bool:
        """Count the device in; False: it would break the constraint, and was not counted."""
        if not self.concerns(request):
            return True
        attribute = attribute_of(device, self.attribute)
        if attribute is None or not self._accepts(request, attribute_value(attribute)):
            return False
        self._devices += 1
        return True

    def remove(self, request: WantedRequest) -> None:
        """Take back the last `add` for this request that was granted."""
        if self.concerns(request):
            self._devices -= 1

    @abstractmethod
    def _accepts(self, request: WantedRequest, value: AttributeValue | None) -> bool:
        """Whether a device with this value may join those that are counted; if so, note the value."""


class MatchAttribute(PickConstraint):
    """All devices must have the same value."""

    __slots__ = ("_value",)

    def _accepts(self, _request: WantedRequest, value: AttributeValue | None) -> bool:
        if self._devices == 0:
            self._value = value
            return True
        return value is not None and value == self._value


class DistinctAttribute(PickConstraint):
    """Devices must have different values.

    As upstream, only the last device of every request is compared, and none of a request whose device was put
    back.
    """

    __slots__ = ("_by_request",)

    def __init__(self, requests: tuple[str, ...], attribute: str) -> None:
        super().__init__(requests, attribute)
        self._by_request: dict[str, AttributeValue | None] = {}

    def remove(self, request: WantedRequest) -> None:
        if self.concerns(request):
            self._by_request.pop(_base(request), None)
            self._devices -= 1

    def _accepts(self, request: WantedRequest, value: AttributeValue | None) -> bool:
        if self._devices and self._by_request and (value is None or value in self._by_request.values()):
            return False
        self._by_request[_base(request)] = value
        return True


def _base(request: WantedRequest) -> str:
    return request.name if request.parent is None else request.parent
