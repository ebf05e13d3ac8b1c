"""Constraints between the devices of a claim: the same attribute value for all, or distinct ones.

In: devices, as they are chosen and put back. Out: whether the next one satisfies the constraint.
"""

from __future__ import annotations

from kuberth.api.resource import DeviceAttribute, DeviceConstraint
from kuberth.cel import AttributeValue
from kuberth.plugins.devices.slices import KnownDevice, attribute_value
from kuberth.plugins.dynamic_resources.allocator.demand import WantedRequest


def attribute_of(device: KnownDevice, name: str) -> DeviceAttribute | None:
    """The attribute by its full name; drivers may omit their own domain."""
    found = device.attributes.get(name)
    if found is not None:
        return found
    domain, slash, bare = name.partition("/")
    return device.attributes.get(bare) if slash and domain == device.id[0] else None


class PickConstraint:
    """A constraint on the devices of some requests; of all requests if it names none."""

    __slots__ = ("_devices", "_requests", "_values", "attribute", "is_distinct")

    def __init__(self, constraint: DeviceConstraint) -> None:
        self._requests = frozenset(constraint.requests)
        self.is_distinct = constraint.match_attribute is None
        """Whether values must differ, rather than be equal."""
        wanted = constraint.distinct_attribute if self.is_distinct else constraint.match_attribute
        self.attribute = wanted or ""
        self._devices = 0
        self._values: dict[str, AttributeValue | None] = {}
        """By request: the value of its last device. As upstream, distinct values are compared with these
        alone, and with none of a request whose device was put back."""

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
        if attribute is None:
            return False
        value = attribute_value(attribute)
        if self.is_distinct:
            if self._values and (value is None or value in self._values.values()):
                return False
            self._values[request.parent or request.name] = value
        elif not self._devices:
            self._values = {"": value}
        elif value is None or value != self._values[""]:
            return False
        self._devices += 1
        return True

    def remove(self, request: WantedRequest) -> None:
        """Take back the last `add` for this request that was granted."""
        if self.concerns(request):
            self._devices -= 1
            if self.is_distinct:
                self._values.pop(request.parent or request.name, None)
