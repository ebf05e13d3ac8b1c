"""Consumable capacity and shared counters: how much of a device a request consumes, and what is available.

In: the requested capacities, and what is consumed already. Out: what the request would consume, or that the
device is too small or does not allow such an amount.
"""

from __future__ import annotations

from collections.abc import Mapping

from kuberth.api.quantity import Quantity, QuantityFormat
from kuberth.errors import QuantityError
from kuberth.plugins.devices.slices import DevicePool, KnownDevice, OfferedCapacity, RequestPolicy
from kuberth.plugins.devices.usage import DeviceUsage

Amounts = Mapping[str, Quantity]


def fits(requested: Amounts, capacities: Mapping[str, OfferedCapacity], *consumed: Amounts) -> bool:
    """Whether the request fits, given what others have `consumed`."""
    if any(name not in capacities for name in requested):
        return False
    try:
        for name, capacity in capacities.items():
            amount = consumption(requested.get(name), capacity)
            if _violates(amount, capacity.policy):
                return False
            for others in consumed:
                if name in others:
                    amount = amount + others[name]
            if amount > capacity.value:
                return False
    except QuantityError:  # amounts whose sum would overflow
        return False
    return True


def all_consumed(requested: Amounts, capacities: Mapping[str, OfferedCapacity]) -> Amounts:
    """What a request consumes of each capacity of a device."""
    return {name: consumption(requested.get(name), capacity) for name, capacity in capacities.items()}


def consumption(requested: Quantity | None, capacity: OfferedCapacity) -> Quantity:
    """What is consumed of one capacity: the smallest allowed amount that is not less than requested."""
    policy = capacity.policy
    if requested is None:
        return capacity.value if policy is None or policy.default is None else policy.default
    if policy is None:
        return requested
    if policy.min is not None:
        return _rounded_up(requested, policy.min, policy.step)
    return next((value for value in policy.valid_values if requested <= value), requested)


def _rounded_up(requested: Quantity, lowest: Quantity, step: Quantity | None) -> Quantity:
    if requested < lowest:
        return lowest
    if step is None or not step.value():
        return requested
    start, width = lowest.value(), step.value()
    steps = -(-(requested.value() - start) // width)
    return Quantity(start + width * steps, 0, QuantityFormat.BINARY_SI)


def _violates(amount: Quantity, policy: RequestPolicy | None) -> bool:
    """Whether the device does not allow this amount."""
    if policy is None:
        return False
    if policy.default is not None and _is_same_text(amount, policy.default):
        return False
    if policy.has_range:
        if policy.max is not None and amount > policy.max:
            return True
        if policy.step is None or not policy.step.value():
            return False
        start = 0 if policy.min is None else policy.min.value()
        return (amount.value() - start) % policy.step.value() != 0
    return bool(policy.valid_values) and all(amount != value for value in policy.valid_values)


def _is_same_text(amount: Quantity, default: Quantity) -> bool:
    """Whether both are written in the same way, not only equal: so upstream recognizes the default."""
    return amount is default or (
        not amount.big
        and not default.big
        and (amount.mantissa, amount.exponent, amount.format, amount.text)
        == (default.mantissa, default.exponent, default.format, default.text)
    )


class PoolCounters:
    """The shared counters of partitionable devices: what remains of one pool during a search."""

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
