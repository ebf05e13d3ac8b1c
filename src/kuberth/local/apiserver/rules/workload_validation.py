"""What is wrong with objects of the kinds other than pods. In: objects. Out: causes, in upstream's words."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, Final

from kuberth.api.quantity import parse
from kuberth.local.apiserver.objects import Obj, name_of
from kuberth.local.apiserver.rules import names
from kuberth.local.apiserver.rules.bootstrap import SYSTEM_PRIORITIES
from kuberth.local.apiserver.rules.metadata_validation import (
    forbidden_field,
    invalid_value,
    invalid_values,
    not_supported,
    required,
    validate_labels,
)
from kuberth.local.apiserver.rules.pod_validation import validate_pod_spec, validate_quantity
from kuberth.local.apiserver.rules.scheduling_validation import (
    validate_label_selector,
    validate_node_selector,
    validate_taints,
)
from kuberth.local.apiserver.status_errors import Cause

NEGATIVE: Final = "must be greater than or equal to 0"
_HIGHEST_USER_PRIORITY: Final = 1_000_000_000
_ACCESS_MODES: Final = ("ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod")
_VOLUME_FIELDS: Final = (
    "accessModes",
    "capacity",
    "claimRef",
    "mountOptions",
    "nodeAffinity",
    "persistentVolumeReclaimPolicy",
    "storageClassName",
    "volumeAttributesClassName",
    "volumeMode",
)
"""The fields of a volume that do not say where it is."""
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
    causes = _validate_replicas(spec)
    selector = spec.get("selector")
    if selector is None:
        causes.append(required("spec.selector"))
    else:
        causes += validate_label_selector(selector, "spec.selector")
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
    causes = _validate_replicas(spec)
    if not spec.get("selector"):
        causes.append(required("spec.selector"))
    causes += validate_labels(spec.get("selector"), "spec.selector")
    return [*causes, *validate_template(spec, "spec"), *_only_restart_always(spec)]


def validate_job_spec(spec: Obj, path: str) -> list[Cause]:
    """What a job and a cron job's template of jobs have in common."""
    causes = [
        invalid_value(f"{path}.{field}", spec[field], NEGATIVE)
        for field in ("parallelism", "completions", "backoffLimit", "ttlSecondsAfterFinished")
        if spec.get(field, 0) < 0
    ]
    causes += validate_template(spec, path)
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


def validate_budget(new: Obj, old: Obj | None) -> list[Cause]:
    spec = new.get("spec", {})
    causes = validate_label_selector(spec.get("selector"), "spec.selector")
    if "minAvailable" in spec and "maxUnavailable" in spec:
        value = {"minAvailable": spec["minAvailable"], "maxUnavailable": spec["maxUnavailable"]}
        causes.append(invalid_value("spec", value, "minAvailable and maxUnavailable cannot be both set"))
    for field in ("minAvailable", "maxUnavailable"):
        if field in spec:
            causes += _validate_count_or_percent(spec[field], f"spec.{field}")
    policy = spec.get("unhealthyPodEvictionPolicy")
    if policy not in (None, "AlwaysAllow", "IfHealthyBudget"):
        supported = ("AlwaysAllow", "IfHealthyBudget")
        causes.append(not_supported("spec.unhealthyPodEvictionPolicy", policy, supported))
    return causes


def validate_priority_class(new: Obj, old: Obj | None) -> list[Cause]:
    name, value = name_of(new), new.get("value", 0)
    causes = []
    if name.startswith("system-"):
        if SYSTEM_PRIORITIES.get(name, (None,))[0] != value:
            why = "priority class names with 'system-' prefix are reserved for system use only"
            why += f". error: {name} is not a known system priority class"
            causes.append(forbidden_field("metadata.name", why))
    elif value > _HIGHEST_USER_PRIORITY:
        why = f"maximum allowed value of a user defined priority is {_HIGHEST_USER_PRIORITY}"
        causes.append(forbidden_field("value", why))
    policy = new.get("preemptionPolicy")
    if policy not in ("Never", "PreemptLowerPriority"):
        causes.append(not_supported("preemptionPolicy", policy, ("Never", "PreemptLowerPriority")))
    if old is not None:
        if value != old.get("value", 0):
            causes.append(forbidden_field("value", "may not be changed in an update."))
        if policy != old.get("preemptionPolicy"):
            causes.append(invalid_value("preemptionPolicy", policy, IMMUTABLE))
    return causes


def validate_claim(new: Obj, old: Obj | None) -> list[Cause]:
    spec = new.get("spec", {})
    causes = validate_claim_spec(spec, "spec")
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


def validate_claim_spec(spec: Obj, path: str) -> list[Cause]:
    causes = _validate_access_modes(spec, path, "at least 1 access mode is required")
    causes += validate_label_selector(spec.get("selector"), f"{path}.selector")
    storage = spec.get("resources", {}).get("requests", {}).get("storage")
    if storage is None:
        causes.append(required(f"{path}.resources[storage]"))
    elif not parse("0") < parse(storage):
        causes.append(invalid_value(f"{path}.resources[storage]", storage, "must be greater than zero"))
    class_name = spec.get("storageClassName")
    if class_name:
        problems = names.subdomain_problems(class_name)
        causes += invalid_values(f"{path}.storageClassName", class_name, problems)
    return [*causes, *_validate_volume_mode(spec, path)]


def validate_volume(new: Obj, old: Obj | None) -> list[Cause]:
    spec = new.get("spec", {})
    causes = _validate_access_modes(spec, "spec", "")
    capacity = spec.get("capacity", {})
    if not capacity:
        causes.append(required("spec.capacity"))
    elif set(capacity) != {"storage"}:
        causes.append(not_supported("spec.capacity", sorted(capacity), ("storage",)))
    elif not parse("0") < parse(capacity["storage"]):
        causes.append(
            invalid_value("spec.capacity[storage]", capacity["storage"], "must be greater than zero")
        )
    if all(field in _VOLUME_FIELDS for field in spec):
        causes.append(required("spec", "must specify a volume type"))
    policy = spec.get("persistentVolumeReclaimPolicy")
    supported = ("Delete", "Recycle", "Retain")
    if policy not in supported:
        causes.append(not_supported("spec.persistentVolumeReclaimPolicy", policy, supported))
    affinity = spec.get("nodeAffinity")
    if affinity is not None:
        if "required" not in affinity:
            causes.append(required("spec.nodeAffinity.required", "must specify required node constraints"))
        else:
            causes += validate_node_selector(affinity["required"], "spec.nodeAffinity.required")
    return [*causes, *_validate_volume_mode(spec, "spec")]


def validate_storage_class(new: Obj, old: Obj | None) -> list[Cause]:
    causes = []
    if not new.get("provisioner"):
        causes.append(required("provisioner"))
    else:
        lowered = new["provisioner"].lower()
        causes += invalid_values("provisioner", new["provisioner"], names.qualified_name_problems(lowered))
    for field, supported in (
        ("reclaimPolicy", ("Delete", "Retain")),
        ("volumeBindingMode", ("Immediate", "WaitForFirstConsumer")),
    ):
        if new.get(field) not in supported:
            causes.append(not_supported(field, new.get(field), supported))
    if old is not None:
        for field in ("parameters", "provisioner", "reclaimPolicy", "volumeBindingMode"):
            if new.get(field) != old.get(field):
                causes.append(forbidden_field(field, f"updates to {field} are forbidden."))
    return causes


def validate_service(new: Obj, old: Obj | None) -> list[Cause]:
    spec = new.get("spec", {})
    kind = spec.get("type")
    supported = ("ClusterIP", "ExternalName", "LoadBalancer", "NodePort")
    causes = []
    if kind not in supported:
        causes.append(not_supported("spec.type", kind, supported))
    if not spec.get("ports") and kind != "ExternalName" and spec.get("clusterIP") != "None":
        causes.append(required("spec.ports"))
    for index, port in enumerate(spec.get("ports", ())):
        where = f"spec.ports[{index}]"
        if len(spec["ports"]) > 1 and not port.get("name"):
            causes.append(required(f"{where}.name"))
        if not 1 <= port.get("port", 0) <= 65535:
            why = "must be between 1 and 65535, inclusive"
            causes.append(invalid_value(f"{where}.port", port.get("port", 0), why))
        if port.get("protocol") not in ("SCTP", "TCP", "UDP"):
            causes.append(not_supported(f"{where}.protocol", port.get("protocol"), ("SCTP", "TCP", "UDP")))
    return [*causes, *validate_labels(spec.get("selector"), "spec.selector")]


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


def validate_lease(new: Obj, old: Obj | None) -> list[Cause]:
    spec = new.get("spec", {})
    causes = []
    if "leaseDurationSeconds" in spec and spec["leaseDurationSeconds"] <= 0:
        why = "must be greater than 0"
        causes.append(invalid_value("spec.leaseDurationSeconds", spec["leaseDurationSeconds"], why))
    if spec.get("leaseTransitions", 0) < 0:
        why = "must be greater than or equal to 0"
        causes.append(invalid_value("spec.leaseTransitions", spec["leaseTransitions"], why))
    return causes


def validate_event(new: Obj, old: Obj | None) -> list[Cause]:
    involved = new.get("involvedObject", {}).get("namespace", "")
    namespace = new["metadata"].get("namespace", "")
    if involved and involved != namespace and not (namespace == "default" and not involved):
        return [invalid_value("involvedObject.namespace", involved, "does not match event.namespace")]
    if not involved and namespace not in ("default", "kube-system"):
        return [invalid_value("involvedObject.namespace", involved, "does not match event.namespace")]
    return []


def _validate_replicas(spec: Obj) -> list[Cause]:
    if spec.get("replicas", 0) < 0:
        return [invalid_value("spec.replicas", spec["replicas"], NEGATIVE)]
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


def _validate_count_or_percent(value: Any, path: str) -> list[Cause]:
    if isinstance(value, int):
        return [] if value >= 0 else [invalid_value(path, value, NEGATIVE)]
    number = value.removesuffix("%")
    if not value.endswith("%") or not (number.isascii() and number.isdigit()):
        why = "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or "
        return [invalid_value(path, value, f"{why}'93%', regex used for validation is '[0-9]+%')")]
    if len(number) > 9 or int(number) > 100:
        return [invalid_value(path, value, "must not be greater than 100%")]
    return []


def _validate_access_modes(spec: Obj, path: str, why: str) -> list[Cause]:
    modes = spec.get("accessModes", ())
    if not modes:
        return [required(f"{path}.accessModes", why)]
    causes = [
        not_supported(f"{path}.accessModes", mode, _ACCESS_MODES)
        for mode in modes
        if mode not in _ACCESS_MODES
    ]
    if "ReadWriteOncePod" in modes and len(modes) > 1:
        why = "may not use ReadWriteOncePod with other access modes"
        causes.append(forbidden_field(f"{path}.accessModes", why))
    return causes


def _validate_volume_mode(spec: Obj, path: str) -> list[Cause]:
    mode = spec.get("volumeMode", "Filesystem")
    if mode in ("Block", "Filesystem"):
        return []
    return [not_supported(f"{path}.volumeMode", mode, ("Block", "Filesystem"))]
