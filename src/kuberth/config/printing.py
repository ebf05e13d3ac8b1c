"""Prints a configuration as a file that loads to the same configuration.

In: a configuration, usually defaulted. Out: a plain tree, YAML or JSON, with fields in the order of
Kubernetes' reference and no implicit values.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import msgspec

from kuberth.api import wire
from kuberth.config.in_tree import IN_TREE_ARGS
from kuberth.config.types import API_VERSION, KIND, KubeSchedulerConfiguration, PluginConfig
from kuberth.text.documents import write_yaml
from kuberth.text.durations import format_duration

_TYPE_META = {"apiVersion": API_VERSION, "kind": KIND}


def to_yaml(config: KubeSchedulerConfiguration) -> str:
    return write_yaml(to_tree(config))


def to_json(config: KubeSchedulerConfiguration) -> str:
    return json.dumps(to_tree(config), indent=2, ensure_ascii=False) + "\n"


def to_tree(config: KubeSchedulerConfiguration) -> dict[str, Any]:
    """The configuration as dicts, lists, strings and numbers."""
    tree = _TYPE_META | _fields(config)
    if not config.feature_gates:
        # kube-scheduler rejects the field: without it, both can read the file.
        del tree["featureGates"]
    return tree


def _plain(value: Any) -> Any:
    match value:
        case timedelta():
            return format_duration(value)
        case bytes():
            return base64.b64encode(value).decode()
        case float() if value.is_integer() and abs(value) < 2**53:
            return int(value)
        case PluginConfig():
            return _plugin_config(value)
        case wire.Wire():
            return wire.to_builtins(value)
        case msgspec.Struct():
            return _fields(value)
        case Mapping():
            return {key: _plain(each) for key, each in value.items()}
        case list() | tuple():
            return [_plain(each) for each in value]
        case None | bool() | int() | float() | str():
            return value
        case _:
            return msgspec.to_builtins(value)


def _fields(struct: msgspec.Struct) -> dict[str, Any]:
    """All fields, except empty strings, empty lists and nulls that are equivalent to omitted ones."""
    tree: dict[str, Any] = {}
    for field in msgspec.structs.fields(struct):
        value = getattr(struct, field.name)
        is_empty = value is None or (isinstance(value, str | bytes | tuple) and not value)
        if value is msgspec.UNSET or (is_empty and value == field.default):
            continue
        tree[field.encode_name] = _plain(value)
    return tree


def _plugin_config(config: PluginConfig) -> dict[str, Any]:
    args = _plain(config.args)
    if config.name in IN_TREE_ARGS and isinstance(config.args, msgspec.Struct):
        args = {"apiVersion": API_VERSION, "kind": f"{config.name}Args"} | args
    return {"name": config.name} if args is None else {"name": config.name, "args": args}
