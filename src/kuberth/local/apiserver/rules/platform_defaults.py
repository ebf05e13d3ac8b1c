"""Defaults of the kinds around the workloads. In: an object. Out: the same object, filled in place."""

from __future__ import annotations

import base64
from typing import Any, Final

from kuberth.local.apiserver.objects import Obj
from kuberth.local.apiserver.rules.defaulting import default_template, fill

RBAC_GROUP: Final = "rbac.authorization.k8s.io"
_CPU_PERCENT: Final = 80
_SCALE_UP: Final = {
    "stabilizationWindowSeconds": 0,
    "selectPolicy": "Max",
    "policies": [
        {"type": "Pods", "value": 4, "periodSeconds": 15},
        {"type": "Percent", "value": 100, "periodSeconds": 15},
    ],
}
_SCALE_DOWN: Final = {
    "selectPolicy": "Max",
    "policies": [{"type": "Percent", "value": 100, "periodSeconds": 15}],
}


def default_secret(obj: Obj) -> None:
    """What was given as text is kept as data, and only there."""
    fill(obj, {"type": "Opaque"})
    given = obj.pop("stringData", None)
    if given:
        encoded = {key: base64.b64encode(value.encode()).decode() for key, value in given.items()}
        obj["data"] = {**obj.get("data", {}), **encoded}


def default_binding(obj: Obj) -> None:
    fill(obj.setdefault("roleRef", {}), {"apiGroup": RBAC_GROUP})
    for subject in obj.get("subjects", ()):
        if subject.get("kind") in ("User", "Group"):
            fill(subject, {"apiGroup": RBAC_GROUP})


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


def default_network_policy(obj: Obj) -> None:
    spec = obj.setdefault("spec", {})
    if not spec.get("policyTypes"):
        spec["policyTypes"] = ["Ingress", "Egress"] if spec.get("egress") else ["Ingress"]
    spec.setdefault("podSelector", {})
    for rule in (*spec.get("ingress", ()), *spec.get("egress", ())):
        for port in rule.get("ports", ()):
            fill(port, {"protocol": "TCP"})


def default_endpoints(obj: Obj) -> None:
    for subset in obj.get("subsets", ()):
        for port in subset.get("ports", ()):
            fill(port, {"protocol": "TCP"})


def default_endpoint_slice(obj: Obj) -> None:
    for port in obj.get("ports", ()):
        port.setdefault("name", "")
        fill(port, {"protocol": "TCP"})


def default_autoscaler(obj: Obj) -> None:
    spec = obj.setdefault("spec", {})
    fill(spec, {"minReplicas": 1})
    if not spec.get("metrics"):
        target = {"type": "Utilization", "averageUtilization": _CPU_PERCENT}
        spec["metrics"] = [{"type": "Resource", "resource": {"name": "cpu", "target": target}}]
    behavior = spec.get("behavior")
    if behavior is not None:
        for field, rules in (("scaleUp", _SCALE_UP), ("scaleDown", _SCALE_DOWN)):
            behavior[field] = {**_copied(rules), **behavior.get(field, {})}


def default_flow_schema(obj: Obj) -> None:
    spec = obj.setdefault("spec", {})
    if not spec.get("matchingPrecedence"):
        spec["matchingPrecedence"] = 1000


def default_priority_level(obj: Obj) -> None:
    spec = obj.setdefault("spec", {})
    if "exempt" in spec:
        fill(spec["exempt"], {"nominalConcurrencyShares": 0, "lendablePercent": 0})
    if "limited" in spec:
        fill(spec["limited"], {"nominalConcurrencyShares": 30, "lendablePercent": 0})
        queuing = spec["limited"].get("limitResponse", {}).get("queuing")
        if queuing is not None:
            for field, number in (("handSize", 8), ("queues", 64), ("queueLengthLimit", 50)):
                queuing[field] = queuing.get(field) or number


def default_webhooks(obj: Obj) -> None:
    mutating = obj.get("kind") == "MutatingWebhookConfiguration"
    for webhook in obj.get("webhooks", ()):
        fill(webhook, {"failurePolicy": "Fail", "matchPolicy": "Equivalent", "timeoutSeconds": 10})
        webhook.setdefault("namespaceSelector", {})
        webhook.setdefault("objectSelector", {})
        if mutating:
            fill(webhook, {"reinvocationPolicy": "Never"})
        for rule in webhook.get("rules", ()):
            fill(rule, {"scope": "*"})
        service = webhook.get("clientConfig", {}).get("service")
        if service is not None:
            fill(service, {"port": 443})


def default_admission_policy(obj: Obj) -> None:
    spec = obj.setdefault("spec", {})
    fill(spec, {"failurePolicy": "Fail"})
    if "matchConstraints" in spec:
        _default_matching(spec["matchConstraints"])


def default_admission_binding(obj: Obj) -> None:
    if "matchResources" in obj.setdefault("spec", {}):
        _default_matching(obj["spec"]["matchResources"])


def _default_matching(matching: Obj) -> None:
    fill(matching, {"matchPolicy": "Equivalent"})
    matching.setdefault("namespaceSelector", {})
    matching.setdefault("objectSelector", {})
    for field in ("resourceRules", "excludeResourceRules"):
        for rule in matching.get(field, ()):
            fill(rule, {"scope": "*"})


def _copied(rules: dict[str, Any]) -> Obj:
    """Objects own all that they hold."""
    return {
        name: [dict(each) for each in value] if isinstance(value, list) else value
        for name, value in rules.items()
    }


def default_api_service(api_service: Obj) -> None:
    service = api_service.get("spec", {}).get("service")
    if service is not None:
        service.setdefault("port", 443)
