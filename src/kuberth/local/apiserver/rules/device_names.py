"""Checks that claims, classes and slices share: names of drivers, pools and attributes, lists with limits.

In: a value and its path. Out: causes, in upstream's words.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

from kuberth.local.apiserver.objects import Obj
from kuberth.local.apiserver.rules import names
from kuberth.local.apiserver.rules.metadata_validation import (
    duplicate,
    invalid_value,
    invalid_values,
    not_supported,
    required,
)
from kuberth.local.apiserver.status_errors import Cause

MOST_DOMAIN: Final = 63
_MOST_ID: Final = 32
_MOST_POOL: Final = 253
_MOST_CONDITIONS: Final = 4
_TAINT_EFFECTS: Final = ("NoExecute", "NoSchedule", "None")
_IDENTIFIER: Final = re.compile("[A-Za-z_][A-Za-z0-9_]*")
_IDENTIFIER_RULE: Final = (
    "a valid C identifier must start with alphabetic character or '_', followed by a string of alphanumeric "
    "characters or '_' (e.g. 'my_name',  or 'MY_NAME',  or 'MyName', regex used for validation is "
    "'[A-Za-z_][A-Za-z0-9_]*')"
)

Check = Callable[[Any, str], list[Cause]]
"""Validates one item at its path."""


def native_resource_causes(resource: str, path: str) -> list[Cause]:
    """Refuse resources other than native ones, whose names have no domain or that of Kubernetes."""
    if "/" not in resource or "kubernetes.io/" in resource:
        return []
    return [invalid_value(path, resource, "must be a node allocatable resource name")]


def too_many(path: str, number: int, most: int) -> Cause:
    message = f"Too many: {number}: must have at most {most} items"
    return Cause(path, message, "FieldValueTooMany")


def too_long(path: str, most: int) -> Cause:
    return Cause(path, f"Too long: may not be more than {most} bytes", "FieldValueTooLong")


def each(
    items: Sequence[Any] | None,
    path: str,
    check: Check,
    *,
    most: int | None = None,
    key: Callable[[Any], Any] | None = None,
) -> list[Cause]:
    """Causes of the items, of too many items, and of items with the same key."""
    items = items or ()
    if most is not None and len(items) > most:
        return [too_many(path, len(items), most)]
    causes = [cause for index, item in enumerate(items) for cause in check(item, f"{path}[{index}]")]
    seen: set[Any] = set()
    for index, item in enumerate(items if key is not None else ()):
        value = item if key is None else key(item)
        if value in seen:
            causes.append(duplicate(f"{path}[{index}]", value))
        seen.add(value)
    return causes


def label_causes(value: str, path: str) -> list[Cause]:
    return invalid_values(path, value, names.label_problems(value))


def label_name_causes(value: str, path: str) -> list[Cause]:
    return invalid_values(path, value, names.label_key_problems(value))


def label_value_causes(value: str, path: str) -> list[Cause]:
    return invalid_values(path, value, names.label_value_problems(value))


def driver_causes(name: str, path: str) -> list[Cause]:
    if not name:
        return [required(path)]
    causes = [too_long(path, MOST_DOMAIN)] if len(name.encode()) > MOST_DOMAIN else []
    return causes + invalid_values(path, name, names.subdomain_problems(name.lower()))


def pool_name_causes(name: str, path: str) -> list[Cause]:
    if not name:
        return [required(path)]
    causes = [too_long(path, _MOST_POOL)] if len(name.encode()) > _MOST_POOL else []
    for part in name.split("/"):
        causes += invalid_values(path, part, names.subdomain_problems(part))
    return causes


def qualified_causes(name: str, path: str) -> list[Cause]:
    """The name of an attribute or capacity: a C identifier, perhaps in a driver's domain."""
    parts = name.split("/")
    if len(parts) == 1:
        return _identifier_causes(name, path)
    if len(parts) > 2:
        return []  # as upstream
    domain, own = parts
    causes = driver_causes(domain, path) if domain else [_empty(path, "domain")]
    return causes + (_identifier_causes(own, path) if own else [_empty(path, "name")])


def fully_qualified_causes(name: str, path: str) -> list[Cause]:
    causes = qualified_causes(name, path)
    if "/" not in name:
        why = "a fully qualified name must be a domain and a name separated by a slash"
        causes.append(invalid_value(path, name, why))
    return causes


def _empty(path: str, what: str) -> Cause:
    return invalid_value(path, "", f"the {what} must not be empty")


def _identifier_causes(name: str, path: str) -> list[Cause]:
    causes = [too_long(path, _MOST_ID)] if len(name.encode()) > _MOST_ID else []
    if _IDENTIFIER.fullmatch(name) is None:
        causes.append(invalid_value(path, name, _IDENTIFIER_RULE))
    return causes


def effect_causes(effect: str, path: str) -> list[Cause]:
    return [] if effect in _TAINT_EFFECTS else [not_supported(path, effect, _TAINT_EFFECTS)]


def binding_causes(device: Obj, path: str) -> list[Cause]:
    """The conditions that have to be met before pods with a device are bound."""
    wanted, failed = device.get("bindingConditions") or [], device.get("bindingFailureConditions") or []
    wanted_path, failed_path = f"{path}.bindingConditions", f"{path}.bindingFailureConditions"
    causes = each(wanted, wanted_path, label_name_causes, most=_MOST_CONDITIONS)
    causes += each(failed, failed_path, label_name_causes, most=_MOST_CONDITIONS)
    causes += _doubled(wanted, wanted_path) + _doubled(failed, failed_path)
    for index, condition in enumerate(failed):
        if condition in wanted:
            why = "bindingFailureConditions must not overlap with bindingConditions"
            causes.append(invalid_value(f"{failed_path}[{index}]", condition, why))
    if failed and not wanted:
        why = "bindingConditions are required to use bindingFailureConditions"
        causes.append(invalid_value(wanted_path, None, why))
    if wanted and not failed:
        why = "bindingFailureConditions are required to use bindingConditions"
        causes.append(invalid_value(failed_path, None, why))
    return causes


def _doubled(items: Iterable[str], path: str) -> list[Cause]:
    seen: set[str] = set()
    causes = []
    for index, item in enumerate(items):
        if item in seen:
            causes.append(duplicate(f"{path}[{index}]", item))
        seen.add(item)
    return causes
