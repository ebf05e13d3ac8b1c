"""Rules of ResourceSlices.

In: slices as drivers publish them, and the one before for an update. Out: causes in upstream's words. The
driver, pool and node of a slice are immutable.
"""

from __future__ import annotations

import re
from itertools import pairwise
from typing import Any, Final

from kuberth.api.quantity import format_quantity, parse
from kuberth.local.apiserver.objects import Obj
from kuberth.local.apiserver.rules import device_names as rule
from kuberth.local.apiserver.rules import names
from kuberth.local.apiserver.rules.metadata_validation import (
    forbidden_field,
    invalid_value,
    invalid_values,
    required,
    show,
)
from kuberth.local.apiserver.rules.scheduling_validation import validate_node_selector
from kuberth.local.apiserver.rules.write_context import WriteContext
from kuberth.local.apiserver.status_errors import Cause

_MOST_DEVICES: Final = 128
_MOST_DEVICES_WITH_EXTRAS: Final = 64
_MOST_COUNTER_SETS: Final = 8
_MOST_COUNTERS: Final = 32
_MOST_CONSUMPTIONS: Final = 2
_MOST_TAINTS: Final = 16
_MOST_PROPERTIES: Final = 32
_MOST_VALUES: Final = 48
_LONGEST_VALUE: Final = 64
_MOST_OPTIONS: Final = 10
_LISTS: Final = ("bools", "ints", "strings", "versions")
_VALUES: Final = ("bool", "int", "string", "version", *_LISTS)
_PLACES: Final = ("nodeName", "nodeSelector", "allNodes", "perDeviceNodeSelection")
_GATED_VALUES: Final = "DRAListTypeAttributes"
_GATED_MAPPINGS: Final = "DRANodeAllocatableResources"
_NUMBER: Final = r"(0|[1-9]\d*)"
_PART: Final = r"(0|[1-9]\d*|\d*[a-zA-Z-][0-9a-zA-Z-]*)"
_VERSION: Final = re.compile(
    rf"{_NUMBER}\.{_NUMBER}\.{_NUMBER}(-{_PART}(\.{_PART})*)?(\+[0-9a-zA-Z-]+(\.[0-9a-zA-Z-]+)*)?", re.ASCII
)


def prepare_slice(new: Obj, old: Obj | None, context: WriteContext) -> None:
    """Set the time of taints; drop fields whose gate is off, except on slices that already have them."""
    before = (old or {}).get("spec", {}).get("devices") or ()
    had_lists = any(_has_lists(device) for device in before)
    had_mappings = any("nodeAllocatableResourceMappings" in device for device in before)
    for device in new.get("spec", {}).get("devices") or ():
        for taint in device.get("taints") or ():
            taint.setdefault("timeAdded", context.now)
        if not context.gates.get(_GATED_VALUES, False) and not had_lists:
            for value in (device.get("attributes") or {}).values():
                for field in _LISTS:
                    value.pop(field, None)
        if not context.gates.get(_GATED_MAPPINGS, False) and not had_mappings:
            device.pop("nodeAllocatableResourceMappings", None)
        for mapping in (device.get("nodeAllocatableResourceMappings") or {}).values():
            mapping.setdefault("allocationMultiplier", "1")


def _has_lists(device: Obj) -> bool:
    return any(field in value for value in (device.get("attributes") or {}).values() for field in _LISTS)


def validate_slice(new: Obj, old: Obj | None) -> list[Cause]:
    spec = new.get("spec", {})
    pool = spec.get("pool") or {}
    causes = rule.driver_causes(spec.get("driver", ""), "spec.driver")
    causes += rule.pool_name_causes(pool.get("name", ""), "spec.pool.name")
    if (count := pool.get("resourceSliceCount", 0)) <= 0:
        causes.append(invalid_value("spec.pool.resourceSliceCount", count, "must be greater than zero"))
    if (generation := pool.get("generation", 0)) < 0:
        why = "must be greater than or equal to zero"
        causes.append(invalid_value("spec.pool.generation", generation, why))
    if old is not None:
        causes += _moved_causes(spec, old["spec"])
    causes += _place_causes(spec)
    if "sharedCounters" in spec and "devices" in spec:
        causes.append(invalid_value("spec", "", "only one of `sharedCounters` or `devices` is allowed"))
    devices = spec.get("devices") or ()
    extras = any(map(_has_extras, devices))
    apart = spec.get("perDeviceNodeSelection") is True
    causes += rule.each(
        devices,
        "spec.devices",
        lambda device, path: _device_causes(device, path, apart=apart),
        most=_MOST_DEVICES_WITH_EXTRAS if extras else _MOST_DEVICES,
        key=lambda device: device.get("name", ""),
    )
    return causes + rule.each(
        spec.get("sharedCounters"),
        "spec.sharedCounters",
        lambda counters, path: _counters_causes(counters, path, "name"),
        most=_MOST_COUNTER_SETS,
        key=lambda counters: counters.get("name", ""),
    )


def _has_extras(device: Obj) -> bool:
    return bool(device.get("taints") or device.get("consumesCounters")) or _has_lists(device)


def _moved_causes(spec: Obj, before: Obj) -> list[Cause]:
    pool, old_pool = spec.get("pool") or {}, before.get("pool") or {}
    return [
        invalid_value(f"spec.{path}", new, "field is immutable")
        for path, new, old in (
            ("pool.name", pool.get("name", ""), old_pool.get("name", "")),
            ("driver", spec.get("driver", ""), before.get("driver", "")),
            ("nodeName", spec.get("nodeName"), before.get("nodeName")),
        )
        if new != old
    ]


def _place_causes(spec: Obj) -> list[Cause]:
    """Causes unless exactly one field selects the nodes that can use the devices."""
    causes: list[Cause] = []
    given = []
    if "nodeName" in spec:
        if spec["nodeName"]:
            given.append("`nodeName`")
            problems = names.subdomain_problems(spec["nodeName"])
            causes += invalid_values("spec.nodeName", spec["nodeName"], problems)
        else:
            why = "must be either unset or set to a non-empty string"
            causes.append(invalid_value("spec.nodeName", "", why))
    if "nodeSelector" in spec:
        given.append("`nodeSelector`")
        causes += validate_node_selector(spec["nodeSelector"], "spec.nodeSelector")
        terms = spec["nodeSelector"].get("nodeSelectorTerms") or []
        if len(terms) != 1:
            where, why = "spec.nodeSelector.nodeSelectorTerms", "must have exactly one node selector term"
            causes.append(invalid_value(where, terms, why))
    for field in ("allNodes", "perDeviceNodeSelection"):
        if spec.get(field) is True:
            given.append(f"`{field}`")
        elif field in spec:
            why = "must be either unset or set to true"
            causes.append(invalid_value(f"spec.{field}", spec[field], why))
    one = f"exactly one of {', '.join(f'`{place}`' for place in _PLACES)} is required"
    if not given:
        causes.append(required("spec", one))
    elif len(given) > 1:
        shown = f"{{{', '.join(given)}}}"
        causes.append(invalid_value("spec", shown, f"{one}, but multiple fields are set"))
    return causes


def _device_causes(device: Obj, path: str, *, apart: bool) -> list[Cause]:
    causes = rule.label_causes(device.get("name", ""), f"{path}.name")
    attributes, capacity = device.get("attributes") or {}, device.get("capacity") or {}
    for number, most, what in (
        (len(attributes) + len(capacity), _MOST_PROPERTIES, "attributes and capacities"),
        (sum(map(_value_count, attributes.values())), _MOST_VALUES, "attribute values"),
    ):
        if number > most:
            causes.append(invalid_value(path, number, f"the total number of {what} must not exceed {most}"))
    for name, attribute in attributes.items():
        causes += rule.qualified_causes(name, f"{path}.attributes")
        causes += _attribute_causes(attribute, f"{path}.attributes[{name}]")
    for name, amount in capacity.items():
        causes += rule.qualified_causes(name, f"{path}.capacity")
        where = f"{path}.capacity[{name}].requestPolicy"
        if amount.get("requestPolicy") is None:
            continue
        if device.get("allowMultipleAllocations"):
            causes += _policy_causes(amount, where)
        else:
            causes.append(forbidden_field(where, "allowMultipleAllocations must be true"))
    causes += rule.each(device.get("taints"), f"{path}.taints", _taint_causes, most=_MOST_TAINTS)
    causes += rule.each(
        device.get("consumesCounters"),
        f"{path}.consumesCounters",
        lambda counters, where: _counters_causes(counters, where, "counterSet"),
        most=_MOST_CONSUMPTIONS,
        key=lambda counters: counters.get("counterSet", ""),
    )
    causes += _device_place_causes(device, path, apart=apart) + rule.binding_causes(device, path)
    where = f"{path}.nodeAllocatableResourceMappings"
    for resource, mapping in sorted((device.get("nodeAllocatableResourceMappings") or {}).items()):
        causes += rule.native_resource_causes(resource, f"{where}[{resource}]")
        causes += _mapping_causes(mapping, capacity, f"{where}[{resource}]")
    return causes


def _mapping_causes(mapping: Obj, capacity: Obj, path: str) -> list[Cause]:
    """Causes of a mapping from a device to a resource of its node."""
    causes = []
    multiplier, key = mapping.get("allocationMultiplier", "1"), mapping.get("capacityKey")
    if not parse(multiplier) > parse("0"):
        shown = format_quantity(multiplier)
        causes.append(invalid_value(f"{path}.allocationMultiplier", shown, "must be positive"))
    if key == "":
        why = "capacityKey must not be an empty string"
        causes.append(invalid_value(f"{path}.capacityKey", "", why))
    elif key is not None and key not in capacity:
        causes.append(Cause(f"{path}.capacityKey", f"Not found: {show(key)}", "FieldValueNotFound"))
    return causes


def _device_place_causes(device: Obj, path: str, *, apart: bool) -> list[Cause]:
    given = [field for field in ("nodeName", "nodeSelector", "allNodes") if field in device]
    if not apart:
        if not given:
            return []
        why = (
            "`nodeName`, `nodeSelector` and `allNodes` can only be set if `perDeviceNodeSelection` is set to "
            "true in the ResourceSlice spec"
        )
        return [invalid_value(path, None, why)]
    causes = []
    if "nodeName" in given:
        name = device["nodeName"]
        problems = names.subdomain_problems(name) if name else ["must not be empty"]
        causes += invalid_values(f"{path}.nodeName", name, problems)
        given = given if name else given[1:]
    if "nodeSelector" in given:
        causes += validate_node_selector(device["nodeSelector"], f"{path}.nodeSelector")
    if device.get("allNodes") is False:
        causes.append(invalid_value(f"{path}.allNodes", False, "must be either unset or set to true"))
        given.remove("allNodes")
    one = (
        "exactly one of `nodeName`, `nodeSelector`, or `allNodes` is required when `perDeviceNodeSelection` "
        "is set to true in the ResourceSlice spec"
    )
    if not given:
        causes.append(required(path, one))
    elif len(given) > 1:
        causes.append(invalid_value(path, f"{{{', '.join(f'`{field}`' for field in given)}}}", one))
    return causes


def _value_count(attribute: Obj) -> int:
    return sum(len(attribute.get(field) or ()) for field in _LISTS) or 1


def _attribute_causes(attribute: Obj, path: str) -> list[Cause]:
    causes = []
    given = [field for field in _VALUES if field in attribute]
    for field in given:
        value, where = attribute[field], f"{path}.{field}"
        if field in _LISTS and not value:
            causes.append(invalid_value(where, value, "must not be empty if specified"))
        check: Any = {"string": _text_causes, "version": _version_causes}.get(field.removesuffix("s"))
        if check is not None:
            many = field in _LISTS
            places = [(each, f"{where}[{index}]") for index, each in enumerate(value)] if many else []
            for each, at in places or [(value, where)]:
                causes += check(each, at) if isinstance(each, str) else []
    if len(given) != 1:
        shown: Any = attribute if given else ""
        causes.append(invalid_value(path, shown, "exactly one value must be specified"))
    return causes


def _text_causes(value: str, path: str) -> list[Cause]:
    return [rule.too_long(path, _LONGEST_VALUE)] if len(value.encode()) > _LONGEST_VALUE else []


def _version_causes(value: str, path: str) -> list[Cause]:
    causes = []
    if _VERSION.fullmatch(value) is None:
        why = "must be a string compatible with semver.org spec 2.0.0"
        causes.append(invalid_value(path, value, why))
    return causes + _text_causes(value, path)


def _policy_causes(amount: Obj, path: str) -> list[Cause]:
    """Causes of a policy for requests of a shared capacity."""
    policy, capacity = amount["requestPolicy"], str(amount.get("value", "0"))
    options, span, default = policy.get("validValues") or [], policy.get("validRange"), policy.get("default")
    if options and span is not None:
        both = '"validValues" and "validRange" at the same time'
        why = f"exactly one policy can be specified, cannot specify {both}"
        return [forbidden_field(path, why)]
    if not options and span is None:
        return []
    kind = "validValues" if options else "validRange"
    if default is None:
        return [required(f"{path}.default", f"required when {kind} is defined")]
    if span is not None:
        return _range_causes(span, default, capacity, f"{path}.validRange")
    where = f"{path}.validValues"
    causes = [
        invalid_value(f"{where}[{index + 1}]", later, "values must be sorted in ascending order")
        for index, (earlier, later) in enumerate(pairwise(options))
        if parse(earlier) > parse(later)
    ]

    def option_causes(option: str, at: str) -> list[Cause]:
        if parse(option) <= parse(capacity):
            return []
        return [invalid_value(at, option, f"option is larger than capacity value: {capacity}")]

    causes += rule.each(
        options, where, option_causes, most=_MOST_OPTIONS, key=lambda option: str(parse(option).value())
    )
    if all(parse(option) != parse(default) for option in options):
        why = "default value is not valid according to the requestPolicy"
        causes.append(invalid_value(where, default, why))
    return causes


def _range_causes(span: Obj, default: str, capacity: str, path: str) -> list[Cause]:
    if span.get("min") is None:
        return [required(f"{path}.min", "required when validRange is defined")]
    least, most, step = span["min"], span.get("max"), span.get("step")
    judged = [
        ("min", least, f"min is larger than capacity value: {capacity}", parse(least) > parse(capacity)),
        ("min", default, f"default is less than min: {least}", parse(default) < parse(least)),
    ]
    if most is not None:
        over = parse(most) > parse(capacity)
        judged += [
            ("max", least, f"min is larger than max: {most}", parse(least) > parse(most)),
            ("max", most, f"max is larger than capacity value: {capacity}", over),
            ("max", default, f"default is more than max: {most}", parse(default) > parse(most)),
        ]
    if step is not None and parse(step).value() > 0:
        reached = parse(least) + parse(step)
        why = f"one step {reached} is larger than capacity value: {capacity}"
        judged.append(("step", step, why, reached > parse(capacity)))
        for value in (default, *(() if most is None else (most,))):
            off = (parse(value).value() - parse(least).value()) % parse(step).value() != 0
            why = f"value is not a multiple of a given step ({step}) from ({least})"
            judged.append(("step", value, why, off))
    return [invalid_value(f"{path}.{field}", value, why) for field, value, why, wrong in judged if wrong]


def _taint_causes(taint: Obj, path: str) -> list[Cause]:
    causes = rule.label_name_causes(taint.get("key", ""), f"{path}.key")
    if value := taint.get("value"):
        causes += rule.label_value_causes(value, f"{path}.value")
    effect, where = taint.get("effect", ""), f"{path}.effect"
    return causes + (rule.effect_causes(effect, where) if effect else [required(where)])


# DeviceTaintRules


def prepare_taint_rule(new: Obj, old: Obj | None, context: WriteContext) -> None:
    """Set the time of the taint: of its creation, or of the change to another effect."""
    taint = new.setdefault("spec", {}).setdefault("taint", {})
    taint.setdefault("timeAdded", context.now)
    if old is None:
        new["status"] = {}
        return
    before = old["spec"]["taint"]
    changed = taint.get("effect") != before.get("effect")
    if changed and taint["timeAdded"] == before.get("timeAdded"):
        taint["timeAdded"] = context.now


def validate_taint_rule(new: Obj, old: Obj | None) -> list[Cause]:
    spec, path = new.get("spec", {}), "spec.deviceSelector"
    selector, causes = spec.get("deviceSelector") or {}, []
    if "driver" in selector:
        causes += rule.driver_causes(selector["driver"], f"{path}.driver")
    if "pool" in selector:
        causes += rule.pool_name_causes(selector["pool"], f"{path}.pool")
    if "device" in selector:
        causes += rule.label_causes(selector["device"], f"{path}.device")
    return causes + _taint_causes(spec.get("taint", {}), "spec.taint")


def _counters_causes(entry: Obj, path: str, name_field: str) -> list[Cause]:
    where, name = f"{path}.{name_field}", entry.get(name_field, "")
    causes = rule.label_causes(name, where) if name else [required(where)]
    counters, where = entry.get("counters") or {}, f"{path}.counters"
    if not counters:
        return [*causes, required(where)]
    if len(counters) > _MOST_COUNTERS:
        return [*causes, rule.too_many(where, len(counters), _MOST_COUNTERS)]
    return causes + [cause for counter in counters for cause in rule.label_causes(counter, where)]
