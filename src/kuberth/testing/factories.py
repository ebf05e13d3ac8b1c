"""Factories of API objects with keyword arguments.

make_node("n1", cpu="4", labels={"zone": "a"})
make_pod("web", cpu="500m", node="n1", priority=10)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import count
from typing import Any

from kuberth.api.core import Namespace, Node, Pod
from kuberth.api.well_known import HOSTNAME
from kuberth.api.wire import convert

_UIDS = count(1)


def make_node(
    name: str,
    *,
    cpu: str = "4",
    memory: str = "8Gi",
    pods: str = "110",
    labels: Mapping[str, str] | None = None,
    taints: Sequence[Mapping[str, str]] = (),
    unschedulable: bool = False,
    allocatable: Mapping[str, str] | None = None,
    **status: Any,
) -> Node:
    """A node with capacity for pods and the hostname label."""
    return convert(
        Node,
        {
            "metadata": {
                "name": name,
                "uid": f"node-{name}",
                "labels": {HOSTNAME: name, **(labels or {})},
            },
            "spec": {"taints": [dict(taint) for taint in taints], "unschedulable": unschedulable},
            "status": {
                "allocatable": {"cpu": cpu, "memory": memory, "pods": pods, **(allocatable or {})},
                **status,
            },
        },
    )


def make_pod(
    name: str,
    *,
    namespace: str = "default",
    uid: str | None = None,
    cpu: str | None = None,
    memory: str | None = None,
    requests: Mapping[str, str] | None = None,
    labels: Mapping[str, str] | None = None,
    node: str = "",
    priority: int | None = None,
    gates: Sequence[str] = (),
    scheduler: str = "default-scheduler",
    phase: str = "Pending",
    metadata: Mapping[str, Any] | None = None,
    status: Mapping[str, Any] | None = None,
    **spec: Any,
) -> Pod:
    """A pod with one container; `spec` takes any other field of the pod's spec in its JSON form."""
    asked = {"cpu": cpu, "memory": memory, **(requests or {})}
    tree: dict[str, Any] = {
        "metadata": {
            "name": name,
            "namespace": namespace,
            "uid": f"pod-{next(_UIDS)}" if uid is None else uid,
            "labels": dict(labels or {}),
            **(metadata or {}),
        },
        "spec": {
            "schedulerName": scheduler,
            "nodeName": node,
            "schedulingGates": [{"name": gate} for gate in gates],
            "containers": [
                {"name": "main", "resources": {"requests": {k: v for k, v in asked.items() if v is not None}}}
            ],
            **spec,
        },
        "status": {"phase": phase, **(status or {})},
    }
    if priority is not None:
        tree["spec"]["priority"] = priority
    return convert(Pod, tree)


def make_namespace(name: str, *, labels: Mapping[str, str] | None = None) -> Namespace:
    """A namespace with these labels."""
    return convert(Namespace, {"metadata": {"name": name, "labels": dict(labels or {})}})
