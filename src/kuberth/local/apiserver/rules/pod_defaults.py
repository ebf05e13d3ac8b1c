"""Defaults of pods and pod templates, as far as a scheduler or a reader of `kubectl get` sees them.

In: a pod spec. Out: the same spec, filled in place.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from kuberth.local.apiserver.objects import Obj

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
    for name, value in _SPEC.items():
        _fill(spec, name, value)
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
    for name, value in _CONTAINER.items():
        _fill(container, name, value)
    _fill(container, "imagePullPolicy", _pull_policy(container.get("image", "")))
    container.setdefault("resources", {})
    for port in container.get("ports", ()):
        _fill(port, "protocol", "TCP")
        if host_network and not port.get("hostPort") and "containerPort" in port:
            port["hostPort"] = port["containerPort"]
    for name in ("livenessProbe", "readinessProbe", "startupProbe"):
        if name in container:
            for field, number in _PROBE.items():
                _fill(container[name], field, number)
            if "httpGet" in container[name]:
                _fill(container[name]["httpGet"], "scheme", "HTTP")


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


def _fill(obj: Obj, name: str, value: Any) -> None:
    """Set a field that is absent or Go's zero value."""
    if not obj.get(name):
        if name in obj and obj[name] == 0 and not isinstance(obj[name], str):
            return
        obj[name] = value
