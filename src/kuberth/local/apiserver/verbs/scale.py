"""The scale subresource: replica counts of any kind in one shape.

In: an object, or a Scale from a client. Out: its Scale, or the object with the requested replicas.
"""

from __future__ import annotations

from typing import Any, Final

from kuberth.local.apiserver.objects import Obj, name_of
from kuberth.local.apiserver.refusals import invalid
from kuberth.local.apiserver.resources import ServedResource
from kuberth.local.apiserver.rules.metadata_validation import invalid_value
from kuberth.local.apiserver.schema.fields import copy_tree
from kuberth.local.selecting import selector_text

SCALE: Final = ServedResource("autoscaling", "v1", "Scale", "scales", schema="autoscaling.v1.Scale")
_SHOWN_METADATA: Final = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")


def scale_of(row: ServedResource, obj: Obj) -> Obj:
    metadata = {name: value for name, value in obj["metadata"].items() if name in _SHOWN_METADATA}
    status: Obj = {"replicas": _number(_at(obj, row.scale_paths.get("statusReplicas", "")))}
    if selector := selector_text(_at(obj, row.scale_paths.get("selector", ""))):
        status["selector"] = selector
    return {
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": metadata,
        "spec": {"replicas": _number(_at(obj, row.scale_paths["specReplicas"]))},
        "status": status,
    }


def scaled(row: ServedResource, obj: Obj, scale: Obj) -> Obj:
    """A copy of the object with the replicas of a Scale."""
    new: Obj = copy_tree(obj)
    _set_replicas(row, new, scale, name=name_of(obj))
    metadata = scale.get("metadata", {})
    wanted = {name: metadata[name] for name in ("uid", "resourceVersion") if metadata.get(name)}
    new["metadata"] = {**obj["metadata"], "resourceVersion": "", **wanted}
    return new


def applied(row: ServedResource, scale: Obj) -> Obj:
    """The configuration of the object that corresponds to an apply patch of its Scale."""
    wanted: Obj = {"apiVersion": row.api_version, "kind": row.kind, "metadata": scale.get("metadata", {})}
    if "replicas" in scale.get("spec", {}):
        _set_replicas(row, wanted, scale, name=name_of(scale))
    return wanted


def _set_replicas(row: ServedResource, obj: Obj, scale: Obj, *, name: str) -> None:
    replicas = scale.get("spec", {}).get("replicas", 0)
    if replicas < 0:
        cause = invalid_value("spec.replicas", replicas, "must be greater than or equal to 0")
        raise invalid(SCALE, name, [cause])
    parent = obj
    *path, last = row.scale_paths["specReplicas"].split(".")
    for part in path:
        if not isinstance(parent.get(part), dict):
            parent[part] = {}
        parent = parent[part]
    parent[last] = replicas


def _at(obj: Any, path: str) -> Any:
    for part in path.split("."):
        obj = obj.get(part) if isinstance(obj, dict) else None
    return obj


def _number(value: Any) -> int:
    return value if type(value) is int else 0
