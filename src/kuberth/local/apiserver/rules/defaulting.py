"""Defaults that schema/rules.yaml does not declare; of pods, as far as a scheduler or kubectl shows them.

In: an object, or the spec of a pod or template. Out: the same, filled in place.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping
from typing import Any, Final

from kuberth.local.apiserver.objects import Obj, name_of

_SPEC: Final = {
    "restartPolicy": "Always",
    "terminationGracePeriodSeconds": 30,
    "dnsPolicy": "ClusterFirst",
    "schedulerName": "default-scheduler",
}
_CONTAINER: Final = {"terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File"}
_PROBE: Final = {"timeoutSeconds": 1, "periodSeconds": 10, "successThreshold": 1, "failureThreshold": 3}
_FILE_MODE: Final = 0o644
_MODED_VOLUMES: Final = ("secret", "configMap", "projected", "downwardAPI")
_EVICTION_TAINTS: Final = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
_EVICTION_SECONDS: Final = 300


def default_pod_spec(spec: Obj) -> None:
    fill(spec, _SPEC)
    spec.setdefault("securityContext", {})
    account = spec.get("serviceAccountName") or spec.get("serviceAccount")
    if account:
        spec["serviceAccountName"] = spec["serviceAccount"] = account
    host_network = spec.get("hostNetwork") is True
    for container in all_containers(spec):
        _default_container(container, host_network=host_network)
    for volume in spec.get("volumes", ()):
        _default_volume(volume)


def default_pod(pod: Obj) -> None:
    """Set the defaults of a pod; templates do not get the last two of them."""
    spec = pod.setdefault("spec", {})
    default_pod_spec(spec)
    spec.setdefault("enableServiceLinks", True)
    for holder in (spec, *all_containers(spec)):
        _requests_from_limits(holder)


def default_tolerations(spec: Obj) -> None:
    """Add the tolerations of the DefaultTolerationSeconds admission: five minutes for unhealthy nodes."""
    tolerations = spec.get("tolerations", [])
    for key in _EVICTION_TAINTS:
        if not any(
            each.get("key", "") in ("", key) and each.get("effect", "") in ("", "NoExecute")
            for each in tolerations
        ):
            added = {
                "key": key,
                "operator": "Exists",
                "effect": "NoExecute",
                "tolerationSeconds": _EVICTION_SECONDS,
            }
            tolerations = [*tolerations, added]
    spec["tolerations"] = tolerations


def all_containers(spec: Obj) -> Iterator[Obj]:
    for name in ("initContainers", "containers"):
        yield from spec.get(name, ())


def qos_class(spec: Obj) -> str:
    """Guaranteed, Burstable or BestEffort, from cpu and memory alone."""
    named = False
    guaranteed = True
    holders = [spec] if spec.get("resources") else list(all_containers(spec))
    for holder in holders:
        resources = holder.get("resources", {})
        requests, limits = resources.get("requests", {}), resources.get("limits", {})
        for name in ("cpu", "memory"):
            asked, limit = requests.get(name, "0"), limits.get(name, "0")
            named = named or asked != "0" or limit != "0"
            guaranteed = guaranteed and limit != "0" and asked == limit
    if not named:
        return "BestEffort"
    return "Guaranteed" if guaranteed else "Burstable"


def _default_container(container: Obj, *, host_network: bool) -> None:
    fill(container, {**_CONTAINER, "imagePullPolicy": _pull_policy(container.get("image", ""))})
    container.setdefault("resources", {})
    for port in container.get("ports", ()):
        fill(port, {"protocol": "TCP"})
        if host_network and not port.get("hostPort") and "containerPort" in port:
            port["hostPort"] = port["containerPort"]
    for name in ("livenessProbe", "readinessProbe", "startupProbe"):
        if name in container:
            fill(container[name], _PROBE)
            if "httpGet" in container[name]:
                fill(container[name]["httpGet"], {"scheme": "HTTP"})


def _pull_policy(image: str) -> str:
    if "@" in image:
        return "IfNotPresent"
    _, colon, tag = image.rpartition("/")[2].partition(":")
    return "Always" if not colon or tag == "latest" else "IfNotPresent"


def _requests_from_limits(holder: Obj) -> None:
    """A limit without a request is also the request."""
    resources = holder.get("resources", {})
    if limits := resources.get("limits"):
        resources["requests"] = {**limits, **resources.get("requests", {})}


def _default_volume(volume: Obj) -> None:
    if len(volume) <= 1 and "name" in volume:
        volume["emptyDir"] = {}
    for name in _MODED_VOLUMES:
        if name in volume:
            volume[name].setdefault("defaultMode", _FILE_MODE)
    if "hostPath" in volume:
        volume["hostPath"].setdefault("type", "")


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
