"""DeviceTaintRules: taints of devices that are not set by drivers.

In: rules, and slices as published by drivers. Out: the slices with all taints of their devices.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec.structs import replace

from kuberth.api.resource import DeviceTaint, DeviceTaintRule, ResourceSlice


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
