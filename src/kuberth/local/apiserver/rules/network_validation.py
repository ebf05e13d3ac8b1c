"""What is wrong with ingresses, network policies and endpoints.

In: objects, defaulted, and the stored one for an update. Out: causes, in upstream's words.
"""

from __future__ import annotations

import ipaddress
from typing import Final

from kuberth.local.apiserver.objects import Obj
from kuberth.local.apiserver.rules import names
from kuberth.local.apiserver.rules.metadata_validation import (
    forbidden_field,
    invalid_value,
    invalid_values,
    not_supported,
    required,
)
from kuberth.local.apiserver.rules.scheduling_validation import validate_label_selector
from kuberth.local.apiserver.rules.workload_validation import IMMUTABLE
from kuberth.local.apiserver.status_errors import Cause

_PATH_TYPES: Final = ("Exact", "ImplementationSpecific", "Prefix")
_ADDRESS_TYPES: Final = ("FQDN", "IPv4", "IPv6")
_PROTOCOLS: Final = ("SCTP", "TCP", "UDP")
_BETWEEN: Final = "must be between 1 and 65535, inclusive"


def validate_ingress(new: Obj, old: Obj | None) -> list[Cause]:
    spec = new.get("spec", {})
    causes: list[Cause] = []
    if not spec.get("rules") and "defaultBackend" not in spec:
        why = "either `defaultBackend` or `rules` must be specified"
        causes.append(invalid_value("spec", [], why))
    if "defaultBackend" in spec:
        causes += _backend_causes(spec["defaultBackend"], "spec.defaultBackend")
    for index, rule in enumerate(spec.get("rules", ())):
        path = f"spec.rules[{index}]"
        if host := rule.get("host"):
            problems = names.subdomain_problems(host.removeprefix("*."))
            causes += invalid_values(f"{path}.host", host, problems)
        if "http" not in rule:
            continue
        if not rule["http"].get("paths"):
            causes.append(required(f"{path}.http.paths"))
        for number, each in enumerate(rule["http"].get("paths", ())):
            causes += _path_causes(each, f"{path}.http.paths[{number}]")
    if class_name := spec.get("ingressClassName"):
        causes += invalid_values("spec.ingressClassName", class_name, names.subdomain_problems(class_name))
    return causes


def _path_causes(rule: Obj, path: str) -> list[Cause]:
    kind, text = rule.get("pathType"), rule.get("path", "")
    if kind is None:
        return [required(f"{path}.pathType", "pathType must be specified")]
    causes = []
    if kind not in _PATH_TYPES:
        causes.append(not_supported(f"{path}.pathType", kind, _PATH_TYPES))
    elif not text.startswith("/") and (text or kind != "ImplementationSpecific"):
        causes.append(invalid_value(f"{path}.path", text, "must be an absolute path"))
    return [*causes, *_backend_causes(rule.get("backend", {}), f"{path}.backend")]


def _backend_causes(backend: Obj, path: str) -> list[Cause]:
    service = backend.get("service")
    if "resource" in backend:
        why = "cannot set both resource and service backends"
        return [invalid_value(path, "", why)] if service is not None else []
    if service is None:
        return [invalid_value(path, "", "resource or service backend is required")]
    causes = []
    if not service.get("name"):
        causes.append(required(f"{path}.service.name"))
    else:
        problems = names.label_1035_problems(service["name"])
        causes += invalid_values(f"{path}.service.name", service["name"], problems)
    port = service.get("port", {})
    if port.get("name") and port.get("number"):
        causes.append(invalid_value(path, "", "cannot set both port name & port number"))
    elif not port.get("name") and not port.get("number"):
        causes.append(required(path, "port name or number is required"))
    elif port.get("number") and not 1 <= port["number"] <= 65535:
        causes.append(invalid_value(f"{path}.service.port.number", port["number"], _BETWEEN))
    return causes


def validate_ingress_class(new: Obj, old: Obj | None) -> list[Cause]:
    controller = new.get("spec", {}).get("controller", "")
    causes = []
    if not controller:
        causes.append(required("spec.controller"))
    else:
        domain, slash, rest = controller.partition("/")
        if not slash or not rest or names.subdomain_problems(domain):
            why = 'must be a domain-prefixed path (such as "acme.io/foo")'
            causes.append(invalid_value("spec.controller", controller, why))
    if old is not None and controller != old.get("spec", {}).get("controller"):
        causes.append(invalid_value("spec.controller", controller, IMMUTABLE))
    return causes


def validate_network_policy(new: Obj, old: Obj | None) -> list[Cause]:
    spec = new.get("spec", {})
    causes = validate_label_selector(spec.get("podSelector"), "spec.podSelector")
    for kind in spec.get("policyTypes", ()):
        if kind not in ("Egress", "Ingress"):
            causes.append(not_supported("spec.policyTypes", kind, ("Egress", "Ingress")))
    for field, peers in (("ingress", "from"), ("egress", "to")):
        for index, rule in enumerate(spec.get(field, ())):
            path = f"spec.{field}[{index}]"
            for number, port in enumerate(rule.get("ports", ())):
                causes += _policy_port_causes(port, f"{path}.ports[{number}]")
            for number, peer in enumerate(rule.get(peers, ())):
                causes += _peer_causes(peer, f"{path}.{peers}[{number}]")
    return causes


def _policy_port_causes(port: Obj, path: str) -> list[Cause]:
    causes = []
    if port.get("protocol") not in _PROTOCOLS:
        causes.append(not_supported(f"{path}.protocol", port.get("protocol"), _PROTOCOLS))
    number = port.get("port")
    if isinstance(number, int) and not 1 <= number <= 65535:
        causes.append(invalid_value(f"{path}.port", number, _BETWEEN))
    return causes


def _peer_causes(peer: Obj, path: str) -> list[Cause]:
    if not any(field in peer for field in ("podSelector", "namespaceSelector", "ipBlock")):
        return [required(path, "must specify a peer")]
    if "ipBlock" in peer and len(peer) > 1:
        return [forbidden_field(path, "may not specify both ipBlock and another peer")]
    if "ipBlock" not in peer:
        return [
            cause
            for field in ("podSelector", "namespaceSelector")
            for cause in validate_label_selector(peer.get(field), f"{path}.{field}")
        ]
    cidr = peer["ipBlock"].get("cidr", "")
    if not cidr:
        return [required(f"{path}.ipBlock.cidr")]
    try:
        ipaddress.ip_network(cidr, strict=False)
    except ValueError:
        why = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)"
        return [invalid_value(f"{path}.ipBlock.cidr", cidr, why)]
    return []


def validate_endpoints(new: Obj, old: Obj | None) -> list[Cause]:
    causes = []
    for index, subset in enumerate(new.get("subsets", ())):
        path = f"subsets[{index}]"
        addresses = [*subset.get("addresses", ()), *subset.get("notReadyAddresses", ())]
        if not addresses:
            causes.append(required(path, "must specify `addresses` or `notReadyAddresses`"))
        for number, address in enumerate(addresses):
            causes += _address_causes(address.get("ip", ""), f"{path}.addresses[{number}].ip")
    return causes


def validate_endpoint_slice(new: Obj, old: Obj | None) -> list[Cause]:
    kind = new.get("addressType", "")
    causes = []
    if not kind:
        causes.append(required("addressType"))
    elif kind not in _ADDRESS_TYPES:
        causes.append(not_supported("addressType", kind, _ADDRESS_TYPES))
    for index, endpoint in enumerate(new.get("endpoints") or ()):
        path = f"endpoints[{index}].addresses"
        if not endpoint.get("addresses"):
            causes.append(required(path, "must contain at least 1 address"))
        if kind in ("IPv4", "IPv6"):
            for number, address in enumerate(endpoint.get("addresses") or ()):
                causes += _address_causes(address, f"{path}[{number}]")
    if old is not None and kind != old.get("addressType"):
        causes.append(invalid_value("addressType", kind, IMMUTABLE))
    return causes


def _address_causes(address: str, path: str) -> list[Cause]:
    try:
        ipaddress.ip_address(address)
    except ValueError:
        why = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"
        return [invalid_value(path, address, why)]
    return []
