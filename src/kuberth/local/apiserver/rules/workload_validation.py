"""Validation of kinds other than pods. In: objects. Out: causes, in upstream's words."""

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
    not_supported,
    required,
    too_long,
    validate_labels,
)
from kuberth.local.apiserver.rules.pod_validation import validate_pod_spec, validate_quantity
from kuberth.local.apiserver.rules.scheduling_validation import validate_taints
from kuberth.local.apiserver.status_errors import Cause
from kuberth.local.cron import ScheduleError, parse_schedule, zone_of
from kuberth.text import names

IMMUTABLE: Final = "field is immutable"
_CONFIG_KEY: Final = re.compile(r"[-._a-zA-Z0-9]+")
_CONFIG_KEY_RULE: Final = (
    "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or "
    "'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')"
)


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


def validate_node(new: Obj, old: Obj | None) -> list[Cause]:
    spec, status = new.get("spec", {}), new.get("status", {})
    # Upstream names the taints below metadata.
    causes = validate_taints(spec.get("taints", ()), "metadata.taints")
    for field in ("capacity", "allocatable"):
        for name, quantity in status.get(field, {}).items():
            causes += validate_quantity(name, quantity, f"status.{field}[{name}]")
    if old is not None:
        for field in ("podCIDRs", "providerID"):
            present = old.get("spec", {}).get(field)
            if present and spec.get(field) != present:
                named = "podCIDR" if field == "podCIDRs" else field
                why = f'node updates may not change {named} except from "" to valid'
                causes.append(forbidden_field(f"spec.{field}", why))
    return causes


def validate_selected_template(new: Obj, old: Obj | None) -> list[Cause]:
    """Deployments, replica sets and stateful sets: replicas, a selector, and a template it selects."""
    spec = new.get("spec", {})
    causes: list[Cause] = []
    selector = spec.get("selector")
    if selector is None:
        causes.append(required("spec.selector"))
    else:
        if not selector.get("matchLabels") and not selector.get("matchExpressions"):
            why = f"empty selector is invalid for {new.get('kind', '').lower()}"
            causes.append(invalid_value("spec.selector", selector, why))
    labels = spec.get("template", {}).get("metadata", {}).get("labels", {})
    wanted = (selector or {}).get("matchLabels", {})
    if selector is None or any(labels.get(key) != value for key, value in wanted.items()):
        why = "`selector` does not match template `labels`"
        causes.append(invalid_value("spec.template.metadata.labels", labels or None, why))
    causes += validate_template(spec, "spec")
    if old is not None and selector != old.get("spec", {}).get("selector"):
        causes.append(invalid_value("spec.selector", selector, IMMUTABLE))
    return [*causes, *_only_restart_always(spec)]


def validate_replication_controller(new: Obj, old: Obj | None) -> list[Cause]:
    spec = new.get("spec", {})
    causes = [] if spec.get("selector") else [required("spec.selector")]
    causes += validate_labels(spec.get("selector"), "spec.selector")
    return [*causes, *validate_template(spec, "spec"), *_only_restart_always(spec)]


def validate_job_spec(spec: Obj, path: str) -> list[Cause]:
    """Check the spec of a job, or of a cron job's template of jobs."""
    causes = validate_template(spec, path)
    policy = spec.get("template", {}).get("spec", {}).get("restartPolicy")
    if policy == "Always":
        causes.append(required(f"{path}.template.spec.restartPolicy", 'valid values: "OnFailure", "Never"'))
    return causes


def validate_job(new: Obj, old: Obj | None) -> list[Cause]:
    spec = new.get("spec", {})
    causes = validate_job_spec(spec, "spec")
    mode = spec.get("completionMode")
    if mode not in ("Indexed", "NonIndexed"):
        causes.append(not_supported("spec.completionMode", mode, ("Indexed", "NonIndexed")))
    elif mode == "Indexed" and "completions" not in spec:
        causes.append(required("spec.completions", "when completion mode is Indexed"))
    if old is not None:
        present = old.get("spec", {})
        for field in ("selector", "completionMode", "completions"):
            if spec.get(field) != present.get(field) and not (field == "completions" and mode == "Indexed"):
                causes.append(invalid_value(f"spec.{field}", spec.get(field), IMMUTABLE))
        if spec.get("template") != present.get("template") and not present.get("suspend"):
            causes.append(invalid_value("spec.template", {}, IMMUTABLE))
    return causes


def validate_claim(new: Obj, old: Obj | None) -> list[Cause]:
    spec = new.get("spec", {})
    causes: list[Cause] = []
    if old is not None:
        present = old.get("spec", {})
        # A claim is bound once, may grow, and may be given a class while it has none.
        free = {"resources", "volumeAttributesClassName"}
        free |= {field for field in ("volumeName", "storageClassName") if field not in present}
        fixed = {name: value for name, value in spec.items() if name not in free}
        if fixed != {name: value for name, value in present.items() if name not in free}:
            why = "spec is immutable after creation except resources.requests and volumeAttributesClassName "
            causes.append(forbidden_field("spec", why + "for bound claims"))
        fresh = spec.get("resources", {}).get("requests", {}).get("storage")
        was = present.get("resources", {}).get("requests", {}).get("storage")
        if fresh and was and parse(fresh) < parse(was):
            why = "field can not be less than status.capacity"
            causes.append(forbidden_field("spec.resources.requests.storage", why))
    return causes


def validate_service(new: Obj, old: Obj | None) -> list[Cause]:
    spec = new.get("spec", {})
    ports = spec.get("ports", ())
    if not ports and spec.get("type") != "ExternalName" and spec.get("clusterIP") != "None":
        return [required("spec.ports")]
    return [
        required(f"spec.ports[{index}].name")
        for index, port in enumerate(ports)
        if len(ports) > 1 and not port.get("name")
    ]


def validate_config_map(new: Obj, old: Obj | None) -> list[Cause]:
    fields = ("data", "binaryData")
    causes = [cause for field in fields for cause in config_key_causes(new.get(field, {}), field)]
    return causes if old is None else [*causes, *immutable_data_causes(new, old, (*fields, "immutable"))]


def config_key_causes(data: Iterable[str], path: str) -> list[Cause]:
    """Keys of config maps and secrets are names of files."""
    return [
        invalid_value(f"{path}[{key}]", key, _CONFIG_KEY_RULE)
        for key in data
        if len(key) > 253 or _CONFIG_KEY.fullmatch(key) is None
    ]


def immutable_data_causes(new: Obj, old: Obj, fields: Iterable[str]) -> list[Cause]:
    """Refuse changes of a config map or secret that was made immutable."""
    return [
        forbidden_field(field, "field is immutable when `immutable` is set")
        for field in fields
        if old.get("immutable") and new.get(field) != old.get(field)
    ]


def validate_event(new: Obj, old: Obj | None) -> list[Cause]:
    involved = new.get("involvedObject", {}).get("namespace", "")
    namespace = new["metadata"].get("namespace", "")
    if involved and involved != namespace and not (namespace == "default" and not involved):
        return [invalid_value("involvedObject.namespace", involved, "does not match event.namespace")]
    if not involved and namespace not in ("default", "kube-system"):
        return [invalid_value("involvedObject.namespace", involved, "does not match event.namespace")]
    return []


def validate_template(spec: Obj, path: str) -> list[Cause]:
    """The pod template below a path; a stateful set's claims are volumes of its pods."""
    template = spec.get("template", {})
    where = f"{path}.template" if path else "template"
    causes = validate_labels(template.get("metadata", {}).get("labels"), f"{where}.labels")
    claims = frozenset(map(name_of, spec.get("volumeClaimTemplates", ())))
    return [*causes, *validate_pod_spec(template.get("spec", {}), f"{where}.spec", claims=claims)]


def _only_restart_always(spec: Obj) -> list[Cause]:
    policy = spec.get("template", {}).get("spec", {}).get("restartPolicy", "Always")
    if policy == "Always":
        return []
    return [not_supported("spec.template.spec.restartPolicy", policy, ("Always",))]


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
