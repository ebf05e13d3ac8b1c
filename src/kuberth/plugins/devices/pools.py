"""Pools as a node sees them: which devices it can use, and which others consume the same counters.

In: the slices of a pool that concern a node, and all slices of the pool. Out: a valid `DevicePool`, one with
a problem, or None if a newer generation is being published.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from kuberth.api.quantity import Quantity
from kuberth.plugins.devices.slices import Counters, KnownDevice, KnownSlice, PoolId


class DevicePool:
    """A pool as a node sees it. Read-only: allocations are stored elsewhere."""

    __slots__ = (
        "counters",
        "devices",
        "has_binding_conditions",
        "id",
        "invalid_reason",
        "is_incomplete",
        "others",
        "reachable",
    )

    def __init__(
        self,
        pool_id: PoolId,
        *,
        devices: Sequence[KnownDevice] = (),
        reachable: Sequence[bool] = (),
        others: Sequence[KnownDevice] = (),
        counters: Counters | None = None,
        invalid_reason: str = "",
        is_incomplete: bool = False,
    ) -> None:
        self.id = pool_id
        self.devices = devices
        """The slices that concern the node, in the order in which they are tried."""
        self.reachable = reachable
        """The devices that the node can use; slices may state this per device."""
        self.others = others
        """Devices of the same pool for other nodes, which consume the same counters."""
        self.counters: Counters = {} if counters is None else counters
        self.invalid_reason = invalid_reason
        self.is_incomplete = is_incomplete
        """Whether the driver is still publishing the pool."""
        self.has_binding_conditions = any(device.spec.binding_conditions is not None for device in devices)

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
