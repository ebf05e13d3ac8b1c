"""Checks of device claims, classes and slices that the rules of their kinds name (schema/rules.yaml).

In: a value and its path. Out: causes, in upstream's words.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import pairwise
from typing import Any, Final

import msgspec

from kuberth.api.pod_resources import is_extended_resource
from kuberth.api.quantity import format_quantity, parse
from kuberth.cel import CelCompileError, compile_selector
from kuberth.local.apiserver.objects import Obj
from kuberth.local.apiserver.rules.device_rules import LISTS, allocated, device_id, has_lists
from kuberth.local.apiserver.status_errors import (
    Cause,
    duplicate,
    forbidden_field,
    invalid_value,
    invalid_values,
    required,
    show,
    too_long,
    too_many,
)
from kuberth.text import names

_MOST_DEVICES_WITH_EXTRAS: Final = 64
_MOST_COUNTERS: Final = 32
_MOST_PROPERTIES: Final = 32
_MOST_VALUES: Final = 48
_MOST_OPTIONS: Final = 10
_LARGEST: Final = 10 * 1024
"""Bytes of an expression, and of a driver's parameters."""
_LONGEST_DOMAIN: Final = 63
_LONGEST_IDENTIFIER: Final = 32
_NO_REQUEST: Final = (
    "must be the name of a request in the claim or the name of a request and a subrequest separated by '/'"
)
_VALUES: Final = ("bool", "int", "string", "version", *LISTS)
_PLACES: Final = ("nodeName", "nodeSelector", "allNodes", "perDeviceNodeSelection")
_ONE_PLACE: Final = (
    "exactly one of `nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection` is required"
)
_NUMBER: Final = r"(0|[1-9]\d*)"
_PART: Final = r"(0|[1-9]\d*|\d*[a-zA-Z-][0-9a-zA-Z-]*)"
_VERSION: Final = re.compile(
    rf"{_NUMBER}\.{_NUMBER}\.{_NUMBER}(-{_PART}(\.{_PART})*)?(\+[0-9a-zA-Z-]+(\.[0-9a-zA-Z-]+)*)?", re.ASCII
)
_IDENTIFIER: Final = re.compile("[A-Za-z_][A-Za-z0-9_]*")
_IDENTIFIER_RULE: Final = (
    "a valid C identifier must start with alphabetic character or '_', followed by a string of alphanumeric "
    "characters or '_' (e.g. 'my_name',  or 'MY_NAME',  or 'MyName', regex used for validation is "
    "'[A-Za-z_][A-Za-z0-9_]*')"
)


# Names


def native_resource_causes(resource: str, path: str) -> list[Cause]:
    """Refuse resources other than native ones, whose names have no domain or that of Kubernetes."""
    if "/" not in resource or "kubernetes.io/" in resource:
        return []
    return [invalid_value(path, resource, "must be a node allocatable resource name")]


def check_driver(name: str, path: str) -> list[Cause]:
    if not name:
        return [required(path)]
    causes = [too_long(path, _LONGEST_DOMAIN)] if len(name.encode()) > _LONGEST_DOMAIN else []
    return causes + invalid_values(path, name, names.subdomain_problems(name.lower()))


def check_pool(name: str, path: str) -> Iterator[Cause]:
    if not name:
        yield required(path)
    for part in name.split("/") if name else ():
        yield from invalid_values(path, part, names.subdomain_problems(part))


def check_qualified_keys(properties: Mapping[str, Any], path: str) -> Iterator[Cause]:
    """The names of attributes or capacities: C identifiers, perhaps in a driver's domain."""
    for name in properties:
        yield from _qualified_causes(name, path)


def _qualified_causes(name: str, path: str) -> list[Cause]:
    parts = name.split("/")
    if len(parts) == 1:
        return _identifier_causes(name, path)
    if len(parts) > 2:
        return []  # as upstream
    domain, own = parts
    causes = check_driver(domain, path) if domain else [_empty(path, "domain")]
    return causes + (_identifier_causes(own, path) if own else [_empty(path, "name")])


def _fully_qualified_causes(name: str, path: str) -> list[Cause]:
    causes = _qualified_causes(name, path)
    if "/" not in name:
        why = "a fully qualified name must be a domain and a name separated by a slash"
        causes.append(invalid_value(path, name, why))
    return causes


def _empty(path: str, what: str) -> Cause:
    return invalid_value(path, "", f"the {what} must not be empty")


def _identifier_causes(name: str, path: str) -> list[Cause]:
    causes = [too_long(path, _LONGEST_IDENTIFIER)] if len(name.encode()) > _LONGEST_IDENTIFIER else []
    if _IDENTIFIER.fullmatch(name) is None:
        causes.append(invalid_value(path, name, _IDENTIFIER_RULE))
    return causes


def check_extended_resource(name: str, path: str) -> list[Cause]:
    if is_extended_resource(name):
        return []
    return [invalid_value(path, name, "must be a valid extended resource name")]


# Claims and classes


def check_device_expression(expression: str, path: str) -> list[Cause]:
    if len(expression.encode()) > _LARGEST:
        return [too_long(path, _LARGEST)]
    try:
        compile_selector(expression)
    except CelCompileError as error:
        return [invalid_value(path, expression, str(error))]
    return []


def check_device_parameters(parameters: Any, path: str) -> list[Cause]:
    """Parameters that only the driver can read."""
    if len(msgspec.json.encode(parameters)) > _LARGEST:
        return [too_long(path, _LARGEST)]
    if not isinstance(parameters, dict):
        return [invalid_value(path, "<value omitted>", "must be a valid JSON object")]
    return []


def check_counters(counters: Mapping[str, Any], path: str) -> list[Cause]:
    if not counters:
        return [required(path)]
    if len(counters) > _MOST_COUNTERS:
        return [too_many(path, len(counters), _MOST_COUNTERS)]
    return [cause for name in counters for cause in invalid_values(path, name, names.label_problems(name))]


def check_claim_constraint(constraint: Obj, path: str) -> list[Cause]:
    for field in ("matchAttribute", "distinctAttribute"):
        if constraint.get(field) is not None:
            return _fully_qualified_causes(constraint[field], f"{path}.{field}")
    why = 'exactly one of "matchAttribute" or "distinctAttribute" is required, but multiple fields are set'
    return [required(path, why)]


def check_claim_devices(devices: Obj, path: str) -> Iterator[Cause]:
    """The requests that constraints and configurations name."""
    known = _request_names(devices)
    for field in ("constraints", "config"):
        for index, entry in enumerate(devices.get(field) or ()):
            for number, name in enumerate(entry.get("requests") or ()):
                yield from _reference_causes(name, f"{path}.{field}[{index}].requests[{number}]", known)


def check_claim_status(claim: Obj, _path: str) -> Iterator[Cause]:
    """The requests of an allocation, and the devices that drivers report."""
    status, known = claim.get("status") or {}, _request_names(claim.get("spec", {}).get("devices") or {})
    results = ((status.get("allocation") or {}).get("devices") or {}).get("results") or ()
    for index, result in enumerate(results):
        where = f"status.allocation.devices.results[{index}].request"
        yield from _reference_causes(result.get("request", ""), where, known)
    present = set(allocated(claim))
    for index, device in enumerate(status.get("devices") or ()):
        if device_id(device) not in present:
            shown = {field: device.get(field, "") for field in ("driver", "pool", "device")}
            yield invalid_value(f"status.devices[{index}]", shown, "must be an allocated device in the claim")


def _request_names(devices: Obj) -> dict[str, set[str]]:
    """The requests of a claim, each with its alternatives."""
    return {
        request.get("name", ""): {wish.get("name", "") for wish in request.get("firstAvailable") or ()}
        for request in devices.get("requests") or ()
    }


def _reference_causes(name: str, path: str, known: dict[str, set[str]]) -> list[Cause]:
    """The name of a request, or of a request and one of its alternatives."""
    request, *rest = name.split("/")
    if len(rest) > 1:
        return [invalid_value(path, name, _NO_REQUEST)]
    causes = [
        cause for part in (request, *rest) for cause in invalid_values(path, part, names.label_problems(part))
    ]
    if request not in known or any(part not in known[request] for part in rest):
        causes.append(invalid_value(path, name, _NO_REQUEST))
    return causes


def check_binding_conditions(device: Obj, path: str) -> list[Cause]:
    """The conditions that have to be met before pods with a device are bound."""
    wanted, failed = device.get("bindingConditions") or [], device.get("bindingFailureConditions") or []
    wanted_path, failed_path = f"{path}.bindingConditions", f"{path}.bindingFailureConditions"
    why = "bindingFailureConditions must not overlap with bindingConditions"
    causes = [
        invalid_value(f"{failed_path}[{index}]", condition, why)
        for index, condition in enumerate(failed)
        if condition in wanted
    ]
    if failed and not wanted:
        why = "bindingConditions are required to use bindingFailureConditions"
        causes.append(invalid_value(wanted_path, None, why))
    if wanted and not failed:
        why = "bindingFailureConditions are required to use bindingConditions"
        causes.append(invalid_value(failed_path, None, why))
    return causes


# Slices


def check_slice(spec: Obj, path: str) -> list[Cause]:
    devices = spec.get("devices") or ()
    causes = _place_causes(
        spec,
        path,
        _PLACES,
        one=_ONE_PLACE,
        several=f"{_ONE_PLACE}, but multiple fields are set",
        name="must be either unset or set to a non-empty string",
    )
    if "nodeSelector" in spec and len(terms := spec["nodeSelector"].get("nodeSelectorTerms") or []) != 1:
        where, why = f"{path}.nodeSelector.nodeSelectorTerms", "must have exactly one node selector term"
        causes.append(invalid_value(where, terms, why))
    if "sharedCounters" in spec and "devices" in spec:
        causes.append(invalid_value(path, "", "only one of `sharedCounters` or `devices` is allowed"))
    extras = any(each.get("taints") or each.get("consumesCounters") or has_lists(each) for each in devices)
    if extras and len(devices) > _MOST_DEVICES_WITH_EXTRAS:
        causes.append(too_many(f"{path}.devices", len(devices), _MOST_DEVICES_WITH_EXTRAS))
    apart = spec.get("perDeviceNodeSelection") is True
    for index, device in enumerate(devices):
        causes += _device_place_causes(device, f"{path}.devices[{index}]", apart=apart)
    return causes


def _place_causes(
    holder: Obj, path: str, fields: Iterable[str], *, one: str, several: str, name: str
) -> list[Cause]:
    """Causes unless exactly one field selects the nodes that can use the devices."""
    causes: list[Cause] = []
    given = []
    for field in fields:
        if field not in holder:
            continue
        if holder[field] is False:
            causes.append(invalid_value(f"{path}.{field}", False, "must be either unset or set to true"))
        elif holder[field] == "":
            causes.append(invalid_value(f"{path}.{field}", "", name))
        else:
            given.append(f"`{field}`")
    if not given:
        causes.append(required(path, one))
    elif len(given) > 1:
        causes.append(invalid_value(path, f"{{{', '.join(given)}}}", several))
    return causes


def check_device(device: Obj, path: str) -> list[Cause]:
    causes = check_binding_conditions(device, path)
    attributes, capacity = device.get("attributes") or {}, device.get("capacity") or {}
    values = sum(
        sum(len(attribute.get(field) or ()) for field in LISTS) or 1 for attribute in attributes.values()
    )
    for number, most, what in (
        (len(attributes) + len(capacity), _MOST_PROPERTIES, "attributes and capacities"),
        (values, _MOST_VALUES, "attribute values"),
    ):
        if number > most:
            causes.append(invalid_value(path, number, f"the total number of {what} must not exceed {most}"))
    for name, amount in capacity.items():
        where = f"{path}.capacity[{name}].requestPolicy"
        if amount.get("requestPolicy") is None:
            continue
        if device.get("allowMultipleAllocations"):
            causes += _policy_causes(amount, where)
        else:
            causes.append(forbidden_field(where, "allowMultipleAllocations must be true"))
    where = f"{path}.nodeAllocatableResourceMappings"
    for resource, mapping in sorted((device.get("nodeAllocatableResourceMappings") or {}).items()):
        causes += native_resource_causes(resource, f"{where}[{resource}]")
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
    if apart:
        one = (
            "exactly one of `nodeName`, `nodeSelector`, or `allNodes` is required when "
            "`perDeviceNodeSelection` is set to true in the ResourceSlice spec"
        )
        return _place_causes(device, path, _PLACES[:3], one=one, several=one, name="must not be empty")
    if "nodeName" not in device and "nodeSelector" not in device and "allNodes" not in device:
        return []
    why = (
        "`nodeName`, `nodeSelector` and `allNodes` can only be set if `perDeviceNodeSelection` is set to "
        "true in the ResourceSlice spec"
    )
    return [invalid_value(path, None, why)]


def check_device_attribute(attribute: Obj, path: str) -> list[Cause]:
    given = [field for field in _VALUES if field in attribute]
    causes = [
        invalid_value(f"{path}.{field}", attribute[field], "must not be empty if specified")
        for field in given
        if field in LISTS and not attribute[field]
    ]
    if len(given) != 1:
        causes.append(invalid_value(path, attribute if given else "", "exactly one value must be specified"))
    return causes


def check_version(value: str, path: str) -> list[Cause]:
    if _VERSION.fullmatch(value):
        return []
    return [invalid_value(path, value, "must be a string compatible with semver.org spec 2.0.0")]


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
    if len(options) > _MOST_OPTIONS:
        causes.append(too_many(where, len(options), _MOST_OPTIONS))
    seen = set()
    for index, option in enumerate(options[:_MOST_OPTIONS]):
        if parse(option) > parse(capacity):
            why = f"option is larger than capacity value: {capacity}"
            causes.append(invalid_value(f"{where}[{index}]", option, why))
        if (number := str(parse(option).value())) in seen:
            causes.append(duplicate(f"{where}[{index}]", number))
        seen.add(number)
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
