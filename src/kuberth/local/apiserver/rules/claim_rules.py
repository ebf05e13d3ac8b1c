"""Rules of ResourceClaims, their templates and DeviceClasses.

In: objects, and the one before for an update. Out: requests completed, causes in upstream's words. The
spec of a claim and its allocation are immutable; its users change.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import msgspec

from kuberth.cel import CelCompileError, compile_selector
from kuberth.local.apiserver.objects import Obj, name_of, namespace_of
from kuberth.local.apiserver.refusals import invalid
from kuberth.local.apiserver.resources import ServedResource
from kuberth.local.apiserver.rules import device_names as rule
from kuberth.local.apiserver.rules import names
from kuberth.local.apiserver.rules.metadata_validation import (
    forbidden_field,
    invalid_value,
    invalid_values,
    not_supported,
    required,
    validate_labels,
)
from kuberth.local.apiserver.rules.scheduling_validation import validate_node_selector
from kuberth.local.apiserver.rules.write_context import WriteContext
from kuberth.local.apiserver.status_errors import Cause

_ADMIN_LABEL: Final = "resource.kubernetes.io/admin-access"
_MODES: Final = ("All", "ExactCount")
_MOST_REQUESTS: Final = 32
_MOST_ALTERNATIVES: Final = 8
_MOST: Final = 32
"""Selectors, constraints, configurations, results."""
_MOST_RESERVED: Final = 256
_LONGEST_EXPRESSION: Final = 10 * 1024
_LARGEST_PARAMETERS: Final = 10 * 1024
_IMMUTABLE: Final = "field is immutable"
_NO_REQUEST: Final = (
    "must be the name of a request in the claim or the name of a request and a subrequest separated by '/'"
)
_CLAIM: Final = ServedResource("resource.k8s.io", "v1", "ResourceClaim", "resourceclaims")
_TEMPLATE: Final = ServedResource("resource.k8s.io", "v1", "ResourceClaimTemplate", "resourceclaimtemplates")


# Defaults and admission


def default_claim(claim: Obj) -> None:
    _default_spec(claim.setdefault("spec", {}))


def default_template(template: Obj) -> None:
    _default_spec(template.setdefault("spec", {}).setdefault("spec", {}))


def _default_spec(spec: Obj) -> None:
    for request in spec.setdefault("devices", {}).get("requests") or ():
        exactly = request.get("exactly")
        for wish in (*(request.get("firstAvailable") or ()), *(() if exactly is None else (exactly,))):
            wish["allocationMode"] = wish.get("allocationMode") or "ExactCount"
            if wish["allocationMode"] == "ExactCount" and not wish.get("count"):
                wish["count"] = 1
            for toleration in wish.get("tolerations") or ():
                toleration["operator"] = toleration.get("operator") or "Equal"


def prepare_claim(new: Obj, old: Obj | None, context: WriteContext) -> None:
    if old is None:
        new["status"] = {}
        _expect_admin(_CLAIM, new, new["spec"], context)


def prepare_template(new: Obj, old: Obj | None, context: WriteContext) -> None:
    if old is None:
        _expect_admin(_TEMPLATE, new, new["spec"]["spec"], context)


def _expect_admin(row: ServedResource, obj: Obj, spec: Obj, context: WriteContext) -> None:
    """Refuse admin access outside of namespaces that are labelled for it."""
    for index, request in enumerate(spec.get("devices", {}).get("requests") or ()):
        if (request.get("exactly") or {}).get("adminAccess"):
            namespace = context.store.latest("namespaces", namespace_of(obj)) or {"metadata": {}}
            if (namespace["metadata"].get("labels") or {}).get(_ADMIN_LABEL) != "true":
                why = (
                    f"admin access to devices requires the `{_ADMIN_LABEL}: true` label "
                    "on the containing namespace"
                )
                cause = forbidden_field(f"spec.devices.requests[{index}].adminAccess", why)
                raise invalid(row, name_of(obj), [cause])
            return


def prepare_claim_status(new: Obj, old: Obj, _context: WriteContext) -> None:
    """Drop the drivers' status of devices that are no longer allocated."""
    reported = new["status"].get("devices")
    if not reported:
        new["status"].pop("devices", None)
        return
    gone = set(_allocated(old)) - set(_allocated(new))
    kept = [device for device in reported if _device_id(device) not in gone]
    if kept:
        new["status"]["devices"] = kept
    else:
        del new["status"]["devices"]


# Validation


def validate_claim(new: Obj, old: Obj | None) -> list[Cause]:
    if old is not None:
        return _unchanged(new.get("spec"), old.get("spec"), "spec")
    return _spec_causes(new.get("spec", {}), "spec")


def validate_template(new: Obj, old: Obj | None) -> list[Cause]:
    if old is not None:
        return _unchanged(new.get("spec"), old.get("spec"), "spec")
    spec = new.get("spec", {})
    causes = validate_labels((spec.get("metadata") or {}).get("labels"), "spec.metadata.labels")
    for key in (spec.get("metadata") or {}).get("annotations") or ():
        problems = names.qualified_name_problems(key.lower())
        causes += invalid_values("spec.metadata.annotations", key, problems)
    return causes + _spec_causes(spec.get("spec", {}), "spec.spec")


def validate_class(new: Obj, old: Obj | None) -> list[Cause]:
    spec = new.get("spec", {})
    causes = rule.each(spec.get("selectors"), "spec.selectors", _selector_causes, most=_MOST)
    causes += rule.each(spec.get("config"), "spec.config", _opaque_causes, most=_MOST)
    name = spec.get("extendedResourceName")
    if name is not None and not is_extended_resource(name):
        why = "must be a valid extended resource name"
        causes.append(invalid_value("spec.extendedResourceName", name, why))
    return causes


def is_extended_resource(name: str) -> bool:
    native = "/" not in name or "kubernetes.io/" in name
    if native or name.startswith("requests."):
        return False
    return not names.qualified_name_problems(f"requests.{name}")


def validate_claim_status(new: Obj, old: Obj | None) -> list[Cause]:
    before: Obj = (old or {}).get("status") or {}
    status, requests = new.get("status") or {}, _request_names(new.get("spec", {}).get("devices") or {})
    reserved, allocation = status.get("reservedFor") or [], status.get("allocation")
    path = "status.reservedFor"
    causes = rule.each(
        reserved, path, _user_causes, most=_MOST_RESERVED, key=lambda user: user.get("uid", "")
    )
    allocated = set(_allocated(new))

    def device_causes(device: Obj, where: str) -> list[Cause]:
        causes = rule.driver_causes(device.get("driver", ""), f"{where}.driver")
        causes += rule.pool_name_causes(device.get("pool", ""), f"{where}.pool")
        causes += rule.label_causes(device.get("device", ""), f"{where}.device")
        if _device_id(device) not in allocated:
            shown = {field: device.get(field, "") for field in ("driver", "pool", "device")}
            causes.append(invalid_value(where, shown, "must be an allocated device in the claim"))
        return causes

    causes += rule.each(status.get("devices"), "status.devices", device_causes, key=_device_id)
    if reserved and allocation is None:
        causes.append(forbidden_field(path, "may not be specified when `allocated` is not set"))
    elif "deletionTimestamp" in new["metadata"]:
        known = before.get("reservedFor") or ()
        if any(user not in known for user in reserved):
            why = "new entries may not be added while `deallocationRequested` or `deletionTimestamp` are set"
            causes.append(forbidden_field(path, why))
    if allocation is not None:
        if before.get("allocation") is not None:
            causes += _unchanged(allocation, before["allocation"], "status.allocation")
        else:
            causes += _allocation_causes(allocation, requests)
    return causes


def _unchanged(new: Any, old: Any, path: str) -> list[Cause]:
    return [] if new == old else [invalid_value(path, new, _IMMUTABLE)]


def _spec_causes(spec: Obj, path: str) -> list[Cause]:
    devices = spec.get("devices") or {}
    known, path = _request_names(devices), f"{path}.devices"

    def names_request(name: str, where: str) -> list[Cause]:
        return _reference_causes(name, where, known)

    def constraint_causes(constraint: Obj, where: str) -> list[Cause]:
        causes = _chosen_causes(constraint, where)
        for field in ("matchAttribute", "distinctAttribute"):
            if constraint.get(field) is not None:
                return causes + rule.fully_qualified_causes(constraint[field], f"{where}.{field}")
        why = (
            'exactly one of "matchAttribute" or "distinctAttribute" is required, but multiple fields are set'
        )
        return [*causes, required(where, why)]

    def config_causes(config: Obj, where: str) -> list[Cause]:
        return _chosen_causes(config, where) + _opaque_causes(config, where)

    def _chosen_causes(entry: Obj, where: str) -> list[Cause]:
        requests = entry.get("requests")
        return rule.each(requests, f"{where}.requests", names_request, most=_MOST_REQUESTS, key=str)

    causes = rule.each(
        devices.get("requests"), f"{path}.requests", _request_causes, most=_MOST_REQUESTS, key=_name
    )
    causes += rule.each(devices.get("constraints"), f"{path}.constraints", constraint_causes, most=_MOST)
    return causes + rule.each(devices.get("config"), f"{path}.config", config_causes, most=_MOST)


def _request_causes(request: Obj, path: str) -> list[Cause]:
    causes = rule.label_causes(_name(request), f"{path}.name")
    exactly, alternatives = request.get("exactly"), request.get("firstAvailable") or ()
    one = "exactly one of `exactly` or `firstAvailable` is required"
    if exactly is not None and alternatives:
        causes.append(invalid_value(path, None, f"{one}, but multiple fields are set"))
    elif exactly is not None:
        causes += _wish_causes(exactly, f"{path}.exactly")
    elif alternatives:
        where = f"{path}.firstAvailable"
        causes += rule.each(alternatives, where, _alternative_causes, most=_MOST_ALTERNATIVES, key=_name)
    else:
        causes.append(required(path, one))
    return causes


def _alternative_causes(wish: Obj, path: str) -> list[Cause]:
    return rule.label_causes(_name(wish), f"{path}.name") + _wish_causes(wish, path)


def _wish_causes(wish: Obj, path: str) -> list[Cause]:
    where, name = f"{path}.deviceClassName", wish.get("deviceClassName", "")
    causes = invalid_values(where, name, names.subdomain_problems(name)) if name else [required(where)]
    causes += rule.each(wish.get("selectors"), f"{path}.selectors", _selector_causes, most=_MOST)
    mode, count = wish.get("allocationMode"), wish.get("count", 0)
    if mode not in _MODES:
        causes.append(not_supported(f"{path}.allocationMode", mode, _MODES))
    elif mode == "All" and count:
        why = "must not be specified when allocationMode is 'All'"
        causes.append(invalid_value(f"{path}.count", count, why))
    elif mode == "ExactCount" and count <= 0:
        causes.append(invalid_value(f"{path}.count", count, "must be greater than zero"))
    return causes + rule.each(wish.get("tolerations"), f"{path}.tolerations", _toleration_causes)


def _toleration_causes(toleration: Obj, path: str) -> list[Cause]:
    key, operator, value = (toleration.get(field, "") for field in ("key", "operator", "value"))
    causes = rule.label_name_causes(key, f"{path}.key") if key else []
    if operator == "Exists":
        if value:
            causes.append(invalid_value(f"{path}.value", value, "must be empty for operator `Exists`"))
    elif operator == "Equal":
        causes += rule.label_value_causes(value, f"{path}.value")
    else:
        causes.append(not_supported(f"{path}.operator", operator, ("Equal", "Exists")))
    if effect := toleration.get("effect"):
        causes += rule.effect_causes(effect, f"{path}.effect")
    return causes


def _selector_causes(selector: Obj, path: str) -> list[Cause]:
    cel = selector.get("cel")
    if cel is None:
        return [required(f"{path}.cel")]
    where, expression = f"{path}.cel.expression", cel.get("expression", "")
    if len(expression.encode()) > _LONGEST_EXPRESSION:
        return [rule.too_long(where, _LONGEST_EXPRESSION)]
    try:
        compile_selector(expression)
    except CelCompileError as error:
        return [invalid_value(where, expression, str(error))]
    return []


def _opaque_causes(config: Obj, path: str) -> list[Cause]:
    """Parameters for a driver, which only it can read."""
    opaque = config.get("opaque")
    if opaque is None:
        return [required(f"{path}.opaque")]
    causes = rule.driver_causes(opaque.get("driver", ""), f"{path}.opaque.driver")
    where, parameters = f"{path}.opaque.parameters", opaque.get("parameters")
    if parameters is None:
        causes.append(required(where))
    elif len(msgspec.json.encode(parameters)) > _LARGEST_PARAMETERS:
        causes.append(rule.too_long(where, _LARGEST_PARAMETERS))
    elif not isinstance(parameters, dict):
        causes.append(invalid_value(where, "<value omitted>", "must be a valid JSON object"))
    return causes


def _reference_causes(name: str, path: str, known: dict[str, set[str]]) -> list[Cause]:
    """The name of a request, or of a request and one of its alternatives."""
    request, *rest = name.split("/")
    if len(rest) > 1:
        return [invalid_value(path, name, _NO_REQUEST)]
    causes = [cause for part in (request, *rest) for cause in rule.label_causes(part, path)]
    if request not in known or any(part not in known[request] for part in rest):
        causes.append(invalid_value(path, name, _NO_REQUEST))
    return causes


def _user_causes(user: Obj, path: str) -> list[Cause]:
    return [required(f"{path}.{field}") for field in ("resource", "name", "uid") if not user.get(field)]


def _allocation_causes(allocation: Obj, known: dict[str, set[str]]) -> list[Cause]:
    path, devices = "status.allocation", allocation.get("devices") or {}

    def result_causes(result: Obj, where: str) -> list[Cause]:
        causes = _reference_causes(result.get("request", ""), f"{where}.request", known)
        causes += rule.driver_causes(result.get("driver", ""), f"{where}.driver")
        causes += rule.pool_name_causes(result.get("pool", ""), f"{where}.pool")
        causes += rule.label_causes(result.get("device", ""), f"{where}.device")
        return causes + rule.binding_causes(result, where)

    def config_causes(config: Obj, where: str) -> list[Cause]:
        source, sources = config.get("source", ""), ("FromClaim", "FromClass")
        at = f"{where}.source"
        causes = [] if source in sources else [not_supported(at, source, sources) if source else required(at)]
        return causes + _opaque_causes(config, where)

    causes = rule.each(devices.get("results"), f"{path}.devices.results", result_causes, most=_MOST)
    causes += rule.each(devices.get("config"), f"{path}.devices.config", config_causes, most=2 * _MOST)
    if "nodeSelector" in allocation:
        causes += validate_node_selector(allocation["nodeSelector"], f"{path}.nodeSelector")
    return causes


def _request_names(devices: Obj) -> dict[str, set[str]]:
    """The requests of a claim, each with its alternatives."""
    return {
        _name(request): {_name(wish) for wish in request.get("firstAvailable") or ()}
        for request in devices.get("requests") or ()
    }


def _allocated(claim: Obj) -> Iterator[tuple[str, ...]]:
    allocation = (claim.get("status") or {}).get("allocation") or {}
    return map(_device_id, (allocation.get("devices") or {}).get("results") or ())


def _device_id(device: Obj) -> tuple[str, ...]:
    return tuple(device.get(field) or "" for field in ("driver", "pool", "device", "shareID"))


def _name(entry: Obj) -> str:
    return str(entry.get("name", ""))
