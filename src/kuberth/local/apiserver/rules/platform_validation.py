"""Validation of secrets, quotas, limit ranges, cron jobs and pod templates.

In: objects, defaulted, and the stored one for an update. Out: causes, in upstream's words.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterable
from typing import Final

from kuberth.api.quantity import parse
from kuberth.local.apiserver.objects import Obj, name_of
from kuberth.local.apiserver.rules.metadata_validation import (
    duplicate,
    forbidden_field,
    invalid_value,
    invalid_values,
    required,
    too_long,
)
from kuberth.local.apiserver.rules.pod_validation import validate_quantity
from kuberth.local.apiserver.rules.workload_validation import (
    IMMUTABLE,
    config_key_causes,
    immutable_data_causes,
    validate_job_spec,
    validate_template,
)
from kuberth.local.apiserver.status_errors import Cause
from kuberth.local.cron import ScheduleError, parse_schedule, zone_of
from kuberth.text import names

_MAX_SECRET_BYTES: Final = 1024 * 1024
_SECRET_KEYS: Final = {
    "kubernetes.io/dockercfg": (".dockercfg",),
    "kubernetes.io/dockerconfigjson": (".dockerconfigjson",),
    "kubernetes.io/ssh-auth": ("ssh-privatekey",),
    "kubernetes.io/tls": ("tls.crt", "tls.key"),
}
_DOCKER: Final = ("kubernetes.io/dockercfg", "kubernetes.io/dockerconfigjson")
_BASIC_AUTH: Final = "kubernetes.io/basic-auth"
_BASIC_AUTH_KEYS: Final = ("username", "password")
_ACCOUNT_TOKEN: Final = "kubernetes.io/service-account-token"
_ACCOUNT_NAME: Final = "kubernetes.io/service-account.name"
_QUOTA_COUNTS: Final = (
    "configmaps",
    "persistentvolumeclaims",
    "pods",
    "replicationcontrollers",
    "resourcequotas",
    "secrets",
    "services",
    "services.loadbalancers",
    "services.nodeports",
)
_QUOTA_NAMES: Final = re.compile(
    r"(requests\.|limits\.)?(cpu|memory|ephemeral-storage)|requests\.storage|(requests\.)?hugepages-.+"
)
_SCOPES: Final = (
    "BestEffort",
    "CrossNamespacePodAffinity",
    "NotBestEffort",
    "NotTerminating",
    "PriorityClass",
    "Terminating",
    "VolumeAttributesClass",
)


def validate_secret(new: Obj, old: Obj | None) -> list[Cause]:
    data, kind = new.get("data", {}), new.get("type")
    causes = config_key_causes(data, "data")
    if sum(len(value) * 3 // 4 for value in data.values()) > _MAX_SECRET_BYTES:
        causes.append(too_long("data", _MAX_SECRET_BYTES))
    causes += [required(f"data[{key}]") for key in _SECRET_KEYS.get(kind or "", ()) if key not in data]
    if kind == _BASIC_AUTH and not any(key in data for key in _BASIC_AUTH_KEYS):
        causes += [required(f"data[{key}]") for key in _BASIC_AUTH_KEYS]
    if kind == _ACCOUNT_TOKEN and not new["metadata"].get("annotations", {}).get(_ACCOUNT_NAME):
        causes.append(required(f"metadata.annotations[{_ACCOUNT_NAME}]"))
    if kind in _DOCKER and (text := data.get(_SECRET_KEYS[kind][0])) is not None:
        causes += _json_causes(text, f"data[{_SECRET_KEYS[kind][0]}]")
    if old is not None:
        if kind != old.get("type"):
            causes.append(invalid_value("type", kind, IMMUTABLE))
        causes += immutable_data_causes(new, old, ("data", "immutable"))
    return causes


def _json_causes(encoded: str, path: str) -> list[Cause]:
    try:
        tree = json.loads(base64.b64decode(encoded))
    except (ValueError, RecursionError):
        tree = None
    if isinstance(tree, dict):
        return []
    return [invalid_value(path, "<secret contents redacted>", "it is no JSON object")]


def validate_quota(new: Obj, old: Obj | None) -> list[Cause]:
    spec = new.get("spec", {})
    causes = []
    for name, quantity in spec.get("hard", {}).items():
        path = f"spec.hard[{name}]"
        causes += invalid_values(path, name, names.qualified_name_problems(name))
        if "/" not in name and name not in _QUOTA_COUNTS and _QUOTA_NAMES.fullmatch(name) is None:
            causes.append(invalid_value(path, name, "must be a standard resource for quota"))
        integral = "pods" if name in _QUOTA_COUNTS or name.startswith("count/") else name
        causes += validate_quantity(integral, quantity, path)
    for scope in spec.get("scopes", ()):
        if scope not in _SCOPES:
            causes.append(invalid_value("spec.scopes", spec["scopes"], "unsupported scope"))
    for index, term in enumerate((spec.get("scopeSelector") or {}).get("matchExpressions", ())):
        path = f"spec.scopeSelector.matchExpressions[{index}]"
        if term.get("scopeName") not in _SCOPES:
            causes.append(invalid_value(f"{path}.scopeName", term.get("scopeName"), "unsupported scope"))
        if term.get("operator") not in ("In", "NotIn", "Exists", "DoesNotExist"):
            causes.append(
                invalid_value(f"{path}.operator", term.get("operator"), "not a valid selector operator")
            )
        elif (term["operator"] in ("In", "NotIn")) is not bool(term.get("values")):
            why = "must be set exactly when operator is In or NotIn"
            causes.append(invalid_value(f"{path}.values", term.get("values"), why))
    if old is not None:
        for field in ("scopes", "scopeSelector"):
            if spec.get(field) != old.get("spec", {}).get(field):
                causes.append(invalid_value(f"spec.{field}", spec.get(field), IMMUTABLE))
    return causes


def validate_limit_range(new: Obj, old: Obj | None) -> list[Cause]:
    causes: list[Cause] = []
    seen = set()
    for index, limit in enumerate(new.get("spec", {}).get("limits", ())):
        path, kind = f"spec.limits[{index}]", limit.get("type", "")
        causes += invalid_values(f"{path}.type", kind, names.qualified_name_problems(kind))
        if kind in seen:
            causes.append(duplicate(f"{path}.type", kind))
        seen.add(kind)
        if kind == "Pod":
            causes += [
                forbidden_field(f"{path}.{field}", "may not be specified when `type` is 'Pod'")
                for field in ("default", "defaultRequest")
                if limit.get(field)
            ]
        if kind == "PersistentVolumeClaim" and not any(
            "storage" in limit.get(field, {}) for field in ("min", "max")
        ):
            why = "either minimum or maximum storage value is required, but neither was provided"
            causes.append(required(f"{path}.limits", why))
        causes += _limit_order_causes(limit, path)
        for name, ratio in limit.get("maxLimitRequestRatio", {}).items():
            if parse(ratio) < parse("1"):
                where = f"{path}.maxLimitRequestRatio[{name}]"
                causes.append(invalid_value(where, ratio, f"ratio {ratio} is less than 1"))
    return causes


def _limit_order_causes(limit: Obj, path: str) -> Iterable[Cause]:
    """Causes unless min <= defaultRequest <= default <= max."""
    words = {
        "min": "min value",
        "max": "max value",
        "default": "default value",
        "defaultRequest": "default request value",
    }
    for low, high, field in (
        ("min", "max", "min"),
        ("min", "defaultRequest", "defaultRequest"),
        ("defaultRequest", "max", "defaultRequest"),
        ("defaultRequest", "default", "defaultRequest"),
        ("min", "default", "default"),
        ("default", "max", "default"),
    ):
        for name, least in limit.get(low, {}).items():
            most = limit.get(high, {}).get(name)
            if most is not None and parse(most) < parse(least):
                high_words = (
                    "default limit value"
                    if low == "defaultRequest" == field and high == "default"
                    else words[high]
                )
                why = f"{words[low]} {least} is greater than {high_words} {most}"
                yield invalid_value(f"{path}.{field}[{name}]", least if field == low else most, why)


def validate_cron_job(new: Obj, old: Obj | None) -> list[Cause]:
    spec = new.get("spec", {})
    schedule, zone = spec.get("schedule", ""), spec.get("timeZone")
    causes = []
    if len(name_of(new)) > 52 and old is None:
        causes.append(invalid_value("metadata.name", name_of(new), "must be no more than 52 characters"))
    if not schedule:
        causes.append(required("spec.schedule"))
    elif "TZ" in schedule:
        why = "cannot use TZ or CRON_TZ in schedule, use timeZone field instead"
        causes.append(invalid_value("spec.schedule", schedule, why))
    else:
        try:
            parse_schedule(schedule)
        except ScheduleError as error:
            causes.append(invalid_value("spec.schedule", schedule, str(error)))
    if zone is not None:
        try:
            if not zone:
                raise ScheduleError("timeZone must be nil or non-empty string")
            zone_of(zone)
        except ScheduleError as error:
            causes.append(invalid_value("spec.timeZone", zone, str(error)))
    return [*causes, *validate_job_spec(spec.get("jobTemplate", {}).get("spec", {}), "spec.jobTemplate.spec")]


def validate_pod_template(new: Obj, old: Obj | None) -> list[Cause]:
    return validate_template(new, "")
