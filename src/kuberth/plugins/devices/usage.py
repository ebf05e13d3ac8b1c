"""Which devices are allocated, updated as claims change.

In: allocations of claims, added and removed. Out: exclusively allocated devices, shared devices, and the
consumed capacity of the latter. Devices with admin access do not count.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from kuberth.api.quantity import Quantity, parse
from kuberth.api.resource import AllocationResult
from kuberth.changes import Changes
from kuberth.errors import QuantityError
from kuberth.plugins.devices.slices import DeviceId


class AllocatedDevice(NamedTuple):
    """One device of an allocation."""

    device: DeviceId
    is_share: bool
    consumed: Mapping[str, Quantity]


def allocated_devices(allocation: AllocationResult, *, shares: bool = True) -> Iterator[AllocatedDevice]:
    """The devices that an allocation uses.

    An invalid amount counts as zero. Without `shares`, a shared device counts as exclusively allocated.
    """
    for result in allocation.devices.results:
        if result.admin_access:
            continue
        consumed = {}
        is_share = shares and result.share_id is not None
        if is_share:
            for name, amount in result.consumed_capacity.items():
                try:
                    consumed[name] = parse(amount)
                except QuantityError:
                    continue
        yield AllocatedDevice((result.driver, result.pool, result.device), is_share, consumed)


class DeviceUsage:
    """All allocated devices."""

    def __init__(self) -> None:
        self.whole: Counter[DeviceId] = Counter()
        """Exclusively allocated devices, with the number of allocations."""
        self.shares: Counter[DeviceId] = Counter()
        """Shared devices, with the number of shares."""
        self.consumed: dict[DeviceId, dict[str, Quantity]] = {}
        """The consumed capacity of shared devices."""
        self.changes: Changes[DeviceId] = Changes()
        """Devices that were recently allocated or released."""
        self._consumers: Counter[DeviceId] = Counter()

    def is_taken(self, device: DeviceId) -> bool:
        """Whether it is allocated, exclusively or shared."""
        return device in self.whole or device in self.shares

    def add(self, take: AllocatedDevice) -> None:
        self.changes.note(take.device)
        if not take.is_share:
            self.whole[take.device] += 1
            return
        self.shares[take.device] += 1
        if take.consumed:
            self._consumers[take.device] += 1
            total = self.consumed.setdefault(take.device, {})
            for name, amount in take.consumed.items():
                total[name] = total[name] + amount if name in total else amount

    def remove(self, take: AllocatedDevice) -> None:
        self.changes.note(take.device)
        if not take.is_share:
            _count_down(self.whole, take.device)
            return
        _count_down(self.shares, take.device)
        if take.consumed:
            _count_down(self._consumers, take.device)
            if take.device not in self._consumers:
                del self.consumed[take.device]
                return
            total = self.consumed[take.device]
            for name, amount in take.consumed.items():
                total[name] = total[name] - amount


def _count_down(counts: Counter[DeviceId], device: DeviceId) -> None:
    counts[device] -= 1
    if counts[device] <= 0:
        del counts[device]
