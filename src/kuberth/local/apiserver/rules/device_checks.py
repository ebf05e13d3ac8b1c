"""Checks of device claims, classes and slices that the rules of their kinds name (schema/rules.yaml).

In: a value and its path. Out: causes, in upstream's words.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
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

_MAX_DEVICES_WITH_EXTRAS: Final = 64
_MAX_COUNTERS: Final = 32
_MAX_PROPERTIES: Final = 32
_MAX_VALUES: Final = 48
_MAX_OPTIONS: Final = 10
_MAX_BYTES: Final = 10 * 1024
"""The maximum size of an expression, and of a driver's parameters."""
_MAX_DOMAIN_BYTES: Final = 63
_MAX_IDENTIFIER_BYTES: Final = 32
_NO_REQUEST: Final = (
    "must be the name of a request in the claim or the name of a request and a subrequest separated by '/'"
)
_VALUES: Final = ("bool", "int", "string", "version", *LISTS)
_NODE_FIELDS: Final = ("nodeName", "nodeSelector", "allNodes", "perDeviceNodeSelection")
"""The fields of a slice that say which nodes can use its devices; all but the last are also a device's."""
_ONE_NODE_FIELD: Final = (
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


def native_resource_causes(resource: str, path: str) -> Iterator[Cause]:
    """Refuse resources other than native ones, whose names have no domain or that of Kubernetes."""
    if "/" in resource and "kubernetes.io/" not in resource:
        yield invalid_value(path, resource, "must be a node allocatable resource name")


def check_driver(name: str, path: str) -> Iterator[Cause]:
    if not name:
        yield required(path)
        return
    if len(name.encode()) > _MAX_DOMAIN_BYTES:
        yield too_long(path, _MAX_DOMAIN_BYTES)
    yield from invalid_values(path, name, names.subdomain_problems(name.lower()))


def check_pool(name: str, path: str) -> Iterator[Cause]:
    if not name:
        yield required(path)
    for part in name.split("/") if name else ():
        yield from invalid_values(path, part, names.subdomain_problems(part))


def check_qualified_keys(properties: Mapping[str, Any], path: str) -> Iterator[Cause]:
    """The names of attributes or capacities: C identifiers, perhaps in a driver's domain."""
    for name in properties:
        yield from _qualified_causes(name, path)


def _qualified_causes(name: str, path: str) -> Iterator[Cause]:
    match name.split("/"):
        case [own]:
            yield from _identifier_causes(own, path)
        case [domain, own]:
            yield from check_driver(domain, path) if domain else [_empty(path, "domain")]
            yield from _identifier_causes(own, path) if own else [_empty(path, "name")]
        # As upstream, names with more slashes are not checked.


def _empty(path: str, what: str) -> Cause:
    return invalid_value(path, "", f"the {what} must not be empty")


def _identifier_causes(name: str, path: str) -> Iterator[Cause]:
    if len(name.encode()) > _MAX_IDENTIFIER_BYTES:
        yield too_long(path, _MAX_IDENTIFIER_BYTES)
    if _IDENTIFIER.fullmatch(name) is None:
        yield invalid_value(path, name, _IDENTIFIER_RULE)


def check_extended_resource(name: str, path: str) -> Iterator[Cause]:
    if not is_extended_resource(name):
        yield invalid_value(path, name, "must be a valid extended resource name")


# Claims and classes


def check_device_expression(expression: str, path: str) -> Iterator[Cause]:
    if len(expression.encode()) > _MAX_BYTES:
        yield too_long(path, _MAX_BYTES)
        return
    try:
        compile_selector(expression)
    except CelCompileError as error:
        yield invalid_value(path, expression, str(error))


def check_device_parameters(parameters: Any, path: str) -> Iterator[Cause]:
    """Parameters that only the driver can read."""
    if len(msgspec.json.encode(parameters)) > _MAX_BYTES:
        yield too_long(path, _MAX_BYTES)
    elif not isinstance(parameters, dict):
        yield invalid_value(path, "<value omitted>", "must be a valid JSON object")


def check_counters(counters: Mapping[str, Any], path: str) -> Iterator[Cause]:
    if not counters:
        yield required(path)
    elif len(counters) > _MAX_COUNTERS:
        yield too_many(path, len(counters), _MAX_COUNTERS)
    else:
        for name in counters:
            yield from invalid_values(path, name, names.label_problems(name))


def check_claim_constraint(constraint: Obj, path: str) -> Iterator[Cause]:
    for field in ("matchAttribute", "distinctAttribute"):
        if (name := constraint.get(field)) is not None:
            yield from _qualified_causes(name, f"{path}.{field}")
            if "/" not in name:
                why = "a fully qualified name must be a domain and a name separated by a slash"
                yield invalid_value(f"{path}.{field}", name, why)
            return
    why = 'exactly one of "matchAttribute" or "distinctAttribute" is required, but multiple fields are set'
    yield required(path, why)


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
        request.get("name", ""): {each.get("name", "") for each in request.get("firstAvailable") or ()}
        for request in devices.get("requests") or ()
    }


def _reference_causes(name: str, path: str, known: dict[str, set[str]]) -> Iterator[Cause]:
    """Causes unless it names a request, or a request and one of its alternatives."""
    request, *rest = name.split("/")
    if len(rest) < 2:
        for part in (request, *rest):
            yield from invalid_values(path, part, names.label_problems(part))
    if len(rest) > 1 or request not in known or not known[request].issuperset(rest):
        yield invalid_value(path, name, _NO_REQUEST)


def check_binding_conditions(device: Obj, path: str) -> Iterator[Cause]:
    """The conditions that have to be met before pods with a device are bound."""
    wanted, failed = device.get("bindingConditions") or [], device.get("bindingFailureConditions") or []
    wanted_path, failed_path = f"{path}.bindingConditions", f"{path}.bindingFailureConditions"
    for index, condition in enumerate(failed):
        if condition in wanted:
            why = "bindingFailureConditions must not overlap with bindingConditions"
            yield invalid_value(f"{failed_path}[{index}]", condition, why)
    if failed and not wanted:
        why = "bindingConditions are required to use bindingFailureConditions"
        yield invalid_value(wanted_path, None, why)
    if wanted and not failed:
        why = "bindingFailureConditions are required to use bindingConditions"
        yield invalid_value(failed_path, None, why)


# Slices


def check_slice(spec: Obj, path: str) -> Iterator[Cause]:
    devices = spec.get("devices") or ()
    several = f"{_ONE_NODE_FIELD}, but multiple fields are set"
    empty = "must be either unset or set to a non-empty string"
    yield from _node_causes(spec, path, _NODE_FIELDS, one=_ONE_NODE_FIELD, several=several, empty=empty)
    if "nodeSelector" in spec and len(terms := spec["nodeSelector"].get("nodeSelectorTerms") or []) != 1:
        where, why = f"{path}.nodeSelector.nodeSelectorTerms", "must have exactly one node selector term"
        yield invalid_value(where, terms, why)
    if "sharedCounters" in spec and "devices" in spec:
        yield invalid_value(path, "", "only one of `sharedCounters` or `devices` is allowed")
    extras = any(each.get("taints") or each.get("consumesCounters") or has_lists(each) for each in devices)
    if extras and len(devices) > _MAX_DEVICES_WITH_EXTRAS:
        yield too_many(f"{path}.devices", len(devices), _MAX_DEVICES_WITH_EXTRAS)
    per_device = spec.get("perDeviceNodeSelection") is True
    for index, device in enumerate(devices):
        yield from _device_node_causes(device, f"{path}.devices[{index}]", per_device=per_device)


def _node_causes(
    holder: Obj, path: str, fields: Sequence[str], *, one: str, several: str, empty: str
) -> Iterator[Cause]:
    """Causes unless exactly one field selects the nodes that can use the devices."""
    given = []
    for field in fields:
        if field not in holder:
            continue
        if holder[field] is False:
            yield invalid_value(f"{path}.{field}", False, "must be either unset or set to true")
        elif holder[field] == "":
            yield invalid_value(f"{path}.{field}", "", empty)
        else:
            given.append(f"`{field}`")
    if not given:
        yield required(path, one)
    elif len(given) > 1:
        yield invalid_value(path, f"{{{', '.join(given)}}}", several)


def _device_node_causes(device: Obj, path: str, *, per_device: bool) -> Iterator[Cause]:
    fields = _NODE_FIELDS[:3]
    if per_device:
        one = (
            "exactly one of `nodeName`, `nodeSelector`, or `allNodes` is required when "
            "`perDeviceNodeSelection` is set to true in the ResourceSlice spec"
        )
        yield from _node_causes(device, path, fields, one=one, several=one, empty="must not be empty")
    elif any(field in device for field in fields):
        why = (
            "`nodeName`, `nodeSelector` and `allNodes` can only be set if `perDeviceNodeSelection` is set to "
            "true in the ResourceSlice spec"
        )
        yield invalid_value(path, None, why)


def check_device(device: Obj, path: str) -> Iterator[Cause]:
    yield from check_binding_conditions(device, path)
    attributes, capacity = device.get("attributes") or {}, device.get("capacity") or {}
    values = sum(
        sum(len(attribute.get(field) or ()) for field in LISTS) or 1 for attribute in attributes.values()
    )
    for number, most, what in (
        (len(attributes) + len(capacity), _MAX_PROPERTIES, "attributes and capacities"),
        (values, _MAX_VALUES, "attribute values"),
    ):
        if number > most:
            yield invalid_value(path, number, f"the total number of {what} must not exceed {most}")
    for name, amount in capacity.items():
        where = f"{path}.capacity[{name}].requestPolicy"
        if amount.get("requestPolicy") is None:
            continue
        if device.get("allowMultipleAllocations"):
            yield from _policy_causes(amount, where)
        else:
            yield forbidden_field(where, "allowMultipleAllocations must be true")
    for resource, mapping in sorted((device.get("nodeAllocatableResourceMappings") or {}).items()):
        where = f"{path}.nodeAllocatableResourceMappings[{resource}]"
        yield from native_resource_causes(resource, where)
        yield from _mapping_causes(mapping, capacity, where)


def _mapping_causes(mapping: Obj, capacity: Obj, path: str) -> Iterator[Cause]:
    """Causes of a mapping from a device to a resource of its node."""
    multiplier, key = mapping.get("allocationMultiplier", "1"), mapping.get("capacityKey")
    if not parse(multiplier) > parse("0"):
        yield invalid_value(f"{path}.allocationMultiplier", format_quantity(multiplier), "must be positive")
    if key == "":
        yield invalid_value(f"{path}.capacityKey", "", "capacityKey must not be an empty string")
    elif key is not None and key not in capacity:
        yield Cause(f"{path}.capacityKey", f"Not found: {show(key)}", "FieldValueNotFound")


def check_device_attribute(attribute: Obj, path: str) -> Iterator[Cause]:
    given = [field for field in _VALUES if field in attribute]
    for field in given:
        if field in LISTS and not attribute[field]:
            yield invalid_value(f"{path}.{field}", attribute[field], "must not be empty if specified")
    if len(given) != 1:
        yield invalid_value(path, attribute if given else "", "exactly one value must be specified")


def check_version(value: str, path: str) -> Iterator[Cause]:
    if not _VERSION.fullmatch(value):
        yield invalid_value(path, value, "must be a string compatible with semver.org spec 2.0.0")


def _policy_causes(amount: Obj, path: str) -> Iterator[Cause]:
    """Causes of a policy for requests of a shared capacity."""
    policy, capacity = amount["requestPolicy"], str(amount.get("value", "0"))
    options, limits, default = (
        policy.get("validValues") or [],
        policy.get("validRange"),
        policy.get("default"),
    )
    if options and limits is not None:
        both = '"validValues" and "validRange" at the same time'
        yield forbidden_field(path, f"exactly one policy can be specified, cannot specify {both}")
    elif (options or limits is not None) and default is None:
        yield required(
            f"{path}.default", f"required when {'validValues' if options else 'validRange'} is defined"
        )
    elif limits is not None:
        yield from _range_causes(limits, default, capacity, f"{path}.validRange")
    elif options:
        yield from _option_causes(options, default, capacity, f"{path}.validValues")


def _option_causes(options: Sequence[str], default: str, capacity: str, path: str) -> Iterator[Cause]:
    for index, (earlier, later) in enumerate(pairwise(options), 1):
        if parse(earlier) > parse(later):
            yield invalid_value(f"{path}[{index}]", later, "values must be sorted in ascending order")
    if len(options) > _MAX_OPTIONS:
        yield too_many(path, len(options), _MAX_OPTIONS)
    seen = set()
    for index, option in enumerate(options[:_MAX_OPTIONS]):
        if parse(option) > parse(capacity):
            why = f"option is larger than capacity value: {capacity}"
            yield invalid_value(f"{path}[{index}]", option, why)
        if (number := str(parse(option).value())) in seen:
            yield duplicate(f"{path}[{index}]", number)
        seen.add(number)
    if all(parse(option) != parse(default) for option in options):
        yield invalid_value(path, default, "default value is not valid according to the requestPolicy")


def _range_causes(limits: Obj, default: str, capacity: str, path: str) -> Iterator[Cause]:
    if limits.get("min") is None:
        yield required(f"{path}.min", "required when validRange is defined")
        return
    least, most, step = limits["min"], limits.get("max"), limits.get("step")
    rules = [
        ("min", least, f"min is larger than capacity value: {capacity}", parse(least) > parse(capacity)),
        ("min", default, f"default is less than min: {least}", parse(default) < parse(least)),
    ]
    if most is not None:
        over = parse(most) > parse(capacity)
        rules += [
            ("max", least, f"min is larger than max: {most}", parse(least) > parse(most)),
            ("max", most, f"max is larger than capacity value: {capacity}", over),
            ("max", default, f"default is more than max: {most}", parse(default) > parse(most)),
        ]
    if step is not None and parse(step).value() > 0:
        reached = parse(least) + parse(step)
        why = f"one step {reached} is larger than capacity value: {capacity}"
        rules.append(("step", step, why, reached > parse(capacity)))
        for value in (default, *(() if most is None else (most,))):
            off = (parse(value).value() - parse(least).value()) % parse(step).value() != 0
            why = f"value is not a multiple of a given step ({step}) from ({least})"
            rules.append(("step", value, why, off))
    for field, value, why, is_broken in rules:
        if is_broken:
            yield invalid_value(f"{path}.{field}", value, why)
