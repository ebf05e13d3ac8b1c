"""Checks of single values that the rules of a kind name (`check` in schema/rules.yaml).

In: a value and its path. Out: causes, in upstream's words.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Mapping
from typing import Any, Final

from kuberth.local.apiserver.objects import Obj
from kuberth.local.apiserver.rules import names
from kuberth.local.apiserver.rules.metadata_validation import invalid_value, invalid_values
from kuberth.local.apiserver.rules.pod_validation import validate_quantity
from kuberth.local.apiserver.rules.scheduling_validation import validate_label_selector, validate_tolerations
from kuberth.local.apiserver.status_errors import Cause

Check = Callable[[Any, str], list[Cause]]


def _name_check(problems: Callable[[str], list[str]]) -> Check:
    return lambda value, path: invalid_values(path, value, problems(value))


def _check_ip(address: str, path: str) -> list[Cause]:
    try:
        ipaddress.ip_address(address)
    except ValueError:
        why = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"
        return [invalid_value(path, address, why)]
    return []


def _check_cidr(cidr: str, path: str) -> list[Cause]:
    try:
        ipaddress.ip_network(cidr, strict=False)
    except ValueError:
        why = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)"
        return [invalid_value(path, cidr, why)]
    return []


def _check_slice_addresses(endpoint_slice: Obj, path: str) -> list[Cause]:
    if endpoint_slice.get("addressType") not in ("IPv4", "IPv6"):
        return []
    return [
        cause
        for index, endpoint in enumerate(endpoint_slice.get("endpoints") or ())
        for number, address in enumerate(endpoint.get("addresses") or ())
        for cause in _check_ip(address, f"endpoints[{index}].addresses[{number}]")
    ]


def _check_domain_prefixed_path(value: str, path: str) -> list[Cause]:
    domain, slash, rest = value.partition("/")
    if slash and rest and not names.subdomain_problems(domain):
        return []
    return [invalid_value(path, value, 'must be a domain-prefixed path (such as "acme.io/foo")')]


def _check_webhook_name(name: str, path: str) -> list[Cause]:
    if name.count(".") >= 2 and not names.subdomain_problems(name):
        return []
    why = "should be a domain with at least three segments separated by dots"
    return [invalid_value(path, name, why)]


def _check_quantities(quantities: Mapping[str, str], path: str) -> list[Cause]:
    return [
        cause
        for name, quantity in quantities.items()
        for cause in validate_quantity(name, quantity, f"{path}[{name}]")
    ]


CHECKS: Final[Mapping[str, Check]] = {
    "cidr": _check_cidr,
    "domain-prefixed-path": _check_domain_prefixed_path,
    "ip": _check_ip,
    "label": _name_check(names.label_problems),
    "label-1035": _name_check(names.label_1035_problems),
    "label-selector": validate_label_selector,
    "quantities": _check_quantities,
    "slice-addresses": _check_slice_addresses,
    "subdomain": _name_check(names.subdomain_problems),
    "tolerations": validate_tolerations,
    "webhook-name": _check_webhook_name,
    "wildcard-subdomain": _name_check(lambda host: names.subdomain_problems(host.removeprefix("*."))),
}
