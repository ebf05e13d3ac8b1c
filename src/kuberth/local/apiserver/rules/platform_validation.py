"""What is wrong with objects of the kinds around the workloads.

In: objects, defaulted, and the stored one for an update. Out: causes, in upstream's words. What is checked
is what somebody who applies a manifest would notice: the required, the mistyped, the contradictory.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterable
from typing import Any, Final

from kuberth.api.quantity import parse
from kuberth.local.apiserver.objects import Obj, name_of
from kuberth.local.apiserver.rules import names
from kuberth.local.apiserver.rules.metadata_validation import (
    duplicate,
    forbidden_field,
    invalid_value,
    invalid_values,
    not_supported,
    required,
)
from kuberth.local.apiserver.rules.pod_validation import validate_quantity
from kuberth.local.apiserver.rules.scheduling_validation import validate_tolerations
from kuberth.local.apiserver.rules.workload_validation import (
    IMMUTABLE,
    NEGATIVE,
    config_key_causes,
    immutable_data_causes,
    validate_job_spec,
    validate_template,
)
from kuberth.local.apiserver.status_errors import Cause
from kuberth.local.cron import ScheduleError, parse_schedule, zone_of

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
        message = f"Too long: may not be more than {_MAX_SECRET_BYTES} bytes"
        causes.append(Cause("data", message, "FieldValueTooLong"))
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


def validate_role(new: Obj, old: Obj | None) -> list[Cause]:
    causes = []
    in_namespace = new.get("kind") == "Role"
    for index, rule in enumerate(new.get("rules") or ()):
        path = f"rules[{index}]"
        if not rule.get("verbs"):
            causes.append(required(f"{path}.verbs", "verbs must contain at least one value"))
        if rule.get("nonResourceURLs"):
            if in_namespace:
                why = "namespaced rules cannot apply to non-resource URLs"
                causes.append(invalid_value(f"{path}.nonResourceURLs", rule["nonResourceURLs"], why))
            if rule.get("apiGroups") or rule.get("resources") or rule.get("resourceNames"):
                why = "rules cannot apply to both regular resources and non-resource URLs"
                causes.append(invalid_value(f"{path}.nonResourceURLs", rule["nonResourceURLs"], why))
            continue
        if not rule.get("apiGroups"):
            causes.append(required(f"{path}.apiGroups", "resource rules must supply at least one api group"))
        if not rule.get("resources"):
            causes.append(required(f"{path}.resources", "resource rules must supply at least one resource"))
    return causes


def validate_role_binding(new: Obj, old: Obj | None) -> list[Cause]:
    reference = new.get("roleRef", {})
    causes = []
    group = "rbac.authorization.k8s.io"
    if reference.get("apiGroup") != group:
        causes.append(not_supported("roleRef.apiGroup", reference.get("apiGroup", ""), (group,)))
    kinds = ("Role", "ClusterRole") if new.get("kind") == "RoleBinding" else ("ClusterRole",)
    if reference.get("kind") not in kinds:
        causes.append(not_supported("roleRef.kind", reference.get("kind", ""), kinds))
    if not reference.get("name"):
        causes.append(required("roleRef.name"))
    for index, subject in enumerate(new.get("subjects", ())):
        path = f"subjects[{index}]"
        kind = subject.get("kind", "")
        if not subject.get("name"):
            causes.append(required(f"{path}.name"))
        if kind not in ("ServiceAccount", "User", "Group"):
            causes.append(not_supported(f"{path}.kind", kind, ("ServiceAccount", "User", "Group")))
        elif kind == "ServiceAccount":
            if subject.get("apiGroup"):
                causes.append(not_supported(f"{path}.apiGroup", subject["apiGroup"], ("",)))
            if not subject.get("namespace"):
                causes.append(required(f"{path}.namespace"))
        elif subject.get("apiGroup") != group:
            causes.append(not_supported(f"{path}.apiGroup", subject.get("apiGroup", ""), (group,)))
    if old is not None and reference != old.get("roleRef"):
        causes.append(invalid_value("roleRef", reference, "cannot change roleRef"))
    return causes


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
    """Least, default request, default and most must stand in this order."""
    words = {
        "min": "min value",
        "max": "max value",
        "default": "default value",
        "defaultRequest": "default request value",
    }
    for low, high, told in (
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
                told_high = (
                    "default limit value"
                    if low == "defaultRequest" == told and high == "default"
                    else words[high]
                )
                why = f"{words[low]} {least} is greater than {told_high} {most}"
                yield invalid_value(f"{path}.{told}[{name}]", least if told == low else most, why)


def validate_runtime_class(new: Obj, old: Obj | None) -> list[Cause]:
    handler = new.get("handler", "")
    causes = invalid_values("handler", handler, names.label_problems(handler))
    for name, quantity in (new.get("overhead") or {}).get("podFixed", {}).items():
        causes += validate_quantity(name, quantity, f"overhead.podFixed[{name}]")
    scheduling = new.get("scheduling") or {}
    causes += validate_tolerations(scheduling.get("tolerations", ()), "scheduling.tolerations")
    if old is not None and handler != old.get("handler"):
        causes.append(invalid_value("handler", handler, IMMUTABLE))
    return causes


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
    policy = spec.get("concurrencyPolicy")
    if policy not in ("Allow", "Forbid", "Replace"):
        causes.append(not_supported("spec.concurrencyPolicy", policy, ("Allow", "Forbid", "Replace")))
    causes += [
        invalid_value(f"spec.{field}", spec[field], NEGATIVE)
        for field in ("startingDeadlineSeconds", "successfulJobsHistoryLimit", "failedJobsHistoryLimit")
        if spec.get(field, 0) < 0
    ]
    return [*causes, *validate_job_spec(spec.get("jobTemplate", {}).get("spec", {}), "spec.jobTemplate.spec")]


def validate_pod_template(new: Obj, old: Obj | None) -> list[Cause]:
    return validate_template(new, "")


def validate_controller_revision(new: Obj, old: Obj | None) -> list[Cause]:
    causes = []
    if new.get("revision", 0) < 0:
        causes.append(invalid_value("revision", new["revision"], NEGATIVE))
    if new.get("data") is None:
        causes.append(required("data", "data is mandatory"))
    if old is not None and new.get("data") != old.get("data"):
        causes.append(invalid_value("data", None, IMMUTABLE))
    return causes


def validate_autoscaler(new: Obj, old: Obj | None) -> list[Cause]:
    spec = new.get("spec", {})
    least, most = spec.get("minReplicas", 1), spec.get("maxReplicas", 0)
    causes = []
    if least < 1:
        causes.append(invalid_value("spec.minReplicas", least, "must be greater than or equal to 1"))
    if most == 0:
        causes.append(required("spec.maxReplicas", "must be set and greater than 0"))
    elif most < 0:
        causes.append(invalid_value("spec.maxReplicas", most, "must be greater than or equal to 1"))
    if most < least:
        why = "must be greater than or equal to `minReplicas`"
        causes.append(invalid_value("spec.maxReplicas", most, why))
    target = spec.get("scaleTargetRef", {})
    causes += [
        required(f"spec.scaleTargetRef.{field}") for field in ("kind", "name") if not target.get(field)
    ]
    kinds = ("ContainerResource", "External", "Object", "Pods", "Resource")
    for index, metric in enumerate(spec.get("metrics", ())):
        path, kind = f"spec.metrics[{index}]", metric.get("type", "")
        field = kind[:1].lower() + kind[1:]
        if not kind:
            causes.append(required(f"{path}.type", "must specify a metric source type"))
        elif kind not in kinds:
            causes.append(not_supported(f"{path}.type", kind, kinds))
        elif not isinstance(metric.get(field), dict):
            why = f"must populate information for the given metric source (only allowed when type is {kind})"
            causes.append(required(f"{path}.{field}", why))
    return causes


def validate_flow_schema(new: Obj, old: Obj | None) -> list[Cause]:
    spec = new.get("spec", {})
    precedence = spec.get("matchingPrecedence", 0)
    causes = []
    if not 1 <= precedence <= 10000:
        why = "must be a value between 1 and 10000, inclusive"
        causes.append(invalid_value("spec.matchingPrecedence", precedence, why))
    if not spec.get("priorityLevelConfiguration", {}).get("name"):
        causes.append(required("spec.priorityLevelConfiguration.name", "must reference a priority level"))
    return causes


def validate_priority_level(new: Obj, old: Obj | None) -> list[Cause]:
    spec = new.get("spec", {})
    kind = spec.get("type", "")
    if kind not in ("Exempt", "Limited"):
        return [not_supported("spec.type", kind, ("Exempt", "Limited"))]
    if kind == "Limited" and "limited" not in spec:
        return [required("spec.limited", "must not be empty when type is Limited")]
    return []


def validate_webhooks(new: Obj, old: Obj | None) -> list[Cause]:
    causes: list[Cause] = []
    seen: set[Any] = set()
    for index, webhook in enumerate(new.get("webhooks", ())):
        path, name = f"webhooks[{index}]", webhook.get("name", "")
        if name.count(".") < 2 or names.subdomain_problems(name):
            why = "should be a domain with at least three segments separated by dots"
            causes.append(invalid_value(f"{path}.name", name, why))
        if name in seen:
            causes.append(duplicate(f"{path}.name", name))
        seen.add(name)
        if not webhook.get("admissionReviewVersions"):
            why = "must specify one of v1, v1beta1"
            causes.append(required(f"{path}.admissionReviewVersions", why))
        if webhook.get("sideEffects") not in ("None", "NoneOnDryRun"):
            effects = ("None", "NoneOnDryRun")
            causes.append(not_supported(f"{path}.sideEffects", webhook.get("sideEffects", ""), effects))
        config = webhook.get("clientConfig", {})
        if ("url" in config) is ("service" in config):
            causes.append(required(f"{path}.clientConfig", "exactly one of url or service is required"))
    return causes


def validate_api_service(new: Obj, old: Obj | None) -> list[Cause]:
    spec, name = new.get("spec", {}), name_of(new)
    group, version, service = spec.get("group", ""), spec.get("version", ""), spec.get("service")
    causes = []
    if name != f"{version}.{group}":
        why = f'must be `spec.version+"."+spec.group`: "{version}.{group}"'
        causes.append(invalid_value("metadata.name", name, why))
    if group:
        causes += invalid_values("spec.group", group, names.subdomain_problems(group))
    elif version != "v1":
        why = "only v1 may have an empty group and it better be legacy kube"
        causes.append(required("spec.group", why))
    causes += invalid_values("spec.version", version, names.label_1035_problems(version))
    for field, most in (("groupPriorityMinimum", 20_000), ("versionPriority", 1000)):
        if not 0 < spec.get(field, 0) <= most:
            why = f"must be positive and less than {most}"
            causes.append(invalid_value(f"spec.{field}", spec.get(field, 0), why))
    bundle, is_insecure = spec.get("caBundle", ""), spec.get("insecureSkipTLSVerify", False)
    if service is None:
        if bundle:
            told = f"{len(base64.b64decode(bundle))} bytes"
            causes.append(invalid_value("spec.caBundle", told, "local APIServices may not have a caBundle"))
        if is_insecure:
            why = "local APIServices may not have insecureSkipTLSVerify"
            causes.append(invalid_value("spec.insecureSkipTLSVerify", True, why))
        return causes
    causes += [
        required(f"spec.service.{field}", "") for field in ("namespace", "name") if not service.get(field)
    ]
    if not 1 <= service.get("port", 0) <= 65535:
        why = "port is not valid: must be between 1 and 65535, inclusive"
        causes.append(invalid_value("spec.service.port", service.get("port", 0), why))
    if is_insecure and bundle:
        why = "may not be true if caBundle is present"
        causes.append(invalid_value("spec.insecureSkipTLSVerify", True, why))
    return causes
