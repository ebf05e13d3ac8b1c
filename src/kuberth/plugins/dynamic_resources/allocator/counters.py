"""Shared counters of partitionable devices: the remaining amounts of a pool during a search.

In: a pool and its allocations. Out: whether the counters suffice for another device.
"""

from __future__ import annotations

from kuberth.api.quantity import Quantity
from kuberth.errors import QuantityError
from kuberth.plugins.devices.pools import DevicePool
from kuberth.plugins.devices.slices import KnownDevice
from kuberth.plugins.devices.usage import DeviceUsage


class PoolCounters:
    """The counters of one pool during a search."""

    __slots__ = ("_consumed", "_left")

    def __init__(self, pool: DevicePool, usage: DeviceUsage) -> None:
        """Raises QuantityError if amounts overflow."""
        self._left: dict[tuple[str, str], Quantity] = {
            (name, counter): amount
            for name, amounts in pool.counters.items()
            for counter, amount in amounts.items()
        }
        self._consumed: dict[tuple[str, str], Quantity] = {}
        for device in (*pool.devices, *pool.others):
            if device.consumes and usage.is_taken(device.id):
                for name, taken in device.consumes:
                    for counter, amount in taken:
                        if (name, counter) in self._left:
                            self._left[name, counter] = self._left[name, counter] - amount

    def take(self, device: KnownDevice) -> bool:
        """Add the device; False if a counter does not suffice, and it was not added."""
        before = dict(self._consumed)
        try:
            for name, taken in device.consumes:
                for counter, amount in taken:
                    sum_ = self._consumed.get((name, counter))
                    self._consumed[name, counter] = amount if sum_ is None else sum_ + amount
        except QuantityError:
            self._consumed = before
            return False
        consumed = self._consumed
        for each, left in self._left.items():
            taken_now = consumed.get(each)
            if left < _ZERO if taken_now is None else left < taken_now:
                self._consumed = before
                return False
        return True

    def put_back(self, device: KnownDevice) -> None:
        for name, taken in device.consumes:
            for counter, amount in taken:
                self._consumed[name, counter] = self._consumed[name, counter] - amount


_ZERO = Quantity(0)
