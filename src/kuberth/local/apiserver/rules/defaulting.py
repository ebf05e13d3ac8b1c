"""Defaults of the kinds other than pods. In: an object. Out: the same object, filled in place."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from kuberth.local.apiserver.objects import Obj, name_of
from kuberth.local.apiserver.rules.pod_defaults import default_pod_spec

_JOB_LABELS: Final = ("batch.kubernetes.io/", "")
"""Prefixes under which a job's pods carry its uid and name: the present one and the one of old."""


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


def default_service(obj: Obj) -> None:
    spec = obj.setdefault("spec", {})
    fill(spec, {"sessionAffinity": "None", "type": "ClusterIP"})
    for port in spec.get("ports", ()):
        fill(port, {"protocol": "TCP"})
        if "targetPort" not in port and "port" in port:
            port["targetPort"] = port["port"]
    if spec["type"] != "ExternalName":
        fill(spec, {"internalTrafficPolicy": "Cluster"})
    if spec["type"] in ("NodePort", "LoadBalancer"):
        fill(spec, {"externalTrafficPolicy": "Cluster"})
    if spec["type"] == "LoadBalancer":
        fill(spec, {"allocateLoadBalancerNodePorts": True})


def default_replication_controller(obj: Obj) -> None:
    spec = default_template(obj)
    spec.setdefault("replicas", 1)
    labels = spec.get("template", {}).get("metadata", {}).get("labels", {})
    if labels:
        spec.setdefault("selector", dict(labels))
        obj["metadata"].setdefault("labels", dict(labels))


def default_replica_set(obj: Obj) -> None:
    default_template(obj).setdefault("replicas", 1)


def default_deployment(obj: Obj) -> None:
    spec = default_template(obj)
    fill(spec, {"replicas": 1, "revisionHistoryLimit": 10, "progressDeadlineSeconds": 600})
    strategy = spec.setdefault("strategy", {})
    fill(strategy, {"type": "RollingUpdate"})
    if strategy["type"] == "RollingUpdate":
        fill(strategy.setdefault("rollingUpdate", {}), {"maxUnavailable": "25%", "maxSurge": "25%"})


def default_stateful_set(obj: Obj) -> None:
    spec = default_template(obj)
    fill(
        spec,
        {
            "replicas": 1,
            "podManagementPolicy": "OrderedReady",
            "revisionHistoryLimit": 10,
            "persistentVolumeClaimRetentionPolicy": {"whenDeleted": "Retain", "whenScaled": "Retain"},
        },
    )
    strategy = spec.setdefault("updateStrategy", {})
    fill(strategy, {"type": "RollingUpdate"})
    if strategy["type"] == "RollingUpdate":
        strategy.setdefault("rollingUpdate", {}).setdefault("partition", 0)
    for claim in spec.get("volumeClaimTemplates", ()):
        default_claim(claim)
        claim["status"] = {"phase": "Pending"}
        claim |= {"kind": "PersistentVolumeClaim", "apiVersion": "v1"}


def default_job(obj: Obj) -> None:
    spec = default_template(obj)
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
    """A job selects its pods by its own uid, unless it is told another selector."""
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


def default_claim(obj: Obj) -> None:
    obj.setdefault("spec", {}).setdefault("volumeMode", "Filesystem")


def default_volume(obj: Obj) -> None:
    spec = obj.setdefault("spec", {})
    fill(spec, {"persistentVolumeReclaimPolicy": "Retain", "volumeMode": "Filesystem"})
    if "hostPath" in spec:
        spec["hostPath"].setdefault("type", "")


def default_storage_class(obj: Obj) -> None:
    fill(obj, {"reclaimPolicy": "Delete", "volumeBindingMode": "Immediate"})


def default_csi_driver(obj: Obj) -> None:
    fill(
        obj.setdefault("spec", {}),
        {
            "attachRequired": True,
            "podInfoOnMount": False,
            "storageCapacity": False,
            "requiresRepublish": False,
            "seLinuxMount": False,
            "fsGroupPolicy": "ReadWriteOnceWithFSType",
            "volumeLifecycleModes": ["Persistent"],
        },
    )


def default_priority_class(obj: Obj) -> None:
    fill(obj, {"preemptionPolicy": "PreemptLowerPriority"})
    obj.setdefault("value", 0)


def default_template(obj: Obj) -> Obj:
    """Fill the pod template of a workload, and give its spec."""
    spec: Obj = obj.setdefault("spec", {})
    template = spec.get("template")
    if template is not None:
        default_pod_spec(template.setdefault("spec", {}))
    return spec


def fill(obj: Obj, values: Mapping[str, Any]) -> None:
    """Set fields that are absent or empty."""
    for name, value in values.items():
        if obj.get(name) in (None, ""):
            obj[name] = value
