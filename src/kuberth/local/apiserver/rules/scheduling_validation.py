"""Validation of scheduling fields: gates, tolerations, taints, spread, affinity and selectors.

In: the parts of a spec. Out: causes, in upstream's words.
"""

from __future__ import annotations

from typing import Any, Final

from kuberth.local.apiserver.objects import Obj
from kuberth.local.apiserver.rules import names
from kuberth.local.apiserver.rules.metadata_validation import (
    duplicate,
    forbidden_field,
    invalid_value,
    invalid_values,
    not_supported,
    required,
    validate_labels,
)
from kuberth.local.apiserver.status_errors import Cause

_EFFECTS: Final = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_NOT_POSITIVE: Final = "must be greater than zero"


def validate_gates(gates: Any, path: str) -> list[Cause]:
    causes = []
    seen = set()
    for index, gate in enumerate(gates):
        name = gate.get("name", "")
        causes += invalid_values(f"{path}[{index}]", name, names.qualified_name_problems(name))
        if name in seen:
            causes.append(duplicate(f"{path}[{index}]", name))
        seen.add(name)
    return causes


def validate_tolerations(tolerations: Any, path: str) -> list[Cause]:
    causes = []
    for index, toleration in enumerate(tolerations):
        where = f"{path}[{index}]"
        key, operator = toleration.get("key", ""), toleration.get("operator", "")
        effect, value = toleration.get("effect", ""), toleration.get("value", "")
        if key:
            causes += invalid_values(f"{where}.key", key, names.label_key_problems(key))
        elif operator != "Exists":
            why = 'operator must be Exists when `key` is empty, which means "match all values and all keys"'
            causes.append(invalid_value(f"{where}.operator", operator, why))
        if "tolerationSeconds" in toleration and effect != "NoExecute":
            why = "effect must be 'NoExecute' when `tolerationSeconds` is set"
            causes.append(invalid_value(f"{where}.effect", effect, why))
        if operator in ("", "Equal"):
            if problems := names.label_value_problems(value):
                causes.append(invalid_value(f"{where}.operator", value, ";".join(problems)))
        elif operator == "Exists":
            if value:
                why = "value must be empty when `operator` is 'Exists'"
                causes.append(invalid_value(f"{where}.operator", value, why))
        elif operator in ("Lt", "Gt"):
            if not (value.removeprefix("-").isascii() and value.removeprefix("-").isdigit()):
                causes.append(invalid_value(f"{where}.value", value, "must be a valid decimal integer"))
        else:
            causes.append(not_supported(f"{where}.operator", operator, ("Equal", "Exists")))
        if effect and effect not in _EFFECTS:
            causes.append(not_supported(f"{where}.effect", effect, _EFFECTS))
    return causes


def validate_taints(taints: Any, path: str) -> list[Cause]:
    causes = []
    seen = set()
    for index, taint in enumerate(taints):
        where = f"{path}[{index}]"
        key, value, effect = taint.get("key", ""), taint.get("value", ""), taint.get("effect", "")
        causes += invalid_values(f"{where}.key", key, names.label_key_problems(key))
        if problems := names.label_value_problems(value):
            causes.append(invalid_value(f"{where}.value", value, ";".join(problems)))
        if not effect:
            causes.append(required(f"{where}.effect"))
        elif effect not in _EFFECTS:
            causes.append(not_supported(f"{where}.effect", effect, _EFFECTS))
        if (key, effect) in seen:
            shown = f'{{"Key":"{key}","Value":"{value}","Effect":"{effect}","TimeAdded":null}}'
            why = "taints must be unique by key and effect pair"
            causes.append(Cause(where, f"Duplicate value: {shown}: {why}", "FieldValueDuplicate"))
        seen.add((key, effect))
    return causes


def validate_spread(constraints: list[Obj], path: str) -> list[Cause]:
    causes = []
    supported = ("DoNotSchedule", "ScheduleAnyway")
    seen = set()
    for index, constraint in enumerate(constraints):
        where = f"{path}[{index}]"
        if constraint.get("maxSkew", 0) <= 0:
            causes.append(invalid_value(f"{where}.maxSkew", constraint.get("maxSkew", 0), _NOT_POSITIVE))
        key, action = constraint.get("topologyKey", ""), constraint.get("whenUnsatisfiable", "")
        if not key:
            causes.append(required(f"{where}.topologyKey", "can not be empty"))
        if action not in supported:
            causes.append(not_supported(f"{where}.whenUnsatisfiable", action, supported))
        if (key, action) in seen:
            causes.append(duplicate(f"{where}.{{topologyKey, whenUnsatisfiable}}", f"{{{key}, {action}}}"))
        seen.add((key, action))
        domains = constraint.get("minDomains")
        if domains is not None and domains <= 0:
            causes.append(invalid_value(f"{where}.minDomains", domains, _NOT_POSITIVE))
        if domains is not None and action != "DoNotSchedule":
            why = f"can only use minDomains if whenUnsatisfiable=DoNotSchedule, not {action}"
            causes.append(invalid_value(f"{where}.minDomains", domains, why))
        causes += [
            not_supported(f"{where}.{field}", constraint[field], ("Honor", "Ignore"))
            for field in ("nodeAffinityPolicy", "nodeTaintsPolicy")
            if constraint.get(field) not in (None, "Honor", "Ignore")
        ]
        causes += validate_label_selector(constraint.get("labelSelector"), f"{where}.labelSelector")
    return causes


def validate_label_selector(selector: Obj | None, path: str) -> list[Cause]:
    if selector is None:
        return []
    causes = validate_labels(selector.get("matchLabels"), f"{path}.matchLabels")
    return causes + _validate_expressions(selector, path, numeric=False)


def _validate_expressions(term: Obj, path: str, *, numeric: bool) -> list[Cause]:
    """`matchExpressions` of labels; node selectors also compare numbers."""
    causes = []
    for index, requirement in enumerate(term.get("matchExpressions", ())):
        where = f"{path}.matchExpressions[{index}]"
        operator, values = requirement.get("operator", ""), requirement.get("values", ())
        if operator in ("In", "NotIn"):
            if not values:
                why = "must be specified when `operator` is 'In' or 'NotIn'"
                causes.append(required(f"{where}.values", why))
        elif operator in ("Exists", "DoesNotExist"):
            if values:
                why = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
                causes.append(forbidden_field(f"{where}.values", why))
        elif numeric and operator in ("Gt", "Lt"):
            if len(values) != 1:
                why = "must be specified single value when `operator` is 'Lt' or 'Gt'"
                causes.append(required(f"{where}.values", why))
        else:
            causes.append(invalid_value(f"{where}.operator", operator, "not a valid selector operator"))
        key = requirement.get("key", "")
        causes += invalid_values(f"{where}.key", key, names.label_key_problems(key))
        for number, value in enumerate(values):
            causes += invalid_values(f"{where}.values[{number}]", value, names.label_value_problems(value))
    return causes


def validate_affinity(affinity: Obj, path: str) -> list[Cause]:
    required_name = "requiredDuringSchedulingIgnoredDuringExecution"
    preferred_name = "preferredDuringSchedulingIgnoredDuringExecution"
    causes = []
    node = affinity.get("nodeAffinity", {})
    if required_name in node:
        causes += validate_node_selector(node[required_name], f"{path}.nodeAffinity.{required_name}")
    for index, preferred in enumerate(node.get(preferred_name, ())):
        where = f"{path}.nodeAffinity.{preferred_name}[{index}]"
        causes += _validate_weight(preferred, where)
        causes += _validate_node_term(preferred.get("preference", {}), f"{where}.preference")
    for kind in ("podAffinity", "podAntiAffinity"):
        rules = affinity.get(kind, {})
        for index, term in enumerate(rules.get(required_name, ())):
            causes += _validate_pod_term(term, f"{path}.{kind}.{required_name}[{index}]")
        for index, preferred in enumerate(rules.get(preferred_name, ())):
            where = f"{path}.{kind}.{preferred_name}[{index}]"
            causes += _validate_weight(preferred, where)
            causes += _validate_pod_term(preferred.get("podAffinityTerm", {}), f"{where}.podAffinityTerm")
    return causes


def _validate_weight(preferred: Obj, path: str) -> list[Cause]:
    weight = preferred.get("weight", 0)
    if 1 <= weight <= 100:
        return []
    return [invalid_value(f"{path}.weight", weight, "must be in the range 1-100")]


def _validate_pod_term(term: Obj, path: str) -> list[Cause]:
    causes = validate_label_selector(term.get("labelSelector"), f"{path}.labelSelector")
    causes += validate_label_selector(term.get("namespaceSelector"), f"{path}.namespaceSelector")
    for namespace in term.get("namespaces", ()):
        causes += invalid_values(f"{path}.namespace", namespace, names.label_problems(namespace))
    key = term.get("topologyKey", "")
    if not key:
        causes.append(required(f"{path}.topologyKey", "can not be empty"))
    return [*causes, *invalid_values(f"{path}.topologyKey", key, names.label_key_problems(key))]


def validate_node_selector(selector: Obj, path: str) -> list[Cause]:
    terms = selector.get("nodeSelectorTerms", ())
    if not terms:
        return [required(f"{path}.nodeSelectorTerms", "must have at least one node selector term")]
    causes = []
    for index, term in enumerate(terms):
        causes += _validate_node_term(term, f"{path}.nodeSelectorTerms[{index}]")
    return causes


def _validate_node_term(term: Obj, path: str) -> list[Cause]:
    causes = _validate_expressions(term, path, numeric=True)
    for index, requirement in enumerate(term.get("matchFields", ())):
        where = f"{path}.matchFields[{index}]"
        if requirement.get("operator") not in ("In", "NotIn"):
            operator = requirement.get("operator", "")
            causes.append(invalid_value(f"{where}.operator", operator, "not a valid selector operator"))
        elif len(requirement.get("values", ())) != 1:
            why = "must be only one value when `operator` is 'In' or 'NotIn' for node field selector"
            causes.append(required(f"{where}.values", why))
        if requirement.get("key") != "metadata.name":
            key = requirement.get("key", "")
            causes.append(invalid_value(f"{where}.key", key, "not a valid field selector key"))
    return causes
