"""What a selector sees of a device.

In: driver, attributes and capacities as a ResourceSlice names them. Out: the same, frozen and equal by
content, so that devices that look alike share one answer.
"""

from __future__ import annotations

from collections.abc import Mapping

AttributeValue = tuple[str, int | bool | str]
"""The kind ("int", "bool", "string" or "version") and the value; the kind keeps 1 and true apart.

Any other kind is an attribute that this version of the API does not know: a selector that is asked about
such a device fails, as upstream's does.
"""


class DeviceContent:
    """A device as an expression sees it; two with equal content are equal and hash alike."""

    __slots__ = ("_hash", "_key", "allow_multiple_allocations", "attributes", "capacity", "driver")

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

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, DeviceContent):
            return NotImplemented
        return self._key == other._key

    def __hash__(self) -> int:
        return self._hash

    def __repr__(self) -> str:
        return f"DeviceContent({self.driver!r}, attributes={self.attributes!r}, capacity={self.capacity!r})"
