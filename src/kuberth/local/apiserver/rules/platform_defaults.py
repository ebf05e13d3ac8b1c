"""Defaults of the kinds around the workloads. In: an object. Out: the same object, filled in place."""

from __future__ import annotations

import base64

from kuberth.local.apiserver.objects import Obj
from kuberth.local.apiserver.rules.defaulting import default_template, fill


def default_secret(obj: Obj) -> None:
    """What was given as text is kept as data, and only there."""
    fill(obj, {"type": "Opaque"})
    given = obj.pop("stringData", None)
    if given:
        encoded = {key: base64.b64encode(value.encode()).decode() for key, value in given.items()}
        obj["data"] = {**obj.get("data", {}), **encoded}


def default_limit_range(obj: Obj) -> None:
    """A container's limit defaults to the most it may have, its request to that limit or the least."""
    for limit in obj.setdefault("spec", {}).get("limits", ()):
        if limit.get("type") != "Container":
            continue
        default = {**limit.get("max", {}), **limit.get("default", {})}
        request = {**limit.get("min", {}), **default, **limit.get("defaultRequest", {})}
        for field, values in (("default", default), ("defaultRequest", request)):
            if values:
                limit[field] = values


def default_daemon_set(obj: Obj) -> None:
    spec = default_template(obj)
    fill(spec, {"revisionHistoryLimit": 10})
    strategy = spec.setdefault("updateStrategy", {})
    fill(strategy, {"type": "RollingUpdate"})
    if strategy["type"] == "RollingUpdate":
        fill(strategy.setdefault("rollingUpdate", {}), {"maxUnavailable": 1, "maxSurge": 0})


def default_cron_job(obj: Obj) -> None:
    spec = obj.setdefault("spec", {})
    fill(
        spec,
        {
            "concurrencyPolicy": "Allow",
            "suspend": False,
            "successfulJobsHistoryLimit": 3,
            "failedJobsHistoryLimit": 1,
        },
    )
    default_template(spec.setdefault("jobTemplate", {}))


def default_pod_template(obj: Obj) -> None:
    default_template({"spec": obj})
