"""Defaults of the kinds other than pods. In: an object. Out: the same object, filled in place."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any, Final

from kuberth.local.apiserver.objects import Obj, name_of

_JOB_LABELS: Final = ("batch.kubernetes.io/", "")
"""Prefixes of the labels with a job's uid and name: the present one and the legacy one."""


def default_namespace(obj: Obj) -> None:
    spec = obj.setdefault("spec", {})
    if not obj["metadata"].get("deletionTimestamp"):
        spec.setdefault("finalizers", ["kubernetes"])
    labels = obj["metadata"].setdefault("labels", {})
    labels["kubernetes.io/metadata.name"] = name_of(obj)


def default_node(obj: Obj) -> None:
    obj.setdefault("spec", {})
    status = obj.setdefault("status", {})
    if "capacity" in status:
        status["allocatable"] = {**status["capacity"], **status.get("allocatable", {})}


def default_replication_controller(obj: Obj) -> None:
    spec = obj["spec"]
    labels = spec.get("template", {}).get("metadata", {}).get("labels", {})
    if labels:
        spec.setdefault("selector", dict(labels))
        obj["metadata"].setdefault("labels", dict(labels))


def default_stateful_set(obj: Obj) -> None:
    for claim in obj["spec"].get("volumeClaimTemplates", ()):
        claim |= {"kind": "PersistentVolumeClaim", "apiVersion": "v1", "status": {"phase": "Pending"}}


def default_job(obj: Obj) -> None:
    spec = obj["spec"]
    if "completions" not in spec and "parallelism" not in spec:
        spec["completions"] = 1
    fill(
        spec,
        {
            "parallelism": 1,
            # Failures that are limited by index are not limited together.
            "backoffLimit": 2**31 - 1 if "backoffLimitPerIndex" in spec else 6,
            "completionMode": "NonIndexed",
            "suspend": False,
            "manualSelector": False,
        },
    )
    policy = "Failed" if "podFailurePolicy" in spec else "TerminatingOrFailed"
    fill(spec, {"podReplacementPolicy": policy})


def own_job_pods(obj: Obj) -> None:
    """Let a job without a selector of its own select its pods by its uid."""
    spec = obj.setdefault("spec", {})
    if spec.get("manualSelector") or "selector" in spec:
        return
    labels = spec.setdefault("template", {}).setdefault("metadata", {}).setdefault("labels", {})
    for prefix in _JOB_LABELS:
        labels.setdefault(f"{prefix}controller-uid", obj["metadata"]["uid"])
        labels.setdefault(f"{prefix}job-name", name_of(obj))
    uid_label = f"{_JOB_LABELS[0]}controller-uid"
    spec["selector"] = {"matchLabels": {uid_label: labels[uid_label]}}
    obj["metadata"].setdefault("labels", dict(labels))


def default_secret(obj: Obj) -> None:
    """Move stringData to data."""
    fill(obj, {"type": "Opaque"})
    given = obj.pop("stringData", None)
    if given:
        encoded = {key: base64.b64encode(value.encode()).decode() for key, value in given.items()}
        obj["data"] = {**obj.get("data", {}), **encoded}


def default_limit_range(obj: Obj) -> None:
    """Default a container's limit to the maximum, its request to that limit or the minimum."""
    for limit in obj.setdefault("spec", {}).get("limits", ()):
        if limit.get("type") != "Container":
            continue
        default = {**limit.get("max", {}), **limit.get("default", {})}
        request = {**limit.get("min", {}), **default, **limit.get("defaultRequest", {})}
        for field, values in (("default", default), ("defaultRequest", request)):
            if values:
                limit[field] = values


def fill(obj: Obj, values: Mapping[str, Any]) -> None:
    """Set fields that are absent or empty."""
    for name, value in values.items():
        if obj.get(name) in (None, ""):
            obj[name] = value
