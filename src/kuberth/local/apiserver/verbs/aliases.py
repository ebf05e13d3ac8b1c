"""Converts objects between the resources that show the same stored object.

In: an object as stored, or as a client of one resource wrote it. Out: the other form. Events have
other field names in each of their two groups; autoscaling/v1 knows one metric by a field of its own; versions
of a custom kind differ in apiVersion only, and what an earlier schema let in is served by the present one.
"""

from __future__ import annotations

from typing import Final

import msgspec

from kuberth.local.apiserver.objects import Obj
from kuberth.local.apiserver.resources import ServedResource
from kuberth.local.apiserver.schema.fields import ShapeError, copy_tree, read

_EVENT_FIELDS: Final = {
    "involvedObject": "regarding",
    "message": "note",
    "source": "deprecatedSource",
    "firstTimestamp": "deprecatedFirstTimestamp",
    "lastTimestamp": "deprecatedLastTimestamp",
    "count": "deprecatedCount",
    "reportingComponent": "reportingController",
}
"""Field of a core event → the same field in events.k8s.io."""
_EVENT_FIELDS_BACK: Final = {new: old for old, new in _EVENT_FIELDS.items()}
_EVENTS: Final = "events.events.k8s.io"
_AUTOSCALERS: Final = "horizontalpodautoscalers.autoscaling"
_CPU: Final = "targetCPUUtilizationPercentage"
_OF_METRICS: Final = ("metrics", "behavior")
_BEHAVIOR: Final = "autoscaling.v2.HorizontalPodAutoscalerBehavior"
_MARK: Final = "autoscaling.alpha.kubernetes.io/"
"""Annotations in which autoscaling/v1 carries what it has no fields for, as upstream."""


def to_view(row: ServedResource, stored: Obj) -> Obj:
    """A stored object as this resource serves it."""
    if row.structure is not None:
        stored = copy_tree(stored)
        row.structure.prune(stored)
        row.structure.default(stored)
    if not row.storage_version:
        return stored
    if row.id == _EVENTS:
        stored = {_EVENT_FIELDS.get(name, name): value for name, value in stored.items()}
    elif row.id == _AUTOSCALERS:
        stored = _without_metrics(stored)
    return {**stored, "apiVersion": row.api_version}


def to_stored(row: ServedResource, obj: Obj) -> Obj:
    """The stored form of an object of this resource."""
    if not row.storage_version:
        return obj
    if row.id == _EVENTS:
        obj = {_EVENT_FIELDS_BACK.get(name, name): value for name, value in obj.items()}
    elif row.id == _AUTOSCALERS:
        obj = _with_metrics(obj)
    return {**obj, "apiVersion": row.storage_version}


def _without_metrics(autoscaler: Obj) -> Obj:
    """autoscaling/v2 → v1: the CPU target is a field, everything else an annotation."""
    spec = autoscaler.get("spec", {})
    annotations = dict(autoscaler["metadata"].get("annotations", {}))
    shown = {name: value for name, value in spec.items() if name not in _OF_METRICS}
    others = []
    for metric in spec.get("metrics", ()):
        resource = metric.get("resource", {})
        percent = resource.get("target", {}).get("averageUtilization")
        if resource.get("name") == "cpu" and percent is not None and _CPU not in shown:
            shown[_CPU] = percent
        else:
            others.append(metric)
    for name, value in (("metrics", others), ("behavior", spec.get("behavior"))):
        if value:
            annotations[_MARK + name] = msgspec.json.encode(value).decode()
    metadata = {**autoscaler["metadata"], **({"annotations": annotations} if annotations else {})}
    status = {
        name: value
        for name, value in autoscaler.get("status", {}).items()
        if name not in ("conditions", "currentMetrics")
    }
    return {**autoscaler, "metadata": metadata, "spec": shown, "status": {"currentReplicas": 0, **status}}


def _with_metrics(autoscaler: Obj) -> Obj:
    """autoscaling/v1 → v2. Annotations that cannot be read stay annotations."""
    spec = dict(autoscaler.get("spec", {}))
    annotations = dict(autoscaler.get("metadata", {}).get("annotations", {}))
    percent = spec.pop(_CPU, None)
    metrics = []
    if percent is not None:
        target = {"type": "Utilization", "averageUtilization": percent}
        metrics.append({"type": "Resource", "resource": {"name": "cpu", "target": target}})
    for name, shape in (("metrics", "[]autoscaling.v2.MetricSpec"), ("behavior", _BEHAVIOR)):
        text = annotations.get(_MARK + name)
        if text is None:
            continue
        try:
            value = read(shape, msgspec.json.decode(text))
        except (msgspec.DecodeError, ShapeError, RecursionError):
            continue
        del annotations[_MARK + name]
        if name == "metrics":
            metrics += value
        else:
            spec["behavior"] = value
    if metrics:
        spec["metrics"] = metrics
    metadata = {**autoscaler.get("metadata", {}), "annotations": annotations}
    if not annotations:
        del metadata["annotations"]
    return {**autoscaler, "metadata": metadata, "spec": spec}
