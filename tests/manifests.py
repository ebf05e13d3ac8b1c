"""Kubernetes objects as plain trees, as a user would write them: one factory for each kind that tests create.

Further keyword arguments are fields of the spec, in their own spelling. `kuberth.testing` makes structs.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

Manifest = dict[str, Any]

HOSTNAME = "kubernetes.io/hostname"


def pod_manifest(
    name: str = "p",
    *,
    requests: Mapping[str, str] | None = None,
    limits: Mapping[str, str] | None = None,
    image: str = "nginx",
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    metadata: Manifest | None = None,
    **spec: Any,
) -> Manifest:
    """A pod of one container called main."""
    container: Manifest = {"name": "main", "image": image}
    resources = {"requests": requests, "limits": limits}
    if given := {field: dict(amounts) for field, amounts in resources.items() if amounts}:
        container["resources"] = given
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": _metadata(name, labels, annotations, metadata),
        "spec": {"containers": [container], **spec},
    }


def node_manifest(
    name: str,
    *,
    cpu: str = "4",
    memory: str = "8Gi",
    pods: int = 110,
    labels: Mapping[str, str] | None = None,
    more: Mapping[str, str] | None = None,
    **spec: Any,
) -> Manifest:
    """A ready node; `more` are further resources."""
    resources = {"cpu": cpu, "memory": memory, "pods": str(pods), **(more or {})}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": _metadata(name, {HOSTNAME: name, **(labels or {})}),
        "spec": spec,
        "status": {
            "capacity": resources,
            "allocatable": resources,
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    }


def template_manifest(app: str = "web", pod: Manifest | None = None, **spec: Any) -> Manifest:
    """The pod template of a workload: of `pod`, or of a plain one with these fields."""
    made = pod_manifest(**spec) if pod is None else pod
    metadata = {field: value for field, value in made["metadata"].items() if field != "name"}
    return {"metadata": {**metadata, "labels": {"app": app}}, "spec": made["spec"]}


def deployment_manifest(
    name: str = "web", *, replicas: int | None = None, pod: Manifest | None = None, **spec: Any
) -> Manifest:
    """A Deployment of plain pods, or of pods like `pod`; the label app selects them."""
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": _metadata(name),
        "spec": {
            **({} if replicas is None else {"replicas": replicas}),
            "selector": {"matchLabels": {"app": name}},
            "template": template_manifest(name, pod),
            **spec,
        },
    }


def _metadata(
    name: str,
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    more: Manifest | None = None,
) -> Manifest:
    maps = {"labels": labels, "annotations": annotations}
    return {"name": name, **{field: dict(value) for field, value in maps.items() if value}, **(more or {})}
