"""The content of a device that a selector reads.

In: driver, attributes and capacities as in a ResourceSlice. Out: the same, frozen and equal by content, so
that equal devices share one result.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping

from kuberth.cel.library.quantities import read_quantity
from kuberth.cel.library.versions import read_version
from kuberth.cel.values import INT_MAX, INT_MIN, Domains, Map, Value
from kuberth.errors import CelRuntimeError

AttributeValue = tuple[str, int | bool | str | tuple[int | bool | str, ...]]
"""The kind ("int", "bool", "string" or "version", or one of these for a list: "ints") and the value; the kind
keeps 1 and true apart.

Any other kind is an attribute that this version of the API does not know: evaluating a selector for such a
device fails, as upstream.
"""


class DeviceContent:
    """A device in an expression; devices with equal content are equal."""

    __slots__ = (
        "_attributes",
        "_hash",
        "_key",
        "allow_multiple_allocations",
        "attributes",
        "capacity",
        "driver",
    )

    def __init__(
        self,
        driver: str,
        *,
        attributes: Mapping[str, AttributeValue],
        capacity: Mapping[str, str],
        allow_multiple_allocations: bool = False,
    ) -> None:
        """`attributes` and `capacity` by name as in the slice: "model" or "example.com/model".

        A capacity is the quantity's text ("16Gi"). Neither mapping may change afterwards.
        """
        self.driver = driver
        self.allow_multiple_allocations = allow_multiple_allocations
        self.attributes = attributes
        self.capacity = capacity
        self._key = (
            driver,
            allow_multiple_allocations,
            frozenset(attributes.items()),
            frozenset(capacity.items()),
        )
        self._hash = hash(self._key)
        self._attributes: Domains | None = None

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, DeviceContent):
            return NotImplemented
        return self._key == other._key

    def __hash__(self) -> int:
        return self._hash

    def __repr__(self) -> str:
        return f"DeviceContent({self.driver!r}, attributes={self.attributes!r}, capacity={self.capacity!r})"


def variable_of(device: DeviceContent) -> Map:
    """The variable `device`; raises `CelRuntimeError` for an attribute without a value.

    Names without a domain belong to the driver's domain.
    """
    if device._attributes is None:
        attributes: dict[Hashable, Value] = {}
        for name, attribute in device.attributes.items():
            domain, bare = _split(name, device.driver)
            attributes.setdefault(domain, Map()).entries[bare] = _attribute(name, attribute)
        device._attributes = Domains(attributes)
    # New quantities each time, because expressions can change them: see QuantityValue.
    capacity: dict[Hashable, Value] = {}
    for name, quantity in device.capacity.items():
        domain, bare = _split(name, device.driver)
        capacity.setdefault(domain, Map()).entries[bare] = read_quantity(quantity)
    return Map(
        {
            "driver": device.driver,
            "allowMultipleAllocations": device.allow_multiple_allocations,
            "attributes": device._attributes,
            "capacity": Domains(capacity),
        }
    )


def _split(name: str, driver: str) -> tuple[str, str]:
    domain, slash, bare = name.partition("/")
    return (domain, bare) if slash else (driver, name)


def _attribute(name: str, attribute: AttributeValue) -> Value:
    kind, value = attribute
    if isinstance(value, tuple):
        return [_attribute(name, (kind.removesuffix("s"), each)) for each in value]
    if kind == "int" and type(value) is int and INT_MIN <= value <= INT_MAX:
        return value
    if (kind == "bool" and type(value) is bool) or (kind == "string" and type(value) is str):
        return value
    if kind == "version" and type(value) is str:
        try:
            return read_version(value)
        except CelRuntimeError as exc:
            raise CelRuntimeError(f"attribute {name}: parse semantic version: {exc}") from exc
    raise CelRuntimeError(f"attribute {name}: unsupported attribute value")
