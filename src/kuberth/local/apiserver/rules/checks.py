"""Checks of single values, which the rules of a kind name without `check_` (`check` in schema/rules.yaml).

In: a value and its path. Out: causes, in upstream's words.
"""

from __future__ import annotations

import ipaddress
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from kuberth.api.quantity import parse
from kuberth.local.apiserver.objects import Obj
from kuberth.local.apiserver.rules.metadata_validation import validate_annotation_keys, validate_labels
from kuberth.local.apiserver.rules.pod_validation import validate_quantity
from kuberth.local.apiserver.status_errors import (
    Cause,
    duplicate,
    forbidden_field,
    invalid_value,
    invalid_values,
    not_supported,
    required,
)
from kuberth.text import names

Check = Callable[[Any, str], Iterable[Cause]]

_ACCESS_MODES: Final = ("ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod")
_NO_OPERATOR: Final = "not a valid selector operator"


def _name_check(problems: Callable[[str], list[str]]) -> Check:
    def check(value: str, path: str) -> list[Cause]:
        found = problems(value)
        return invalid_values(path, value, found) if found else []

    return check


def check_ip(address: str, path: str) -> Iterator[Cause]:
    try:
        ipaddress.ip_address(address)
    except ValueError:
        why = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"
        yield invalid_value(path, address, why)


def check_cidr(cidr: str, path: str) -> Iterator[Cause]:
    try:
        ipaddress.ip_network(cidr, strict=False)
    except ValueError:
        why = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)"
        yield invalid_value(path, cidr, why)


def check_slice_addresses(endpoint_slice: Obj, _path: str) -> Iterator[Cause]:
    if endpoint_slice.get("addressType") in ("IPv4", "IPv6"):
        for index, endpoint in enumerate(endpoint_slice.get("endpoints") or ()):
            for number, address in enumerate(endpoint.get("addresses") or ()):
                yield from check_ip(address, f"endpoints[{index}].addresses[{number}]")


def check_domain_prefixed_path(value: str, path: str) -> Iterator[Cause]:
    domain, slash, rest = value.partition("/")
    if not (slash and rest) or names.subdomain_problems(domain):
        yield invalid_value(path, value, 'must be a domain-prefixed path (such as "acme.io/foo")')


def check_webhook_name(name: str, path: str) -> Iterator[Cause]:
    if name.count(".") < 2 or names.subdomain_problems(name):
        yield invalid_value(path, name, "should be a domain with at least three segments separated by dots")


def check_quantities(quantities: Mapping[str, str], path: str) -> Iterator[Cause]:
    for name, quantity in quantities.items():
        yield from validate_quantity(name, quantity, f"{path}[{name}]")


def check_access_modes(modes: Sequence[str], path: str) -> Iterator[Cause]:
    yield from (not_supported(path, mode, _ACCESS_MODES) for mode in modes if mode not in _ACCESS_MODES)
    if "ReadWriteOncePod" in modes and len(modes) > 1:
        yield forbidden_field(path, "may not use ReadWriteOncePod with other access modes")


def check_volume_capacity(capacity: Mapping[str, str], path: str) -> Iterator[Cause]:
    if set(capacity) != {"storage"}:
        yield not_supported(path, sorted(capacity), ("storage",))
    else:
        yield from _check_positive(capacity["storage"], f"{path}[storage]")


def check_claim_storage(spec: Obj, path: str) -> Iterator[Cause]:
    storage = spec.get("resources", {}).get("requests", {}).get("storage")
    where = f"{path}.resources[storage]"
    yield from [required(where)] if storage is None else _check_positive(storage, where)


def _check_positive(quantity: str, path: str) -> Iterator[Cause]:
    if parse(quantity) <= parse("0"):
        yield invalid_value(path, quantity, "must be greater than zero")


def check_count_or_percent(value: int | str, path: str) -> Iterator[Cause]:
    if isinstance(value, int):
        if value < 0:
            yield invalid_value(path, value, "must be greater than or equal to 0")
        return
    number = value.removesuffix("%")
    if not value.endswith("%") or not (number.isascii() and number.isdigit()):
        why = "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or "
        yield invalid_value(path, value, f"{why}'93%', regex used for validation is '[0-9]+%')")
    elif len(number) > 9 or int(number) > 100:
        yield invalid_value(path, value, "must not be greater than 100%")


def check_unique_templates(templates: Sequence[Obj], path: str) -> Iterator[Cause]:
    seen = set()
    for index, template in enumerate(templates):
        if template.get("name") in seen:
            # Here upstream shows a struct: its fields in their order, and one that is never left out.
            shown = {"name": "", "schedulingPolicy": {}, "schedulingConstraints": None, **template}
            text = json.dumps(shown, ensure_ascii=False, separators=(",", ":"))
            yield Cause(f"{path}[{index}]", f"Duplicate value: {text}", "FieldValueDuplicate")
        seen.add(template.get("name"))


def check_namespace_names(namespaces: Sequence[str], path: str) -> Iterator[Cause]:
    for name in namespaces:
        # Upstream names the field in the singular, and not the item.
        yield from invalid_values(path.removesuffix("s"), name, names.label_problems(name))


def _requirement_check(*, numeric: bool) -> Check:
    """A requirement of labels; those of nodes also compare numbers."""

    def check(requirement: Obj, path: str) -> list[Cause]:
        operator, values = requirement.get("operator", ""), requirement.get("values", ())
        where = f"{path}.values"
        if operator in ("In", "NotIn"):
            return [] if values else [required(where, "must be specified when `operator` is 'In' or 'NotIn'")]
        if operator in ("Exists", "DoesNotExist"):
            why = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
            return [forbidden_field(where, why)] if values else []
        if numeric and operator in ("Gt", "Lt"):
            why = "must be specified single value when `operator` is 'Lt' or 'Gt'"
            return [] if len(values) == 1 else [required(where, why)]
        return [invalid_value(f"{path}.operator", operator, _NO_OPERATOR)]

    return check


def check_field_requirement(requirement: Obj, path: str) -> Iterator[Cause]:
    operator, key = requirement.get("operator", ""), requirement.get("key", "")
    if operator not in ("In", "NotIn"):
        yield invalid_value(f"{path}.operator", operator, _NO_OPERATOR)
    elif len(requirement.get("values", ())) != 1:
        why = "must be only one value when `operator` is 'In' or 'NotIn' for node field selector"
        yield required(f"{path}.values", why)
    if key != "metadata.name":
        yield invalid_value(f"{path}.key", key, "not a valid field selector key")


def check_gate(gate: Obj, path: str) -> list[Cause]:
    name = gate.get("name", "")
    return invalid_values(path, name, names.qualified_name_problems(name))


def check_unique_constraints(constraints: Sequence[Obj], path: str) -> Iterator[Cause]:
    seen = set()
    for index, constraint in enumerate(constraints):
        both = (constraint.get("topologyKey", ""), constraint.get("whenUnsatisfiable", ""))
        if both in seen:
            where = f"{path}[{index}].{{topologyKey, whenUnsatisfiable}}"
            yield duplicate(where, f"{{{', '.join(both)}}}")
        seen.add(both)


def check_group_status(group: Obj, _path: str) -> Iterator[Cause]:
    known = [each.get("name") for each in group["spec"].get("resourceClaims") or ()]
    for index, status in enumerate(group.get("status", {}).get("resourceClaimStatuses") or ()):
        if status.get("name") not in known:
            path, why = f"status.resourceClaimStatuses[{index}].name", "must match the name of an entry in "
            yield invalid_value(path, status.get("name", ""), f"{why}`spec.resourceClaims`")


check_annotation_keys: Final = validate_annotation_keys
check_label: Final = _name_check(names.label_problems)
check_label_1035: Final = _name_check(names.label_1035_problems)
check_label_key: Final = _name_check(names.label_key_problems)
check_label_requirement: Final = _requirement_check(numeric=False)
check_label_value: Final = _name_check(names.label_value_problems)
check_labels: Final = validate_labels
check_node_requirement: Final = _requirement_check(numeric=True)
check_path_segment: Final = _name_check(names.path_segment_problems)
check_qualified_name: Final = _name_check(lambda name: names.qualified_name_problems(name.lower()))
check_subdomain: Final = _name_check(names.subdomain_problems)
check_wildcard_subdomain: Final = _name_check(lambda host: names.subdomain_problems(host.removeprefix("*.")))
