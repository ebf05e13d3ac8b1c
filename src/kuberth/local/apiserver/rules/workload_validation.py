"""Validation of workloads and core kinds other than pods. In: objects. Out: causes, in upstream's words."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from kuberth.api.quantity import parse
from kuberth.local.apiserver.objects import Obj, name_of
from kuberth.local.apiserver.rules.metadata_validation import (
    forbidden_field,
    invalid_value,
    not_supported,
    required,
    validate_labels,
)
from kuberth.local.apiserver.rules.pod_validation import validate_pod_spec, validate_quantity
from kuberth.local.apiserver.rules.scheduling_validation import validate_taints
from kuberth.local.apiserver.status_errors import Cause

IMMUTABLE: Final = "field is immutable"
_CONFIG_KEY: Final = re.compile(r"[-._a-zA-Z0-9]+")
_CONFIG_KEY_RULE: Final = (
    "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or "
    "'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')"
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
    """What a job and a cron job's template of jobs have in common."""
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
    """What may not change in a config map or secret that was made immutable."""
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
