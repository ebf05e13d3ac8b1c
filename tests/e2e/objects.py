"""Kubernetes objects as plain trees: what a user would write, nothing of Kuberth in it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tests.manifests import node_manifest, pod_manifest

Object = dict[str, Any]

ZONE = "topology.kubernetes.io/zone"


def node(name: str, *, taints: Sequence[Object] = (), **more: Any) -> Object:
    return node_manifest(name, more={"ephemeral-storage": "100Gi"}, taints=list(taints), **more)


def pod(
    name: str,
    *,
    scheduler: str,
    cpu: str = "100m",
    memory: str = "64Mi",
    gates: Sequence[str] = (),
    **more: Any,
) -> Object:
    """A pod that ends at once when it is deleted; `more` are labels or fields of the spec."""
    return pod_manifest(
        name,
        image="registry.test/pause:1",
        requests={"cpu": cpu, "memory": memory},
        **{
            "schedulerName": scheduler,
            "schedulingGates": [{"name": gate} for gate in gates],
            "terminationGracePeriodSeconds": 0,
            **more,
        },
    )


def configuration(*profiles: Object, **fields: Any) -> Object:
    """A KubeSchedulerConfiguration; without leader election unless the test is about it."""
    return {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "leaderElection": {"leaderElect": False},
        "profiles": list(profiles) or [{"schedulerName": "kuberth"}],
        **fields,
    }
