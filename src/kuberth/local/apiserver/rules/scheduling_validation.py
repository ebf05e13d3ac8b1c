"""Validation of tolerations and taints. In: the parts of a spec. Out: causes, in upstream's words."""

from __future__ import annotations

from typing import Any, Final

from kuberth.local.apiserver.rules.metadata_validation import (
    invalid_value,
    invalid_values,
    not_supported,
    required,
)
from kuberth.local.apiserver.status_errors import Cause
from kuberth.text import names

_EFFECTS: Final = ("NoSchedule", "PreferNoSchedule", "NoExecute")


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
