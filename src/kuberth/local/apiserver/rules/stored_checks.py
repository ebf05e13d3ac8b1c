"""Checks of workloads and other stored kinds that the rules of their kinds name (schema/rules.yaml).

In: an object or a part of it, and its path. Out: causes, in upstream's words.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final

from kuberth.api.quantity import parse
from kuberth.local.apiserver.objects import Obj, annotation_of, name_of
from kuberth.local.apiserver.rules.metadata_validation import validate_labels
from kuberth.local.apiserver.rules.pod_validation import mount_causes, validate_quantity, validate_taints
from kuberth.local.apiserver.rules.quotas import NAMED_COUNTS
from kuberth.local.apiserver.status_errors import (
    Cause,
    duplicate,
    forbidden_field,
    invalid_value,
    invalid_values,
    not_supported,
    required,
    too_long,
)
from kuberth.local.cron import ScheduleError, parse_schedule, zone_of
from kuberth.text import names

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
_QUOTA_COUNTS: Final = (*NAMED_COUNTS, "services.loadbalancers", "services.nodeports")
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


def check_node(node: Obj, _path: str) -> Iterator[Cause]:
    # Upstream names the taints below metadata.
    yield from validate_taints(node["spec"].get("taints", ()), "metadata.taints")
    for field in ("capacity", "allocatable"):
        for name, quantity in node.get("status", {}).get(field, {}).items():
            yield from validate_quantity(name, quantity, f"status.{field}[{name}]")


def check_selected_template(owner: Obj, _path: str) -> Iterator[Cause]:
    """Deployments, replica sets and the like: a selector, and a template that it selects."""
    spec = owner["spec"]
    selector = spec.get("selector")
    if selector is not None and not selector.get("matchLabels") and not selector.get("matchExpressions"):
        why = f"empty selector is invalid for {owner.get('kind', '').lower()}"
        yield invalid_value("spec.selector", selector, why)
    labels = spec.get("template", {}).get("metadata", {}).get("labels", {})
    wanted = (selector or {}).get("matchLabels", {})
    if selector is None or any(labels.get(key) != value for key, value in wanted.items()):
        why = "`selector` does not match template `labels`"
        yield invalid_value("spec.template.metadata.labels", labels or None, why)
    yield from check_restarting_template(spec, "spec")


def check_restarting_template(spec: Obj, path: str) -> Iterator[Cause]:
    """A template whose pods always restart."""
    yield from check_template(spec, path)
    policy = spec.get("template", {}).get("spec", {}).get("restartPolicy", "Always")
    if policy != "Always":
        yield not_supported(f"{path}.template.spec.restartPolicy", policy, ("Always",))


def check_job_template(spec: Obj, path: str) -> Iterator[Cause]:
    """The template of a job, or of a cron job's jobs."""
    yield from check_template(spec, path)
    if spec.get("template", {}).get("spec", {}).get("restartPolicy") == "Always":
        yield required(f"{path}.template.spec.restartPolicy", 'valid values: "OnFailure", "Never"')
    if spec.get("completionMode") == "Indexed" and "completions" not in spec:
        yield required(f"{path}.completions", "when completion mode is Indexed")


def validate_claim(new: Obj, old: Obj | None) -> Iterator[Cause]:
    if old is None:
        return
    spec, present = new.get("spec", {}), old.get("spec", {})
    # A claim is bound once, may grow, and may be given a class while it has none.
    free = {"resources", "volumeAttributesClassName"}
    free |= {field for field in ("volumeName", "storageClassName") if field not in present}
    fixed = {name: value for name, value in spec.items() if name not in free}
    if fixed != {name: value for name, value in present.items() if name not in free}:
        why = "spec is immutable after creation except resources.requests and volumeAttributesClassName "
        yield forbidden_field("spec", why + "for bound claims")
    fresh, was = (each.get("resources", {}).get("requests", {}).get("storage") for each in (spec, present))
    if fresh and was and parse(fresh) < parse(was):
        why = "field can not be less than status.capacity"
        yield forbidden_field("spec.resources.requests.storage", why)


def check_service_ports(spec: Obj, path: str) -> Iterator[Cause]:
    ports = spec.get("ports", ())
    if not ports and spec.get("type") != "ExternalName" and spec.get("clusterIP") != "None":
        yield required(f"{path}.ports")
    for index, port in enumerate(ports):
        if len(ports) > 1 and not port.get("name"):
            yield required(f"{path}.ports[{index}].name")


def check_config_keys(data: Iterable[str], path: str) -> Iterator[Cause]:
    """Keys of config maps and secrets are names of files."""
    for key in data:
        if len(key) > 253 or _CONFIG_KEY.fullmatch(key) is None:
            yield invalid_value(f"{path}[{key}]", key, _CONFIG_KEY_RULE)


def check_event(event: Obj, _path: str) -> Iterator[Cause]:
    involved = event.get("involvedObject", {}).get("namespace", "")
    allowed = (involved,) if involved else ("default", "kube-system")
    if event["metadata"].get("namespace", "") not in allowed:
        yield invalid_value("involvedObject.namespace", involved, "does not match event.namespace")


def check_template(spec: Obj, path: str) -> Iterator[Cause]:
    """The pod template below a path; a stateful set's claims are volumes of its pods."""
    template = spec.get("template", {})
    where = f"{path}.template" if path else "template"
    yield from validate_labels(template.get("metadata", {}).get("labels"), f"{where}.labels")
    claims = frozenset(map(name_of, spec.get("volumeClaimTemplates", ())))
    yield from mount_causes(template.get("spec", {}), f"{where}.spec", claims=claims)


def check_secret(secret: Obj, _path: str) -> Iterator[Cause]:
    data, kind = secret.get("data", {}), secret.get("type")
    if sum(len(value) * 3 // 4 for value in data.values()) > _MAX_SECRET_BYTES:
        yield too_long("data", _MAX_SECRET_BYTES)
    keys = _SECRET_KEYS.get(kind or "", ())
    yield from (required(f"data[{key}]") for key in keys if key not in data)
    if kind == _BASIC_AUTH and not any(key in data for key in _BASIC_AUTH_KEYS):
        yield from (required(f"data[{key}]") for key in _BASIC_AUTH_KEYS)
    if kind == _ACCOUNT_TOKEN and not annotation_of(secret, _ACCOUNT_NAME):
        yield required(f"metadata.annotations[{_ACCOUNT_NAME}]")
    if kind in _DOCKER and (text := data.get(keys[0])) is not None and not _is_json_object(text):
        yield invalid_value(f"data[{keys[0]}]", "<secret contents redacted>", "it is no JSON object")


def _is_json_object(encoded: str) -> bool:
    try:
        return isinstance(json.loads(base64.b64decode(encoded)), dict)
    except (ValueError, RecursionError):
        return False


def check_quota(quantities: Mapping[str, str], path: str) -> Iterator[Cause]:
    for name, quantity in quantities.items():
        where = f"{path}[{name}]"
        yield from invalid_values(where, name, names.qualified_name_problems(name))
        if "/" not in name and name not in _QUOTA_COUNTS and _QUOTA_NAMES.fullmatch(name) is None:
            yield invalid_value(where, name, "must be a standard resource for quota")
        integral = "pods" if name in _QUOTA_COUNTS or name.startswith("count/") else name
        yield from validate_quantity(integral, quantity, where)


def check_quota_scopes(scopes: Sequence[str], path: str) -> Iterator[Cause]:
    return (invalid_value(path, scopes, "unsupported scope") for scope in scopes if scope not in _SCOPES)


def check_quota_term(term: Obj, path: str) -> Iterator[Cause]:
    scope, operator, values = term.get("scopeName"), term.get("operator"), term.get("values")
    if scope not in _SCOPES:
        yield invalid_value(f"{path}.scopeName", scope, "unsupported scope")
    if operator not in ("In", "NotIn", "Exists", "DoesNotExist"):
        yield invalid_value(f"{path}.operator", operator, "not a valid selector operator")
    elif (operator in ("In", "NotIn")) is not bool(values):
        yield invalid_value(f"{path}.values", values, "must be set exactly when operator is In or NotIn")


def check_limits(limits: Sequence[Obj], path: str) -> Iterator[Cause]:
    seen = set()
    for index, limit in enumerate(limits):
        where, kind = f"{path}[{index}]", limit.get("type", "")
        yield from invalid_values(f"{where}.type", kind, names.qualified_name_problems(kind))
        if kind in seen:
            yield duplicate(f"{where}.type", kind)
        seen.add(kind)
        for field in ("default", "defaultRequest"):
            if kind == "Pod" and limit.get(field):
                yield forbidden_field(f"{where}.{field}", "may not be specified when `type` is 'Pod'")
        if kind == "PersistentVolumeClaim" and not any(
            "storage" in limit.get(field, {}) for field in ("min", "max")
        ):
            why = "either minimum or maximum storage value is required, but neither was provided"
            yield required(f"{where}.limits", why)
        yield from _limit_order_causes(limit, where)
        for name, ratio in limit.get("maxLimitRequestRatio", {}).items():
            if parse(ratio) < parse("1"):
                yield invalid_value(
                    f"{where}.maxLimitRequestRatio[{name}]", ratio, f"ratio {ratio} is less than 1"
                )


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


def check_cron_job_name(name: str, path: str) -> Iterator[Cause]:
    if len(name) > 52:
        yield invalid_value(path, name, "must be no more than 52 characters")


def check_schedule(schedule: str, path: str) -> Iterator[Cause]:
    if "TZ" in schedule:
        why = "cannot use TZ or CRON_TZ in schedule, use timeZone field instead"
        yield invalid_value(path, schedule, why)
    else:
        yield from _schedule_causes(parse_schedule, schedule, path)


def check_time_zone(zone: str, path: str) -> Iterator[Cause]:
    if not zone:
        yield invalid_value(path, zone, "timeZone must be nil or non-empty string")
    else:
        yield from _schedule_causes(zone_of, zone, path)


def _schedule_causes(read: Callable[[str], object], text: str, path: str) -> Iterator[Cause]:
    try:
        read(text)
    except ScheduleError as error:
        yield invalid_value(path, text, str(error))
